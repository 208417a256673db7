//! Rotary position embedding (Su et al., 2021): each pair of a head's values is rotated by position × frequency.

use cpu::simd::{Job, Simd, dispatch};

use crate::elementwise::parallel_rows;
use crate::{Compute, norm};

/// Which values of a head are a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// `i` and `i + rotary / 2`, as Hugging Face and GPT-NeoX.
    Halves,
    /// `2i` and `2i + 1`, as Meta's and GGUF's llama.
    Adjacent,
}

/// Cosines and sines of a batch's positions: `[rows, frequencies]` each. Filled once a batch, read by every layer.
pub struct RopeTable {
    frequencies: usize,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl RopeTable {
    /// A table for `max_rows` rows of `frequencies` (half the rotary width).
    pub fn new(max_rows: usize, frequencies: usize) -> RopeTable {
        RopeTable {
            frequencies,
            cos: vec![0.0; max_rows * frequencies],
            sin: vec![0.0; max_rows * frequencies],
        }
    }

    /// Computes the angles of row `row`, at `position`, from the inverse frequencies; both factors are multiplied by
    /// `magnitude` (1, or the attention factor of yarn and longrope).
    ///
    /// # Panics
    /// When `row` or the number of frequencies is beyond that of [`RopeTable::new`].
    pub fn set_row(&mut self, row: usize, position: usize, inverse_frequencies: &[f32], magnitude: f32) {
        assert_eq!(inverse_frequencies.len(), self.frequencies, "rotary frequencies");
        let at = row * self.frequencies..(row + 1) * self.frequencies;
        let out = self.cos[at.clone()].iter_mut().zip(&mut self.sin[at]);
        for ((cos, sin), inverse) in out.zip(inverse_frequencies) {
            // The product is rounded to f32, as in the reference implementations.
            let (s, c) = (position as f32 * inverse).sin_cos();
            (*cos, *sin) = (c * magnitude, s * magnitude);
        }
    }

    /// Makes the angles of row `to` those of row `from`.
    ///
    /// # Panics
    /// When a row is beyond that of [`RopeTable::new`].
    pub fn copy_row(&mut self, from: usize, to: usize) {
        let row = from * self.frequencies..(from + 1) * self.frequencies;
        self.cos.copy_within(row.clone(), to * self.frequencies);
        self.sin.copy_within(row, to * self.frequencies);
    }
}

/// Rotates the first `2 × frequencies` values of each head of `x`, `[rows, heads · head_dim]`, row `r` by row `r` of
/// `table`. `norm`, a weight and an epsilon, is applied to each head first, as
/// [`rms_norm_in_place`](crate::rms_norm_in_place).
///
/// # Panics
/// When shapes do not fit.
pub fn rope(
    c: &Compute,
    x: &mut [f32],
    table: &RopeTable,
    heads: usize,
    head_dim: usize,
    pairing: Pairing,
    norm: Option<(&[f32], f32)>,
) {
    let half = table.frequencies;
    assert!(2 * half <= head_dim, "{half} rotary frequencies in heads of {head_dim}");
    assert!(norm.is_none_or(|(weight, _)| weight.len() == head_dim), "norm weights");
    let cols = heads * head_dim;
    parallel_rows(c, x, cols, &|first, x| {
        dispatch(c.tier, Rotate { x, first, table, cols, head_dim, pairing, norm })
    });
}

struct Rotate<'a> {
    x: &'a mut [f32],
    /// The row of the table for the first row of `x`.
    first: usize,
    table: &'a RopeTable,
    cols: usize,
    head_dim: usize,
    pairing: Pairing,
    norm: Option<(&'a [f32], f32)>,
}

impl Job for Rotate<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let half = self.table.frequencies;
        for (r, row) in self.x.chunks_exact_mut(self.cols).enumerate() {
            let at = (self.first + r) * half..(self.first + r + 1) * half;
            let (cos, sin) = (&self.table.cos[at.clone()], &self.table.sin[at]);
            // Fused: the row is in L1.
            if let Some((weight, eps)) = self.norm {
                norm::in_place(s, row, weight, eps);
            }
            for head in row.chunks_exact_mut(self.head_dim) {
                rotate(head, cos, sin, self.pairing);
            }
        }
    }
}

#[inline(always)]
fn rotate(head: &mut [f32], cos: &[f32], sin: &[f32], pairing: Pairing) {
    match pairing {
        Pairing::Halves => {
            let (a, b) = head.split_at_mut(cos.len());
            for (((a, b), c), s) in a.iter_mut().zip(b).zip(cos).zip(sin) {
                (*a, *b) = (*a * c - *b * s, *b * c + *a * s);
            }
        }
        Pairing::Adjacent => {
            for ((pair, c), s) in head.chunks_exact_mut(2).zip(cos).zip(sin) {
                (pair[0], pair[1]) = (pair[0] * c - pair[1] * s, pair[1] * c + pair[0] * s);
            }
        }
    }
}
