//! Floats as they lie in memory, and keys and values made of them.

use std::marker::PhantomData;

use cpu::lanes::{Products, Simd};

use crate::attention::{MAX_HEAD_DIM, TILE};
use crate::kv::{BLOCK_TOKENS, pair};

/// A stored float type.
pub(crate) trait Stored {
    /// Bytes of a value.
    const BYTES: usize;
    /// Reads a register of values.
    fn load<S: Simd>(s: S, bytes: &[u8]) -> S::F;
}

/// IEEE binary32.
pub(crate) struct Single;

impl Stored for Single {
    const BYTES: usize = 4;
    #[inline(always)]
    fn load<S: Simd>(s: S, bytes: &[u8]) -> S::F {
        s.load_f32_bytes(bytes)
    }
}

/// IEEE binary16.
pub(crate) struct Half;

impl Stored for Half {
    const BYTES: usize = 2;
    #[inline(always)]
    fn load<S: Simd>(s: S, bytes: &[u8]) -> S::F {
        s.load_f16_bytes(bytes)
    }
}

/// A stored type as a term of a sum of products: what it is multiplied with, and how.
pub(crate) trait Term {
    /// Numbers in a term.
    const NUMBERS: usize;
    /// Bytes of a term.
    const BYTES: usize;
    /// The other factor of a term.
    type Factor: Copy + Default;
    /// A register of terms, or of one factor.
    type Register<S: Simd>: Copy;
    /// The factors of a row of numbers.
    fn factors(row: &[f32], out: &mut [Self::Factor]);
    /// Reads a register of terms.
    fn load<S: Simd>(s: S, bytes: &[u8]) -> Self::Register<S>;
    /// The factor in all lanes.
    fn splat<S: Simd>(s: S, factor: Self::Factor) -> Self::Register<S>;
    /// `sum + term · factor`
    fn add_product<S: Simd>(s: S, term: Self::Register<S>, factor: Self::Register<S>, sum: S::F) -> S::F;
}

impl<T: Stored> Term for T {
    const NUMBERS: usize = 1;
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
    fn add_product<S: Simd>(s: S, term: S::F, factor: S::F, sum: S::F) -> S::F {
        s.fma(term, factor, sum)
    }
}

/// Two bfloat16 numbers that are multiplied together: those half a row apart.
pub(crate) struct Pair;

impl Term for Pair {
    const NUMBERS: usize = 2;
    const BYTES: usize = 4;
    type Factor = u32;
    type Register<S: Simd> = S::I;
    #[inline(always)]
    fn factors(row: &[f32], out: &mut [u32]) {
        let (low, high) = row.split_at(out.len());
        // Written so that the compiler takes a register of values at a time.
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
    fn add_product<S: Simd>(s: S, term: S::I, factor: S::I, sum: S::F) -> S::F {
        s.bf16_dot(sum, term, factor)
    }
}

/// A way to keep a block of keys and values, as attention uses it.
pub(crate) trait Kept {
    /// As of a [`Job`](cpu::lanes::Job).
    const PRODUCTS: Products;
    /// What [`Kept::begin`] needs.
    type With: Copy;
    /// The most queries of a tile.
    const MOST: usize = TILE;
    /// Whether there is code for each number of queries up to [`TILE`]. Otherwise for powers of two only, and a tile that is
    /// not full computes its last query again: less for the compiler to do.
    const EVERY_TILE: bool;
    /// Queries of a tile, made ready once for all blocks.
    type Queries<const N: usize>;
    /// Begins a tile of `queries` queries.
    fn begin(with: Self::With, queries: usize) -> Self;
    /// Room for queries to be made ready in.
    fn room<const N: usize>() -> Self::Queries<N>;
    /// Makes queries `[head_dim]` ready, in room that held none of another width.
    fn queries<S: Simd, const N: usize>(&self, s: S, q: [&[f32]; N], ready: &mut Self::Queries<N>);
    /// Adds to `scores`, zero at first, the products of each query with each key of the block, whose heads are `dim` wide.
    /// `ahead` bytes further lies the next block, for prefetching.
    fn add_scores<S: Simd, const N: usize>(
        &self,
        s: S,
        queries: &Self::Queries<N>,
        keys: &[u8],
        dim: usize,
        ahead: usize,
        scores: &mut [[f32; BLOCK_TOKENS]; N],
    );
    /// Adds to each query's `sums` the values of the block times its weights. Values are `wide` numbers apart; those from
    /// position `written` on do not count, and their weights are zero.
    fn add_values<S: Simd, const N: usize>(
        &self,
        s: S,
        weights: &[[f32; BLOCK_TOKENS]; N],
        values: &[u8],
        wide: usize,
        written: usize,
        ahead: usize,
        sums: &mut [[f32; MAX_HEAD_DIM]; N],
    );
}

/// Keys and values kept as floats.
pub(crate) struct Floats<T>(PhantomData<T>);

impl<T: Term> Kept for Floats<T> {
    const PRODUCTS: Products = if T::NUMBERS == 2 { Products::Pairs } else { Products::Floats };
    type With = ();
    const EVERY_TILE: bool = true;
    type Queries<const N: usize> = [[T::Factor; MAX_HEAD_DIM]; N];

