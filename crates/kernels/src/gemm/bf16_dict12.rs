//! The micro-kernels of dictionary-compressed bf16 weights.

use std::ops::Range;

use cpu::simd::{DotKind, Job, Simd};

use super::bf16::{Bf16Rows, PairRows, fma_pair, fma_pairs};
use super::driver::MicroKernel;
use super::work::{Work, unrolled};
use crate::activations::PAIR_CHUNK;
use crate::bf16_dict12;
use crate::partial::MAX_LANES;
use crate::tune::{self, tune};
use crate::unpack;

/// The most rows for which [`Dict12Rows`] takes less time than [`Dict12Blocked`], though it makes weights of the twelve bits once a tile: half of the
/// time for 16, three quarters for 32 (Zen 5).
pub(super) const DECODE_TILE_MAX_M: usize = 64;

/// bfloat16 weights in twelve bits times rows, tile by tile.
pub(super) struct Dict12Rows<'a>(pub(super) Bf16Rows<'a>);

impl MicroKernel for Dict12Rows<'_> {
    const DOT_KIND: DotKind = DotKind::Bf16;
    type Unit = Self;
    const MR: usize = 8;
    const PAIRS: bool = true;
    // All tiers that have such weights take panels in pairs.
    const SUMS: usize = 1;
    fn row_bytes(cols: usize) -> usize {
        Bf16Rows::row_bytes(cols)
    }
    #[inline(always)]
    fn register_tile<S: Simd, const T: usize, const P: usize>(
        &self,
        s: S,
        panels: [&[u8]; P],
        cols: usize,
        first: usize,
    ) -> [[S::F; T]; P] {
        let rows = self.0.rows::<S, T>(cols, first);
        let mut k = 0;
        let mut sums = [[s.splat(0.0); T]; P];
        let mut readers = [bf16_dict12::Reader::new(panels[0], S::LANES, cols); P];
        for p in 1..P {
            readers[p] = bf16_dict12::Reader::new(panels[p], S::LANES, cols);
        }
        const { assert!(bf16_dict12::GROUP_PAIRS == PAIR_CHUNK) };
        let bytes = bf16_dict12::group_bytes(S::LANES);
        // What lies behind this panel is already being read.
        let (mut bytes_left, wrap_skip) = (panels[0].len(), (P - 1) * panels[0].len());
        for k_block in 0..cols.div_ceil(bf16_dict12::K_BLOCK) {
            let mut exceptions = [bf16_dict12::Exceptions::NONE; P];
            let mut groups = [&panels[0][..0]; P];
            for p in 0..P {
                exceptions[p] = readers[p].exceptions(k_block, S::LANES);
                groups[p] = readers[p].groups(k_block, S::LANES);
            }
            let count = groups[0].len() / bytes;
            let mut at = 0;
            while at < count {
                // Between exceptions nothing is looked for, and sums stay in registers.
                let mut next = count;
                for p in 0..P {
                    next = next.min(exceptions[p].group);
                }
                // In a damaged file they may not be in order.
                next = next.max(at);
                sums = fma_groups(
                    s,
                    &readers,
                    &groups,
                    at..next,
                    &rows,
                    &mut k,
                    &mut bytes_left,
                    wrap_skip,
                    sums,
                );
                if next < count {
                    let x = rows.chunk::<S>(k);
                    k += PAIR_CHUNK;
                    for p in 0..P {
                        let group = &groups[p][next * bytes..][..bytes];
                        let weights = readers[p].decode_pairs_exact(s, group, next, &mut exceptions[p]);
                        for j in 0..PAIR_CHUNK {
                            fma_pair(s, &x, j, weights[j], &mut sums[p]);
                        }
                    }
                    bytes_left -= bytes;
                }
                at = next + 1;
            }
        }
        sums
    }
}

