//! AVX2 with FMA, 16 registers: Haswell, Zen to Zen 3 and later.

use super::table::{CacheLevel, Int8Path, Prefetch, Tune};

pub(super) const TUNE: Tune = Tune {
    mr: 8,
    nr_panels: 1,
    nr_panels_float: 2,
    int8: Int8Path::MaddubsI16,
    mc_bytes: 512 << 10,
    query_tile: 8,
    attention_32_registers: false,
    prefetch: Prefetch {
        // Zen 3 decodes a third faster with it.
        gemv_weights: true,
        gemm_activations_and_output: false,
        distance: [3 << 10; 2],
        activations: 16 << 10,
        level: CacheLevel::L1,
    },
};
