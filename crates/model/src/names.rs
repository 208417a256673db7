//! Name maps: from a weight's role to its tensor name in GGUF or Hugging Face files, and to its slice of a fused
//! tensor.
//!
//! Decoders have Llama's names in a Hugging Face directory; an encoder's family has a table of its own ([`Names`]).

use crate::alt_up_names;
use crate::expert_names;
use crate::heads::Heads;
use crate::latent_names;
use crate::mixer::Mixer;
use crate::name_table::{BIAS_ENDS, Fused, Names, WEIGHT_ENDS};
use crate::per_layer_names;
use crate::prediction_names;
use crate::recurrent_names;
use crate::source::Source;
use crate::spec::{KvSource, LmHead, NormPlace, Spec};
use crate::tensor_location::{Slice, TensorLocation};
use crate::weight_role::{LayerWeight, WeightRole};

/// The tensors that may hold `role`, the usual one first.
pub(crate) fn places(source: &Source, spec: &Spec, role: WeightRole) -> Vec<TensorLocation> {
    if let Some(name) = spec.encoder.as_ref().and_then(|heads| heads_name(heads, role)) {
        return vec![TensorLocation::whole(name.to_owned())];
    }
    match spec.names {
        _ if source.is_gguf() => gguf(spec, role),
        Some(names) => table_places(names, source, spec, role),
        None => hugging_face(source, spec, role),
    }
}

/// Whether a tensor is one that some converters write and no forward pass reads (such as `rotary_emb.inv_freq`).
pub(crate) fn ignorable(name: &str, spec: &Spec) -> bool {
    let buffers = [
        ".rotary_emb.inv_freq",
        ".attn.masked_bias",
        ".attn.bias",
        "rope_freqs.weight",
        "rope_factors_long.weight",
        "rope_factors_short.weight",
    ];
    if let Some(names) = spec.names
        && names.waived.iter().any(|part| name.contains(part))
    {
        return true;
    }
    let other_senses = [
        "vision_tower.",
        "model.vision_tower.",
        "multi_modal_projector.",
        "model.multi_modal_projector.",
        "model.audio_tower.",
        "model.embed_vision.",
        "model.embed_audio.",
    ];
    buffers.iter().any(|b| name.ends_with(b))
        || predicts(name, spec)
        || is_of_shared_keys(name, spec)
        || (spec.has_states() && name.starts_with("model.visual."))
        || other_senses.iter().any(|s| name.starts_with(s))
        || (spec.lm_head != LmHead::Own && name.ends_with("lm_head.weight"))
}

/// Whether a tensor belongs to a block that predicts further tokens.
fn predicts(name: &str, spec: &Spec) -> bool {
    let rest = ["blk.", "model.layers."].iter().find_map(|first| name.strip_prefix(first));
    let layer = rest.and_then(|rest| rest.split_once('.')?.0.parse::<usize>().ok());
    let first = spec.layers.len();
    layer.is_some_and(|layer| (first..first + spec.prediction.left_out()).contains(&layer))
        || (spec.has_states() && name.starts_with("mtp.") && !spec.predicts())
}

/// Whether a tensor belongs to keys and values that a layer does not use: it reads those of an earlier layer.
fn is_of_shared_keys(name: &str, spec: &Spec) -> bool {
    let parts = [
        ".attn_k.",
        ".attn_v.",
        ".attn_k_norm.",
        ".self_attn.k_proj.",
        ".self_attn.v_proj.",
        ".self_attn.k_norm.",
    ];
    if !parts.iter().any(|part| name.contains(part)) {
        return false;
    }
    let number = name.split('.').find_map(|part| part.parse::<usize>().ok());
    let layer = number.and_then(|layer| spec.layers.get(layer));
    layer.is_some_and(|layer| matches!(layer.kv, KvSource::Layer(_)))
}

/// The tensor `own`, or else the rows from `first` of the fused tensor `both`, which has `of` rows.
fn own_or_fused(own: String, both: String, first: usize, of: usize) -> Vec<TensorLocation> {
    vec![TensorLocation::whole(own), TensorLocation::rows(both, first, of)]
}

