//! KV cache formats as attention reads them: the trait [`KvFormat`], and the formats of floats.

use std::marker::PhantomData;

use cpu::simd::{DotKind, Simd};

use crate::bf16::pair;
use crate::kv_block::BLOCK_TOKENS;
use crate::kv_block::{MAX_HEAD_DIM, SMALL_QUERY_TILE};
use crate::tune::{self, tune};

/// A float type in memory.
pub(crate) trait StorageType {
    /// Bytes of a value.
    const BYTES: usize;
    /// Loads a register of values.
    fn load<S: Simd>(s: S, bytes: &[u8]) -> S::F;
}

/// IEEE binary32.
pub(crate) struct F32;

impl StorageType for F32 {
    const BYTES: usize = 4;
    #[inline(always)]
    fn load<S: Simd>(s: S, bytes: &[u8]) -> S::F {
        s.load_f32_bytes(bytes)
    }
}

/// IEEE binary16.
pub(crate) struct F16;

impl StorageType for F16 {
    const BYTES: usize = 2;
    #[inline(always)]
    fn load<S: Simd>(s: S, bytes: &[u8]) -> S::F {
        s.load_f16_bytes(bytes)
    }
}

/// A dot-product operand in memory: one `f32` or `f16`, or two bf16.
pub(crate) trait DotOperand {
    /// Values of an operand.
    const VALUES: usize;
    /// Bytes of an operand.
    const BYTES: usize;
    /// The other factor of the product.
    type Factor: Copy + Default;
    /// A register of operands, or of one factor.
    type Register<S: Simd>: Copy;
    /// The factors of a row of values.
    fn factors(row: &[f32], out: &mut [Self::Factor]);
    /// Loads a register of operands.
    fn load<S: Simd>(s: S, bytes: &[u8]) -> Self::Register<S>;
    /// The factor in all lanes.
    fn splat<S: Simd>(s: S, factor: Self::Factor) -> Self::Register<S>;
    /// `sum + operand · factor`
    fn add_product<S: Simd>(s: S, operand: Self::Register<S>, factor: Self::Register<S>, sum: S::F) -> S::F;
}

impl<T: StorageType> DotOperand for T {
    const VALUES: usize = 1;
    const BYTES: usize = T::BYTES;
    type Factor = f32;
    type Register<S: Simd> = S::F;
    #[inline(always)]
    fn factors(row: &[f32], out: &mut [f32]) {
        out.copy_from_slice(row);
    }
    #[inline(always)]
    fn load<S: Simd>(s: S, bytes: &[u8]) -> S::F {
        T::load(s, bytes)
    }
    #[inline(always)]
    fn splat<S: Simd>(s: S, factor: f32) -> S::F {
        s.splat(factor)
    }
    #[inline(always)]
    fn add_product<S: Simd>(s: S, operand: S::F, factor: S::F, sum: S::F) -> S::F {
        s.fma(operand, factor, sum)
    }
}

/// Two bf16 that share a dot product: half a row apart.
pub(crate) struct Bf16Pair;

impl DotOperand for Bf16Pair {
    const VALUES: usize = 2;
    const BYTES: usize = 4;
    type Factor = u32;
    type Register<S: Simd> = S::I;
    #[inline(always)]
    fn factors(row: &[f32], out: &mut [u32]) {
        let (low, high) = row.split_at(out.len());
        // Written so that it is vectorized.
        let (paired, alone) = out.split_at_mut(high.len());
        for ((out, low), high) in paired.iter_mut().zip(low).zip(high) {
            *out = pair(*low, *high);
        }
        for (out, low) in alone.iter_mut().zip(&low[high.len()..]) {
            *out = pair(*low, 0.0);
        }
    }
    #[inline(always)]
    fn load<S: Simd>(s: S, bytes: &[u8]) -> S::I {
        s.load_bytes(bytes)
    }
    #[inline(always)]
    fn splat<S: Simd>(s: S, factor: u32) -> S::I {
        s.splat_i(factor.cast_signed())
    }
    #[inline(always)]
    fn add_product<S: Simd>(s: S, operand: S::I, factor: S::I, sum: S::F) -> S::F {
        s.bf16_dot(sum, operand, factor)
    }
}

