//! NomicBERT: BERT with rope and a gated feed-forward, without biases.

use super::bert;
use crate::error::Error;
use crate::name_table::{Fused, Names};
use crate::source::{Defaults, HIDDEN_ACT, Key, Source};
use crate::spec::{Biases, Spec};
use crate::weight_role::{LayerWeight, WeightRole};
use kernels::Activation;

const NAMES: Names = Names {
    prefixes: &["bert.", "nomic_bert.", "model.", ""],
    embedding: "embeddings.word_embeddings",
    top: &[
        (WeightRole::TokenType, "embeddings.token_type_embeddings"),
        (WeightRole::EmbeddingNorm, "emb_ln"),
    ],
    layers: "encoder.layers.",
    parts: &[
        (LayerWeight::Query, "attn.Wqkv", Fused::Query),
        (LayerWeight::Key, "attn.Wqkv", Fused::Key),
        (LayerWeight::Value, "attn.Wqkv", Fused::Value),
        (LayerWeight::Out, "attn.out_proj", Fused::No),
        (LayerWeight::AttentionPostNorm, "norm1", Fused::No),
        (LayerWeight::Up, "mlp.fc11", Fused::No),
        (LayerWeight::Gate, "mlp.fc12", Fused::No),
        (LayerWeight::Down, "mlp.fc2", Fused::No),
        (LayerWeight::FeedPostNorm, "norm2", Fused::No),
    ],
    classifier: bert::CLASSIFIER,
    token_classifier: bert::TOKEN_CLASSIFIER,
    masked_lm: bert::MASKED_LM,
    masked_lm_bias: "cls.predictions.decoder.bias",
    waived: &["pooler.", "position_ids", "cls.", "inv_freq"],
};

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let experts = Key("moe_every_n_layers", &["moe_every_n_layers"]);
    if let Some(every) = source.size(experts)?.filter(|every| *every > 0) {
        return Err(source.bad(experts, every, "0: experts without a gate are not built".into()));
    }
    let size = |names| source.size(Key("", names));
    let defaults = Defaults {
        width: size(&["n_embd"])?,
        layers: size(&["n_layer"])?,
        heads: size(&["n_head"])?,
        feed: size(&["n_inner"])?,
        context: size(&["n_positions"])?,
        rope_base: source.float(Key("", &["rotary_emb_base"]))?.unwrap_or(10_000.0),
        ..Defaults::default()
    };
    let mut spec = source.encoder("nomic-bert", &NAMES, &defaults)?;
    let flag = |names| source.flag(Key("", names)).map(|value| value.unwrap_or(false));
    let (attention, feed) = (flag(&["qkv_proj_bias"])?, flag(&["mlp_fc1_bias"])?);
    spec.biases = Biases {
        qkv: attention,
        out: attention,
        feed,
        down: flag(&["mlp_fc2_bias"])?,
        head: spec.biases.head,
    };
    spec.gated = true;
    let named = source.text(Key("", &["activation_function"]))?.unwrap_or("swiglu");
    spec.activation = match named {
        "swiglu" => Activation::Silu,
        "geglu" => Activation::Gelu,
        other => return Err(source.bad(HIDDEN_ACT, other, "swiglu or geglu".into())),
    };
    source.rotate(&mut spec, &defaults)?;
    Ok(spec)
}
