//! DistilBERT: BERT with other names, without token types.

use super::bert;
use crate::error::Error;
use crate::name_table::{Fused, HeadStep, Names};
use crate::source::{Defaults, Key, Source};
use crate::spec::Spec;
use crate::weight_role::{LayerWeight, WeightRole};
use kernels::Activation;

const NAMES: Names = Names {
    prefixes: &["distilbert.", ""],
    embedding: "embeddings.word_embeddings",
    top: &[
        (WeightRole::Position, "embeddings.position_embeddings"),
        (WeightRole::EmbeddingNorm, "embeddings.LayerNorm"),
    ],
    layers: "transformer.layer.",
    parts: &[
        (LayerWeight::Query, "attention.q_lin", Fused::No),
        (LayerWeight::Key, "attention.k_lin", Fused::No),
        (LayerWeight::Value, "attention.v_lin", Fused::No),
        (LayerWeight::Out, "attention.out_lin", Fused::No),
        (LayerWeight::AttentionPostNorm, "sa_layer_norm", Fused::No),
        (LayerWeight::Up, "ffn.lin1", Fused::No),
        (LayerWeight::Down, "ffn.lin2", Fused::No),
        (LayerWeight::FeedPostNorm, "output_layer_norm", Fused::No),
    ],
    classifier: &[
        HeadStep::Linear("pre_classifier"),
        HeadStep::Activation(Activation::Relu),
        HeadStep::Labels("classifier"),
    ],
    token_classifier: bert::TOKEN_CLASSIFIER,
    masked_lm: &[
        HeadStep::Linear("vocab_transform"),
        HeadStep::Configured(&["activation"], Activation::Gelu),
        HeadStep::Norm("vocab_layer_norm"),
    ],
    masked_lm_bias: "vocab_projector.bias",
    waived: &["position_ids", "vocab_projector.weight"],
};

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let size = |names| source.size(Key("", names));
    let defaults = Defaults {
        width: size(&["dim"])?,
        layers: size(&["n_layers"])?,
        heads: size(&["n_heads"])?,
        feed: size(&["hidden_dim"])?,
        ..Defaults::default()
    };
    let mut spec = source.encoder("distilbert", &NAMES, &defaults)?;
    if let Some(activation) = source.activation(Key("", &["activation"]))? {
        spec.activation = activation;
    }
    source.learned(&mut spec, 0)?;
    Ok(spec)
}
