//! bfloat16 weights in twelve bits each, not one bit of them lost.
//!
//! The upper byte of a bfloat16 is the sign and seven of eight exponent bits, and trained weights use few of its values: sixteen of them,
//! a sign and eight pairs of magnitudes, cover all but some in ten thousand. A panel keeps the lower byte of each weight as it is, four
//! bits that say which of the panel's sixteen upper bytes goes with it, and a short list of the weights that have another one.
//!
//! ```text
//! panel      sixteen upper bytes
//!            for each piece of the columns, how many exceptions precede it; and the number of all
//!            the exceptions, piece by piece: where in the piece, and the weight
//!            zeros up to a multiple of 64 bytes
//!            for each eight columns: two vectors of lower bytes, a vector of indices
//! ```
//!
//! A product makes plain bfloat16 pairs of them, in registers or a piece at a time in the first-level cache, and goes on as with plain
//! weights: the result is the same, bit for bit, for three quarters of the bytes read. Measured: docs/decisions/0025-bfloat16-in-twelve-bits.md.

use cpu::lanes::Simd;

/// Columns that are brought near at a time.
pub(crate) const PIECE: usize = 256;

/// The number of columns must be a multiple of this.
pub(crate) const STEP: usize = 32;

/// Registers with fewer lanes take longer to make weights of it than to read plain ones: one row on AVX2 multiplies at half the speed.
pub(crate) const LANES: usize = 16;

/// Columns of a group of vectors, which is read as [`PAIRS`] vectors of pairs.
const GROUP: usize = 8;

/// The most groups of a piece.
pub(crate) const PIECE_GROUPS: usize = PIECE / GROUP;

/// Vectors of pairs in a group.
pub(crate) const PAIRS: usize = GROUP / 2;

/// Weights for which a panel has room for one exception: four times as many as were seen in a panel of trained weights.
const WEIGHTS_AN_EXCEPTION: usize = 256;

/// Bytes of the table of upper bytes.
const TABLE: usize = 16;

/// Bytes of an exception: its place among the pairs of the piece, in units of two bytes, and the weight.
const EXCEPTION: usize = 4;

fn pieces(cols: usize) -> usize {
    cols.div_ceil(PIECE)
}

fn most_exceptions(lanes: usize, cols: usize) -> usize {
    (lanes * cols / WEIGHTS_AN_EXCEPTION).clamp(4, usize::from(u16::MAX))
}

/// Bytes before the vectors.
fn head_bytes(lanes: usize, cols: usize) -> usize {
    (TABLE + 2 * (pieces(cols) + 1) + EXCEPTION * most_exceptions(lanes, cols)).next_multiple_of(64)
}

/// Bytes of a panel of `lanes` rows.
pub(crate) fn panel_bytes(lanes: usize, cols: usize) -> usize {
    head_bytes(lanes, cols) + lanes * cols / 2 * 3
}

/// Bytes of a piece once it is near.
pub(crate) const fn near_bytes(lanes: usize) -> usize {
    2 * PIECE * lanes
}

/// The bytes of exceptions of piece `piece`, and the table.
#[inline(always)]
fn exceptions(head: &[u8], cols: usize, piece: usize) -> &[[u8; EXCEPTION]] {
    let index = |i: usize| {
        let at = TABLE + 2 * i;
        usize::from(u16::from_le_bytes([head[at], head[at + 1]]))
    };
    let list = &head[TABLE + 2 * (pieces(cols) + 1)..];
    list.as_chunks().0.get(index(piece)..index(piece + 1)).unwrap_or_default()
}

/// The vectors of a panel and what is needed to read them.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    table: [u8; TABLE],
    head: &'a [u8],
    vectors: &'a [u8],
    cols: usize,
}

/// The exceptions of a piece that are still to come.
#[derive(Clone, Copy)]
pub(crate) struct Exceptions<'a> {
    list: &'a [[u8; EXCEPTION]],
    /// The group of the first of them; one that is not there if there are none.
    pub(crate) group: usize,
}

impl<'a> Exceptions<'a> {
    pub(crate) const NONE: Exceptions<'static> = Exceptions { list: &[], group: usize::MAX };

