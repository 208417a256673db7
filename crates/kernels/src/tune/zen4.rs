//! Zen 4: 512-bit instructions on 256-bit units (docs/lab/prefetch.md#decision-47, docs/lab/prefetch.md#decision-53).
//!
//! Its hardware prefetcher keeps up with one stream of weights, not with two interleaved ones: GEMV reads 33.8 GB/s
//! with one panel and no software prefetch, 30.0 with two panels prefetched into L1. A line on its way to L1 holds one
//! of few line-fill buffers (MSHRs), one on its way to L2 does not: attention of one row is 1.76 times as fast.

use super::avx512;
use super::table::{CacheLevel, Int8Path, Prefetch, Tune};

pub(super) const TUNE: Tune = Tune {
    prefetch: Prefetch {
        gemv_weights: false,
        // What counts is the total bytes in flight: with 3 KiB, eight rows of Q8_0 took 1.68 times as long.
        distance: [8 << 10, 4 << 10],
        level: CacheLevel::L2,
        ..avx512::TUNE.prefetch
    },
    ..avx512::TUNE
};

/// For tokens with the bf16 dot product, and 8-bit activations.
pub(super) const TUNE_BF16: Tune = Tune { int8: Int8Path::Pow2Scale, ..TUNE };
