//! GEMM and GEMV: `out[m, n] = Σ_k x[m, k] · w[n, k]` on packed weights.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | entry points, partition into tasks of the thread pool (NC, and M for many rows), dispatch by weight layout |
//! | `driver.rs` | the loops around a micro-kernel: MC, NR, MR; output staging |
//! | `q8.rs` | micro-kernel of quantized weights × 8- or 16-bit activations: VNNI; `sdot`, `usdot`; AVX2 with M ≤ 2, and `Q2_K` |
//! | `q8_i16.rs` | the same on AVX2 with M ≥ 3: `vpmaddubsw`, accumulated in 16 bits; `Q3_K` and `Q6_K` with M ≤ 2 |
//! | `q8_pow2.rs` | the same for Zen 4 and 8-bit activations: power-of-two activation scales |
//! | `zero_point.rs` | the start of integer accumulators, for each zero point that formats have |
//! | `float.rs`, `bf16.rs` | micro-kernels of `f32`, `f16` and bf16 weights |
//! | `u7.rs` | micro-kernel of float weights that were quantized when they were packed |
//! | `bf16_dict12.rs` | micro-kernels of dictionary-compressed bf16 weights; for M > 64 with K-blocking loops of its own |
//! | [`crate::amx`] | the same on AMX tiles, with loops of its own |
//!
//! Threads split N, and M when it is large; never K. A task owns some panels of the output and passes its rows over them.

mod bf16;
mod bf16_dict12;
mod dot_quad;
mod driver;
mod float;
mod q8;
mod q8_i16;
mod q8_pow2;
mod u7;
pub(crate) mod work;
mod zero_point;

#[cfg(target_arch = "x86_64")]
use cpu::simd::amx::{Amx, AmxFp16};
#[cfg(target_arch = "x86_64")]
use cpu::simd::has_f16_tiles;
use cpu::simd::{dispatch, dispatch_in_unit, dispatch_zen4_bf16_in_unit, has_tiles};
use cpu::{MatrixTiles, Tier, Tile, TileOf};

use bf16::Bf16Rows;
use bf16_dict12::{Dict12Blocked, Dict12Rows};
use driver::Gemm;
use float::F32Rows;
use q8::{GEMV_ROWS, Q8Rows};
use work::{Panels, Work};

use crate::Compute;
use crate::activations::{Activations, QuantizedRows, ROW_GROUP};
#[cfg(target_arch = "x86_64")]
use crate::amx;
use crate::kv_layout::{F16, F32};
use crate::matrix::{Layout, Matrix, with_format};
#[cfg(target_arch = "x86_64")]
use crate::tune;
use crate::tune::bf16_dict12::DECODE_TILE_MAX_M;
use crate::unpack::{BlockLayout, Grid};

/// The most matrices of a [`matmul_group`] or [`matmul_each`].
pub const MAX_GROUP: usize = 16;

/// The least packed bytes of a task: some microseconds of reading, so that handing it to a thread pays.
const TASK_BYTES: usize = 32 << 10;

/// Computes `out = x · wᵀ`, `[x rows, w.rows()]`.
///
/// # Panics
/// When shapes do not fit, or `x` was not [`set`](Activations::set) in the formats that `w` reads.
pub fn matmul(c: &Compute, w: &Matrix, x: &Activations, out: &mut [f32]) {
    matmul_group(c, &mut [(w, out)], x);
}

/// Computes several products of the same rows in one round of the pool: Q, K and V, or gate and up.
///
/// # Panics
/// As [`matmul`], and for more than [`MAX_GROUP`] matrices.
pub fn matmul_group(c: &Compute, jobs: &mut [(&Matrix, &mut [f32])], x: &Activations) {
    matmul_each(c, jobs.iter_mut().map(|(weights, out)| Product { weights, rows: x, out }));
}

/// A product of [`matmul_each`].
pub struct Product<'a> {
    /// The weights.
    pub weights: &'a Matrix,
    /// The rows, as many as those of the other products.
    pub rows: &'a Activations,
    /// Where the product is written, `[rows, weights.rows()]`.
    pub out: &'a mut [f32],
}