    /// The first one's place in units of two bytes, among pairs of the whole piece.
    #[inline(always)]
    fn at(list: &[[u8; EXCEPTION]]) -> Option<usize> {
        list.first().map(|e| usize::from(u16::from_le_bytes([e[0], e[1]])))
    }

    #[inline(always)]
    fn new(list: &'a [[u8; EXCEPTION]], lanes: usize) -> Exceptions<'a> {
        let group = Self::at(list).map_or(usize::MAX, |at| at / (GROUP * lanes));
        Exceptions { list, group }
    }
}

/// Bytes of a group: three vectors.
pub(crate) const fn group_bytes(lanes: usize) -> usize {
    12 * lanes
}

impl<'a> Reader<'a> {
    #[inline(always)]
    pub(crate) fn new(panel: &'a [u8], lanes: usize, cols: usize) -> Reader<'a> {
        let (head, vectors) = panel.split_at(head_bytes(lanes, cols));
        let mut table = [0; TABLE];
        table.copy_from_slice(&head[..TABLE]);
        Reader { table, head, vectors, cols }
    }

    /// The exceptions of piece `piece`.
    #[inline(always)]
    pub(crate) fn exceptions(&self, piece: usize, lanes: usize) -> Exceptions<'a> {
        Exceptions::new(exceptions(self.head, self.cols, piece), lanes)
    }

    /// The groups of piece `piece`, of [`group_bytes`] each.
    #[inline(always)]
    pub(crate) fn groups(&self, piece: usize, lanes: usize) -> &'a [u8] {
        let group = group_bytes(lanes);
        let count = PIECE.min(self.cols - piece * PIECE) / GROUP;
        &self.vectors[piece * PIECE_GROUPS * group..][..count * group]
    }

    /// A group as vectors of pairs, as if it had no exceptions.
    #[inline(always)]
    pub(crate) fn plain_pairs<S: Simd>(&self, s: S, group: &[u8]) -> [S::I; PAIRS] {
        let vector = 4 * S::LANES;
        let (nibble, low) = (s.splat_b(0x0f), s.splat_i(0x00ff_00ff));
        let high = s.splat_i(0xff00_ff00_u32.cast_signed());
        let indices = s.load_bytes(&group[2 * vector..]);
        let upper = [s.and(indices, nibble), s.and(s.shr::<4>(indices), nibble)];
        let mut pairs = [indices; PAIRS];
        for half in 0..2 {
            let lower = s.load_bytes(&group[half * vector..]);
            let upper = s.lookup(&self.table, upper[half]);
            pairs[2 * half] = s.or(s.and(lower, low), s.shl::<8>(s.and(upper, low)));
            pairs[2 * half + 1] = s.or(s.and(s.shr::<8>(lower), low), s.and(upper, high));
        }
        pairs
    }

    /// Group number `i` of a piece as vectors of pairs.
    #[inline(always)]
    pub(crate) fn pairs<S: Simd>(
        &self,
        s: S,
        group: &[u8],
        i: usize,
        exceptions: &mut Exceptions<'_>,
    ) -> [S::I; PAIRS] {
        let pairs = self.plain_pairs(s, group);
        if i == exceptions.group { patched(s, pairs, i, exceptions) } else { pairs }
    }
}

/// `pairs` of group `i` with its exceptions put in.
#[cold]
#[inline(always)]
fn patched<S: Simd>(s: S, pairs: [S::I; PAIRS], i: usize, exceptions: &mut Exceptions<'_>) -> [S::I; PAIRS] {
    let vector = 4 * S::LANES;
    let mut bytes = [0; PAIRS * 64];
    for j in 0..PAIRS {
        s.store_bytes(pairs[j], &mut bytes[j * vector..]);
    }
    while i == exceptions.group
        && let Some((&[at, above, weight @ ..], rest)) = exceptions.list.split_first()
    {
        let at = 2 * (usize::from(u16::from_le_bytes([at, above])) - i * GROUP * S::LANES);
        bytes[at..at + 2].copy_from_slice(&weight);
        *exceptions = Exceptions::new(rest, S::LANES);
    }
    let mut all = pairs;
    for j in 0..PAIRS {
        all[j] = s.load_bytes(&bytes[j * vector..]);
    }
    all
}