fn gguf(spec: &Spec, role: WeightRole) -> Vec<TensorLocation> {
    match role {
        WeightRole::Embedding => vec![TensorLocation::whole("token_embd.weight".into())],
        // LFM2's last norm has the name of an embedding's.
        WeightRole::FinalNorm => ["output_norm.weight", "token_embd_norm.weight"]
            .map(|name| TensorLocation::whole(name.into()))
            .to_vec(),
        WeightRole::FinalNormBias => vec![TensorLocation::whole("output_norm.bias".into())],
        WeightRole::Head => vec![TensorLocation::whole("output.weight".into())],
        WeightRole::HeadBias => vec![TensorLocation::whole("output.bias".into())],
        WeightRole::Position => vec![TensorLocation::whole("position_embd.weight".into())],
        WeightRole::TokenType => vec![TensorLocation::whole("token_types.weight".into())],
        WeightRole::EmbeddingNorm => vec![TensorLocation::whole("token_embd_norm.weight".into())],
        WeightRole::EmbeddingNormBias => vec![TensorLocation::whole("token_embd_norm.bias".into())],
        WeightRole::Layer(layer, part) => match prediction_names::gguf(part) {
            Some(name) => vec![TensorLocation::whole(format!("blk.{layer}.{name}"))],
            None => gguf_layer(spec, layer, part),
        },
        // No GGUF has the others, or their names are those of the heads.
        role => per_layer_names::gguf_top(role)
            .map(|name| TensorLocation::whole(name.into()))
            .or_else(|| alt_up_names::gguf_top(spec.alt_up, spec.width, role))
            .into_iter()
            .collect(),
    }
}

/// The tensors that may hold a weight of a layer in a GGUF.
fn gguf_layer(spec: &Spec, layer: usize, part: LayerWeight) -> Vec<TensorLocation> {
    let full = |name: &str| format!("blk.{layer}.{name}");
    let one = |name: &str| vec![TensorLocation::whole(full(name))];
    let any = |names: &[&str]| names.iter().map(|n| TensorLocation::whole(full(n))).collect::<Vec<_>>();
    let fused = |own: &str, both: &str, first, of| own_or_fused(full(own), full(both), first, of);
    let own = &spec.layers[layer];
    if let Some(places) = latent_names::gguf(&own.mixer, part, &full) {
        return places;
    }
    let (q, kv) = (spec.query_width_of(own), spec.heads_of(own).width());
    let qkv = q + 2 * kv;
    let ff = own.feed.width();
    match part {
        LayerWeight::AttentionNorm => one("attn_norm.weight"),
        LayerWeight::AttentionNormBias => one("attn_norm.bias"),
        LayerWeight::Query => fused("attn_q.weight", "attn_qkv.weight", 0, qkv),
        LayerWeight::QueryBias => fused("attn_q.bias", "attn_qkv.bias", 0, qkv),
        LayerWeight::Key => fused("attn_k.weight", "attn_qkv.weight", q, qkv),
        LayerWeight::KeyBias => fused("attn_k.bias", "attn_qkv.bias", q, qkv),
        LayerWeight::Value => fused("attn_v.weight", "attn_qkv.weight", q + kv, qkv),
        LayerWeight::ValueBias => fused("attn_v.bias", "attn_qkv.bias", q + kv, qkv),
        LayerWeight::QueryNorm => one("attn_q_norm.weight"),
        LayerWeight::KeyNorm => one("attn_k_norm.weight"),
        LayerWeight::Sinks => one("attn_sinks.weight"),
        LayerWeight::Out => any(&["attn_output.weight", "ssm_out.weight", "shortconv.out_proj.weight"]),
        LayerWeight::OutBias => one("attn_output.bias"),
        LayerWeight::AttentionPostNorm => any(&["post_attention_norm.weight", "attn_output_norm.weight"]),
        LayerWeight::AttentionPostNormBias => one("attn_output_norm.bias"),
        // In a GGUF of gpt-oss, Qwen3.5 or Seed-OSS, "post_attention_norm" precedes the feed-forward.
        // A layer with one part has one norm.
        LayerWeight::FeedNorm if spec.layers[layer].mixer == Mixer::None => one("attn_norm.weight"),
        LayerWeight::FeedNorm if spec.norm_place == NormPlace::Pre => {
            // Falcon-H1's has no ending.
            any(&["ffn_norm.weight", "post_attention_norm.weight", "ffn_norm"])
        }
        LayerWeight::FeedNorm => one("ffn_norm.weight"),
        LayerWeight::FeedNormBias => one("ffn_norm.bias"),
        // Phi-3 keeps gate and up in one tensor under up's name.
        LayerWeight::Gate => fused("ffn_gate.weight", "ffn_up.weight", 0, 2 * ff),
        LayerWeight::GateBias => fused("ffn_gate.bias", "ffn_up.bias", 0, 2 * ff),
        LayerWeight::Up if spec.gated => {
            fused("ffn_up.weight", "ffn_up.weight", ff, 2 * ff).into_iter().rev().collect()
        }
        LayerWeight::Up => one("ffn_up.weight"),
        LayerWeight::UpBias => one("ffn_up.bias"),
        LayerWeight::Down => one("ffn_down.weight"),
        LayerWeight::DownBias => one("ffn_down.bias"),
        LayerWeight::FeedPostNorm => any(&["post_ffw_norm.weight", "layer_output_norm.weight"]),
        LayerWeight::FeedPostNormBias => one("layer_output_norm.bias"),
        part => match [per_layer_names::gguf(part), alt_up_names::gguf(part)] {
            [[], []] => match recurrent_names::gguf(&spec.layers[layer].mixer, part, &full) {
                // Only encoders have the others.
                none if none.is_empty() => expert_names::gguf(spec, layer, part, &full),
                places => places,
            },
            [[], names] | [names, _] => any(names),
        },
    }
}

