//! Choosing scales and codes. These encoders serve tests and models with random weights: valid and close, not the
//! searches for the best scale that `llama-quantize` makes.

/// The value of largest magnitude, with its sign (the first of equals).
pub(super) fn extreme(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |best: f32, &v| if v.abs() > best.abs() { v } else { best })
}

/// Least and greatest.
pub(super) fn range(values: &[f32]) -> (f32, f32) {
    values.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(lo, hi), &v| (lo.min(v), hi.max(v)))
}

/// `1 / x`, or 0 for 0.
pub(super) fn inverse(x: f32) -> f32 {
    if x == 0.0 { 0.0 } else { 1.0 / x }
}

/// `round(x)` held within `0..=max`; a cast from float saturates, and takes NaN to 0.
pub(super) fn code(x: f32, max: u8) -> u8 {
    (x.round_ties_even() as u8).min(max)
}

/// The index of the table's value nearest to `x`, the first of equals.
pub(super) fn nearest(table: &[i8; 16], x: f32) -> u8 {
    let distance = |i: usize| (x - f32::from(table[i])).abs();
    (1..16).fold(0, |best, i| if distance(i) < distance(best) { i } else { best }) as u8
}

/// A block of groups with minima: integer sub-scales and sub-minima under one scale each.
pub(super) struct Affine<const GROUPS: usize> {
    pub(super) scale: f32,
    pub(super) min: f32,
    pub(super) sub_scales: [u8; GROUPS],
    pub(super) sub_mins: [u8; GROUPS],
}

impl<const GROUPS: usize> Affine<GROUPS> {
    /// Fits each group from `min(0, least)` to its greatest, codes `0..=levels`, sub-scales `0..=limit`. `round` is how
    /// the block's scale and minimum will be stored.
    pub(super) fn fit(
        values: &[f32],
        levels: u8,
        limit: u8,
        mut round: impl FnMut(f32, f32) -> (f32, f32),
    ) -> Self {
        let mut scales = [0.0f32; GROUPS];
        let mut mins = [0.0f32; GROUPS];
        for (g, group) in values.chunks_exact(values.len() / GROUPS).enumerate() {
            let (lo, hi) = range(group);
            mins[g] = (-lo).max(0.0);
            scales[g] = (hi + mins[g]).max(0.0) / f32::from(levels);
        }
        let (scale, min) = round(range(&scales).1 / f32::from(limit), range(&mins).1 / f32::from(limit));
        let sub_scales = scales.map(|s| code(s * inverse(scale), limit));
        let sub_mins = mins.map(|m| code(m * inverse(min), limit));
        Affine { scale, min, sub_scales, sub_mins }
    }

    /// The code of every value under the fitted scales.
    pub(super) fn codes(&self, values: &[f32], levels: u8, q: &mut [u8]) {
        let group = values.len() / GROUPS;
        for (i, (&v, q)) in values.iter().zip(q).enumerate() {
            let scale = self.scale * f32::from(self.sub_scales[i / group]);
            let min = self.min * f32::from(self.sub_mins[i / group]);
            *q = code((v + min) * inverse(scale), levels);
        }
    }
}

/// Signed sub-scales under one scale, so that each group's extreme gets the code at the negative end, `-depth`.
/// `limit` is the magnitude of the most negative sub-scale; `round` is how the block's scale will be stored.
pub(super) fn signed<const GROUPS: usize>(
    values: &[f32],
    depth: f32,
    limit: i32,
    mut round: impl FnMut(f32) -> f32,
) -> (f32, [i8; GROUPS]) {
    let mut scales = [0.0f32; GROUPS];
    for (g, group) in values.chunks_exact(values.len() / GROUPS).enumerate() {
        scales[g] = -extreme(group) / depth;
    }
    let scale = round(-extreme(&scales) / limit as f32);
    let sub = scales.map(|s| ((s * inverse(scale)).round_ties_even() as i32).clamp(-limit, limit - 1) as i8);
    (scale, sub)
}
