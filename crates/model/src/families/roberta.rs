//! RoBERTa and XLM-R (bge-m3): BERT whose positions begin after the padding token's.

use super::roberta_heads as heads;
use super::{bert, jina_v3};
use crate::error::Error;
use crate::name_table::Names;
use crate::source::{Defaults, Key, Source};
use crate::spec::Spec;

const NAMES: Names = Names {
    prefixes: &["roberta.", "model.", ""],
    embedding: "embeddings.word_embeddings",
    top: bert::TOP,
    layers: "encoder.layer.",
    parts: bert::PARTS,
    classifier: heads::CLASSIFIER,
    token_classifier: bert::TOKEN_CLASSIFIER,
    masked_lm: heads::MASKED_LM,
    masked_lm_bias: heads::MASKED_LM_BIAS,
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
