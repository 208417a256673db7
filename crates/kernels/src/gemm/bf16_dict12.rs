//! The micro-kernels of dictionary-compressed bf16 weights ([`crate::bf16_dict12`]).
//!
//! Few rows ([`Dict12Rows`]) decode weights in registers, once a register tile. Many rows ([`Dict12Blocked`]) block K: a K-block of two
//! panels is decoded into a buffer in the L1 cache, all rows pass over it, and accumulators are spilled between K-blocks. The results
//! are those of plain bf16 weights, bit for bit.

use std::ops::Range;

use cpu::simd::{DotKind, Job, Simd};

use super::bf16::{Bf16Rows, PairRows, fma_pair, fma_pairs};
use super::driver::MicroKernel;
use super::work::{Work, unrolled};
use crate::activations::PAIR_CHUNK;
use crate::bf16_dict12;
use crate::partial::MAX_LANES;
use crate::tune::bf16_dict12::{MC, NR_PANELS, PREFETCH_GROUPS};
use crate::tune::{self, tune};
use crate::unpack;

/// Dictionary-compressed weights × few rows.
pub(super) struct Dict12Rows<'a>(pub(super) Bf16Rows<'a>);

impl MicroKernel for Dict12Rows<'_> {
    const DOT_KIND: DotKind = DotKind::Bf16;
    type Unit = Self;
    const MR: usize = 8;
    const PANEL_PAIRS: bool = true;
    // Unused: all tiers with such weights have an NR of two panels.
    const MIN_ACCUMULATORS: usize = 1;
    fn row_bytes(cols: usize) -> usize {
        Bf16Rows::row_bytes(cols)
    }
    #[inline(always)]
    fn register_tile<S: Simd, const MR: usize, const NR: usize>(
        &self,
        s: S,
        panels: [&[u8]; NR],
        cols: usize,
        first: usize,
    ) -> [[S::F; MR]; NR] {
        let rows = self.0.rows::<S, MR>(cols, first);
        let mut k = 0;
        let mut sums = [[s.splat(0.0); MR]; NR];
        let mut readers = [bf16_dict12::Reader::new(panels[0], S::LANES, cols); NR];
        for p in 1..NR {
            readers[p] = bf16_dict12::Reader::new(panels[p], S::LANES, cols);
        }
        const { assert!(bf16_dict12::GROUP_PAIRS == PAIR_CHUNK) };
        let bytes = bf16_dict12::group_bytes(S::LANES);
        // The next `NR - 1` panels are being read beside this one: the prefetch skips them.
        let (mut left, skip) = (panels[0].len(), (NR - 1) * panels[0].len());
        for k_block in 0..cols.div_ceil(bf16_dict12::K_BLOCK) {
            let mut exceptions = [bf16_dict12::Exceptions::NONE; NR];
            let mut groups = [&panels[0][..0]; NR];
            for p in 0..NR {
                exceptions[p] = readers[p].exceptions(k_block, S::LANES);
                groups[p] = readers[p].groups(k_block, S::LANES);
            }
            let count = groups[0].len() / bytes;
            let mut at = 0;
            while at < count {
                // The groups up to the next exception are decoded without a look at the list, accumulators stay in registers.
                let mut next = count;
                for p in 0..NR {
                    next = next.min(exceptions[p].group);
                }
                // A damaged file may have them out of order.
                next = next.max(at);
                sums = fma_groups(s, &readers, &groups, at..next, &rows, &mut k, &mut left, skip, sums);
                if next < count {
                    let x = rows.chunk::<S>(k);
                    k += PAIR_CHUNK;
                    for p in 0..NR {
                        let group = &groups[p][next * bytes..][..bytes];
                        let weights = readers[p].decode_pairs_exact(s, group, next, &mut exceptions[p]);
                        for j in 0..PAIR_CHUNK {
                            fma_pair(s, &x, j, weights[j], &mut sums[p]);
                        }
                    }
                    left -= bytes;
                }
                at = next + 1;
            }
        }
        sums
    }
}

