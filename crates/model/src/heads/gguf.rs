//! The heads of a GGUF: `pooling_type`, the classifier's tensors and those of sentence-transformers' `Dense` modules.

use kernels::Activation;
use weights::gguf::{Array, Value};

use super::{Classifier, Dense, Heads, Pooling, ScoreActivation, Stack, Step};
use crate::error::Error;
use crate::source::{Key, Source};
use crate::spec::{Direction, Spec};

const POOLING: Key = Key("pooling_type", &[]);

/// Fills the heads of a GGUF. Values of `pooling_type` are those of llama.cpp's `llama_pooling_type`.
///
/// # Errors
/// An unknown pooling, or tensors that do not fit.
pub(super) fn read(source: &Source, spec: &Spec, heads: &mut Heads) -> Result<(), Error> {
    let encoder = spec.direction == Direction::Bidirectional;
    if source.has("cls.output.weight") {
        rank(source, spec, heads)?;
    }
    let pooling = match source.size(POOLING)? {
        None if encoder => Pooling::Mean,
        None => return Ok(()),
        Some(0 | 1) if encoder => Pooling::Mean,
        Some(0) => return Ok(()),
        Some(1) => Pooling::Mean,
        Some(2) => Pooling::Cls,
        Some(3) => Pooling::Last,
        Some(4) if heads.classifier.is_none() => {
            let what = "pooling_type 4 (rank)".to_owned();
            return Err(Error::Head { what, problem: "the file has no cls.output.weight".into() });
        }
        Some(4) => return Ok(()),
        Some(other) => {
            return Err(source.bad(POOLING, other, "0 none, 1 mean, 2 cls, 3 last or 4 rank".into()));
        }
    };
    let (mut stack, mut width) = (Vec::new(), spec.width);
    for stem in ["dense_2", "dense_3"] {
        if let Some(rows) = source.rows(&format!("{stem}.weight")) {
            stack.push(heads.linear(source, stem, rows, width));
            width = rows;
        }
    }
    // llama.cpp's server scales vectors to length 1 unless asked otherwise.
    heads.dense = Some(Dense { pooling: vec![pooling], stack: Stack(stack), width, normalize: true });
    Ok(())
}

/// A classifier: `cls` with its activation, if there is one, then `cls.output`.
fn rank(source: &Source, spec: &Spec, heads: &mut Heads) -> Result<(), Error> {
    let causal = spec.direction == Direction::Causal;
    let mut stack = Vec::new();
    if source.has("cls.weight") {
        stack.push(heads.linear(source, "cls", spec.width, spec.width));
        stack.push(Step::Activation(match spec.family {
            "modern-bert" => Activation::Gelu,
            // DistilBERT, the only one of this architecture without token types.
            "bert" if spec.token_types == 0 => Activation::Relu,
            _ => Activation::Tanh,
        }));
        if source.has("cls.norm.weight") {
            stack.push(heads.layer_norm(source, "cls.norm", spec.width, spec.norm.eps));
        }
    }
    let rows = source.rows("cls.output.weight").unwrap_or(0);
    stack.push(heads.linear(source, "cls.output", rows, spec.width));
    let keys = source.opened().metadata().gguf();
    let named = keys.and_then(|keys| {
        keys.get(&format!("{}.classifier.output_labels", source.names().first().copied().unwrap_or_default()))
    });
    let labels = match named {
        Some(Value::Array(Array::String(list))) => list.to_vec(),
        _ => Vec::new(),
    };
    let labels = if labels.is_empty() { (0..rows).map(|n| format!("LABEL_{n}")).collect() } else { labels };
    if labels.len() != rows {
        let key = Key("classifier.output_labels", &[]);
        return Err(source.bad(key, labels.len(), format!("{rows} labels, the rows of cls.output.weight")));
    }
    let activation = if rows == 1 { ScoreActivation::Sigmoid } else { ScoreActivation::Softmax };
    let pooling = match source.size(Key("classifier.pooling_type", &[]))? {
        Some(1) => Pooling::Mean,
        _ if causal => Pooling::Last,
        _ => Pooling::Cls,
    };
    heads.classifier = Some(Classifier { pooling, stack: Stack(stack), labels, activation });
    Ok(())
}
