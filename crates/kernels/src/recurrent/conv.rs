//! Causal depthwise convolution: each channel is a weighted sum of its last few inputs.

use cpu::simd::{Job, Simd, dispatch};
use cpu::{Stripes, Tile};

use crate::attention::SeqRows;
use crate::elementwise::{Activation, activate_slice};
use crate::states::StatePool;
use crate::{Compute, partial};

/// Channels of a task. The state holds them together, so that a task's inputs are one stripe.
const STRIPE: usize = 64;

/// The most inputs that an output is made of.
const MAX_KERNEL: usize = 8;

/// A causal depthwise convolution: `out[t] = act(bias + Σ weight[j] · x[t - kernel + 1 + j])`, for each channel.
#[derive(Clone, Copy, Debug)]
pub struct CausalConv<'a> {
    /// `[kernel, channels]`: of the oldest input first.
    pub weight: &'a [f32],
    /// `[channels]`.
    pub bias: Option<&'a [f32]>,
    /// Inputs of an output, its own included.
    pub kernel: usize,
    /// Channels.
    pub channels: usize,
    /// What the sums pass through.
    pub activation: Option<Activation>,
}

impl CausalConv<'_> {
    /// The most inputs of an output that [`causal_conv`] takes.
    pub const MAX_KERNEL: usize = MAX_KERNEL;

    /// Values that a convolution keeps of a sequence: the last `kernel - 1` inputs of each channel.
    pub fn state_floats(kernel: usize, channels: usize) -> usize {
        channels.div_ceil(STRIPE) * stripe_floats(kernel)
    }
}

fn stripe_floats(kernel: usize) -> usize {
    STRIPE * (kernel - 1)
}

/// Computes the convolution of the rows `x`, `[rows, channels]`, each after those before it in its sequence, into `out` of
/// the same shape. The last inputs of each sequence are kept in its state, from value `offset` on.
///
/// # Panics
/// When shapes do not fit or a sequence has no state.
pub fn causal_conv(
    c: &Compute,
    states: &mut StatePool,
    offset: usize,
    conv: CausalConv<'_>,
    x: &[f32],
    seqs: &[SeqRows<'_>],
    out: &mut [f32],
) {
    let CausalConv { kernel, channels, weight, bias, .. } = conv;
    assert!((2..=MAX_KERNEL).contains(&kernel), "a convolution over {kernel} inputs");
    assert!(weight.len() == kernel * channels && bias.is_none_or(|b| b.len() == channels), "weights");
    assert_eq!(x.len(), out.len(), "inputs and outputs of a convolution");
    if x.is_empty() {
        return;
    }
    let row_len = states.shape().floats;
    let width = CausalConv::state_floats(kernel, channels);
    let kept = Stripes { data: states.values(), row_len, start: offset, cols: stripe_floats(kernel), width };
    let outputs = Stripes { data: out, row_len: channels, start: 0, cols: STRIPE, width: channels };
    c.pool.stripes_mut(kept, outputs, &|i, kept, out| {
        dispatch(c.tier, ConvStripe { conv, x, seqs, first: i * STRIPE, kept, out });
    });
}

/// The convolution of some channels, for all sequences.
struct ConvStripe<'a, 'b> {
    conv: CausalConv<'a>,
    x: &'a [f32],
    seqs: &'a [SeqRows<'a>],
    /// The first channel.
    first: usize,
    /// `[states, (kernel - 1) * STRIPE]`: the last inputs, the oldest first.
    kept: Tile<'b, f32>,
    /// `[rows, channels of the stripe]`
    out: Tile<'b, f32>,
}

impl Job for ConvStripe<'_, '_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        for seq in self.seqs {
            let kept = self.kept.row(seq.state as usize);
            for at in (0..self.out.cols()).step_by(S::LANES) {
                convolve(s, &self.conv, self.x, self.first + at, &kept[at..], &seq.rows, at, &mut self.out);
            }
            if let Some(activation) = self.conv.activation {
                for row in seq.rows.clone() {
                    activate_slice(s, activation, None, None, self.out.row(row));
                }
            }
            keep(&self.conv, self.x, self.first, self.out.cols(), kept, &seq.rows);
        }
    }
}

/// The sums of a register's channels, from channel `first` on and column `at` of the stripe, for the rows of a sequence;
/// `kept` are the inputs before them.
#[inline(always)]
fn convolve<S: Simd>(
    s: S,
    conv: &CausalConv<'_>,
    x: &[f32],
    first: usize,
    kept: &[f32],
    rows: &std::ops::Range<usize>,
    at: usize,
    out: &mut Tile<'_, f32>,
) {
    let (kernel, channels) = (conv.kernel, conv.channels);
    let cols = S::LANES.min(out.cols() - at);
    let bias = match conv.bias {
        Some(bias) => partial::load(s, &bias[first..first + cols], 0),
        None => s.splat(0.0),
    };
    let mut weights = [s.splat(0.0); MAX_KERNEL];
    // The inputs of the row before, the oldest first: each row drops one and takes its own.
    let mut inputs = [s.splat(0.0); MAX_KERNEL];
    for j in 0..kernel {
        weights[j] = partial::load(s, &conv.weight[j * channels + first..][..cols], 0);
        if j + 1 < kernel {
            inputs[j + 1] = partial::load(s, &kept[j * STRIPE..][..cols], 0);
        }
    }
    for row in rows.clone() {
        for j in 1..kernel {
            inputs[j - 1] = inputs[j];
        }
        inputs[kernel - 1] = partial::load(s, &x[row * channels + first..][..cols], 0);
        let mut sum = bias;
        for j in 0..kernel {
            sum = s.fma(weights[j], inputs[j], sum);
        }
        partial::store(s, sum, &mut out.row(row)[at..at + cols], 0);
    }
}

/// Keeps the last inputs of a sequence for its next row.
#[inline(always)]
fn keep(
    conv: &CausalConv<'_>,
    x: &[f32],
    first: usize,
    cols: usize,
    kept: &mut [f32],
    rows: &std::ops::Range<usize>,
) {
    let many = conv.kernel - 1;
    let new = rows.len().min(many);
    kept.copy_within(new * STRIPE.., 0);
    for (place, row) in (many - new..many).zip(rows.end - new..rows.end) {
        kept[place * STRIPE..][..cols].copy_from_slice(&x[row * conv.channels + first..][..cols]);
    }
}