fn hugging_face(source: &Source, spec: &Spec, role: WeightRole) -> Vec<TensorLocation> {
    let prefix = source.prefix();
    let top = |names: &[&str]| {
        names.iter().map(|n| TensorLocation::whole(format!("{prefix}{n}"))).collect::<Vec<_>>()
    };
    match role {
        WeightRole::Embedding => top(&["embed_tokens.weight", "embeddings.weight"]),
        WeightRole::FinalNorm => {
            top(&["norm.weight", "final_layernorm.weight", "embedding_norm.weight", "norm_f.weight"])
        }
        WeightRole::FinalNormBias => top(&["norm.bias", "final_layernorm.bias"]),
        WeightRole::Head => vec![TensorLocation::whole(source.head_name().to_owned())],
        WeightRole::HeadBias => vec![TensorLocation::whole(source.head_name().replace(".weight", ".bias"))],
        WeightRole::Layer(layer, part) => match prediction_names::hugging_face(part) {
            Some(name) => vec![TensorLocation::whole(name.into())],
            None => hugging_face_layer(spec, prefix, layer, part),
        },
        // Only encoders have the others, which come with a table of names.
        role => match (per_layer_names::hugging_face_top(role), alt_up_names::hugging_face_top(role)) {
            (Some(name), _) => top(&[name]),
            (None, Some(name)) => top(&[&name]),
            (None, None) => Vec::new(),
        },
    }
}

