//! A server whose model is a fake encoder, and the numbers that it must answer with.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::encoder::fake::FakeEncoder;
use engine::encoder::{Text, Want};
use inference::EncoderFacts;
use server::{Activation, ClassifierHead, DenseHead, EncoderHeads, LoadedModel, ShortVectors, TokenVectors};
use service::fake::{BETWEEN, END, START, Words, encoding};

use super::{Running, options, unready};

pub(crate) const VOCAB: usize = 64;
pub(crate) const CONTEXT: usize = 16;
pub(crate) const WIDTH: usize = 8;
pub(crate) const FINGERPRINT: &str = "fake-1";

fn labels(names: &[&str]) -> Arc<[String]> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// An embedding model.
pub(crate) fn embeds() -> EncoderHeads {
    EncoderHeads {
        dense: Some(DenseHead { width: WIDTH, normalize: true, short: ShortVectors::Any }),
        tokens: Some(TokenVectors { width: WIDTH, normalize: false, late_interaction: false }),
        sparse: true,
        ..EncoderHeads::default()
    }
}

/// A cross-encoder.
pub(crate) fn ranks() -> EncoderHeads {
    let classifier = ClassifierHead { labels: labels(&["relevant"]), activation: Activation::Sigmoid };
    EncoderHeads { classifier: Some(classifier), ..EncoderHeads::default() }
}

/// A classifier of three labels.
pub(crate) fn classifies() -> EncoderHeads {
    let classifier =
        ClassifierHead { labels: labels(&["bad", "fair", "good"]), activation: Activation::Softmax };
    EncoderHeads { classifier: Some(classifier), ..EncoderHeads::default() }
}

/// A token classifier.
pub(crate) fn tags() -> EncoderHeads {
    EncoderHeads { token_labels: labels(&["O", "B-X", "I-X"]), ..EncoderHeads::default() }
}

fn fake(heads: &EncoderHeads) -> FakeEncoder {
    let mut fake = FakeEncoder::new(VOCAB, CONTEXT, 64, WIDTH);
    fake.labels = heads.classifier.as_ref().map_or(3, |classifier| classifier.labels.len());
    fake
}

/// A server with this encoder.
pub(crate) fn serving(heads: EncoderHeads) -> Running {
    let running = unready(options(), Duration::from_secs(5));
    let facts = EncoderFacts {
        pooling: heads.dense.is_some().then(|| "mean".to_owned()),
        dimensions: WIDTH,
        labels: heads.classifier.iter().flat_map(|classifier| classifier.labels.iter().cloned()).collect(),
        max_tokens: CONTEXT,
        precision: "f32",
        fingerprint: FINGERPRINT.into(),
        ..EncoderFacts::default()
    };
    let encoding = encoding(fake(&heads), heads, facts).unwrap();
    running.server.ready(LoadedModel::encoder(vec!["enc".to_owned()], encoding), Instant::now());
    running
}

fn tokens(words: &str) -> Vec<u32> {
    words.split_whitespace().map(|word| Words(VOCAB).token(word)).collect()
}

/// The vector of a text, of length 1.
pub(crate) fn vector(text: &str) -> Vec<f32> {
    let tokens = [vec![START], tokens(text), vec![END]].concat();
    let raw = fake(&embeds()).values(&Text { tokens, types: Vec::new(), skip: 0 }, Want::Dense);
    let length = raw.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
    raw.iter().map(|x| (f64::from(*x) / length) as f32).collect()
}

/// The logits of a pair.
pub(crate) fn logits(heads: &EncoderHeads, first: &str, second: Option<&str>) -> Vec<f32> {
    let (first, second) = (tokens(first), second.map(tokens));
    let mut types = Vec::new();
    let mut all = [vec![START], first].concat();
    if let Some(second) = second {
        all.push(BETWEEN);
        types = vec![0; all.len()];
        types.extend(vec![1; second.len() + 1]);
        all.extend(second);
    }
    all.push(END);
    fake(heads).values(&Text { tokens: all, types, skip: 0 }, Want::Logits)
}
