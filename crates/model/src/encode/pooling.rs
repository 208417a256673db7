//! Pooling: one vector from the hidden states of a text, as sentence-transformers computes it.

use crate::heads::Pooling;

/// Appends the pooled vector of `rows`, `[tokens, width]`, to `out`. The first `skip` rows are left out, unless no other
/// is left. Sums run in order of position, in f32.
pub(super) fn pool(mode: Pooling, rows: &[f32], width: usize, skip: usize, out: &mut Vec<f32>) {
    let skip = if skip * width < rows.len() { skip } else { 0 };
    let rows = &rows[skip * width..];
    let count = rows.len() / width;
    let start = out.len();
    match mode {
        Pooling::Cls => out.extend_from_slice(&rows[..width]),
        Pooling::Last => out.extend_from_slice(&rows[(count - 1) * width..]),
        Pooling::Max => {
            out.extend_from_slice(&rows[..width]);
            for row in rows.chunks_exact(width).skip(1) {
                out[start..].iter_mut().zip(row).for_each(|(most, v)| *most = most.max(*v));
            }
        }
        Pooling::Mean | Pooling::MeanSqrtLen | Pooling::WeightedMean => {
            out.resize(start + width, 0.0);
            let mut total = 0.0;
            for (row, at) in rows.chunks_exact(width).zip(skip + 1..) {
                let weight = if mode == Pooling::WeightedMean { at as f32 } else { 1.0 };
                out[start..].iter_mut().zip(row).for_each(|(sum, v)| *sum += weight * v);
                total += weight;
            }
            let divisor = if mode == Pooling::MeanSqrtLen { total.sqrt() } else { total };
            out[start..].iter_mut().for_each(|sum| *sum /= divisor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_pools_as_it_is_named() {
        let rows = [1.0, -4.0, 3.0, 2.0, 5.0, 0.0];
        let of = |mode, skip| {
            let mut out = Vec::new();
            pool(mode, &rows, 2, skip, &mut out);
            out
        };
        assert_eq!(of(Pooling::Cls, 0), [1.0, -4.0]);
        assert_eq!(of(Pooling::Last, 0), [5.0, 0.0]);
        assert_eq!(of(Pooling::Max, 0), [5.0, 2.0]);
        assert_eq!(of(Pooling::Mean, 0), [3.0, -2.0 / 3.0]);
        assert_eq!(of(Pooling::Mean, 1), [4.0, 1.0]);
        assert_eq!(of(Pooling::Mean, 3), of(Pooling::Mean, 0), "a prompt alone is pooled");
        assert_eq!(of(Pooling::MeanSqrtLen, 1), [8.0 / 2.0_f32.sqrt(), 2.0 / 2.0_f32.sqrt()]);
        assert_eq!(of(Pooling::WeightedMean, 0), [22.0 / 6.0, 0.0]);
    }
}
