//! AVX-512 with VNNI: Zen 5, Ice Lake, Sapphire Rapids and later.

use super::table::{CacheLevel, Int8Path, Prefetch, Tune};

pub(super) const TUNE: Tune = Tune {
    mr: 8,
    nr_panels: 2,
    nr_panels_float: 1,
    int8: Int8Path::Dot,
    mc_bytes: 512 << 10,
    query_tile: 16,
    attention_32_registers: true,
    prefetch: Prefetch {
        gemv_weights: true,
        gemm_activations_and_output: true,
        distance: [3 << 10; 2],
        activations: 16 << 10,
        level: CacheLevel::L1,
    },
};
