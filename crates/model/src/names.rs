//! Where a weight is: from a role to the tensor names of either format, and the slice of it where several are fused.

use crate::source::Source;
use crate::spec::{Feed, Part, Role, Spec};

/// A place to look for a weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The tensor's name.
    pub(crate) name: String,
    /// The part of it, if it holds more than this weight.
    pub(crate) slice: Slice,
}

/// The part of a tensor that is one weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slice {
    /// All of it.
    Whole,
    /// Rows from `first` of a tensor of `of` rows.
    Rows { first: usize, of: usize },
    /// Rows from `first` of one expert of `count` stacked, each `of` rows.
    Expert { index: usize, count: usize, first: usize, of: usize },
}

impl Place {
    fn whole(name: String) -> Self {
        Place { name, slice: Slice::Whole }
    }

    fn rows(name: String, first: usize, of: usize) -> Self {
        Place { name, slice: Slice::Rows { first, of } }
    }
}

/// The places where `role` may be, the usual one first.
pub(crate) fn places(source: &Source, spec: &Spec, role: Role) -> Vec<Place> {
    if source.is_gguf() { gguf(spec, role) } else { hugging_face(source, spec, role) }
}

/// Tensors that some writers leave in a file and that no forward pass reads.
pub(crate) fn ignorable(name: &str, spec: &Spec) -> bool {
    let buffers = [
        ".rotary_emb.inv_freq",
        ".attn.masked_bias",
        ".attn.bias",
        "rope_freqs.weight",
        "rope_factors_long.weight",
        "rope_factors_short.weight",
    ];
    let other_senses =
        ["vision_tower.", "model.vision_tower.", "multi_modal_projector.", "model.multi_modal_projector."];
    buffers.iter().any(|b| name.ends_with(b))
        || other_senses.iter().any(|s| name.starts_with(s))
        || (spec.tied && name.ends_with("lm_head.weight"))
}

fn gguf(spec: &Spec, role: Role) -> Vec<Place> {
    let (layer, part) = match role {
        Role::Embedding => return vec![Place::whole("token_embd.weight".into())],
        Role::FinalNorm => return vec![Place::whole("output_norm.weight".into())],
        Role::FinalNormBias => return vec![Place::whole("output_norm.bias".into())],
        Role::Head => return vec![Place::whole("output.weight".into())],
        Role::HeadBias => return vec![Place::whole("output.bias".into())],
        Role::Layer(layer, part) => (layer, part),
    };
    let full = |name: &str| format!("blk.{layer}.{name}");
    let one = |name: &str| vec![Place::whole(full(name))];
    let fused =
        |own: &str, both: &str, first, of| vec![Place::whole(full(own)), Place::rows(full(both), first, of)];
    let (q, kv) = (spec.query_width(), spec.kv_width());
    let qkv = q + 2 * kv;
    let feed = spec.layers[layer].feed;
    let ff = feed.width();
    let stacked = |name: &str, index, rows, first_fused: Option<usize>| {
        let Feed::Experts { count, .. } = feed else { return Vec::new() };
        let at = |name: &str, first, of| {
            let slice = Slice::Expert { index, count, first, of };
            Place { name: full(&format!("{name}_exps.weight")), slice }
        };
        let fused = first_fused.map(|first| at("ffn_gate_up", first, 2 * rows));
        let alone = Place::whole(full(&format!("{name}.{index}.weight")));
        [at(name, 0, rows), alone].into_iter().chain(fused).collect()
    };
    match part {
        Part::AttentionNorm => one("attn_norm.weight"),
        Part::AttentionNormBias => one("attn_norm.bias"),
        Part::Query => fused("attn_q.weight", "attn_qkv.weight", 0, qkv),
        Part::QueryBias => fused("attn_q.bias", "attn_qkv.bias", 0, qkv),
        Part::Key => fused("attn_k.weight", "attn_qkv.weight", q, qkv),
        Part::KeyBias => fused("attn_k.bias", "attn_qkv.bias", q, qkv),
        Part::Value => fused("attn_v.weight", "attn_qkv.weight", q + kv, qkv),
        Part::ValueBias => fused("attn_v.bias", "attn_qkv.bias", q + kv, qkv),
        Part::QueryNorm => one("attn_q_norm.weight"),
        Part::KeyNorm => one("attn_k_norm.weight"),
        Part::Out => one("attn_output.weight"),
        Part::OutBias => one("attn_output.bias"),
        Part::AttentionPostNorm => one("post_attention_norm.weight"),
        Part::FeedNorm => one("ffn_norm.weight"),
        Part::FeedNormBias => one("ffn_norm.bias"),
        // Phi-3 keeps gate and up in one tensor under up's name.
        Part::Gate => fused("ffn_gate.weight", "ffn_up.weight", 0, 2 * ff),
        Part::GateBias => fused("ffn_gate.bias", "ffn_up.bias", 0, 2 * ff),
        Part::Up if spec.gated => {
            vec![Place::rows(full("ffn_up.weight"), ff, 2 * ff), Place::whole(full("ffn_up.weight"))]
        }
        Part::Up => one("ffn_up.weight"),
        Part::UpBias => one("ffn_up.bias"),
        Part::Down => one("ffn_down.weight"),
        Part::DownBias => one("ffn_down.bias"),
        Part::FeedPostNorm => one("post_ffw_norm.weight"),
        Part::Router => one("ffn_gate_inp.weight"),
        Part::ExpertGate(e) => stacked("ffn_gate", e, ff, Some(0)),
        Part::ExpertUp(e) => stacked("ffn_up", e, ff, Some(ff)),
        Part::ExpertDown(e) => stacked("ffn_down", e, spec.width, None),
    }
}

