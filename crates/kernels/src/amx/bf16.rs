//! GEMM of bf16 weights on AMX. Weights are AMX tiles as packed; for few rows, accumulators stay in tile registers over
//! all of K.

use cpu::simd::amx::{Amx, ROWS, Tiles};
use cpu::simd::{Job, Simd};

use super::blocked::blocked;
use super::tile::{Accumulators, BLOCKED_MIN_M, DecodedKBlock, TILE_BYTES, Weights, multiply};
use crate::activations::AMX_TILE_PAIRS as PAIRS;
use crate::gemm::work::Work;
use crate::tune::amx::GEMV_PANELS;
use crate::tune::tune;

/// Computes `work`: bf16 weights × rows in AMX tile order.
pub(crate) fn gemm(amx: Amx, work: &mut Work<'_>, pairs: &[[i8; 4]]) {
    if work.out.rows() >= BLOCKED_MIN_M {
        return blocked::<PrepackedTiles, _>(amx, PrepackedTiles, work, pairs, 0);
    }
    amx.avx512().call(Bf16Gemm { amx, work, pairs });
}

struct Bf16Gemm<'w, 'a> {
    amx: Amx,
    work: &'w mut Work<'a>,
    pairs: &'w [[i8; 4]],
}

/// Packed bf16 weights: prepacked AMX tiles.
struct PrepackedTiles;

impl Weights for PrepackedTiles {
    #[inline(always)]
    fn decode_into<S: Simd>(
        &self,
        s: S,
        panel: &[u8],
        _: usize,
        from: usize,
        tile: usize,
        decoded: &mut DecodedKBlock,
    ) {
        let Some(panel) = panel.get(2 * S::LANES * from + tile * TILE_BYTES..) else { return };
        let rows = panel.chunks_exact(4 * S::LANES);
        let mut to = decoded.0[tile].chunks_exact_mut(4 * S::LANES);
        for (row, to) in rows.zip(&mut to) {
            s.store_bytes(s.load_bytes(row), to);
        }
        // The last tile, which the panel fills only in part.
        to.for_each(|rest| rest.fill(0));
    }
}

impl Job for Bf16Gemm<'_, '_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let rows = self.work.out.rows();
        let whole = rows - rows % ROWS;
        if whole > 0 {
            self.rows(s, &Tiles::new(self.amx, ROWS, 4 * PAIRS), 0, whole);
        }
        if rows > whole {
            self.rows(s, &Tiles::new(self.amx, rows - whole, 4 * PAIRS), whole, rows);
        }
    }
}

impl Bf16Gemm<'_, '_> {
    /// Rows `first..end`, a multiple of the tile's rows.
    #[inline(always)]
    fn rows<S: Simd>(&mut self, s: S, tiles: &Tiles, first: usize, end: usize) {
        let panels = self.work.out.cols().div_ceil(S::LANES);
        // MC: as many as stay in L2, in pairs of tiles.
        let chunk =
            (const { tune::<S>().mc_bytes } / (2 * self.work.cols)).max(2 * ROWS) / (2 * ROWS) * 2 * ROWS;
        for first in (first..end).step_by(chunk) {
            let end = end.min(first + chunk);
            let mut p = 0;
            while p < panels {
                p += match (end - first > ROWS, panels - p) {
                    (true, 2..) => self.loop_m::<S, 2, 2>(s, tiles, first, end, p),
                    (true, _) => self.loop_m::<S, 2, 1>(s, tiles, first, end, p),
                    (false, GEMV_PANELS..) => self.loop_m::<S, 1, GEMV_PANELS>(s, tiles, first, end, p),
                    (false, _) => self.loop_m::<S, 1, 1>(s, tiles, first, end, p),
                };
            }
        }
    }

    /// The rows, up to `G` tiles at a time, × `P` panels from `p` on; returns `P`.
    #[inline(always)]
    fn loop_m<S: Simd, const G: usize, const P: usize>(
        &mut self,
        s: S,
        tiles: &Tiles,
        first: usize,
        end: usize,
        p: usize,
    ) -> usize {
        for row in (first..end).step_by(G * ROWS) {
            if row + G * ROWS <= end {
                self.block::<S, G, P>(s, tiles, row, p);
            } else {
                self.block::<S, 1, P>(s, tiles, row, p);
            }
        }
        P
    }

    /// `G` tiles of rows × `P` panels over all of K, at most four accumulators.
    #[inline(always)]
    fn block<S: Simd, const G: usize, const P: usize>(&mut self, s: S, tiles: &Tiles, row: usize, p: usize) {
        let Work { weights, cols, .. } = *self.work;
        let tiles_a_row = cols.div_ceil(2 * PAIRS);
        let panels: [&[u8]; P] = std::array::from_fn(|i| weights.panel(p + i));
        let rows = tiles.rows() * PAIRS;
        let x: [&[[i8; 4]]; G] = std::array::from_fn(|g| {
            &self.pairs[(row + g * ROWS) * tiles_a_row * PAIRS..][..tiles_a_row * rows]
        });
        tiles.zero::<0>();
        tiles.zero::<1>();
        tiles.zero::<2>();
        tiles.zero::<3>();
        let whole = weights.panel_bytes / TILE_BYTES;
        for at in 0..whole {
            let x: [&[[i8; 4]]; G] = std::array::from_fn(|g| &x[g][at * rows..]);
            let w: [&[u8]; P] = std::array::from_fn(|i| &panels[i][at * TILE_BYTES..]);
            multiply(tiles, &PrepackedTiles, x, w);
        }
        if whole < tiles_a_row {
            // The last columns, zero-padded.
            let x: [&[[i8; 4]]; G] = std::array::from_fn(|g| &x[g][whole * rows..]);
            let mut last = [[0; TILE_BYTES]; P];
            for (panel, last) in panels.iter().zip(&mut last) {
                let tail = &panel[whole * TILE_BYTES..];
                last[..tail.len()].copy_from_slice(tail);
            }
            multiply(tiles, &PrepackedTiles, x, last.each_ref().map(|w| w.as_slice()));
        }
        let mut sums = [Accumulators::ZERO; 4];
        tiles.store_c::<0>(sums[0].0.as_flattened_mut(), 16);
        tiles.store_c::<1>(sums[1].0.as_flattened_mut(), 16);
        tiles.store_c::<2>(sums[2].0.as_flattened_mut(), 16);
        tiles.store_c::<3>(sums[3].0.as_flattened_mut(), 16);
        for (of, sums) in sums[..G * P].iter().enumerate() {
            for t in 0..tiles.rows() {
                let sum = s.load(&sums.0[t]);
                self.work.store(s, row + of / P * ROWS + t, (p + of % P) * S::LANES, sum);
            }
        }
    }
}
