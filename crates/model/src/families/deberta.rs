//! DeBERTa-v2 and v3: disentangled attention, whose scores have products of content with relative positions.

use super::bert;
use crate::error::Error;
use crate::name_table::{Fused, HeadStep, Names};
use crate::source::{Defaults, Key, Source};
use crate::spec::{Positions, Spec};
use crate::weight_role::{LayerWeight, WeightRole};
use kernels::Activation;
use serde_json::Value;

const NAMES: Names = Names {
    prefixes: &["deberta.", ""],
    embedding: "embeddings.word_embeddings",
    top: &[
        (WeightRole::Position, "embeddings.position_embeddings"),
        (WeightRole::TokenType, "embeddings.token_type_embeddings"),
        (WeightRole::EmbeddingNorm, "embeddings.LayerNorm"),
        (WeightRole::Relative, "encoder.rel_embeddings"),
        (WeightRole::RelativeNorm, "encoder.LayerNorm"),
    ],
    layers: "encoder.layer.",
    parts: &[
        (LayerWeight::Query, "attention.self.query_proj", Fused::No),
        (LayerWeight::Key, "attention.self.key_proj", Fused::No),
        (LayerWeight::Value, "attention.self.value_proj", Fused::No),
        (LayerWeight::PositionKey, "attention.self.pos_key_proj", Fused::No),
        (LayerWeight::PositionQuery, "attention.self.pos_query_proj", Fused::No),
        (LayerWeight::Out, "attention.output.dense", Fused::No),
        (LayerWeight::AttentionPostNorm, "attention.output.LayerNorm", Fused::No),
        (LayerWeight::Up, "intermediate.dense", Fused::No),
        (LayerWeight::Down, "output.dense", Fused::No),
        (LayerWeight::FeedPostNorm, "output.LayerNorm", Fused::No),
    ],
    classifier: &[
        HeadStep::Linear("pooler.dense"),
        HeadStep::Configured(&["pooler_hidden_act"], Activation::Gelu),
        HeadStep::Labels("classifier"),
    ],
    token_classifier: bert::TOKEN_CLASSIFIER,
    masked_lm: bert::MASKED_LM,
    masked_lm_bias: bert::MASKED_LM_BIAS,
    waived: &["pooler.", "position_ids", "cls.predictions.decoder.", "lm_predictions.", "mask_predictions."],
};

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let defaults = Defaults { eps: Some(1e-7), context: Some(512), ..Defaults::default() };
    let mut spec = source.encoder("deberta", &NAMES, &defaults)?;
    let size = |names| source.size(Key("", names));
    let conv = Key("", &["conv_kernel_size"]);
    if let Some(kernel) = source.size(conv)?.filter(|kernel| *kernel > 0) {
        return Err(source.bad(conv, kernel, "0: the convolution of DeBERTa-v2 is not built".into()));
    }
    let narrow = Key("", &["embedding_size"]);
    if let Some(width) = source.size(narrow)?.filter(|width| *width != spec.width) {
        return Err(source.bad(narrow, width, format!("the width, {}", spec.width)));
    }
    let flag = |names, default| source.flag(Key("", names)).map(|value| value.unwrap_or(default));
    let relative = Key("", &["relative_attention"]);
    if !source.flag(relative)?.unwrap_or(false) {
        return Err(source.bad(relative, false, "true: this family has relative positions".into()));
    }
    // -1 stands for the context in one key, for no buckets in the other.
    let number =
        |name: &str| source.config().and_then(|c| c.get(name)).and_then(Value::as_i64).filter(|n| *n > 0);
    let max_distance = number("max_relative_positions").map_or(spec.context, |n| n as usize);
    let buckets = number("position_buckets").map_or(0, |n| n as usize);
    let kinds = kinds(source)?;
    let (c2p, p2c) = (kinds.contains("c2p"), kinds.contains("p2c"));
    let norm = source.text(Key("", &["norm_rel_ebd"]))?.unwrap_or("none").contains("layer_norm");
    let shared = flag(&["share_att_key"], false)?;
    let biased = flag(&["position_biased_input"], true)?;
    let rows = if biased { size(&["max_position_embeddings"])?.unwrap_or(512) } else { 0 };
    spec.positions = Positions::Disentangled { buckets, max_distance, shared, c2p, p2c, norm, rows };
    let parts = 1 + usize::from(c2p) + usize::from(p2c);
    spec.attention_scale = 1.0 / ((spec.head_dim * parts) as f32).sqrt();
    Ok(spec)
}

/// The kinds of position attention, as a list or joined by `|`.
fn kinds(source: &Source) -> Result<String, Error> {
    let value = source.config().and_then(|config| config.get("pos_att_type"));
    let joined = match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("|"),
        _ => String::new(),
    };
    let unknown = joined.split('|').find(|kind| !matches!(kind.trim(), "" | "c2p" | "p2c"));
    match unknown {
        Some(other) => Err(source.bad(Key("", &["pos_att_type"]), other, "c2p and p2c".into())),
        None => Ok(joined),
    }
}
