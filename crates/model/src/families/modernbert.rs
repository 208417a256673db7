//! ModernBERT: pre-norms without biases, rope with a table for local layers and one for global ones, GeGLU.

use crate::error::Error;
use crate::name_table::{Fused, HeadStep, Names};
use crate::source::{Defaults, Key, Source, WINDOW};
use crate::spec::{Biases, NormPlace, Spec};
use crate::weight_role::{LayerWeight, WeightRole};
use kernels::Activation;

const NAMES: Names = Names {
    prefixes: &["model.", ""],
    embedding: "embeddings.tok_embeddings",
    top: &[(WeightRole::EmbeddingNorm, "embeddings.norm"), (WeightRole::FinalNorm, "final_norm")],
    layers: "layers.",
    parts: &[
        (LayerWeight::AttentionNorm, "attn_norm", Fused::No),
        (LayerWeight::Query, "attn.Wqkv", Fused::Query),
        (LayerWeight::Key, "attn.Wqkv", Fused::Key),
        (LayerWeight::Value, "attn.Wqkv", Fused::Value),
        (LayerWeight::Out, "attn.Wo", Fused::No),
        (LayerWeight::FeedNorm, "mlp_norm", Fused::No),
        (LayerWeight::Gate, "mlp.Wi", Fused::First),
        (LayerWeight::Up, "mlp.Wi", Fused::Second),
        (LayerWeight::Down, "mlp.Wo", Fused::No),
    ],
    classifier: HEAD_AND_LABELS,
    token_classifier: HEAD_AND_LABELS,
    masked_lm: &[
        HeadStep::Linear("head.dense"),
        HeadStep::Configured(&["classifier_activation"], Activation::Gelu),
        HeadStep::Norm("head.norm"),
    ],
    masked_lm_bias: "decoder.bias",
    waived: &["decoder.weight", "inv_freq"],
};

const HEAD_AND_LABELS: &[HeadStep] = &[
    HeadStep::Linear("head.dense"),
    HeadStep::Configured(&["classifier_activation"], Activation::Gelu),
    HeadStep::Norm("head.norm"),
    HeadStep::Labels("classifier"),
];

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let defaults =
        Defaults { eps: Some(1e-5), context: Some(8192), rope_base: 160_000.0, ..Defaults::default() };
    let mut spec = source.encoder("modern-bert", &NAMES, &defaults)?;
    spec.norm_place = NormPlace::Pre;
    spec.final_norm = true;
    spec.gated = true;
    spec.activation = source.activation(Key("", &["hidden_activation"]))?.unwrap_or(Activation::Gelu);
    let bias = |name| source.flag(Key("", name));
    let (attention, feed) =
        (bias(&["attention_bias"])?.unwrap_or(false), bias(&["mlp_bias"])?.unwrap_or(false));
    spec.biases = Biases { qkv: attention, out: attention, feed, down: feed, head: spec.biases.head };
    spec.norm.bias = bias(&["norm_bias"])?.unwrap_or(false);
    if let Some(first) = spec.layers.first_mut() {
        first.attention_norm = false;
    }
    // `local_attention` counts both sides; a GGUF has it under the usual key.
    let window = source.size(Key("", &["local_attention"]))?.or(source.size(WINDOW)?).unwrap_or(128);
    let every = source.size(Key("", &["global_attn_every_n_layers"]))?.unwrap_or(3).max(1);
    let listed = source.sliding_layers(spec.layers.len())?;
    let (global, local) = source.modernbert_ropes(spec.head_dim)?;
    spec.ropes = vec![global, local];
    for (index, layer) in spec.layers.iter_mut().enumerate() {
        let slides = listed.as_ref().map_or(!index.is_multiple_of(every), |list| list[index]);
        layer.rope = Some(usize::from(slides));
        layer.window = slides.then_some(window / 2);
    }
    Ok(spec)
}
