//! A model's heads in the words of the service.

use std::sync::Arc;

use inference::EncoderFacts;
use model::heads::{Heads, ScoreActivation};
use service::{
    Activation, ClassifierHead, DenseHead, EncoderHeads, EncoderPrompts, ShortVectors, TokenVectors,
};

use super::Format;
use crate::Failure;
use crate::found::Found;

/// Refuses heads that nothing here answers with.
///
/// # Errors
/// A causal reranker.
pub(super) fn check(model: &str, heads: &Heads) -> Result<(), Failure> {
    let other = heads.dense.is_some() || heads.classifier.is_some() || heads.multi_vector.is_some();
    let other = other || heads.sparse.is_some() || heads.token_classifier.is_some();
    if heads.token_logits.is_some() && !other {
        return Err(Failure::new(format!(
            "{model} scores pairs by the logits of two words (module LogitScore), which is not built yet"
        )));
    }
    Ok(())
}

/// What the model computes.
pub(super) fn of(found: &Found) -> EncoderHeads {
    let Some(heads) = found.spec.encoder.as_deref() else { return EncoderHeads::default() };
    let dense = heads.dense.as_ref().map(|dense| DenseHead {
        width: dense.width,
        normalize: dense.normalize,
        short: match &heads.matryoshka[..] {
            [] => ShortVectors::None,
            list => ShortVectors::Of(list.to_vec()),
        },
    });
    let late = heads.multi_vector.as_ref();
    // The model has scaled the vectors of its head to length 1; last hidden states stay as they are.
    let token_vectors = |width, late_interaction| TokenVectors { width, normalize: false, late_interaction };
    let tokens = late.map(|late| token_vectors(late.width, true));
    let tokens = tokens.or_else(|| dense.as_ref().map(|_| token_vectors(found.spec.width, false)));
    let classifier = heads.classifier.as_ref().map(|classifier| ClassifierHead {
        labels: classifier.labels.clone().into(),
        activation: match classifier.activation {
            ScoreActivation::Identity => Activation::Identity,
            ScoreActivation::Sigmoid => Activation::Sigmoid,
            ScoreActivation::Softmax => Activation::Softmax,
        },
    });
    let token_labels = heads.token_classifier.as_ref().map(|classifier| classifier.labels.clone());
    EncoderHeads {
        dense,
        tokens,
        sparse: heads.sparse.is_some(),
        classifier,
        token_labels: token_labels.unwrap_or_default().into(),
        prompts: EncoderPrompts {
            texts: heads.prompts.clone(),
            default: heads.default_prompt.clone(),
            unpooled: !heads.pools_prompt,
        },
    }
}

/// What is told of the model.
pub(super) fn facts(
    found: &Found,
    heads: &EncoderHeads,
    context: usize,
    format: Format,
    fingerprint: String,
) -> EncoderFacts {
    let dense = found.spec.encoder.as_ref().and_then(|heads| heads.dense.as_ref());
    let pooling =
        dense.map(|dense| dense.pooling.iter().map(|mode| mode.name()).collect::<Vec<_>>().join("+"));
    EncoderFacts {
        pooling,
        dimensions: heads.dense.as_ref().map_or(0, |dense| dense.width),
        labels: match &heads.classifier {
            Some(classifier) => classifier.labels.to_vec(),
            None => heads.token_labels.to_vec(),
        },
        prompts: heads.prompts.texts.iter().map(|(name, _)| name.clone()).collect(),
        max_tokens: context,
        precision: format.name(),
        fingerprint: Arc::from(fingerprint),
    }
}