/// The tensors that may hold a weight of a decoder's layer in a Hugging Face directory.
fn hugging_face_layer(spec: &Spec, prefix: &str, layer: usize, part: LayerWeight) -> Vec<TensorLocation> {
    let folder = match spec.prediction_layer() == Some(layer) {
        true => prediction_names::LAYER.to_owned(),
        false => format!("{prefix}layers.{layer}."),
    };
    let full = |name: &str| format!("{folder}{name}");
    let any = |names: &[&str]| names.iter().map(|n| TensorLocation::whole(full(n))).collect::<Vec<_>>();
    let fused = |own: &str, both: &str, first, of| own_or_fused(full(own), full(both), first, of);
    let own = &spec.layers[layer];
    if let Some(places) = latent_names::hugging_face(&own.mixer, part, &full) {
        return places;
    }
    let (q, kv) = (spec.query_width_of(own), spec.heads_of(own).width());
    let qkv = q + 2 * kv;
    let ff = own.feed.width();
    let of_qkv = |letter: &str, first| {
        let own = format!("self_attn.{letter}_proj.weight");
        let mut all = fused(&own, "self_attn.qkv_proj.weight", first, qkv);
        all.push(TensorLocation::whole(full(&format!("mixer.{letter}_proj.weight"))));
        all
    };
    // In models with post-norms, "post_attention_layernorm" is the post-norm; in others it precedes the feed-forward.
    let feed_norm = if spec.norm_place == NormPlace::Sandwich {
        "pre_feedforward_layernorm"
    } else {
        "post_attention_layernorm"
    };
    match part {
        LayerWeight::AttentionNorm => any(&["input_layernorm.weight", "operator_norm.weight", "norm.weight"]),
        LayerWeight::AttentionNormBias => any(&["input_layernorm.bias"]),
        LayerWeight::Query => of_qkv("q", 0),
        LayerWeight::QueryBias => fused("self_attn.q_proj.bias", "self_attn.qkv_proj.bias", 0, qkv),
        LayerWeight::Key => of_qkv("k", q),
        LayerWeight::KeyBias => fused("self_attn.k_proj.bias", "self_attn.qkv_proj.bias", q, qkv),
        LayerWeight::Value => of_qkv("v", q + kv),
        LayerWeight::ValueBias => fused("self_attn.v_proj.bias", "self_attn.qkv_proj.bias", q + kv, qkv),
        LayerWeight::OutBias => any(&["self_attn.o_proj.bias", "self_attn.dense.bias"]),
        LayerWeight::AttentionPostNorm => any(&["post_attention_layernorm.weight"]),
        LayerWeight::FeedNorm if spec.layers[layer].mixer == Mixer::None => any(&["norm.weight"]),
        LayerWeight::FeedNorm => {
            any(&[&format!("{feed_norm}.weight"), "ffn_norm.weight", "pre_ff_layernorm.weight"])
        }
        LayerWeight::FeedNormBias => any(&[&format!("{feed_norm}.bias")]),
        LayerWeight::Gate => gate_or_up(["gate_proj", "w1"], 0, 2 * ff, &full),
        LayerWeight::GateBias => any(&["mlp.gate_proj.bias"]),
        LayerWeight::Up if spec.gated => gate_or_up(["up_proj", "w3"], ff, 2 * ff, &full),
        LayerWeight::Up => any(&["mlp.up_proj.weight", "mlp.fc1.weight", "mixer.up_proj.weight"]),
        LayerWeight::UpBias => any(&["mlp.up_proj.bias", "mlp.fc1.bias", "mixer.up_proj.bias"]),
        LayerWeight::DownBias => any(&["mlp.down_proj.bias", "mlp.fc2.bias", "mixer.down_proj.bias"]),
        LayerWeight::FeedPostNorm => any(&["post_feedforward_layernorm.weight"]),
        part => match [listed_names(part), per_layer_names::hugging_face(part)] {
            [[], []] => match recurrent_names::hugging_face(&own.mixer, part, &full) {
                // Only encoders have the others.
                none if none.is_empty() => expert_names::hugging_face(spec, layer, part, &full),
                places => places,
            },
            [[], names] | [names, _] => any(names),
        },
    }
}

/// The tensors that may hold the gate or the up projection of a dense feed-forward, which is rows from `first` on of `of`
/// where both are one tensor.
fn gate_or_up(
    [projection, lfm]: [&str; 2],
    first: usize,
    of: usize,
    full: &dyn Fn(&str) -> String,
) -> Vec<TensorLocation> {
    let own = |folder: &str, name: &str| TensorLocation::whole(full(&format!("{folder}.{name}.weight")));
    let fused = |name: &str| TensorLocation::rows(full(name), first, of);
    vec![
        own("mlp", projection),
        fused("mlp.gate_up_proj.weight"),
        own("feed_forward", lfm),
        own("feed_forward", projection),
        // Granite 4 has the fused tensor of a shared expert also where there are no experts.
        fused("shared_mlp.input_linear.weight"),
    ]
}

/// The names that a weight of attention or feed-forward has in one family or another, within its layer.
fn listed_names(part: LayerWeight) -> &'static [&'static str] {
    match part {
        LayerWeight::QueryNorm => {
            &["self_attn.q_norm.weight", "self_attn.q_layernorm.weight", "self_attn.query_layernorm.weight"]
        }
        LayerWeight::KeyNorm => {
            &["self_attn.k_norm.weight", "self_attn.k_layernorm.weight", "self_attn.key_layernorm.weight"]
        }
        LayerWeight::Sinks => &["self_attn.sinks"],
        LayerWeight::Out => &[
            "self_attn.o_proj.weight",
            "self_attn.dense.weight",
            "self_attn.out_proj.weight",
            "linear_attn.out_proj.weight",
            "conv.out_proj.weight",
            "mamba.out_proj.weight",
            "mixer.out_proj.weight",
            "mixer.o_proj.weight",
        ],
        LayerWeight::Down => &[
            "mlp.down_proj.weight",
            "mlp.fc2.weight",
            "shared_mlp.output_linear.weight",
            "feed_forward.w2.weight",
            "feed_forward.down_proj.weight",
            "mixer.down_proj.weight",
        ],
        part => alt_up_names::hugging_face(part),
    }
}

