//! The heads of Hugging Face classes: `ForSequenceClassification`, `ForTokenClassification`, `ForMaskedLM`, ColBERT.

use std::collections::BTreeMap;

use kernels::Activation;
use serde_json::Value;

use super::{Classifier, Heads, MultiVector, Pooling, ScoreActivation, Sparse, Stack, Step};
use crate::error::Error;
use crate::name_table::{HeadStep, Names};
use crate::source::{Key, Source};
use crate::spec::Spec;

const ID2LABEL: Key = Key("", &["id2label"]);
/// A model with more labels than this is refused.
const MAX_LABELS: usize = 1 << 16;

/// Fills the heads that the class of `config.json` has.
///
/// # Errors
/// A class whose head is not known, labels that do not fit the head, or an unknown activation.
pub(super) fn read(source: &Source, spec: &Spec, heads: &mut Heads) -> Result<(), Error> {
    let Some(names) = spec.names else { return generating(source, spec, heads) };
    let class = source.class().unwrap_or_default();
    if class.ends_with("ForSequenceClassification") {
        let mut pooling = Pooling::Cls;
        if let Some(named) = source.text(Key("", &["classifier_pooling"]))? {
            pooling = match named {
                "cls" => Pooling::Cls,
                "mean" => Pooling::Mean,
                other => {
                    return Err(source.bad(Key("", &["classifier_pooling"]), other, "cls or mean".into()));
                }
            };
        }
        heads.classifier = Some(classifier(source, spec, names, names.classifier, pooling, heads)?);
    } else if class.ends_with("ForTokenClassification") {
        let steps = names.token_classifier;
        heads.token_classifier = Some(classifier(source, spec, names, steps, Pooling::Cls, heads)?);
    } else if source.masked_lm(names) {
        let stack = stack(source, spec, names, names.masked_lm, 0, heads)?;
        heads.sparse = Some(Sparse::MaskedLm { stack, twice: false, sum: false });
    } else if class == "HF_ColBERT" || class.ends_with("ForColBERT") {
        multi_vector(source, spec, heads, "linear")?;
    }
    Ok(())
}

/// The vectors of tokens through the matrix `stem`.
pub(super) fn multi_vector(source: &Source, spec: &Spec, heads: &mut Heads, stem: &str) -> Result<(), Error> {
    let dot = if stem.ends_with(['.', '/']) { "" } else { "." };
    let name = format!("{stem}{dot}weight");
    let width = source.rows(&name).ok_or(Error::MissingKey { key: name })?;
    let step = heads.linear(source, stem, width, spec.width);
    heads.multi_vector = Some(MultiVector { stack: Stack(vec![step]), width, skips_first: false });
    Ok(())
}

/// A decoder's classifier (`score.weight` of `Qwen3ForSequenceClassification`), on the last token.
fn generating(source: &Source, spec: &Spec, heads: &mut Heads) -> Result<(), Error> {
    let class = source.class().unwrap_or_default();
    if !class.ends_with("ForSequenceClassification") {
        return Ok(());
    }
    let labels = labels(source, "score.weight")?;
    let step = heads.linear(source, "score", labels.len(), spec.width);
    let activation = activation(source, labels.len())?;
    let stack = Stack(vec![step]);
    heads.classifier = Some(Classifier { pooling: Pooling::Last, stack, labels, activation });
    Ok(())
}

fn classifier(
    source: &Source,
    spec: &Spec,
    names: &Names,
    steps: &[HeadStep],
    pooling: Pooling,
    heads: &mut Heads,
) -> Result<Classifier, Error> {
    let last = steps.iter().rev().find_map(|step| match step {
        HeadStep::Labels(stem) => Some(format!("{stem}.weight")),
        _ => None,
    });
    let last = last.ok_or_else(|| Error::Head {
        what: source.class().unwrap_or_default().to_owned(),
        problem: format!("the family {} has no such head here", spec.family),
    })?;
    let labels = labels(source, &last)?;
    let stack = stack(source, spec, names, steps, labels.len(), heads)?;
    let activation = activation(source, labels.len())?;
    Ok(Classifier { pooling, stack, labels, activation })
}

