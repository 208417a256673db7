//! The columns of the tuning tables.

/// What is fast on a micro-architecture. None of it changes a result but [`Int8Path::Pow2Scale`].
#[derive(Clone, Copy)]
pub(crate) struct Tune {
    /// MR: the most rows of a GEMM register tile.
    pub(crate) mr: usize,
    /// NR in panels, for quantized weights: panels that share each broadcast of activations. With two, several rows and both panels
    /// are interleaved in the innermost loop, which hides the latency of the dot product.
    pub(crate) nr_panels: usize,
    /// NR in panels, at least, for `f32` and bf16 weights: two where a broadcast is an instruction of its own.
    pub(crate) nr_panels_float: usize,
    /// How eight-bit codes are multiplied and accumulated.
    pub(crate) int8: Int8Path,
    /// MC: rows pass over all panels of a task in chunks of so many bytes. Half of a 1 MiB L2 cache, the other half is the panels'.
    pub(crate) mc_bytes: usize,
    /// The most queries of an attention tile; above 8 where there are 32 registers.
    pub(crate) query_tile: usize,
    /// Software prefetch.
    pub(crate) prefetch: Prefetch,
}

/// Software prefetch of streams that the hardware prefetcher does not keep up with.
#[derive(Clone, Copy)]
pub(crate) struct Prefetch {
    /// Prefetch weights for one or two rows (GEMV) too, and values of the KV cache that three or four queries share. Off where the
    /// hardware prefetcher keeps up with one stream; GEMV then takes one panel at a time, whatever [`Tune::nr_panels`] says.
    pub(crate) gemv_weights: bool,
    /// Prefetch the activations, and the output that they fill, when M is large.
    pub(crate) gemm_activations_and_output: bool,
    /// Prefetch distance of weights in bytes: of one stream, and of each of two that are read side by side. About 100 ns of reading.
    pub(crate) distance: [usize; 2],
    /// Prefetch distance of activations in bytes, where `gemm`.
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
    /// Without VNNI: `vpmaddubsw` adds pairs in `i16`, of as many quads as fit, and `vpmaddwd` widens them once. Scales of 16 weights
    /// are multiplied in by the widening, eight-bit codes are taken apart into magnitude and sign, and the KV cache in eight bits is
    /// multiplied as words. With 16 registers, the register tile is 4 rows × 2 panels (`gemm/q8_i16.rs`).
    MaddubsI16,
    /// [`Int8Path::Dot`] where every multiply shares one unit: scales of activations are sums of two powers of two, applied by
    /// additions, and the minima of two sub-blocks are multiplied at once as bf16 pairs (`gemm/q8_pow2.rs`). Needs
    /// [`Simd::BF16_DOT`](cpu::simd::Simd::BF16_DOT).
    Pow2Scale,
}
