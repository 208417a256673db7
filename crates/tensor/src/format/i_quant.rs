//! What the i-quants share. Their weights come in points of eight or four, which a grid allows ([`super::grids`]); signs
//! and scales are stored apart. With its sign, a coordinate is one of at most sixteen values: the table of the format,
//! and the index into it that [`super::indices`] gives. Sub-scales are odd numbers.

use super::encode::inverse;
use super::shape::{BlockShape, SuperScales};

/// The signed magnitudes of the IQ2 formats.
pub(super) const TABLE_2: [i8; 16] = [-43, -25, -8, 8, 25, 43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// The values of the IQ1 formats in eighths: -1, 0 and 1, moved down or up by one eighth.
pub(super) const TABLE_1: [i8; 16] = [-9, -7, -1, 1, 7, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// How a format is read.
pub(super) struct IQuant {
    pub(super) shape: BlockShape,
    pub(super) table: &'static [i8; 16],
    /// Reads the index of each weight.
    pub(super) indices: fn(block: &[u8], q: &mut [u8]),
    /// Reads the sub-scales; returns the bits of the f16 that multiplies them.
    pub(super) scales: fn(block: &[u8], sub_scales: &mut [i8]) -> u16,
}

/// The most sub-scales of a block: one for each 16 of 256 weights.
const MAX_SUB_SCALES: usize = 16;

impl IQuant {
    pub(super) fn codes(&self, block: &[u8], q: &mut [u8], scale: &mut [f32], min: &mut [f32]) {
        (self.indices)(block, q);
        for q in q {
            *q = (i32::from(self.table[usize::from(*q)]) + self.shape.offset) as u8;
        }
        let mut sub_scales = [0; MAX_SUB_SCALES];
        let sub_scales = &mut sub_scales[..scale.len()];
        let d = half::f16::from_bits((self.scales)(block, sub_scales)).to_f32() * self.shape.unit();
        for (scale, sub) in scale.iter_mut().zip(sub_scales) {
            *scale = d * f32::from(*sub);
        }
        min.fill(0.0);
    }

    pub(super) fn sub_scales(&self, block: &[u8], sub_scales: &mut [i8], minima: &mut [u8]) -> SuperScales {
        minima.fill(0);
        SuperScales { d: (self.scales)(block, sub_scales), dmin: 0 }
    }
}

/// Four bits, low nibble first, as odd sub-scales.
pub(super) fn odd_nibbles(packed: &[u8], sub_scales: &mut [i8]) {
    for (pair, byte) in sub_scales.chunks_exact_mut(2).zip(packed) {
        pair[0] = odd(byte & 15);
        pair[1] = odd(byte >> 4);
    }
}

/// Inverse of [`odd_nibbles`], of the stored bits.
pub(super) fn put_nibbles(stored: &[u8], packed: &mut [u8]) {
    for (pair, byte) in stored.chunks_exact(2).zip(packed) {
        *byte = pair[0] | pair[1] << 4;
    }
}

/// The odd sub-scale that stored bits mean.
pub(super) const fn odd(stored: u8) -> i8 {
    (2 * stored + 1) as i8
}

/// Seven sign bits with an eighth that makes their number even.
pub(super) fn even_signs(seven: u8) -> u8 {
    seven | ((seven.count_ones() & 1) as u8) << 7
}

/// The indices of a point of eight (of three magnitudes) or four (of eight), bit `i` of `signs` set where coordinate `i`
/// is negative.
pub(super) fn signed_point(point: u16, signs: u8, q: &mut [u8]) {
    let (bits, magnitudes) = if q.len() == 8 { (2, 3) } else { (3, 8) };
    for (i, q) in q.iter_mut().enumerate() {
        let magnitude = (point >> (bits * i)) as u8 & ((1 << bits) - 1);
        *q = if signs >> i & 1 == 0 { magnitudes + magnitude } else { magnitudes - 1 - magnitude };
    }
}

/// The scale of a block and the stored bits of its odd sub-scales, 0 to `limit`, so that the largest weight of each group
/// is near `largest` units. `round` is how the block's scale will be stored.
pub(super) fn fit<const GROUPS: usize>(
    values: &[f32],
    shape: BlockShape,
    (largest, limit): (f32, u8),
    round: impl FnOnce(f32) -> f32,
) -> (f32, [u8; GROUPS]) {
    let unit = largest * shape.unit();
    let mut scales = [0.0f32; GROUPS];
    for (scale, group) in scales.iter_mut().zip(values.chunks_exact(shape.group)) {
        *scale = group.iter().fold(0.0f32, |most, v| most.max(v.abs())) / unit;
    }
    let most = scales.iter().fold(0.0f32, |most, s| most.max(*s));
    let d = round(most / f32::from(odd(limit)));
    let stored = scales.map(|scale| super::encode::code((scale * inverse(d) - 1.0) / 2.0, limit));
    (d * shape.unit(), stored)
}

/// The point nearest to `wanted`, in units of the scale; `values` are those of the coordinates' indices.
pub(super) fn nearest(grid: &[u16], values: &[f32], wanted: &[f32]) -> usize {
    let bits = if wanted.len() == 8 { 2 } else { 3 };
    let mut costs = [[0.0f32; 8]; 8];
    for (costs, wanted) in costs.iter_mut().zip(wanted) {
        for (cost, value) in costs.iter_mut().zip(values) {
            *cost = (wanted - value) * (wanted - value);
        }
    }
    let cost = |point: u16| -> f32 {
        (0..wanted.len()).map(|i| costs[i][usize::from(point >> (bits * i)) & ((1 << bits) - 1)]).sum()
    };
    let mut best = (f32::INFINITY, 0);
    for (index, point) in grid.iter().enumerate() {
        let cost = cost(*point);
        if cost < best.0 {
            best = (cost, index);
        }
    }
    best.1
}

/// The point of `grid` for `values` under `scale`, and its sign bits. `even`: their number must be even, so that the sign
/// of the smallest value may be wrong.
pub(super) fn nearest_signed(
    grid: &[u16],
    magnitudes: &[f32],
    values: &[f32],
    scale: f32,
    even: bool,
) -> (usize, u8) {
    let (mut wanted, mut signs) = ([0.0; 8], 0);
    let wanted = &mut wanted[..values.len()];
    for (i, (wanted, v)) in wanted.iter_mut().zip(values).enumerate() {
        *wanted = v.abs() * inverse(scale);
        signs |= u8::from(*v < 0.0) << i;
    }
    if even && signs.count_ones() % 2 == 1 {
        let least = (0..wanted.len()).fold(0, |least, i| if wanted[i] < wanted[least] { i } else { least });
        wanted[least] = -wanted[least];
        signs ^= 1 << least;
    }
    (nearest(grid, magnitudes, wanted), signs)
}

/// The point of eight for `values` under `scale`, whose coordinates are moved by an eighth.
pub(super) fn nearest_moved(grid: &[u16], values: &[f32], scale: f32, down: bool) -> usize {
    let eighth = if down { -1.0 } else { 1.0 };
    let mut wanted = [0.0; 8];
    for (wanted, v) in wanted.iter_mut().zip(values) {
        *wanted = v * inverse(scale);
    }
    nearest(grid, &[eighth - 8.0, eighth, eighth + 8.0], &wanted)
}