/// A piece of a panel that is to be brought near, part by part.
pub(crate) struct Coming<'a> {
    reader: Reader<'a>,
    exceptions: Exceptions<'a>,
    groups: &'a [u8],
    /// Groups that are near.
    done: usize,
}

/// How many groups ahead those to come are asked for.
const ASKED: usize = 4;

impl<'a> Coming<'a> {
    /// Piece `piece` of `panel`, of which nothing is near.
    #[inline(always)]
    pub(crate) fn new(panel: &'a [u8], lanes: usize, cols: usize, piece: usize) -> Coming<'a> {
        let reader = Reader::new(panel, lanes, cols);
        Coming {
            reader,
            exceptions: reader.exceptions(piece, lanes),
            groups: reader.groups(piece, lanes),
            done: 0,
        }
    }

    /// Asks for what comes [`ASKED`] groups after each of those that [`Coming::bring`] would write next.
    #[inline(always)]
    pub(crate) fn ask<S: Simd>(&self, s: S, to: usize) {
        let bytes = const { group_bytes(S::LANES) };
        for i in self.done..to.min(self.groups.len() / bytes) {
            for line in 0..bytes.div_ceil(64) {
                s.prefetch(&self.groups[i * bytes..], ASKED * bytes + 64 * line);
            }
        }
    }

    /// Writes groups to `near` as pairs of bfloat16 until `to` of them are there, or all: a vector for each two columns, from one to the
    /// next `apart` vectors.
    #[inline(always)]
    pub(crate) fn bring<S: Simd>(&mut self, s: S, to: usize, apart: usize, near: &mut [u8]) {
        let apart = 4 * S::LANES * apart;
        let bytes = const { group_bytes(S::LANES) };
        for i in self.done..to.min(self.groups.len() / bytes) {
            let (from, to) = (&self.groups[i * bytes..][..bytes], &mut near[i * PAIRS * apart..]);
            let pairs = self.reader.pairs(s, from, i, &mut self.exceptions);
            for j in 0..PAIRS {
                s.store_bytes(pairs[j], &mut to[j * apart..]);
            }
            self.done = i + 1;
        }
    }
}

/// Where the vectors of piece `piece` lie in a panel.
#[cfg(target_arch = "x86_64")]
pub(crate) fn lies(lanes: usize, cols: usize, piece: usize) -> std::ops::Range<usize> {
    let first = head_bytes(lanes, cols) + piece * PIECE_GROUPS * group_bytes(lanes);
    first..first + PIECE.min(cols - piece * PIECE) / GROUP * group_bytes(lanes)
}

/// The columns of the four bytes of a lane: two pairs of columns share a vector, the first pair in the even bytes, the second in the odd
/// ones.
const ORDER: [usize; 4] = [0, 2, 1, 3];

/// The code of an upper byte that is not in the table.
const EXCEPT: u8 = 0x80;

/// Where a weight of a piece lies among its pairs, in units of two bytes.
fn place_near(lanes: usize, lane: usize, column: usize) -> u16 {
    ((column / 2 * lanes + lane) * 2 + column % 2) as u16
}

/// The upper bytes that `weights` have most often, and the code of each upper byte; none if more weights than `most_exceptions` have others.
fn codes(weights: &[[u8; 2]], most_exceptions: usize) -> Option<([u8; TABLE], [u8; 256])> {
    let mut counts = [0u32; 256];
    for [_, upper] in weights {
        counts[usize::from(*upper)] += 1;
    }
    let mut common: [u8; 256] = std::array::from_fn(|upper| upper as u8);
    common.sort_by_key(|upper| std::cmp::Reverse(counts[usize::from(*upper)]));
    let (table, rare) = common.split_first_chunk()?;
    let exceptions: u32 = rare.iter().map(|upper| counts[usize::from(*upper)]).sum();
    let mut codes = [EXCEPT; 256];
    for (code, upper) in (0..).zip(table) {
        codes[usize::from(*upper)] = code;
    }
    (exceptions as usize <= most_exceptions).then_some((*table, codes))
}

/// Writes the rows `rows`, of `2 * cols` bytes each, into a panel of `lanes` rows that is zeros. Whether they fit: with too many exceptions
/// the panel is left as it is. A row that is missing becomes some finite weights, whose sums nobody reads.
pub(crate) fn pack(lanes: usize, cols: usize, rows: &[u8], panel: &mut [u8]) -> bool {
    let Some((table, codes)) = codes(rows.as_chunks().0, most_exceptions(lanes, cols)) else { return false };
    let (head, vectors) = panel.split_at_mut(head_bytes(lanes, cols));
    head[..TABLE].copy_from_slice(&table);
    let (starts, list) = head[TABLE..].split_at_mut(2 * (pieces(cols) + 1));
    let (starts, list) = (starts.as_chunks_mut::<2>().0, list.as_chunks_mut::<EXCEPTION>().0);
    let mut count = 0;
    for (piece, vectors) in vectors.chunks_mut(PIECE / GROUP * group_bytes(lanes)).enumerate() {
        for (lane, row) in rows.chunks_exact(2 * cols).enumerate() {
            let row = row[2 * PIECE * piece..].as_chunks::<{ 2 * GROUP }>().0;
            for (group, (weights, to)) in
                row.iter().zip(vectors.chunks_exact_mut(group_bytes(lanes))).enumerate()
            {
                if pack_group(&codes, weights, &mut to[4 * lane..], lanes) {
                    continue;
                }
                for (column, &[lower, upper]) in weights.as_chunks::<2>().0.iter().enumerate() {
                    if codes[usize::from(upper)] == EXCEPT {
                        let [at, above] = place_near(lanes, lane, group * GROUP + column).to_le_bytes();
                        list[count] = [at, above, lower, upper];
                        count += 1;
                    }
                }
            }
        }
        let first = usize::from(u16::from_le_bytes(starts[piece]));
        list[first..count].sort_unstable_by_key(|e| u16::from_le_bytes([e[0], e[1]]));
        starts[piece + 1] = (count as u16).to_le_bytes();
    }
    true
}

/// Writes eight weights to a lane of the three vectors of a group. Whether all have a code.
#[inline]
fn pack_group(codes: &[u8; 256], weights: &[u8; 2 * GROUP], to: &mut [u8], lanes: usize) -> bool {
    let mut seen = 0;
    for (byte, column) in ORDER.into_iter().enumerate() {
        let [lower, upper] = [weights[2 * column], weights[2 * column + 1]];
        let [later_lower, later_upper] = [weights[2 * column + 8], weights[2 * column + 9]];
        let (code, later) = (codes[usize::from(upper)], codes[usize::from(later_upper)]);
        seen |= code | later;
        to[byte] = lower;
        to[4 * lanes + byte] = later_lower;
        to[8 * lanes + byte] = code & 15 | later << 4;
    }
    seen < EXCEPT
}

/// Row `lane` of `panel`.
pub(crate) fn row(lanes: usize, cols: usize, lane: usize, panel: &[u8], out: &mut [f32]) {
    let (head, vectors) = panel.split_at(head_bytes(lanes, cols));
    for (piece, out) in out.chunks_mut(PIECE).enumerate() {
        let vectors = vectors[piece * PIECE_GROUPS * group_bytes(lanes)..].chunks_exact(group_bytes(lanes));
        for (vectors, out) in vectors.zip(out.chunks_exact_mut(GROUP)) {
            let lane = &vectors[4 * lane..];
            for (byte, column) in ORDER.into_iter().enumerate() {
                let codes = lane[8 * lanes + byte];
                for (half, code) in [codes & 15, codes >> 4].into_iter().enumerate() {
                    let weight = [lane[4 * lanes * half + byte], head[usize::from(code)]];
                    out[4 * half + column] = half::bf16::from_le_bytes(weight).to_f32();
                }
            }
        }
        for &[at, above, weight @ ..] in exceptions(head, cols, piece) {
            let at = usize::from(u16::from_le_bytes([at, above]));
            // Panels may come from a damaged file, and then tell of places that are not there.
            if at / 2 % lanes == lane
                && let Some(out) = out.get_mut(at / 2 / lanes * 2 + at % 2)
            {
                *out = half::bf16::from_le_bytes(weight).to_f32();
            }
        }
    }
}