/// Computes several products in one round of the pool, each of its own rows: experts of a mixture.
///
/// # Panics
/// As [`matmul`], for more than [`MAX_GROUP`] products, and when one has not as many rows as another.
pub fn matmul_each<'a>(c: &Compute, products: impl Iterator<Item = Product<'a>>) {
    let mut factors: [Option<(&Matrix, &Activations)>; MAX_GROUP] = [None; MAX_GROUP];
    let mut outs: [Option<MatrixTiles<'_, f32>>; MAX_GROUP] = [const { None }; MAX_GROUP];
    let mut splits = usize::MAX;
    for (i, Product { weights: w, rows: x, out }) in products.enumerate() {
        assert!(i < MAX_GROUP, "more than {MAX_GROUP} products in a round");
        assert_eq!(w.cols, x.cols, "weights of {} columns times rows of {}", w.cols, x.cols);
        assert_eq!(w.tier, c.tier, "weights packed for {} used on {}", w.tier, c.tier);
        assert_eq!(out.len(), x.rows * w.rows, "output of {} × {}", x.rows, w.rows);
        splits = splits.min(m_splits(w, x, c.pool.threads()));
        factors[i] = Some((w, x));
        outs[i] = Some(MatrixTiles { data: out, row_len: w.rows, tile_cols: 0 });
    }
    let mut panels = [0; MAX_GROUP];
    let mut rows = 0;
    for (i, out) in outs.iter_mut().enumerate() {
        if let (Some((w, x)), Some(out)) = (factors[i], out) {
            panels[i] = panels_per_task(w, x, c.pool.threads(), splits);
            out.tile_cols = panels[i] * w.lanes;
            rows = x.rows.div_ceil(splits).next_multiple_of(ROW_GROUP);
        }
    }
    c.pool.tiles_mut(outs, rows, &|TileOf { matrix: i, row, col }, out| {
        if let Some((w, x)) = factors[i] {
            gemm_task(w, col * panels[i], x, row * rows, out);
        }
    });
}

/// Minimum rows per thread when threads split M. Rereading the weights per thread is cheap compared with multiplying
/// that many rows, and activations stay in the cache of the core that quantized them (docs/lab/gemm-register-tiles.md,
/// decision 51).
const MC_PER_THREAD: usize = 64;

/// The number of ranges that M is split into.
fn m_splits(w: &Matrix, x: &Activations, threads: usize) -> usize {
    // AMX decodes weights once for all rows, and weights that are not quantized are too many bytes to read more than once.
    let whole = has_tiles(w.tier) || !matches!(w.layout, Layout::Quantized(_) | Layout::Int8);
    if whole { 1 } else { (x.rows / MC_PER_THREAD).clamp(1, threads) }
}

/// The number of panels of a task.
fn panels_per_task(w: &Matrix, x: &Activations, threads: usize, m_splits: usize) -> usize {
    let panels = w.rows.div_ceil(w.lanes);
    let block = amx_block_panels(w, x).min(panels.div_ceil(2 * threads));
    let worth = TASK_BYTES.div_ceil(w.panel_bytes.max(1)).max(block);
    // An even number, for pairs of panels.
    if threads == 1 {
        panels
    } else {
        panels.div_ceil((threads * 8).div_ceil(m_splits)).max(worth).next_multiple_of(2)
    }
    .max(1)
}

/// The panels of an output block of the blocked AMX GEMM, if it is used; otherwise 0.
#[cfg(target_arch = "x86_64")]
fn amx_block_panels(w: &Matrix, x: &Activations) -> usize {
    let amx_rows = match w.layout {
        Layout::Quantized(_) if has_f16_tiles(w.tier) => x.rows,
        Layout::Quantized(_) => x.rows - x.quantized_rows,
        Layout::Bf16 | Layout::Bf16Dict12 => x.rows,
        Layout::F32 | Layout::F16 | Layout::Int8 => 0,
    };
    if has_tiles(w.tier) && amx_rows >= amx::BLOCKED_MIN_M { tune::amx::NC_PANELS } else { 0 }
}

#[cfg(not(target_arch = "x86_64"))]
fn amx_block_panels(_: &Matrix, _: &Activations) -> usize {
    0
}

/// Computes one task: `out` from the panels from `panel` on and the rows from `first` on.
fn gemm_task(w: &Matrix, panel: usize, x: &Activations, first: usize, out: Tile<'_, f32>) {
    let weights = Panels {
        data: &w.data[panel * w.panel_bytes..],
        panel_bytes: w.panel_bytes,
        count: out.cols().div_ceil(w.lanes),
    };
    #[cfg(target_arch = "x86_64")]
    if let Layout::Quantized(dtype) = w.layout
        && let Some(amx) = AmxFp16::for_tier(w.tier)
    {
        let work = &mut Work { weights, cols: w.cols, planes: 1, rows: x.rows, out };
        return with_format!(dtype, F => amx::gemm_f16_tiles::<LayoutOf<F>>(amx, work, x.f16(), F::GRID, w.f16_scale()), ());
    }
    let quantized = matches!(w.layout, Layout::Quantized(_));
    let q16 = w.q16_activations && quantized;
    assert!(!quantized || q16 == x.q16, "activations quantized to 8 bits where 16 are read, or the reverse");
    let planes = if q16 { 2 } else { 1 };
    let rows = if quantized { x.quantized_rows - first } else { x.rows - first }.min(out.rows());
    let work = &mut Work { weights, cols: w.cols, planes, rows, out };
    match w.layout {
        Layout::Quantized(dtype) => with_format!(dtype, F => {
            if rows > 0 {
                let (work, x) = (&mut *work, x.quantized().from(planes * first));
                if planes * rows <= GEMV_ROWS {
                    gemm_q8::<LayoutOf<F>, true>(w.tier, work, x, F::GRID);
                } else {
                    gemm_q8::<LayoutOf<F>, false>(w.tier, work, x, F::GRID);
                }
            }
            #[cfg(target_arch = "x86_64")]
            if let Some(amx) = Amx::for_tier(w.tier).filter(|_| rows < x.rows) {
                amx::gemm_dequant_bf16::<LayoutOf<F>>(amx, work, &x.bf16, F::GRID, rows);
            }
        }, ()),
        Layout::Int8 => dispatch(w.tier, Gemm { work, kernel: x.u7().from(first) }),
        Layout::F32 => dispatch(w.tier, Gemm { work, kernel: f32_rows::<F32>(&x.f32) }),
        Layout::F16 => dispatch(w.tier, Gemm { work, kernel: f32_rows::<F16>(&x.f32) }),
        Layout::Bf16 => {
            #[cfg(target_arch = "x86_64")]
            if let Some(amx) = Amx::for_tier(w.tier) {
                return amx::gemm_bf16(amx, work, &x.bf16);
            }
            dispatch(w.tier, Gemm { work, kernel: Bf16Rows { f32: &x.f32, pairs: x.pairs() } });
        }
        Layout::Bf16Dict12 => {
            #[cfg(target_arch = "x86_64")]
            if let Some(amx) = Amx::for_tier(w.tier) {
                return amx::gemm_bf16_dict12(amx, work, &x.bf16);
            }
            let x = Bf16Rows { f32: &x.f32, pairs: x.pairs() };
            if rows <= DECODE_TILE_MAX_M {
                dispatch(w.tier, Gemm { work, kernel: Dict12Rows(x) });
            } else {
                dispatch(w.tier, Dict12Blocked { work, x });
            }
        }
    }
}

/// Quantized weights × rows quantized to 8 bits, or to 16 as two planes of 8. `GEMV`: at most two rows.
fn gemm_q8<F: BlockLayout, const GEMV: bool>(
    tier: Tier,
    work: &mut Work<'_>,
    rows: QuantizedRows<'_>,
    grid: &'static Grid,
) {
    let kernel = |rows| Q8Rows::<F, GEMV> { rows, grid, layout: Default::default() };
    match rows {
        QuantizedRows::Plain(rows) => dispatch_in_unit::<F, _>(tier, Gemm { work, kernel: kernel(rows) }),
        QuantizedRows::Pow2(rows) => {
            let done = dispatch_zen4_bf16_in_unit::<F, _>(tier, Gemm { work, kernel: kernel(rows) });
            assert!(done.is_ok(), "power-of-two scales on {tier}, whose lanes do not multiply by them");
        }
    }
}

fn f32_rows<W>(rows: &[f32]) -> F32Rows<'_, W> {
    F32Rows { rows, stored: Default::default() }
}
