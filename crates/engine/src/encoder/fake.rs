//! A tiny encoder with predictable numbers, for tests of this crate and of those that depend on it.

use std::sync::mpsc::Sender;

use super::{Encode, EncodeCosts, EncodeError, Reply, Text, Want};

/// The fake encoder. Each number is a hash of the text's tokens, types and skipped tokens, in -1..1.
#[derive(Debug, Clone)]
pub struct FakeEncoder {
    /// Token ids are below this; also the numbers of a sparse vector.
    pub vocab: usize,
    /// Tokens a text may have.
    pub context: usize,
    /// Tokens of a step.
    pub step_tokens: usize,
    /// Numbers of a vector.
    pub width: usize,
    /// Labels of the classifiers.
    pub labels: usize,
    /// Units of a step for each of its tokens.
    pub units_per_token: f64,
    texts: Vec<Text>,
    units_left: usize,
    /// Sizes of the steps so far, in tokens.
    pub steps: Vec<usize>,
}

impl FakeEncoder {
    /// An encoder of vectors of `width` numbers.
    pub fn new(vocab: usize, context: usize, step_tokens: usize, width: usize) -> FakeEncoder {
        let (labels, units_per_token, units_left) = (3, 0.1, 0);
        let (texts, steps) = (Vec::new(), Vec::new());
        FakeEncoder { vocab, context, step_tokens, width, labels, units_per_token, texts, units_left, steps }
    }

    /// The numbers that the encoder gives for `text`.
    pub fn values(&self, text: &Text, want: Want) -> Vec<f32> {
        let hash = text.tokens.iter().fold(0xcbf2_9ce4_8422_2325_u64 ^ text.skip as u64, |hash, token| {
            (hash ^ u64::from(*token)).wrapping_mul(0x0100_0000_01b3).rotate_left(23)
        });
        let hash = text.types.iter().fold(hash, |hash, kind| (hash ^ u64::from(*kind)).wrapping_mul(31));
        let count = match want {
            Want::Dense => self.width,
            Want::Tokens => self.width * text.tokens.len(),
            Want::Sparse => self.vocab,
            Want::Logits => self.labels,
            Want::TokenLogits => self.labels * text.tokens.len(),
        };
        let number = |at: u64| {
            let mut z = hash ^ (want as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(at);
            z = (z ^ (z >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
            z ^= z >> 32;
            (z >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        };
        (0..count as u64).map(number).collect()
    }
}

impl Encode for FakeEncoder {
    fn context(&self) -> usize {
        self.context
    }

    fn vocab(&self) -> usize {
        self.vocab
    }

    fn step_tokens(&self) -> usize {
        self.step_tokens
    }

    fn begin(&mut self, texts: &[&Text]) -> Result<(), String> {
        let tokens: usize = texts.iter().map(|text| text.tokens.len()).sum();
        if texts.is_empty() || (texts.len() > 1 && tokens > self.step_tokens) {
            return Err(format!(
                "{} texts with {tokens} tokens, of at most {}",
                texts.len(),
                self.step_tokens
            ));
        }
        self.texts = texts.iter().map(|text| (*text).clone()).collect();
        self.units_left = (tokens as f64 * self.units_per_token) as usize;
        self.steps.push(tokens);
        Ok(())
    }

    fn advance(&mut self) -> Result<bool, String> {
        self.units_left = self.units_left.saturating_sub(1);
        Ok(self.units_left > 0)
    }

    fn output(&mut self, text: usize, want: Want, out: &mut Vec<f32>) -> Result<(), String> {
        let text = self.texts.get(text).ok_or_else(|| format!("no text {text}"))?;
        out.extend(self.values(text, want));
        Ok(())
    }
}

/// The fake encoder with something done before each unit: a delay, a check, an accident.
pub struct AroundUnits<F> {
    encoder: FakeEncoder,
    unit: F,
}

impl<F: FnMut(&FakeEncoder) -> Result<(), String> + Send> AroundUnits<F> {
    /// `unit` is called before each unit: each begin, advance and output.
    pub fn new(encoder: FakeEncoder, unit: F) -> AroundUnits<F> {
        AroundUnits { encoder, unit }
    }
}

impl<F: FnMut(&FakeEncoder) -> Result<(), String> + Send> Encode for AroundUnits<F> {
    fn context(&self) -> usize {
        self.encoder.context
    }

    fn vocab(&self) -> usize {
        self.encoder.vocab
    }

    fn step_tokens(&self) -> usize {
        self.encoder.step_tokens
    }

    fn begin(&mut self, texts: &[&Text]) -> Result<(), String> {
        (self.unit)(&self.encoder)?;
        self.encoder.begin(texts)
    }

    fn advance(&mut self) -> Result<bool, String> {
        (self.unit)(&self.encoder)?;
        self.encoder.advance()
    }

    fn output(&mut self, text: usize, want: Want, out: &mut Vec<f32>) -> Result<(), String> {
        (self.unit)(&self.encoder)?;
        self.encoder.output(text, want, out)
    }
}

/// What a job's reply was told.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// The numbers of the text with this index.
    Text(usize, Vec<f32>),
    /// The end.
    Done(Result<(), EncodeError>, EncodeCosts),
}

/// A reply that passes on what it is told.
pub struct Tell(pub Sender<Told>);

impl Reply for Tell {
    fn text(&mut self, index: usize, values: &[f32]) {
        let _ = self.0.send(Told::Text(index, values.to_vec()));
    }

    fn done(&mut self, outcome: Result<(), EncodeError>, costs: EncodeCosts) {
        let _ = self.0.send(Told::Done(outcome, costs));
    }
}