fn stack(
    source: &Source,
    spec: &Spec,
    names: &Names,
    steps: &[HeadStep],
    labels: usize,
    heads: &mut Heads,
) -> Result<Stack, Error> {
    let prefix = names.prefix(&|name| source.has(name));
    let mut stack = Vec::new();
    for step in steps {
        stack.push(match *step {
            HeadStep::Body(stem) => heads.linear(source, &format!("{prefix}{stem}"), spec.width, spec.width),
            HeadStep::Linear(stem) => heads.linear(source, stem, spec.width, spec.width),
            HeadStep::Labels(stem) => heads.linear(source, stem, labels, spec.width),
            HeadStep::Norm(stem) => heads.layer_norm(source, stem, spec.width, spec.norm.eps),
            HeadStep::Activation(activation) => Step::Activation(activation),
            HeadStep::Configured(key, default) => {
                let named = source.activation(Key("", key))?;
                Step::Activation(named.unwrap_or(default))
            }
        });
    }
    Ok(Stack(stack))
}

/// The labels of `id2label`, or `LABEL_0`, … for each row of the head.
fn labels(source: &Source, tensor: &str) -> Result<Vec<String>, Error> {
    let rows = source.rows(tensor).ok_or_else(|| Error::MissingKey { key: tensor.to_owned() })?;
    if rows > MAX_LABELS {
        return Err(source.bad(ID2LABEL, rows, format!("at most {MAX_LABELS} labels")));
    }
    let named = |n: usize| format!("LABEL_{n}");
    let Some(map) = source.config().and_then(|config| config.get("id2label")).filter(|v| !v.is_null()) else {
        return Ok((0..rows).map(named).collect());
    };
    let bad = |value: String| {
        source.bad(
            ID2LABEL,
            value,
            format!("the {rows} labels 0 to {}, the rows of {tensor}", rows.saturating_sub(1)),
        )
    };
    let map = map.as_object().ok_or_else(|| bad("not an object".into()))?;
    let mut by_index = BTreeMap::new();
    for (index, label) in map {
        let index: usize = index.parse().map_err(|_| bad(format!("{index:?}")))?;
        let label = label.as_str().ok_or_else(|| bad(format!("a label of {index} that is no text")))?;
        by_index.insert(index, label.to_owned());
    }
    if by_index.len() != rows || by_index.keys().last().is_some_and(|last| *last + 1 != rows) {
        return Err(bad(format!("a map of {} labels", by_index.len())));
    }
    Ok(by_index.into_values().collect())
}

/// The activation of scores: as the file says, else the logistic function for one label and the softmax for several.
fn activation(source: &Source, labels: usize) -> Result<ScoreActivation, Error> {
    let config = source.config();
    let nested = config.and_then(|c| c.get("sentence_transformers")).and_then(|c| c.get("activation_fn"));
    let named = nested.or_else(|| config.and_then(|c| c.get("sbert_ce_default_activation_function")));
    if let Some(named) = named.and_then(Value::as_str) {
        return match named.rsplit('.').next() {
            Some("Identity") => Ok(ScoreActivation::Identity),
            Some("Sigmoid") => Ok(ScoreActivation::Sigmoid),
            Some("Softmax") => Ok(ScoreActivation::Softmax),
            _ => Err(Error::Head {
                what: format!("activation_fn {named}"),
                problem: "known are Identity, Sigmoid and Softmax".into(),
            }),
        };
    }
    Ok(match source.text(Key("", &["problem_type"]))? {
        Some("multi_label_classification") => ScoreActivation::Sigmoid,
        Some("regression") => ScoreActivation::Identity,
        _ if labels == 1 => ScoreActivation::Sigmoid,
        _ => ScoreActivation::Softmax,
    })
}

/// The activation function of a sentence-transformers module, a class path of torch.
pub(super) fn torch_activation(named: &str) -> Result<Option<Activation>, Error> {
    match named.rsplit('.').next() {
        Some("Identity") => Ok(None),
        Some("Tanh") => Ok(Some(Activation::Tanh)),
        Some("GELU") => Ok(Some(Activation::Gelu)),
        Some("ReLU") => Ok(Some(Activation::Relu)),
        Some("SiLU") => Ok(Some(Activation::Silu)),
        _ => Err(Error::Head {
            what: format!("activation_function {named}"),
            problem: "known are Identity, Tanh, GELU, ReLU and SiLU".into(),
        }),
    }
}