/// `sums` and the products of the groups `range`, which have no exceptions, with the next columns of `x`. Asks for groups that come later:
/// behind the `bytes_left` bytes of the panels from the next group on, `wrap_skip` bytes are left out.
#[inline(always)]
fn fma_groups<S: Simd, const T: usize, const P: usize>(
    s: S,
    readers: &[bf16_dict12::Reader<'_>; P],
    groups: &[&[u8]; P],
    range: Range<usize>,
    rows: &PairRows<'_, T>,
    k: &mut usize,
    bytes_left: &mut usize,
    wrap_skip: usize,
    mut sums: [[S::F; T]; P],
) -> [[S::F; T]; P] {
    let bytes = const { bf16_dict12::group_bytes(S::LANES) };
    for group in range {
        let prefetch = const { unpack::prefetch_distance::<S, P>() };
        let prefetch = if prefetch < *bytes_left { prefetch } else { prefetch + wrap_skip };
        *bytes_left -= bytes;
        let x = rows.chunk::<S>(*k);
        *k += PAIR_CHUNK;
        unrolled!(p < P, {
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

/// Panels whose pieces are near together. Two, because eight sums at a time leave a CPU that starts two products a cycle waiting for the one
/// before.
const NR_PANELS: usize = 2;

/// A piece of each of these panels as plain pairs, for the widest registers: their vectors of the same columns side by side.
#[repr(align(64))]
struct DecodedKBlock([u8; NR_PANELS * bf16_dict12::k_block_bytes(MAX_LANES)]);

/// Sums of a row of these panels.
type RowAccumulators = [f32; NR_PANELS * MAX_LANES];

/// Prefetch distance of the weights that are decoded, in groups of eight columns.
const PREFETCH_GROUPS: usize = 4;

/// The most rows that walk over a piece before the next one.
const SPILL_ROWS: usize = 256;

/// Sums of rows between one piece and the next.
#[repr(align(64))]
struct AccumulatorSpill([RowAccumulators; SPILL_ROWS]);

/// bfloat16 weights in twelve bits times many rows: rows walk over a piece of two panels that is near, and between their tiles, part by
/// part, the next piece is brought near, so that nothing waits for it. Sums wait for the next piece side by side, bit for bit; in the output
/// they would lie a row apart, and have left the caches by then.
pub(super) struct Dict12Blocked<'w, 'a> {
    pub(super) work: &'w mut Work<'a>,
    pub(super) x: Bf16Rows<'w>,
}

/// A piece of the panels from `panel` on, and the first of the rows that walk over it.
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
            let end = self.work.rows.min(step.row + SPILL_ROWS);
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

/// Brings groups of the panels near until `to` of them are.
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
    /// What comes after `step`.
    #[inline(always)]
    fn next_block(&self, step: KBlock) -> Option<KBlock> {
        let Work { cols, weights, rows, .. } = *self.work;
        if (step.k_block + 1) * bf16_dict12::K_BLOCK < cols {
            return Some(KBlock { k_block: step.k_block + 1, ..step });
        }
        if step.row + SPILL_ROWS < rows {
            return Some(KBlock { row: step.row + SPILL_ROWS, k_block: 0, ..step });
        }
        let panel = step.panel + NR_PANELS;
        (panel < weights.count).then_some(KBlock { panel, row: 0, k_block: 0 })
    }

    /// The weights of `step`, from their first on; a last panel without a neighbour is its own.
    #[inline(always)]
    fn decoders<S: Simd>(&self, step: KBlock) -> [bf16_dict12::PanelDecoder<'a>; NR_PANELS] {
        let Work { cols, weights, .. } = *self.work;
        let panel = |p: usize| weights.panel((step.panel + p).min(weights.count - 1));
        std::array::from_fn(|p| bf16_dict12::PanelDecoder::new(panel(p), S::LANES, cols, step.k_block))
    }

    /// Adds the products of `step`'s piece with rows `first` to `first + T - 1` to `spill`; those of the last piece go to the output.
    #[inline(always)]
    fn rows<S: Simd, const T: usize>(
        &mut self,
        s: S,
        now: &DecodedKBlock,
        step: KBlock,
        first: usize,
        spill: &mut [RowAccumulators],
    ) -> usize {
        const P: usize = NR_PANELS;
        let KBlock { panel, k_block, .. } = step;
        let cols = self.work.cols;
        let x = self.x.rows::<S, T>(cols, first);
        let spill = &mut spill[..T];
        let mut sums = [[s.splat(0.0); T]; P];
        if k_block > 0 {
            unrolled!(t < T, {
                unrolled!(p < P, {
                    sums[p][t] = s.load(&spill[t][p * S::LANES..]);
                });
            });
        }
        let k = k_block * bf16_dict12::K_BLOCK / 2;
        let count = (cols / 2 - k).min(bf16_dict12::K_BLOCK / 2);
        let last = k + count == cols / 2;
        let panels = P.min(self.work.weights.count - panel);
        if const { tune::<S>().prefetch.gemm } && last {
            self.work.prefetch_output(s, first..first + T, panel..panel + panels);
        }
        sums = fma_k_block(s, now, &x, k..k + count, sums);
        unrolled!(t < T, {
            unrolled!(p < P, {
                if !last {
                    s.store(sums[p][t], &mut spill[t][p * S::LANES..]);
                } else if p < panels {
                    self.work.store(s, first + t, (panel + p) * S::LANES, sums[p][t]);
                }
            });
        });
        T
    }
}

/// `sums` and the products of the pairs `pairs` of `x`, of whole chunks, with what is near. By value, so that sums stay in registers.
#[inline(always)]
fn fma_k_block<S: Simd, const T: usize>(
    s: S,
    now: &DecodedKBlock,
    x: &PairRows<'_, T>,
    pairs: Range<usize>,
    mut sums: [[S::F; T]; NR_PANELS],
) -> [[S::F; T]; NR_PANELS] {
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
