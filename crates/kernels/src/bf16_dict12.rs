//! Dictionary-compressed bf16 weights: 12 bits each, lossless.
//!
//! The upper byte of a bf16 is the sign and seven of eight exponent bits, and trained weights use few of its values:
//! sixteen cover all but some in ten thousand. A panel keeps the lower byte of each weight, a 4-bit index into its
//! dictionary of sixteen upper bytes, and a short list of exceptions, the weights with other upper bytes.
//!
//! ```text
//! panel      the dictionary: sixteen upper bytes
//!            for each K-block, how many exceptions precede it; and the number of all
//!            the exceptions, K-block by K-block: index in the K-block, and the weight
//!            zeros up to a multiple of 64 bytes
//!            for each eight columns: two vectors of lower bytes, a vector of indices
//! ```
//!
//! A product decodes them into bf16 pairs, in registers or a K-block at a time into L1, and goes on as with plain
//! weights: the result is the same, bit for bit, for three quarters of the bytes read
//! (docs/lab/bf16-dictionary.md).

use cpu::simd::Simd;

/// Columns of a K-block: what is decoded at a time, and has a list of exceptions. Part of the packed layout, so a number of
/// its own; where it is decoded a K-block at a time it must equal `tune::KC`, which `amx/bf16_dict12.rs` asserts.
pub(crate) const K_BLOCK: usize = 256;

/// The number of columns must be a multiple of this.
pub(crate) const K_MULTIPLE: usize = 32;

/// The least lanes of a register for which decoding is no slower than reading plain weights: on AVX2 one row takes
/// twice as long.
pub(crate) const MIN_LANES: usize = 16;

/// Columns of a group of vectors, which decodes into [`GROUP_PAIRS`] vectors of pairs.
const GROUP: usize = 8;

/// The most groups of a K-block.
pub(crate) const K_BLOCK_GROUPS: usize = K_BLOCK / GROUP;

/// Vectors of pairs in a group.
pub(crate) const GROUP_PAIRS: usize = GROUP / 2;

/// Weights for each exception that a panel has room for: four times as many exceptions as were seen in trained weights.
const WEIGHTS_PER_EXCEPTION: usize = 256;

/// Bytes of the dictionary.
const DICT_LEN: usize = 16;

/// Bytes of an exception: its index among the pairs of the K-block, in units of two bytes, and the weight.
const EXCEPTION_BYTES: usize = 4;

fn k_blocks(cols: usize) -> usize {
    cols.div_ceil(K_BLOCK)
}

fn max_exceptions(lanes: usize, cols: usize) -> usize {
    (lanes * cols / WEIGHTS_PER_EXCEPTION).clamp(4, usize::from(u16::MAX))
}

/// Bytes before the vectors.
fn head_bytes(lanes: usize, cols: usize) -> usize {
    (DICT_LEN + 2 * (k_blocks(cols) + 1) + EXCEPTION_BYTES * max_exceptions(lanes, cols)).next_multiple_of(64)
}

/// Bytes of a panel of `lanes` rows.
pub(crate) fn panel_bytes(lanes: usize, cols: usize) -> usize {
    head_bytes(lanes, cols) + lanes * cols / 2 * 3
}

/// Bytes of a decoded K-block of one panel.
pub(crate) const fn k_block_bytes(lanes: usize) -> usize {
    2 * K_BLOCK * lanes
}

/// The exceptions of K-block `k_block`.
#[inline(always)]
fn exceptions(head: &[u8], cols: usize, k_block: usize) -> &[[u8; EXCEPTION_BYTES]] {
    let index = |i: usize| {
        let at = DICT_LEN + 2 * i;
        usize::from(u16::from_le_bytes([head[at], head[at + 1]]))
    };
    let list = &head[DICT_LEN + 2 * (k_blocks(cols) + 1)..];
    list.as_chunks().0.get(index(k_block)..index(k_block + 1)).unwrap_or_default()
}

/// A panel, parsed.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    dict: [u8; DICT_LEN],
    head: &'a [u8],
    vectors: &'a [u8],
    cols: usize,
}

/// The exceptions of a K-block that are still to come.
#[derive(Clone, Copy)]
pub(crate) struct Exceptions<'a> {
    list: &'a [[u8; EXCEPTION_BYTES]],
    /// The group of the first of them; `usize::MAX` if there is none.
    pub(crate) group: usize,
}

impl<'a> Exceptions<'a> {
    pub(crate) const NONE: Exceptions<'static> = Exceptions { list: &[], group: usize::MAX };

    /// The index of the first one among the pairs of the K-block, in units of two bytes.
    #[inline(always)]
    fn at(list: &[[u8; EXCEPTION_BYTES]]) -> Option<usize> {
        list.first().map(|e| usize::from(u16::from_le_bytes([e[0], e[1]])))
    }

