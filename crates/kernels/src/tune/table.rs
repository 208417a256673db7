//! The columns of the tuning tables.

/// What is fast on a micro-architecture. None of it changes a result but [`Int8Path::Pow2Scale`].
#[derive(Clone, Copy)]
pub(crate) struct Tune {
    /// MR: the most rows of a GEMM register tile, within what the micro-kernel and the interleaving of rows allow (8).
    pub(crate) mr: usize,
    /// NR in panels, for quantized weights: panels that share each broadcast of activations. With two, several rows and both panels
    /// are interleaved in the innermost loop, which hides the latency of the dot product.
    pub(crate) nr_panels: usize,
    /// NR in panels, at least, for `f32` and bf16 weights: two where a broadcast is an instruction of its own. With few
    /// rows more panels go side by side, up to four (`MicroKernel::MIN_ACCUMULATORS`).
    pub(crate) nr_panels_float: usize,
    /// How eight-bit codes are multiplied and accumulated.
    pub(crate) int8: Int8Path,
    /// MC: rows pass over all panels of a task in chunks of so many bytes. Half of a 1 MiB L2 cache, the other half is
    /// left for panels; halved again for quantized weights where [`Prefetch::gemm_activations_and_output`].
    pub(crate) mc_bytes: usize,
    /// The most queries of an attention tile. Formats of the KV cache that are multiplied in registers take at most
    /// `SMALL_QUERY_TILE` (8); 16 is reached in AMX tiles only.
    pub(crate) query_tile: usize,
    /// Whether attention in registers counts on 32 of them and keeps more keys or values at hand
    /// (`kv_layout::unroll_factor`). Off on NEON, which has 32 but was not measured.
    pub(crate) attention_32_registers: bool,
    /// Software prefetch.
    pub(crate) prefetch: Prefetch,
}

/// Software prefetch of streams that the hardware prefetcher does not keep up with.
#[derive(Clone, Copy)]
pub(crate) struct Prefetch {
    /// Prefetch weights for one or two rows (GEMV) too, and values of the KV cache that three or four queries share. Off where the
    /// hardware prefetcher keeps up with one stream; GEMV then takes one panel at a time, whatever [`Tune::nr_panels`] says.
    pub(crate) gemv_weights: bool,
    /// Prefetch the activations, and the output that they fill, when M is large; and rows while they are quantized.
    /// Weights are prefetched for M ≥ 3 whatever it says. With [`Int8Path::Pow2Scale`] the micro-kernel prefetches no
    /// activations.
    pub(crate) gemm_activations_and_output: bool,
    /// Prefetch distance of weights in bytes: of one stream, and of each of two that are read side by side. About 100 ns of reading.
    pub(crate) distance: [usize; 2],
    /// Prefetch distance of activations in bytes, where `gemm_activations_and_output`.
    pub(crate) activations: usize,
    /// The cache that weights and the KV cache are prefetched into.
    pub(crate) level: CacheLevel,
}

/// A cache that a prefetch instruction fills.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheLevel {
    /// The first level (`prefetcht0`).
    L1,
    /// The second level (`prefetcht1`).
    L2,
}

/// How products of eight-bit codes are accumulated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Int8Path {
    /// Four products are added to an `i32` lane by one instruction (VNNI, `sdot`, `usdot`), or by plain code.
    Dot,
    /// Without VNNI: `vpmaddubsw` adds pairs in `i16`, of as many quads as fit, and `vpmaddwd` widens them once. Scales
    /// of 16 weights are multiplied in by the widening, eight-bit codes are taken apart into magnitude and sign, and
    /// the KV cache in eight bits is multiplied as words. With 16 registers, the register tile is 4 rows × 2 panels, or
    /// 8 × 1 where unpacking dominates (`gemm/q8_i16.rs`).
    MaddubsI16,
    /// [`Int8Path::Dot`] where every multiply shares one unit: scales of activations are sums of two powers of two, applied by
    /// additions, and the minima of two sub-blocks are multiplied at once as bf16 pairs (`gemm/q8_pow2.rs`). Needs
    /// [`Simd::BF16_DOT`](cpu::simd::Simd::BF16_DOT).
    Pow2Scale,
}