    fn begin((): (), _: usize) -> Floats<T> {
        Floats(PhantomData)
    }

    fn room<const N: usize>() -> Self::Queries<N> {
        [[T::Factor::default(); MAX_HEAD_DIM]; N]
    }

    #[inline(always)]
    fn queries<S: Simd, const N: usize>(&self, _: S, q: [&[f32]; N], ready: &mut Self::Queries<N>) {
        set_factors::<T, N, _>(q, ready);
    }

    #[inline(always)]
    fn add_scores<S: Simd, const N: usize>(
        &self,
        s: S,
        queries: &Self::Queries<N>,
        keys: &[u8],
        dim: usize,
        ahead: usize,
        scores: &mut [[f32; BLOCK_TOKENS]; N],
    ) {
        let terms = dim.div_ceil(T::NUMBERS);
        if const { by_twos::<S, N>() } && one_strip::<S>(dim) {
            return add_whole_rows::<S, T, N, _, _>(s, queries, keys, terms, BLOCK_TOKENS, scores);
        }
        add_products::<S, T, N, _, _, true>(s, queries, keys, terms, BLOCK_TOKENS, ahead, scores);
    }

    #[inline(always)]
    fn add_values<S: Simd, const N: usize>(
        &self,
        s: S,
        weights: &[[f32; BLOCK_TOKENS]; N],
        values: &[u8],
        wide: usize,
        written: usize,
        ahead: usize,
        sums: &mut [[f32; MAX_HEAD_DIM]; N],
    ) {
        let terms = written.min(BLOCK_TOKENS / T::NUMBERS);
        let factors: [_; N] = factors::<T, N, BLOCK_TOKENS>(weights.each_ref().map(|row| row.as_slice()));
        if const { by_twos::<S, N>() } && one_strip::<S>(wide) {
            return add_whole_rows::<S, T, N, _, _>(s, &factors, values, terms, wide, sums);
        }
        add_products::<S, T, N, _, _, true>(s, &factors, values, terms, wide, ahead, sums);
    }
}

/// The factors of each row of numbers, and zeros up to `X`.
#[inline(always)]
pub(crate) fn factors<T: Term, const N: usize, const X: usize>(rows: [&[f32]; N]) -> [[T::Factor; X]; N] {
    let mut factors = [[T::Factor::default(); X]; N];
    set_factors::<T, N, X>(rows, &mut factors);
    factors
}

/// Sets the factors of each row of numbers; those behind them stay.
#[inline(always)]
pub(crate) fn set_factors<T: Term, const N: usize, const X: usize>(
    rows: [&[f32]; N],
    factors: &mut [[T::Factor; X]; N],
) {
    for i in 0..N {
        T::factors(rows[i], &mut factors[i][..rows[i].len().div_ceil(T::NUMBERS)]);
    }
}

/// Registers of keys or values that `N` queries walk together. Their sums do not wait for each other, which few queries need, and
/// many have room for where registers are many.
pub(crate) const fn together<S: Simd, const N: usize>() -> usize {
    match N {
        ..=2 => 4,
        3 | 4 if S::TILE > TILE => 4,
        3..=6 => 2,
        _ => 1 + (S::TILE > TILE) as usize,
    }
}

/// The most registers of values that a strip has: a head 128 wide, the most common width.
const ROW: usize = 8;

/// Whether three and four queries walk whole rows of values, two queries after two, in place of strips of them, and ask for nothing: a CPU
/// that follows one stream by itself then reads blocks as they lie (docs/decisions/0052). Two queries would gain nothing.
const fn by_twos<S: Simd, const N: usize>() -> bool {
    !S::FEW_AHEAD && S::TILE > TILE && (N == 3 || N == 4)
}

/// Whether a row of a head `width` wide is one strip; of two, the second would be read after the next row's first.
fn one_strip<S: Simd>(width: usize) -> bool {
    width.is_power_of_two() && width <= ROW * S::LANES
}

/// [`add_products`] of rows of [`one_strip`], one after the other, without asking for any.
#[inline(always)]
fn add_whole_rows<S: Simd, T: Term, const N: usize, const X: usize, const W: usize>(
    s: S,
    factors: &[[T::Factor; X]; N],
    rows: &[u8],
    terms: usize,
    width: usize,
    out: &mut [[f32; W]; N],
) {
    if width < ROW * S::LANES {
        return add_products::<S, T, N, X, W, false>(s, factors, rows, terms, width, 0, out);
    }
    let ((twos, one), (sums, sum)) = (factors.as_chunks::<2>(), out.as_chunks_mut::<2>());
    for (two, out) in twos.iter().zip(sums) {
        add_strip::<S, T, 2, X, W, ROW, false>(s, two, rows, terms, width, 0, 0, out);
    }
    for (one, out) in one.as_chunks::<1>().0.iter().zip(sum.as_chunks_mut::<1>().0) {
        add_strip::<S, T, 1, X, W, ROW, false>(s, one, rows, terms, width, 0, 0, out);
    }
}

/// `out[i][c] += Σ_t factors[i][t] · rows[t][c]` for the first `terms` rows of `width` columns: scores out of queries and
/// transposed keys, and the mix of values out of weights and values. It may `ASK` for the next block.
#[inline(always)]
fn add_products<S: Simd, T: Term, const N: usize, const X: usize, const W: usize, const ASK: bool>(
    s: S,
    factors: &[[T::Factor; X]; N],
    rows: &[u8],
    terms: usize,
    width: usize,
    ahead: usize,
    out: &mut [[f32; W]; N],
) {
    let mut at = 0;
    while at < width {
        let left = (width - at) / S::LANES;
        at += S::LANES
            * match left.min(together::<S, N>()) {
                // Constants, so that strips that are never walked are not compiled.
                4.. if const { together::<S, N>() >= 4 } => {
                    add_strip::<S, T, N, X, W, 4, ASK>(s, factors, rows, terms, width, at, ahead, out)
                }
                2.. if const { together::<S, N>() >= 2 } => {
                    add_strip::<S, T, N, X, W, 2, ASK>(s, factors, rows, terms, width, at, ahead, out)
                }
                _ => add_strip::<S, T, N, X, W, 1, ASK>(s, factors, rows, terms, width, at, ahead, out),
            };
    }
}

/// The same for `U` registers, from column `at` on; returns `U`.
#[inline(always)]
fn add_strip<
    S: Simd,
    T: Term,
    const N: usize,
    const X: usize,
    const W: usize,
    const U: usize,
    const ASK: bool,
>(
    s: S,
    factors: &[[T::Factor; X]; N],
    rows: &[u8],
    terms: usize,
    width: usize,
    at: usize,
    ahead: usize,
    out: &mut [[f32; W]; N],
) -> usize {
    let mut sums = [[s.splat(0.0); U]; N];
    for i in 0..N {
        for u in 0..U {
            sums[i][u] = s.load(&out[i][at + u * S::LANES..]);
        }
    }
    let (row, from, bytes) = (width * T::BYTES, at * T::BYTES, U * S::LANES * T::BYTES);
    let rows = &rows[..terms * row];
    // As many of them as of rows: a strip's share ends where its last row does, or before.
    let shares = asked(rows, from, row).chunks_exact(4 * bytes);
    // Terms by fours, whose bounds are checked before any of them: a check between terms keeps the compiler from reading a factor
    // where it is used, and all of four terms lie on the stack meanwhile.
    let mut fours = rows.chunks_exact(4 * row);
    let mut t = 0;
    for (four, share) in fours.by_ref().zip(shares) {
        let mut parts: [&[u8]; 4] = [&[]; 4];
        for k in 0..4 {
            parts[k] = &four[k * row + from..][..bytes];
        }
        let next = next::<T, N, X>(factors, t, 4);
        for k in 0..4 {
            add_term::<S, T, N, U, ASK>(
                s,
                &next,
                k,
                parts[k],
                &share[k * bytes..][..bytes],
                ahead,
                &mut sums,
            );
        }
        t += 4;
    }
    for one in fours.remainder().chunks_exact(row) {
        let next = next::<T, N, X>(factors, t, 1);
        // Of a block that is not full, or keys of no whole four terms: so few that their own places will do.
        let part = &one[from..][..bytes];
        add_term::<S, T, N, U, ASK>(s, &next, 0, part, part, ahead, &mut sums);
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
fn next<T: Term, const N: usize, const X: usize>(
    factors: &[[T::Factor; X]; N],
    t: usize,
    count: usize,
) -> [&[T::Factor]; N] {
    let mut next: [&[T::Factor]; N] = [&[]; N];
    for i in 0..N {
        next[i] = &factors[i][t..][..count];
    }
    next
}

/// The bytes whose like of the next block are asked for while a strip of rows of `row` bytes is walked, from byte `from` of each on: as many,
/// one after the other. Strips go across the rows, and memory gives less when it is asked in that order.
#[inline(always)]
pub(crate) fn asked(rows: &[u8], from: usize, row: usize) -> &[u8] {
    &rows[from * (rows.len() / row)..]
}

/// Adds to `sums` the products of `U` registers of terms, which `bytes` are, and each row's factor `k`. If it is to `ASK`, it asks for what
/// lies `ahead` bytes behind `asked`.
#[inline(always)]
fn add_term<S: Simd, T: Term, const N: usize, const U: usize, const ASK: bool>(
    s: S,
    factors: &[&[T::Factor]; N],
    k: usize,
    bytes: &[u8],
    asked: &[u8],
    ahead: usize,
    sums: &mut [[S::F; U]; N],
) {
    // More queries work longer on what they read than reading takes.
    if const { ASK && together::<S, N>() > 1 } {
        for line in asked.chunks(64) {
            s.prefetch(line, ahead);
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
