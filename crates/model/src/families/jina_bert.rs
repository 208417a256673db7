//! JinaBERT v2: BERT with ALiBi in both directions and a gated feed-forward.

use super::bert;
use crate::error::Error;
use crate::name_table::{Fused, Names};
use crate::source::{Defaults, Key, Source};
use crate::spec::{Biases, Positions, Spec};
use crate::weight_role::{LayerWeight, WeightRole};
use kernels::Activation;

const NAMES: Names = Names {
    prefixes: &["bert.", "model.", ""],
    embedding: "embeddings.word_embeddings",
    top: &[
        (WeightRole::TokenType, "embeddings.token_type_embeddings"),
        (WeightRole::EmbeddingNorm, "embeddings.LayerNorm"),
    ],
    layers: "encoder.layer.",
    parts: &[
        (LayerWeight::Query, "attention.self.query", Fused::No),
        (LayerWeight::Key, "attention.self.key", Fused::No),
        (LayerWeight::Value, "attention.self.value", Fused::No),
        (LayerWeight::Out, "attention.output.dense", Fused::No),
        (LayerWeight::AttentionPostNorm, "attention.output.LayerNorm", Fused::No),
        (LayerWeight::Gate, "mlp.gated_layers", Fused::First),
        (LayerWeight::Up, "mlp.gated_layers", Fused::Second),
        (LayerWeight::Down, "mlp.wo", Fused::No),
        (LayerWeight::FeedPostNorm, "mlp.layernorm", Fused::No),
    ],
    classifier: bert::CLASSIFIER,
    token_classifier: bert::TOKEN_CLASSIFIER,
    masked_lm: bert::MASKED_LM,
    masked_lm_bias: bert::MASKED_LM_BIAS,
    waived: &["pooler.", "position_ids", "cls.predictions.decoder.", "cls.seq_relationship."],
};

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let mut spec = source.encoder("jina-bert-v2", &NAMES, &Defaults::default())?;
    spec.positions = Positions::Alibi;
    spec.gated = true;
    spec.biases = Biases { feed: false, ..spec.biases };
    let key = Key("", &["feed_forward_type"]);
    spec.activation = match source.text(key)?.unwrap_or("geglu") {
        "geglu" => Activation::Gelu,
        "reglu" => Activation::Relu,
        other => return Err(source.bad(key, other, "geglu or reglu".into())),
    };
    Ok(spec)
}