    #[inline(always)]
    fn new(list: &'a [[u8; EXCEPTION_BYTES]], lanes: usize) -> Exceptions<'a> {
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
        let mut dict = [0; DICT_LEN];
        dict.copy_from_slice(&head[..DICT_LEN]);
        Reader { dict, head, vectors, cols }
    }

    /// The exceptions of K-block `k_block`.
    #[inline(always)]
    pub(crate) fn exceptions(&self, k_block: usize, lanes: usize) -> Exceptions<'a> {
        Exceptions::new(exceptions(self.head, self.cols, k_block), lanes)
    }

    /// The groups of K-block `k_block`, of [`group_bytes`] each.
    #[inline(always)]
    pub(crate) fn groups(&self, k_block: usize, lanes: usize) -> &'a [u8] {
        let group = group_bytes(lanes);
        let count = K_BLOCK.min(self.cols - k_block * K_BLOCK) / GROUP;
        &self.vectors[k_block * K_BLOCK_GROUPS * group..][..count * group]
    }

    /// Decodes a group into vectors of pairs, exceptions left out.
    #[inline(always)]
    pub(crate) fn decode_pairs<S: Simd>(&self, s: S, group: &[u8]) -> [S::I; GROUP_PAIRS] {
        let vector = 4 * S::LANES;
        let (nibble, low) = (s.splat_b(0x0f), s.splat_i(0x00ff_00ff));
        let high = s.splat_i(0xff00_ff00_u32.cast_signed());
        let indices = s.load_bytes(&group[2 * vector..]);
        let upper = [s.and(indices, nibble), s.and(s.shr::<4>(indices), nibble)];
        let mut pairs = [indices; GROUP_PAIRS];
        for half in 0..2 {
            let lower = s.load_bytes(&group[half * vector..]);
            let upper = s.lookup(&self.dict, upper[half]);
            pairs[2 * half] = s.or(s.and(lower, low), s.shl::<8>(s.and(upper, low)));
            pairs[2 * half + 1] = s.or(s.and(s.shr::<8>(lower), low), s.and(upper, high));
        }
        pairs
    }

    /// Decodes group number `i` of a K-block into vectors of pairs, exceptions included.
    #[inline(always)]
    pub(crate) fn decode_pairs_exact<S: Simd>(
        &self,
        s: S,
        group: &[u8],
        i: usize,
        exceptions: &mut Exceptions<'_>,
    ) -> [S::I; GROUP_PAIRS] {
        let pairs = self.decode_pairs(s, group);
        if i == exceptions.group { apply_exceptions(s, pairs, i, exceptions) } else { pairs }
    }
}

/// Returns `pairs` of group `i` with its exceptions.
#[cold]
#[inline(always)]
fn apply_exceptions<S: Simd>(
    s: S,
    pairs: [S::I; GROUP_PAIRS],
    i: usize,
    exceptions: &mut Exceptions<'_>,
) -> [S::I; GROUP_PAIRS] {
    let vector = 4 * S::LANES;
    let mut bytes = [0; GROUP_PAIRS * 64];
    for j in 0..GROUP_PAIRS {
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
    for j in 0..GROUP_PAIRS {
        all[j] = s.load_bytes(&bytes[j * vector..]);
    }
    all
}

/// A decoder of one K-block of a panel, part by part.
pub(crate) struct PanelDecoder<'a> {
    reader: Reader<'a>,
    exceptions: Exceptions<'a>,
    groups: &'a [u8],
    /// Groups that are decoded.
    decoded: usize,
}

