//! Zen 4: AVX-512 of two 256-bit halves. Its hardware prefetcher keeps up with one stream of weights, not with two interleaved ones.

use super::avx512;
use super::table::{CacheLevel, Int8Path, Prefetch, Tune};

pub(super) const TUNE: Tune = Tune {
    prefetch: Prefetch {
        gemv: false,
        // Farther ahead than elsewhere: the L2 cache has room for it, the L1 cache has not.
        distance: [8 << 10, 4 << 10],
        level: CacheLevel::L2,
        ..avx512::TUNE.prefetch
    },
    ..avx512::TUNE
};

/// For lanes with the bf16 dot product.
pub(super) const TUNE_BF16: Tune = Tune { int8: Int8Path::Pow2Scale, ..TUNE };
