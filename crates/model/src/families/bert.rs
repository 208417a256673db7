//! BERT: post-norms, learned positions and token types, biases everywhere. GGUF files of RoBERTa, XLM-R and DistilBERT have
//! this architecture too.

use crate::error::Error;
use crate::name_table::{Fused, HeadStep, Names};
use crate::source::{Defaults, Source};
use crate::spec::Spec;
use crate::weight_role::{LayerWeight, WeightRole};
use kernels::Activation;

/// The names of the body, which RoBERTa shares.
pub(super) const TOP: &[(WeightRole, &str)] = &[
    (WeightRole::Position, "embeddings.position_embeddings"),
    (WeightRole::TokenType, "embeddings.token_type_embeddings"),
    (WeightRole::EmbeddingNorm, "embeddings.LayerNorm"),
];
pub(super) const PARTS: &[(LayerWeight, &str, Fused)] = &[
    (LayerWeight::Query, "attention.self.query", Fused::No),
    (LayerWeight::Key, "attention.self.key", Fused::No),
    (LayerWeight::Value, "attention.self.value", Fused::No),
    (LayerWeight::Out, "attention.output.dense", Fused::No),
    (LayerWeight::AttentionPostNorm, "attention.output.LayerNorm", Fused::No),
    (LayerWeight::Up, "intermediate.dense", Fused::No),
    (LayerWeight::Down, "output.dense", Fused::No),
    (LayerWeight::FeedPostNorm, "output.LayerNorm", Fused::No),
];

/// The classifier of BERT for sequence classification, which other families share.
pub(super) const CLASSIFIER: &[HeadStep] =
    &[HeadStep::Body("pooler.dense"), HeadStep::Activation(Activation::Tanh), HeadStep::Labels("classifier")];
/// The classifier of BERT for token classification, which most families share.
pub(super) const TOKEN_CLASSIFIER: &[HeadStep] = &[HeadStep::Labels("classifier")];
pub(super) const MASKED_LM: &[HeadStep] = &[
    HeadStep::Linear("cls.predictions.transform.dense"),
    HeadStep::Configured(&["hidden_act"], Activation::Gelu),
    HeadStep::Norm("cls.predictions.transform.LayerNorm"),
];
pub(super) const MASKED_LM_BIAS: &str = "cls.predictions.bias";

const NAMES: Names = Names {
    prefixes: &["bert.", "model.", ""],
    embedding: "embeddings.word_embeddings",
    top: TOP,
    layers: "encoder.layer.",
    parts: PARTS,
    classifier: CLASSIFIER,
    token_classifier: TOKEN_CLASSIFIER,
    masked_lm: MASKED_LM,
    masked_lm_bias: MASKED_LM_BIAS,
    waived: &["pooler.", "position_ids", "cls.seq_relationship.", "cls.predictions.decoder."],
};

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let mut spec = source.encoder("bert", &NAMES, &Defaults::default())?;
    source.learned(&mut spec, 0)?;
    Ok(spec)
}
