//! Jina embeddings v3: XLM-R with rope. The adapters of its tasks are not applied.

use super::bert;
use super::roberta_heads as heads;
use crate::error::Error;
use crate::name_table::{Fused, Names};
use crate::source::{Defaults, Key, Source};
use crate::spec::Spec;
use crate::weight_role::{LayerWeight, WeightRole};

const NAMES: Names = Names {
    prefixes: &["roberta.", ""],
    embedding: "embeddings.word_embeddings",
    top: &[
        (WeightRole::TokenType, "embeddings.token_type_embeddings"),
        (WeightRole::EmbeddingNorm, "emb_ln"),
    ],
    layers: "encoder.layers.",
    parts: &[
        (LayerWeight::Query, "mixer.Wqkv", Fused::Query),
        (LayerWeight::Key, "mixer.Wqkv", Fused::Key),
        (LayerWeight::Value, "mixer.Wqkv", Fused::Value),
        (LayerWeight::Out, "mixer.out_proj", Fused::No),
        (LayerWeight::AttentionPostNorm, "norm1", Fused::No),
        (LayerWeight::Up, "mlp.fc1", Fused::No),
        (LayerWeight::Down, "mlp.fc2", Fused::No),
        (LayerWeight::FeedPostNorm, "norm2", Fused::No),
    ],
    classifier: heads::CLASSIFIER,
    token_classifier: bert::TOKEN_CLASSIFIER,
    masked_lm: heads::MASKED_LM,
    masked_lm_bias: heads::MASKED_LM_BIAS,
    waived: &["pooler.", "position_ids", "lm_head.decoder.", "inv_freq", ".lora_A", ".lora_B"],
};

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let defaults = Defaults {
        eps: Some(1e-5),
        rope_base: source.float(Key("", &["rotary_emb_base"]))?.unwrap_or(20_000.0),
        ..Defaults::default()
    };
    let mut spec = source.encoder("jina-bert-v3", &NAMES, &defaults)?;
    source.rotate(&mut spec, &defaults)?;
    Ok(spec)
}
