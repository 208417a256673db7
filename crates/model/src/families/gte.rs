//! GTE ("new" of Alibaba-NLP): BERT with rope and a gated feed-forward.

use super::bert;
use crate::error::Error;
use crate::name_table::{Fused, HeadStep, Names};
use crate::rope::{Rope, RopeScaling};
use crate::source::{Defaults, Key, Source};
use crate::spec::{Biases, Spec};
use crate::weight_role::{LayerWeight, WeightRole};
use kernels::Activation;

const NAMES: Names = Names {
    prefixes: &["new.", "gte.", ""],
    embedding: "embeddings.word_embeddings",
    top: &[
        (WeightRole::TokenType, "embeddings.token_type_embeddings"),
        (WeightRole::EmbeddingNorm, "embeddings.LayerNorm"),
    ],
    layers: "encoder.layer.",
    parts: &[
        (LayerWeight::Query, "attention.qkv_proj", Fused::Query),
        (LayerWeight::Key, "attention.qkv_proj", Fused::Key),
        (LayerWeight::Value, "attention.qkv_proj", Fused::Value),
        (LayerWeight::Out, "attention.o_proj", Fused::No),
        (LayerWeight::AttentionPostNorm, "attn_ln", Fused::No),
        (LayerWeight::Up, "mlp.up_gate_proj", Fused::First),
        (LayerWeight::Gate, "mlp.up_gate_proj", Fused::Second),
        (LayerWeight::Down, "mlp.down_proj", Fused::No),
        (LayerWeight::FeedPostNorm, "mlp_ln", Fused::No),
    ],
    classifier: bert::CLASSIFIER,
    token_classifier: bert::TOKEN_CLASSIFIER,
    masked_lm: &[
        HeadStep::Linear("lm_head.dense"),
        HeadStep::Configured(&["hidden_act"], Activation::Gelu),
        HeadStep::Norm("lm_head.norm"),
    ],
    masked_lm_bias: bert::MASKED_LM_BIAS,
    waived: &["pooler.", "position_ids", "lm_head.decoder.", "inv_freq", "classifier.", "lm_head."],
};

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let defaults = Defaults::default();
    let mut spec = source.encoder("gte", &NAMES, &defaults)?;
    for (key, known) in
        [(Key("", &["position_embedding_type"]), "rope"), (Key("", &["layer_norm_type"]), "layer_norm")]
    {
        if let Some(other) = source.text(key)?.filter(|value| *value != known) {
            return Err(source.bad(key, other, known.into()));
        }
    }
    spec.gated = true;
    spec.biases = Biases { feed: false, ..spec.biases };
    match ntk_factor(source) {
        None => source.rotate(&mut spec, &defaults)?,
        Some(factor) => {
            // The published class stretches the base, and each frequency by one more power.
            let base = source.float(Key("", &["rope_theta"]))?.unwrap_or(defaults.rope_base) * factor;
            let rotary_dim = spec.head_dim;
            let scaling = RopeScaling::Linear { factor: factor.powf(2.0 / rotary_dim as f32) };
            spec.ropes = vec![Rope { rotary_dim, base, scaling }];
            spec.layers.iter_mut().for_each(|layer| layer.rope = Some(0));
        }
    }
    Ok(spec)
}

/// The factor of `rope_scaling`, if it is NTK-aware.
fn ntk_factor(source: &Source) -> Option<f32> {
    let scaling = source.config()?.get("rope_scaling")?;
    let ntk = scaling.get("type")? == "ntk";
    ntk.then(|| scaling.get("factor")?.as_f64()).flatten().map(|factor| factor as f32)
}
