//! The outputs of an encoder's heads, from the hidden states of a finished pass.

use crate::encode::pooling::pool;
use crate::encode_scratch::{EncodePass, Progress};
use crate::error::Error;
use crate::heads::{Heads, Sparse, Stack, Step, TokenLogits};
use crate::load::Model;
use kernels::{Activations, Compute, RowNorm};

/// An output of an encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Want {
    /// The last hidden states, `[tokens, width]`.
    Hidden,
    /// One vector, `[dimensions]`: pooled, through the `Dense` modules, not scaled to length 1.
    Dense,
    /// A vector for each token, `[tokens, dimensions]`, by the multi-vector head, scaled to length 1.
    Tokens,
    /// A weight for each entry of the vocabulary, `[vocab]`.
    Sparse,
    /// The classifier's logits, `[labels]`; of a reranker that answers yes or no the difference of both, `[1]`.
    Logits,
    /// The token classifier's logits, `[tokens, labels]`.
    TokenLogits,
    /// The logits of the tokens that mean relevant and irrelevant, `[2]`, after the last token.
    YesNo,
}

impl Want {
    /// The output's name, for errors.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Want::Hidden => "hidden states",
            Want::Dense => "dense vectors",
            Want::Tokens => "vectors of tokens",
            Want::Sparse => "sparse vectors",
            Want::Logits => "classes",
            Want::TokenLogits => "classes of tokens",
            Want::YesNo => "token logits",
        }
    }
}

/// What the heads are given of a text.
#[derive(Clone, Copy)]
struct States<'a> {
    /// The last hidden states, `[tokens, width]`.
    hidden: &'a [f32],
    /// The tokens, special tokens included.
    tokens: &'a [u32],
    /// Tokens at the beginning that are not pooled.
    skip: usize,
}

impl States<'_> {
    /// The states of text `text` of a finished pass.
    fn of(pass: &EncodePass, text: usize, width: usize) -> Result<States<'_>, Error> {
        let texts = if pass.progress == Progress::Done { pass.texts.len() } else { 0 };
        let Some(place) = pass.texts.get(text).filter(|_| text < texts) else {
            return Err(Error::Batch { what: "text of a finished pass", value: text, limit: texts });
        };
        let hidden = &pass.x[place.rows.start * width..place.rows.end * width];
        Ok(States { hidden, tokens: &pass.tokens[place.rows.clone()], skip: place.skip })
    }
}

impl Model {
    /// Computes an output of text `text` of a finished pass into `out`, whose former content is lost.
    ///
    /// # Errors
    /// The model has no such output, the pass is not finished or has no such text, or the result is not finite.
    pub fn output(
        &self,
        compute: &Compute,
        pass: &EncodePass,
        text: usize,
        want: Want,
        out: &mut Vec<f32>,
    ) -> Result<(), Error> {
        out.clear();
        let width = self.spec.width;
        let states = States::of(pass, text, width)?;
        let States { hidden, tokens, skip } = states;
        let heads = self.spec.encoder.as_deref();
        let none = || Error::Head {
            what: self.spec.family.to_owned(),
            problem: format!("the model has no {}", want.name()),
        };
        let heads = heads.ok_or_else(none)?;
        match want {
            Want::Hidden => out.extend_from_slice(hidden),
            Want::Dense => {
                let head = heads.dense.as_ref().ok_or_else(none)?;
                head.pooling.iter().for_each(|mode| pool(*mode, hidden, width, skip, out));
                self.run(compute, heads, &head.stack, out);
            }
            Want::Tokens => {
                let head = heads.multi_vector.as_ref().ok_or_else(none)?;
                let first = usize::from(head.skips_first && tokens.len() > 1);
                out.extend_from_slice(&hidden[first * width..]);
                self.run(compute, heads, &head.stack, out);
                out.chunks_exact_mut(head.width).for_each(normalize);
            }
            Want::Sparse => {
                let head = heads.sparse.as_ref().ok_or_else(none)?;
                self.sparse(compute, heads, head, states, out);
            }
            Want::Logits => match (&heads.classifier, heads.token_logits) {
                (Some(head), _) => {
                    pool(head.pooling, hidden, width, 0, out);
                    self.run(compute, heads, &head.stack, out);
                }
                (None, Some(ids)) => {
                    let [yes, no] = self.two_logits(ids, hidden)?;
                    out.push(yes - no);
                }
                (None, None) => return Err(none()),
            },
            Want::TokenLogits => {
                let head = heads.token_classifier.as_ref().ok_or_else(none)?;
                out.extend_from_slice(hidden);
                self.run(compute, heads, &head.stack, out);
            }
            Want::YesNo => {
                let ids = heads.token_logits.ok_or_else(none)?;
                out.extend(self.two_logits(ids, hidden)?);
            }
        }
        check_finite(want, out)
    }