/// A format of the KV cache, as attention uses it.
pub(crate) trait KvFormat {
    /// As of a [`Job`](cpu::simd::Job).
    const DOT_KIND: DotKind;
    /// What [`KvFormat::begin`] needs: a capability token beyond that of the registers (AMX), or nothing.
    type Token: Copy;
    /// The most queries of a tile.
    const MAX_QUERIES: usize = SMALL_QUERY_TILE;
    /// Whether there is code for each number of queries up to [`SMALL_QUERY_TILE`]. Otherwise for powers of two only,
    /// and a tile that is not full computes its last query again, which takes less time to compile.
    const ALL_TILE_SIZES: bool;
    /// The queries of a tile, prepared once for all blocks.
    type Queries<const N: usize>;
    /// Begins a tile of `queries` queries.
    fn begin(token: Self::Token, queries: usize) -> Self;
    /// A buffer for prepared queries.
    fn scratch<const N: usize>() -> Self::Queries<N>;
    /// Prepares queries `[head_dim]` in a buffer that held none of another width.
    fn queries<S: Simd, const N: usize>(&self, s: S, q: [&[f32]; N], prepared: &mut Self::Queries<N>);
    /// Adds to `scores` the dot products of each query with each key of the block, `dim` wide. The next block is
    /// `prefetch_ahead` bytes further, for prefetching.
    fn add_scores<S: Simd, const N: usize>(
        &self,
        s: S,
        queries: &Self::Queries<N>,
        keys: &[u8],
        dim: usize,
        prefetch_ahead: usize,
        scores: &mut [[f32; BLOCK_TOKENS]; N],
    );
    /// Adds to each query's `sums` the values of the block times its attention weights. Rows of values are `stride`
    /// values apart; positions from `written` on are not read, and their weights are zero.
    fn add_values<S: Simd, const N: usize>(
        &self,
        s: S,
        weights: &[[f32; BLOCK_TOKENS]; N],
        values: &[u8],
        stride: usize,
        written: usize,
        prefetch_ahead: usize,
        sums: &mut [[f32; MAX_HEAD_DIM]; N],
    );
}

/// Keys and values as floats.
pub(crate) struct KvFloat<T>(PhantomData<T>);

impl<T: DotOperand> KvFormat for KvFloat<T> {
    const DOT_KIND: DotKind = if T::VALUES == 2 { DotKind::Bf16 } else { DotKind::F32 };
    type Token = ();
    const ALL_TILE_SIZES: bool = true;
    type Queries<const N: usize> = [[T::Factor; MAX_HEAD_DIM]; N];

    fn begin((): (), _: usize) -> KvFloat<T> {
        KvFloat(PhantomData)
    }

    fn scratch<const N: usize>() -> Self::Queries<N> {
        [[T::Factor::default(); MAX_HEAD_DIM]; N]
    }

    #[inline(always)]
    fn queries<S: Simd, const N: usize>(&self, _: S, q: [&[f32]; N], prepared: &mut Self::Queries<N>) {
        set_factors::<T, N, _>(q, prepared);
    }

    #[inline(always)]
    fn add_scores<S: Simd, const N: usize>(
        &self,
        s: S,
        queries: &Self::Queries<N>,
        keys: &[u8],
        dim: usize,
        prefetch_ahead: usize,
        scores: &mut [[f32; BLOCK_TOKENS]; N],
    ) {
        let k_len = dim.div_ceil(T::VALUES);
        if const { split_by_2::<S, N>() } && one_strip::<S>(dim) {
            return add_whole_rows::<S, T, N, _, _>(s, queries, keys, k_len, BLOCK_TOKENS, scores);
        }
        add_strips::<S, T, N, _, _, true>(s, queries, keys, k_len, BLOCK_TOKENS, prefetch_ahead, scores);
    }

    #[inline(always)]
    fn add_values<S: Simd, const N: usize>(
        &self,
        s: S,
        weights: &[[f32; BLOCK_TOKENS]; N],
        values: &[u8],
        stride: usize,
        written: usize,
        prefetch_ahead: usize,
        sums: &mut [[f32; MAX_HEAD_DIM]; N],
    ) {
        let k_len = written.min(BLOCK_TOKENS / T::VALUES);
        let factors: [_; N] = factors::<T, N, BLOCK_TOKENS>(weights.each_ref().map(|row| row.as_slice()));
        if const { split_by_2::<S, N>() } && one_strip::<S>(stride) {
            return add_whole_rows::<S, T, N, _, _>(s, &factors, values, k_len, stride, sums);
        }
        add_strips::<S, T, N, _, _, true>(s, &factors, values, k_len, stride, prefetch_ahead, sums);
    }
}

/// The factors of each row of values, zero-padded to `X`.
#[inline(always)]
pub(crate) fn factors<T: DotOperand, const N: usize, const X: usize>(
    rows: [&[f32]; N],
) -> [[T::Factor; X]; N] {
    let mut factors = [[T::Factor::default(); X]; N];
    set_factors::<T, N, X>(rows, &mut factors);
    factors
}