fn hugging_face(source: &Source, spec: &Spec, role: Role) -> Vec<Place> {
    let prefix = source.prefix();
    let top = |names: &[&str]| names.iter().map(|n| Place::whole(format!("{prefix}{n}"))).collect();
    let (layer, part) = match role {
        Role::Embedding => return top(&["embed_tokens.weight"]),
        Role::FinalNorm => return top(&["norm.weight", "final_layernorm.weight"]),
        Role::FinalNormBias => return top(&["norm.bias", "final_layernorm.bias"]),
        Role::Head => return vec![Place::whole(source.head_name().to_owned())],
        Role::HeadBias => return vec![Place::whole(source.head_name().replace(".weight", ".bias"))],
        Role::Layer(layer, part) => (layer, part),
    };
    let full = |name: &str| format!("{prefix}layers.{layer}.{name}");
    let any = |names: &[&str]| names.iter().map(|n| Place::whole(full(n))).collect::<Vec<_>>();
    let fused =
        |own: &str, both: &str, first, of| vec![Place::whole(full(own)), Place::rows(full(both), first, of)];
    let (q, kv) = (spec.query_width(), spec.kv_width());
    let qkv = q + 2 * kv;
    let feed = spec.layers[layer].feed;
    let ff = feed.width();
    let expert = |own: &str, stack: &str, index: usize, first, of| {
        let Feed::Experts { count, .. } = feed else { return Vec::new() };
        let slice = Slice::Expert { index, count, first, of };
        let stacked = Place { name: full(&format!("mlp.experts.{stack}")), slice };
        vec![Place::whole(full(&format!("mlp.experts.{index}.{own}.weight"))), stacked]
    };
    // With norms on both sides, "post_attention" is the one inside; otherwise it stands before feed-forward.
    let feed_norm = if spec.post_norms { "pre_feedforward_layernorm" } else { "post_attention_layernorm" };
    match part {
        Part::AttentionNorm => any(&["input_layernorm.weight"]),
        Part::AttentionNormBias => any(&["input_layernorm.bias"]),
        Part::Query => fused("self_attn.q_proj.weight", "self_attn.qkv_proj.weight", 0, qkv),
        Part::QueryBias => fused("self_attn.q_proj.bias", "self_attn.qkv_proj.bias", 0, qkv),
        Part::Key => fused("self_attn.k_proj.weight", "self_attn.qkv_proj.weight", q, qkv),
        Part::KeyBias => fused("self_attn.k_proj.bias", "self_attn.qkv_proj.bias", q, qkv),
        Part::Value => fused("self_attn.v_proj.weight", "self_attn.qkv_proj.weight", q + kv, qkv),
        Part::ValueBias => fused("self_attn.v_proj.bias", "self_attn.qkv_proj.bias", q + kv, qkv),
        Part::QueryNorm => any(&["self_attn.q_norm.weight"]),
        Part::KeyNorm => any(&["self_attn.k_norm.weight"]),
        Part::Out => any(&["self_attn.o_proj.weight", "self_attn.dense.weight"]),
        Part::OutBias => any(&["self_attn.o_proj.bias", "self_attn.dense.bias"]),
        Part::AttentionPostNorm => any(&["post_attention_layernorm.weight"]),
        Part::FeedNorm => any(&[&format!("{feed_norm}.weight")]),
        Part::FeedNormBias => any(&[&format!("{feed_norm}.bias")]),
        Part::Gate => fused("mlp.gate_proj.weight", "mlp.gate_up_proj.weight", 0, 2 * ff),
        Part::GateBias => any(&["mlp.gate_proj.bias"]),
        Part::Up if spec.gated => fused("mlp.up_proj.weight", "mlp.gate_up_proj.weight", ff, 2 * ff),
        Part::Up => any(&["mlp.up_proj.weight", "mlp.fc1.weight"]),
        Part::UpBias => any(&["mlp.up_proj.bias", "mlp.fc1.bias"]),
        Part::Down => any(&["mlp.down_proj.weight", "mlp.fc2.weight"]),
        Part::DownBias => any(&["mlp.down_proj.bias", "mlp.fc2.bias"]),
        Part::FeedPostNorm => any(&["post_feedforward_layernorm.weight"]),
        Part::Router => any(&["mlp.gate.weight"]),
        Part::ExpertGate(e) => expert("gate_proj", "gate_up_proj", e, 0, 2 * ff),
        Part::ExpertUp(e) => expert("up_proj", "gate_up_proj", e, ff, 2 * ff),
        Part::ExpertDown(e) => expert("down_proj", "down_proj", e, 0, spec.width),
    }
}