    /// The weights of the vocabulary's entries for a text.
    fn sparse(
        &self,
        compute: &Compute,
        heads: &Heads,
        head: &Sparse,
        States { hidden, tokens, .. }: States<'_>,
        out: &mut Vec<f32>,
    ) {
        match head {
            Sparse::MaskedLm { stack, twice, sum } => {
                self.masked_lm(compute, heads, stack, hidden, &mut |row| {
                    splade(row, *twice, *sum, out);
                });
                finish_splade(self.spec.vocab, *twice, *sum, out);
            }
            Sparse::Lexical { stack, unused } => {
                let mut weights = hidden.to_vec();
                self.run(compute, heads, stack, &mut weights);
                out.resize(self.spec.vocab, 0.0);
                for (token, weight) in tokens.iter().zip(weights) {
                    let most = &mut out[*token as usize];
                    *most = most.max(weight);
                }
                for id in unused {
                    out.get_mut(*id as usize).into_iter().for_each(|weight| *weight = 0.0);
                }
            }
        }
    }

    /// The logits of the tokens that mean relevant and irrelevant, after the last token.
    fn two_logits(&self, ids: TokenLogits, hidden: &[f32]) -> Result<[f32; 2], Error> {
        let last = &hidden[hidden.len() - self.spec.width..];
        let head = self.head.as_ref().unwrap_or(&self.embedding);
        let mut row = vec![0.0; self.spec.width];
        let mut logit = |id: u32| {
            if id as usize >= head.rows() {
                return Err(Error::Batch { what: "token", value: id as usize, limit: head.rows() - 1 });
            }
            head.row_into(id as usize, &mut row);
            Ok(last.iter().zip(&row).map(|(a, b)| a * b).sum())
        };
        Ok([logit(ids.yes)?, logit(ids.no)?])
    }

    /// Calls `each` with every token's logits of a masked language model, `[vocab]`.
    fn masked_lm(
        &self,
        compute: &Compute,
        heads: &Heads,
        stack: &Stack,
        hidden: &[f32],
        each: &mut dyn FnMut(&[f32]),
    ) {
        /// Rows whose logits are computed together: a vocabulary's worth of logits is large.
        const ROWS: usize = 32;
        let (width, vocab) = (self.spec.width, self.spec.vocab);
        let head = self.head.as_ref().unwrap_or(&self.embedding);
        let rows = ROWS.min(hidden.len() / width);
        let mut activations = Activations::new(rows, width);
        let mut logits = vec![0.0; rows * vocab];
        for part in hidden.chunks(ROWS * width) {
            let mut x = part.to_vec();
            self.run(compute, heads, stack, &mut x);
            let logits = &mut logits[..x.len() / width * vocab];
            activations.set(compute, &x, width, head.activations(), 0);
            kernels::matmul(compute, head, &activations, logits);
            if let Some(bias) = &self.head_bias {
                kernels::add_bias(compute, logits, bias);
            }
            logits.chunks_exact(vocab).for_each(&mut *each);
        }
    }

    /// Runs a stack on the rows `x`, in place.
    fn run(&self, compute: &Compute, heads: &Heads, stack: &Stack, x: &mut Vec<f32>) {
        for step in &stack.0 {
            match *step {
                Step::Activation(activation) => kernels::activate(compute, activation, x),
                Step::Norm(index) => {
                    let (weights, eps) = (&self.encoder.norms[index], heads.norms[index].eps);
                    let own = x.clone();
                    RowNorm { weight: &weights.weight, bias: weights.bias.as_deref(), eps, mean: true }
                        .rows(compute, &own, x);
                }
                Step::Linear(index) => {
                    let linear = &self.encoder.linears[index];
                    let (cols, outputs) = (linear.matrix.cols(), linear.matrix.rows());
                    let rows = x.len() / cols;
                    let mut activations = Activations::new(rows, cols);
                    activations.set(compute, x, cols, linear.matrix.activations(), 0);
                    x.resize(rows * outputs, 0.0);
                    kernels::matmul(compute, &linear.matrix, &activations, &mut x[..rows * outputs]);
                    x.truncate(rows * outputs);
                    crate::mlp::bias(compute, linear, x);
                }
            }
        }
    }
}

/// Refuses numbers that are not finite, and forgets them.
fn check_finite(want: Want, out: &mut Vec<f32>) -> Result<(), Error> {
    if out.iter().all(|v| v.is_finite()) {
        return Ok(());
    }
    out.clear();
    Err(Error::Head { what: want.name().to_owned(), problem: "the result is not finite".into() })
}

/// Takes a token's logits into the weights: their maximum so far, or the sum of their weights.
fn splade(logits: &[f32], twice: bool, sum: bool, out: &mut Vec<f32>) {
    out.resize(logits.len(), 0.0);
    for (weight, logit) in out.iter_mut().zip(logits) {
        *weight = if sum { *weight + log_weight(*logit, twice) } else { weight.max(*logit) };
    }
}

/// Takes the logarithm of a maximum, which is the maximum of the logarithms.
fn finish_splade(vocab: usize, twice: bool, sum: bool, out: &mut Vec<f32>) {
    out.resize(vocab, 0.0);
    if !sum {
        out.iter_mut().for_each(|weight| *weight = log_weight(*weight, twice));
    }
}

/// `log(1 + relu(logit))`, or that twice.
fn log_weight(logit: f32, twice: bool) -> f32 {
    let once = logit.max(0.0).ln_1p();
    if twice { once.ln_1p() } else { once }
}

/// Scales a vector to length 1; a vector of zeros stays.
fn normalize(vector: &mut [f32]) {
    let length = vector.iter().map(|v| v * v).sum::<f32>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|v| *v /= length);
    }
}
