//! NEON, four lanes; not measured, for want of a machine. The tier has no prefetch instruction in [`cpu::simd`]:
//! distances are unused.

use super::table::{CacheLevel, Int8Path, Prefetch, Tune};

pub(super) const TUNE: Tune = Tune {
    mr: 8,
    nr_panels: 1,
    nr_panels_float: 1,
    int8: Int8Path::Dot,
    mc_bytes: 512 << 10,
    query_tile: 8,
    attention_32_registers: false,
    prefetch: Prefetch {
        gemv_weights: false,
        gemm_activations_and_output: false,
        distance: [3 << 10; 2],
        activations: 16 << 10,
        level: CacheLevel::L1,
    },
};