/// Sets the factors of each row of values; those past its end are unchanged.
#[inline(always)]
pub(crate) fn set_factors<T: DotOperand, const N: usize, const X: usize>(
    rows: [&[f32]; N],
    factors: &mut [[T::Factor; X]; N],
) {
    for i in 0..N {
        T::factors(rows[i], &mut factors[i][..rows[i].len().div_ceil(T::VALUES)]);
    }
}

/// Registers of keys or values that `N` queries share: independent accumulators, which few queries need, and many have
/// room for with 32 registers.
pub(crate) const fn unroll_factor<S: Simd, const N: usize>() -> usize {
    match N {
        ..=2 => 4,
        3 | 4 if tune::<S>().attention_32_registers => 4,
        3..=6 => 2,
        _ => 1 + tune::<S>().attention_32_registers as usize,
    }
}

/// The most registers of a strip of values: a head 128 wide, the most common width.
const STRIP_REGISTERS: usize = 8;

/// Whether three and four queries pass over whole rows of values, two queries at a time, instead of strips, without
/// software prefetch: the hardware prefetcher then sees one stream (docs/lab/kv-cache-and-attention.md#decision-52). It
/// would gain nothing for two queries.
const fn split_by_2<S: Simd, const N: usize>() -> bool {
    !tune::<S>().prefetch.gemv_weights && tune::<S>().attention_32_registers && (N == 3 || N == 4)
}

/// Whether a row of a head `width` wide is one strip; of two, the second would be read after the first of the next row.
fn one_strip<S: Simd>(width: usize) -> bool {
    width.is_power_of_two() && width <= STRIP_REGISTERS * S::LANES
}

/// [`add_strips`] of rows of [`one_strip`], one after the other, without prefetch.
#[inline(always)]
fn add_whole_rows<S: Simd, T: DotOperand, const N: usize, const X: usize, const W: usize>(
    s: S,
    factors: &[[T::Factor; X]; N],
    rows: &[u8],
    k_len: usize,
    width: usize,
    out: &mut [[f32; W]; N],
) {
    if width < STRIP_REGISTERS * S::LANES {
        return add_strips::<S, T, N, X, W, false>(s, factors, rows, k_len, width, 0, out);
    }
    let ((twos, one), (sums, sum)) = (factors.as_chunks::<2>(), out.as_chunks_mut::<2>());
    for (two, out) in twos.iter().zip(sums) {
        add_strip::<S, T, 2, X, W, STRIP_REGISTERS, false>(s, two, rows, k_len, width, 0, 0, out);
    }
    for (one, out) in one.as_chunks::<1>().0.iter().zip(sum.as_chunks_mut::<1>().0) {
        add_strip::<S, T, 1, X, W, STRIP_REGISTERS, false>(s, one, rows, k_len, width, 0, 0, out);
    }
}

/// `out[i][c] += Σ_t factors[i][t] · rows[t][c]` over the first `k_len` rows of `width` columns: scores from queries
/// and transposed keys, or outputs from attention weights and values. With `PREFETCH`, prefetches the next block.
#[inline(always)]
fn add_strips<
    S: Simd,
    T: DotOperand,
    const N: usize,
    const X: usize,
    const W: usize,
    const PREFETCH: bool,
>(
    s: S,
    factors: &[[T::Factor; X]; N],
    rows: &[u8],
    k_len: usize,
    width: usize,
    prefetch_ahead: usize,
    out: &mut [[f32; W]; N],
) {
    let mut at = 0;
    while at < width {
        let left = (width - at) / S::LANES;
        at += S::LANES
            * match left.min(unroll_factor::<S, N>()) {
                // Inline constants, so that unused strips are not compiled.
                4.. if const { unroll_factor::<S, N>() >= 4 } => add_strip::<S, T, N, X, W, 4, PREFETCH>(
                    s,
                    factors,
                    rows,
                    k_len,
                    width,
                    at,
                    prefetch_ahead,
                    out,
                ),
                2.. if const { unroll_factor::<S, N>() >= 2 } => add_strip::<S, T, N, X, W, 2, PREFETCH>(
                    s,
                    factors,
                    rows,
                    k_len,
                    width,
                    at,
                    prefetch_ahead,
                    out,
                ),
                _ => add_strip::<S, T, N, X, W, 1, PREFETCH>(
                    s,
                    factors,
                    rows,
                    k_len,
                    width,
                    at,
                    prefetch_ahead,
                    out,
                ),
            };
    }
}