/// Returns `sums` plus the products of the groups `range`, which have no exceptions, with the next columns of `x`.
/// Prefetches later groups; past the `bytes_left` bytes of the panel, `wrap_skip` bytes are skipped. By value, so that
/// `sums` stays in registers; a struct of references would put the accumulators in memory.
#[inline(always)]
fn fma_groups<S: Simd, const MR: usize, const NR: usize>(
    s: S,
    readers: &[bf16_dict12::Reader<'_>; NR],
    groups: &[&[u8]; NR],
    range: Range<usize>,
    rows: &PairRows<'_, MR>,
    k: &mut usize,
    bytes_left: &mut usize,
    wrap_skip: usize,
    mut sums: [[S::F; MR]; NR],
) -> [[S::F; MR]; NR] {
    let bytes = const { bf16_dict12::group_bytes(S::LANES) };
    for group in range {
        let prefetch = const { unpack::prefetch_distance::<S, NR>() };
        let prefetch = if prefetch < *bytes_left { prefetch } else { prefetch + wrap_skip };
        *bytes_left -= bytes;
        let x = rows.chunk::<S>(*k);
        *k += PAIR_CHUNK;
        unrolled!(p < NR, {
            let group = &groups[p][group * bytes..][..bytes];
            for line in 0..bytes.div_ceil(64) {
                tune::prefetch(s, group, 64 * line + prefetch);
            }
            let weights = readers[p].decode_pairs(s, group);
            for j in 0..PAIR_CHUNK {
                fma_pair(s, &x, j, weights[j], &mut sums[p]);
            }
        });
    }
    sums
}

/// A decoded K-block of these panels as bf16 pairs, for the widest registers: the panels' vectors of the same columns side by side.
#[repr(align(64))]
struct DecodedKBlock([u8; NR_PANELS * bf16_dict12::k_block_bytes(MAX_LANES)]);

/// The accumulators of a row × these panels.
type RowAccumulators = [f32; NR_PANELS * MAX_LANES];

/// Accumulator spill buffer between K-blocks.
#[repr(align(64))]
struct AccumulatorSpill([RowAccumulators; MC]);

/// Dictionary-compressed weights × many rows, with double-buffered K-blocks: while the micro-kernel consumes one, the next is decoded into
/// the other L1 buffer, part by part between the register tiles. Accumulators are spilled to a dense buffer; in the output they would be
/// a row apart, and have left the caches when the next K-block comes.
pub(super) struct Dict12Blocked<'w, 'a> {
    pub(super) work: &'w mut Work<'a>,
    pub(super) x: Bf16Rows<'w>,
}

/// A K-block of the panels from `panel` on, and the first of the rows that pass over it.
#[derive(Clone, Copy)]
struct KBlock {
    panel: usize,
    row: usize,
    k_block: usize,
}

impl Job for Dict12Blocked<'_, '_> {
    type Out = ();
    const DOT_KIND: DotKind = DotKind::Bf16;
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let [now, next_buffer] = &mut [const { DecodedKBlock([0; _]) }; 2];
        let (mut now, mut next_buffer) = (now, next_buffer);
        let mut spill = AccumulatorSpill([[0.0; _]; _]);
        let mut step = KBlock { panel: 0, row: 0, k_block: 0 };
        decode_into(s, &mut self.decoders::<S>(step), usize::MAX, now);
        loop {
            let next = self.next_block(step);
            let mut decoders = next.map(|next| self.decoders::<S>(next));
            let end = self.work.rows.min(step.row + MC);
            let mut t = step.row;
            while t < end {
                let spill = &mut spill.0[t - step.row..];
                t += match (end - t).min(const { tune::<S>().mr }) {
                    1 => self.rows::<S, 1>(s, now, step, t, spill),
                    2..4 => self.rows::<S, 2>(s, now, step, t, spill),
                    8.. if const { tune::<S>().mr >= 8 } => self.rows::<S, 8>(s, now, step, t, spill),
                    _ => self.rows::<S, 4>(s, now, step, t, spill),
                };
                if let Some(decoders) = &mut decoders {
                    decode_into(
                        s,
                        decoders,
                        bf16_dict12::K_BLOCK_GROUPS * (t - step.row) / (end - step.row),
                        next_buffer,
                    );
                }
            }
            let Some(next) = next else { return };
            step = next;
            std::mem::swap(&mut now, &mut next_buffer);
        }
    }
}

