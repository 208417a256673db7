//! RoBERTa and XLM-R (bge-m3): BERT whose positions begin after the padding token's.

use super::{bert, jina_v3};
use crate::error::Error;
use crate::names::{HeadStep, Names};
use crate::source::{Defaults, Key, Source};
use crate::spec::Spec;
use kernels::Activation;

const NAMES: Names = Names {
    prefixes: &["roberta.", "model.", ""],
    embedding: "embeddings.word_embeddings",
    top: bert::TOP,
    layers: "encoder.layer.",
    parts: bert::PARTS,
    classifier: &[
        HeadStep::Linear("classifier.dense"),
        HeadStep::Activation(Activation::Tanh),
        HeadStep::Labels("classifier.out_proj"),
    ],
    token_classifier: &[HeadStep::Labels("classifier")],
    masked_lm: &[
        HeadStep::Linear("lm_head.dense"),
        HeadStep::Activation(Activation::Gelu),
        HeadStep::Norm("lm_head.layer_norm"),
    ],
    masked_lm_bias: "lm_head.bias",
    waived: &["pooler.", "position_ids", "lm_head.decoder."],
};

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    if source.text(Key("", &["position_embedding_type"]))? == Some("rotary") {
        return jina_v3::read(source);
    }
    let mut spec = source.encoder("roberta", &NAMES, &Defaults { eps: Some(1e-5), ..Defaults::default() })?;
    let padding = source.size(Key("", &["pad_token_id"]))?.unwrap_or(1);
    source.learned(&mut spec, padding + 1)?;
    Ok(spec)
}