fn table_places(names: &Names, source: &Source, spec: &Spec, role: WeightRole) -> Vec<TensorLocation> {
    let prefix = names.prefix(&|name| source.has(name));
    let both = |stem: &str, bias: bool| {
        let ends: &[&str] = if bias { &BIAS_ENDS } else { &WEIGHT_ENDS };
        ends.iter().map(|end| TensorLocation::whole(format!("{prefix}{stem}{end}"))).collect::<Vec<_>>()
    };
    let top = |role: WeightRole| names.top.iter().find(|(of, _)| *of == role).map(|(_, stem)| *stem);
    let found = match role {
        WeightRole::Embedding => return both(names.embedding, false),
        WeightRole::HeadBias => return vec![TensorLocation::whole(names.masked_lm_bias.to_owned())],
        WeightRole::EmbeddingNormBias => top(WeightRole::EmbeddingNorm).map(|stem| both(stem, true)),
        WeightRole::FinalNormBias => top(WeightRole::FinalNorm).map(|stem| both(stem, true)),
        WeightRole::RelativeNormBias => top(WeightRole::RelativeNorm).map(|stem| both(stem, true)),
        WeightRole::Layer(layer, part) => return layer_places(names, prefix, spec, layer, part),
        role => top(role).map(|stem| both(stem, false)),
    };
    found.unwrap_or_default()
}

fn layer_places(
    names: &Names,
    prefix: &str,
    spec: &Spec,
    layer: usize,
    part: LayerWeight,
) -> Vec<TensorLocation> {
    let (weight, bias) = match weight_of_bias(part) {
        Some(weight) => (weight, true),
        None => (part, false),
    };
    let own = &spec.layers[layer];
    let (q, kv, ff) = (spec.query_width_of(own), spec.heads_of(own).width(), own.feed.width());
    let ends: &[&str] = if bias { &BIAS_ENDS } else { &WEIGHT_ENDS };
    let named = names.parts.iter().filter(|(of, ..)| *of == weight);
    let place = |(_, stem, fused): &(LayerWeight, &str, Fused)| {
        let slice = match fused {
            Fused::No => Slice::Whole,
            Fused::Query => Slice::Rows { first: 0, of: q + 2 * kv },
            Fused::Key => Slice::Rows { first: q, of: q + 2 * kv },
            Fused::Value => Slice::Rows { first: q + kv, of: q + 2 * kv },
            Fused::First => Slice::Rows { first: 0, of: 2 * ff },
            Fused::Second => Slice::Rows { first: ff, of: 2 * ff },
        };
        let name = |end: &&str| format!("{prefix}{}{layer}.{stem}{end}", names.layers);
        ends.iter().map(|end| TensorLocation { name: name(end), slice }).collect::<Vec<_>>()
    };
    named.flat_map(place).collect()
}

/// The weight that a bias belongs to.
fn weight_of_bias(part: LayerWeight) -> Option<LayerWeight> {
    Some(match part {
        LayerWeight::AttentionNormBias => LayerWeight::AttentionNorm,
        LayerWeight::QueryBias => LayerWeight::Query,
        LayerWeight::KeyBias => LayerWeight::Key,
        LayerWeight::ValueBias => LayerWeight::Value,
        LayerWeight::OutBias => LayerWeight::Out,
        LayerWeight::AttentionPostNormBias => LayerWeight::AttentionPostNorm,
        LayerWeight::PositionKeyBias => LayerWeight::PositionKey,
        LayerWeight::PositionQueryBias => LayerWeight::PositionQuery,
        LayerWeight::FeedNormBias => LayerWeight::FeedNorm,
        LayerWeight::GateBias => LayerWeight::Gate,
        LayerWeight::UpBias => LayerWeight::Up,
        LayerWeight::DownBias => LayerWeight::Down,
        LayerWeight::FeedPostNormBias => LayerWeight::FeedPostNorm,
        _ => return None,
    })
}

/// The tensor's name of a role of the heads.
fn heads_name(heads: &Heads, role: WeightRole) -> Option<&str> {
    match role {
        WeightRole::Task(index) => heads.linears.get(index).map(|l| l.weight.as_str()),
        WeightRole::TaskBias(index) => heads.linears.get(index)?.bias.as_deref(),
        WeightRole::TaskNorm(index) => heads.norms.get(index).map(|n| n.weight.as_str()),
        WeightRole::TaskNormBias(index) => heads.norms.get(index)?.bias.as_deref(),
        _ => None,
    }
}