/// Decodes groups of both panels into `now` until `to` of them are there.
#[inline(always)]
fn decode_into<S: Simd>(
    s: S,
    decoders: &mut [bf16_dict12::PanelDecoder<'_>; NR_PANELS],
    to: usize,
    now: &mut DecodedKBlock,
) {
    let bytes = const { bf16_dict12::group_bytes(S::LANES) };
    for p in 0..NR_PANELS {
        let (groups, count) = decoders[p].upcoming(S::LANES, to);
        for i in 0..count {
            for line in 0..bytes.div_ceil(64) {
                tune::prefetch(s, &groups[i * bytes..], PREFETCH_GROUPS * bytes + 64 * line);
            }
        }
        decoders[p].decode_into(s, to, NR_PANELS, &mut now.0[4 * S::LANES * p..]);
    }
}

impl<'a> Dict12Blocked<'_, 'a> {
    /// The K-block after `step`.
    #[inline(always)]
    fn next_block(&self, step: KBlock) -> Option<KBlock> {
        let Work { cols, weights, rows, .. } = *self.work;
        if (step.k_block + 1) * bf16_dict12::K_BLOCK < cols {
            return Some(KBlock { k_block: step.k_block + 1, ..step });
        }
        if step.row + MC < rows {
            return Some(KBlock { row: step.row + MC, k_block: 0, ..step });
        }
        let panel = step.panel + NR_PANELS;
        (panel < weights.count).then_some(KBlock { panel, row: 0, k_block: 0 })
    }

    /// Decoders of the panels of `step`; a last panel without a neighbour is decoded twice.
    #[inline(always)]
    fn decoders<S: Simd>(&self, step: KBlock) -> [bf16_dict12::PanelDecoder<'a>; NR_PANELS] {
        let Work { cols, weights, .. } = *self.work;
        let panel = |p: usize| weights.panel((step.panel + p).min(weights.count - 1));
        std::array::from_fn(|p| bf16_dict12::PanelDecoder::new(panel(p), S::LANES, cols, step.k_block))
    }

    /// The register tile of rows `first` to `first + MR - 1` over the K-block `step`; to the spill buffer, or after the last K-block to the
    /// output. Returns `MR`.
    #[inline(always)]
    fn rows<S: Simd, const MR: usize>(
        &mut self,
        s: S,
        now: &DecodedKBlock,
        step: KBlock,
        first: usize,
        spill: &mut [RowAccumulators],
    ) -> usize {
        const NR: usize = NR_PANELS;
        let KBlock { panel, k_block, .. } = step;
        let cols = self.work.cols;
        let x = self.x.rows::<S, MR>(cols, first);
        let spill = &mut spill[..MR];
        let mut sums = [[s.splat(0.0); MR]; NR];
        if k_block > 0 {
            unrolled!(t < MR, {
                unrolled!(p < NR, {
                    sums[p][t] = s.load(&spill[t][p * S::LANES..]);
                });
            });
        }
        let k = k_block * bf16_dict12::K_BLOCK / 2;
        let count = (cols / 2 - k).min(bf16_dict12::K_BLOCK / 2);
        let last = k + count == cols / 2;
        let panels = NR.min(self.work.weights.count - panel);
        if const { tune::<S>().prefetch.gemm_activations_and_output } && last {
            self.work.prefetch_output(s, first..first + MR, panel..panel + panels);
        }
        sums = fma_k_block(s, now, &x, k..k + count, sums);
        unrolled!(t < MR, {
            unrolled!(p < NR, {
                if !last {
                    s.store(sums[p][t], &mut spill[t][p * S::LANES..]);
                } else if p < panels {
                    self.work.store(s, first + t, (panel + p) * S::LANES, sums[p][t]);
                }
            });
        });
        MR
    }
}

/// Returns `sums` plus the products of the pairs `pairs` of `x`, whole chunks of them, with the decoded K-block. By value, so that `sums`
/// stays in registers.
#[inline(always)]
fn fma_k_block<S: Simd, const MR: usize>(
    s: S,
    now: &DecodedKBlock,
    x: &PairRows<'_, MR>,
    pairs: Range<usize>,
    mut sums: [[S::F; MR]; NR_PANELS],
) -> [[S::F; MR]; NR_PANELS] {
    const { assert!(bf16_dict12::K_MULTIPLE.is_multiple_of(2 * PAIR_CHUNK)) };
    for (k, vectors) in
        pairs.step_by(PAIR_CHUNK).zip(now.0.chunks_exact(4 * S::LANES * NR_PANELS * PAIR_CHUNK))
    {
        let x = x.chunk::<S>(k);
        unrolled!(k < PAIR_CHUNK, {
            let mut weights = [s.splat_i(0); NR_PANELS];
            unrolled!(p < NR_PANELS, {
                weights[p] = s.load_bytes(&vectors[4 * S::LANES * (k * NR_PANELS + p)..]);
            });
            fma_pairs(s, &x, k, &weights, &mut sums);
        });
    }
    sums
}