impl<'a> PanelDecoder<'a> {
    /// A decoder of K-block `k_block` of `panel`.
    #[inline(always)]
    pub(crate) fn new(panel: &'a [u8], lanes: usize, cols: usize, k_block: usize) -> PanelDecoder<'a> {
        let reader = Reader::new(panel, lanes, cols);
        PanelDecoder {
            reader,
            exceptions: reader.exceptions(k_block, lanes),
            groups: reader.groups(k_block, lanes),
            decoded: 0,
        }
    }

    /// The groups that [`PanelDecoder::decode_into`] would decode next until `to` of them are: their first byte, and how many.
    #[inline(always)]
    pub(crate) fn upcoming(&self, lanes: usize, to: usize) -> (&'a [u8], usize) {
        let bytes = group_bytes(lanes);
        let end = to.min(self.groups.len() / bytes);
        (&self.groups[(self.decoded * bytes).min(self.groups.len())..], end.saturating_sub(self.decoded))
    }

    /// Decodes groups into `out` until `to` of them are there, or all: a vector of bf16 pairs for each two columns, `stride` vectors apart.
    #[inline(always)]
    pub(crate) fn decode_into<S: Simd>(&mut self, s: S, to: usize, stride: usize, out: &mut [u8]) {
        let stride = 4 * S::LANES * stride;
        let bytes = const { group_bytes(S::LANES) };
        for i in self.decoded..to.min(self.groups.len() / bytes) {
            let (from, to) = (&self.groups[i * bytes..][..bytes], &mut out[i * GROUP_PAIRS * stride..]);
            let pairs = self.reader.decode_pairs_exact(s, from, i, &mut self.exceptions);
            for j in 0..GROUP_PAIRS {
                s.store_bytes(pairs[j], &mut to[j * stride..]);
            }
            self.decoded = i + 1;
        }
    }
}

/// The bytes of the vectors of K-block `k_block` in a panel.
#[cfg(target_arch = "x86_64")]
pub(crate) fn byte_range(lanes: usize, cols: usize, k_block: usize) -> std::ops::Range<usize> {
    let first = head_bytes(lanes, cols) + k_block * K_BLOCK_GROUPS * group_bytes(lanes);
    first..first + K_BLOCK.min(cols - k_block * K_BLOCK) / GROUP * group_bytes(lanes)
}

/// The columns of the four bytes of a lane: two pairs of columns share a vector, the first pair in the even bytes, the
/// second in the odd ones.
const ORDER: [usize; 4] = [0, 2, 1, 3];

/// The code of an upper byte that is not in the dictionary.
const ESCAPE: u8 = 0x80;

/// The index of a weight among the pairs of its K-block, in units of two bytes.
fn pair_index(lanes: usize, lane: usize, column: usize) -> u16 {
    ((column / 2 * lanes + lane) * 2 + column % 2) as u16
}

/// The most frequent upper bytes of `weights`, and the code of each upper byte; none if more than `max_exceptions`
/// weights have others.
fn codes(weights: &[[u8; 2]], max_exceptions: usize) -> Option<([u8; DICT_LEN], [u8; 256])> {
    let mut counts = [0u32; 256];
    for [_, upper] in weights {
        counts[usize::from(*upper)] += 1;
    }
    let mut common: [u8; 256] = std::array::from_fn(|upper| upper as u8);
    common.sort_by_key(|upper| std::cmp::Reverse(counts[usize::from(*upper)]));
    let (dict, rare) = common.split_first_chunk()?;
    let exceptions: u32 = rare.iter().map(|upper| counts[usize::from(*upper)]).sum();
    let mut codes = [ESCAPE; 256];
    for (code, upper) in (0..).zip(dict) {
        codes[usize::from(*upper)] = code;
    }
    (exceptions as usize <= max_exceptions).then_some((*dict, codes))
}

/// Packs `rows`, of `2 * cols` bytes each, into a panel of `lanes` rows that is zeros. Returns whether they fit; with
/// too many exceptions the panel is left unfinished. A missing row becomes some finite weights, whose results are
/// dropped.
pub(crate) fn pack(lanes: usize, cols: usize, rows: &[u8], panel: &mut [u8]) -> bool {
    let Some((dict, codes)) = codes(rows.as_chunks().0, max_exceptions(lanes, cols)) else { return false };
    let (head, vectors) = panel.split_at_mut(head_bytes(lanes, cols));
    head[..DICT_LEN].copy_from_slice(&dict);
    let (starts, list) = head[DICT_LEN..].split_at_mut(2 * (k_blocks(cols) + 1));
    let (starts, list) = (starts.as_chunks_mut::<2>().0, list.as_chunks_mut::<EXCEPTION_BYTES>().0);
    let mut count = 0;
    for (k_block, vectors) in vectors.chunks_mut(K_BLOCK / GROUP * group_bytes(lanes)).enumerate() {
        for (lane, row) in rows.chunks_exact(2 * cols).enumerate() {
            let row = row[2 * K_BLOCK * k_block..].as_chunks::<{ 2 * GROUP }>().0;
            for (group, (weights, to)) in
                row.iter().zip(vectors.chunks_exact_mut(group_bytes(lanes))).enumerate()
            {
                if pack_group(&codes, weights, &mut to[4 * lane..], lanes) {
                    continue;
                }
                for (column, &[lower, upper]) in weights.as_chunks::<2>().0.iter().enumerate() {
                    if codes[usize::from(upper)] == ESCAPE {
                        let [at, above] = pair_index(lanes, lane, group * GROUP + column).to_le_bytes();
                        list[count] = [at, above, lower, upper];
                        count += 1;
                    }
                }
            }
        }
        let first = usize::from(u16::from_le_bytes(starts[k_block]));
        list[first..count].sort_unstable_by_key(|e| u16::from_le_bytes([e[0], e[1]]));
        starts[k_block + 1] = (count as u16).to_le_bytes();
    }
    true
}

/// Writes eight weights to a lane of the three vectors of a group; returns whether all are in the dictionary.
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
    seen < ESCAPE
}

/// Decodes row `lane` of `panel`.
pub(crate) fn row(lanes: usize, cols: usize, lane: usize, panel: &[u8], out: &mut [f32]) {
    let (head, vectors) = panel.split_at(head_bytes(lanes, cols));
    for (k_block, out) in out.chunks_mut(K_BLOCK).enumerate() {
        let vectors =
            vectors[k_block * K_BLOCK_GROUPS * group_bytes(lanes)..].chunks_exact(group_bytes(lanes));
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
        for &[at, above, weight @ ..] in exceptions(head, cols, k_block) {
            let at = usize::from(u16::from_le_bytes([at, above]));
            // A damaged file may name positions that are not there.
            if at / 2 % lanes == lane
                && let Some(out) = out.get_mut(at / 2 / lanes * 2 + at % 2)
            {
                *out = half::bf16::from_le_bytes(weight).to_f32();
            }
        }
    }
}