/// [`add_strips`] for `U` registers, from column `at` on; returns `U`. The register tile is `N` × `U`; sizes are const
/// generics, so that it stays in registers.
#[inline(always)]
fn add_strip<
    S: Simd,
    T: DotOperand,
    const N: usize,
    const X: usize,
    const W: usize,
    const U: usize,
    const PREFETCH: bool,
>(
    s: S,
    factors: &[[T::Factor; X]; N],
    rows: &[u8],
    k_len: usize,
    width: usize,
    at: usize,
    prefetch_ahead: usize,
    out: &mut [[f32; W]; N],
) -> usize {
    let mut sums = [[s.splat(0.0); U]; N];
    for i in 0..N {
        for u in 0..U {
            sums[i][u] = s.load(&out[i][at + u * S::LANES..]);
        }
    }
    let (row, from, bytes) = (width * T::BYTES, at * T::BYTES, U * S::LANES * T::BYTES);
    let rows = &rows[..k_len * row];
    // As many bytes as rows: a strip's span ends at the last row or before.
    let spans = prefetch_span(rows, from, row).chunks_exact(4 * bytes);
    // Four operands at a time, bounds-checked before any of them: a check between operands would keep factors from
    // being memory operands, and spill all of them.
    let mut fours = rows.chunks_exact(4 * row);
    let mut t = 0;
    for (four, span) in fours.by_ref().zip(spans) {
        let mut parts: [&[u8]; 4] = [&[]; 4];
        for k in 0..4 {
            parts[k] = &four[k * row + from..][..bytes];
        }
        let factors = factors_at::<T, N, X>(factors, t, 4);
        for k in 0..4 {
            accumulate_operand::<S, T, N, U, PREFETCH>(
                s,
                &factors,
                k,
                parts[k],
                &span[k * bytes..][..bytes],
                prefetch_ahead,
                &mut sums,
            );
        }
        t += 4;
    }
    for one in fours.remainder().chunks_exact(row) {
        let factors = factors_at::<T, N, X>(factors, t, 1);
        // The end of a block that is not full, or keys of no multiple of four: prefetches of their own lines suffice.
        let part = &one[from..][..bytes];
        accumulate_operand::<S, T, N, U, PREFETCH>(s, &factors, 0, part, part, prefetch_ahead, &mut sums);
        t += 1;
    }
    for i in 0..N {
        for u in 0..U {
            s.store(sums[i][u], &mut out[i][at + u * S::LANES..]);
        }
    }
    U
}

/// Factors `t` to `t + count - 1` of each row.
#[inline(always)]
fn factors_at<T: DotOperand, const N: usize, const X: usize>(
    factors: &[[T::Factor; X]; N],
    t: usize,
    count: usize,
) -> [&[T::Factor]; N] {
    let mut at: [&[T::Factor]; N] = [&[]; N];
    for i in 0..N {
        at[i] = &factors[i][t..][..count];
    }
    at
}

/// The bytes whose counterparts in the next block are prefetched while a strip of rows of `row` bytes is read, from
/// byte `from` of each on: as many, but consecutive. Strips go across the rows, an order in which memory delivers less.
#[inline(always)]
pub(crate) fn prefetch_span(rows: &[u8], from: usize, row: usize) -> &[u8] {
    &rows[from * (rows.len() / row)..]
}

/// Adds to `sums` the products of `U` registers of operands, loaded from `bytes`, and factor `k` of each row: the
/// innermost loop of attention over floats, both q·k and weights·v. With `PREFETCH`, prefetches what is
/// `prefetch_ahead` bytes behind `prefetch_span`.
#[inline(always)]
fn accumulate_operand<S: Simd, T: DotOperand, const N: usize, const U: usize, const PREFETCH: bool>(
    s: S,
    factors: &[&[T::Factor]; N],
    k: usize,
    bytes: &[u8],
    prefetch_span: &[u8],
    prefetch_ahead: usize,
    sums: &mut [[S::F; U]; N],
) {
    // With more queries, computing takes longer than reading.
    if const { PREFETCH && unroll_factor::<S, N>() > 1 } {
        for line in prefetch_span.chunks(64) {
            tune::prefetch(s, line, prefetch_ahead);
        }
    }
    let mut stored = [T::splat(s, T::Factor::default()); U];
    for u in 0..U {
        stored[u] = T::load(s, &bytes[u * S::LANES * T::BYTES..]);
    }
    for i in 0..N {
        let factor = T::splat(s, factors[i][k]);
        for u in 0..U {
            sums[i][u] = T::add_product(s, stored[u], factor, sums[i][u]);
        }
    }
}
