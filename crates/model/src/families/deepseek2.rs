//! DeepSeek-V2 and V3, GLM-4.7-Flash and Youtu: latent attention; but for Youtu experts, some shared, after dense layers.
//!
//! Layers that predict further tokens are not built; their tensors are left unread.

use crate::error::Error;
use crate::latent::LatentAttention;
use crate::mixer::Mixer;
use crate::mixture::{Router, RouterBias, Score, SharedExpert};
use crate::rope::{RopeScaling, yarn_mscale};
use crate::source::{Defaults, EXPERT_WIDTH, Key, Source};
use crate::spec::{Prediction, Spec};
use kernels::{MAX_HEAD_DIM, Pairing};

const KV_HEADS: Key = Key("", &["num_key_value_heads"]);
const QUERY_RANK: Key = Key("attention.q_lora_rank", &["q_lora_rank"]);
const RANK: Key = Key("attention.kv_lora_rank", &["kv_lora_rank"]);
const ROTARY: Key = Key("rope.dimension_count", &["qk_rope_head_dim"]);
const PLAIN: Key = Key("", &["qk_nope_head_dim"]);
const QUERY_DIM: Key = Key("attention.key_length_mla", &[]);
const VALUE_DIM: Key = Key("attention.value_length_mla", &["v_head_dim"]);
/// What files called these widths before the KV cache held the latent.
const OLD_QUERY_DIM: Key = Key("attention.key_length", &[]);
const OLD_VALUE_DIM: Key = Key("attention.value_length", &[]);
const INTERLEAVED: Key = Key("", &["rope_interleave"]);
/// A tenth of what `config.json` calls `mscale_all_dim`.
const SCORE_SCALE: Key = Key("rope.scaling.yarn_log_multiplier", &[]);
const SCORE_FUNCTION: Key = Key("", &["scoring_func"]);
const CHOICE: Key = Key("", &["topk_method"]);
const SHARED: Key = Key("expert_shared_count", &["n_shared_experts"]);
const LAYER_KINDS: Key = Key("", &["mlp_layer_types"]);
const PREDICTION: Key = Key("", &["num_nextn_predict_layers"]);

/// Keys whose other values are not built: the key, the value with which it does nothing, how it is said.
const NEUTRAL: [(Key, usize, &str); 3] = [
    (Key("", &["attention_bias"]), 0, "false: biases of latent attention are not built"),
    (Key("", &["mlp_bias"]), 0, "false: biases of feed-forwards are not built for this family"),
    (Key("", &["moe_layer_freq"]), 1, "1: all layers after the dense ones have experts"),
];

/// The models of `config.json` that differ in what they leave out; a GGUF has one name for all.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    V2,
    V3,
    Glm,
    Youtu,
}

impl Class {
    fn of(source: &Source) -> Class {
        let named = |part: &str| source.names().iter().any(|name| name.to_lowercase().contains(part));
        let known = [("v2", Class::V2), ("glm", Class::Glm), ("youtu", Class::Youtu)];
        known.into_iter().find(|(part, _)| named(part)).map_or(Class::V3, |(_, class)| class)
    }

    /// The first layers, which have no experts, where the file does not say how many.
    fn dense_layers(self) -> usize {
        match self {
            Class::V2 => 0,
            Class::V3 => 3,
            Class::Glm => 1,
            Class::Youtu => usize::MAX,
        }
    }
}

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    refuse(source)?;
    let class = Class::of(source);
    let defaults = Defaults { latent: true, tied: class == Class::Youtu, ..Defaults::default() };
    let mut spec = source.decoder("deepseek2", &defaults)?;
    if source.is_gguf() {
        source.leave_out_prediction(&mut spec)?;
    } else {
        let count = source.size(PREDICTION)?.unwrap_or(0).min(spec.layers.len());
        spec.prediction = Prediction::LeftOut(count);
    }
    let net = latent(source, spec.heads)?;
    spec.layers.iter_mut().for_each(|layer| layer.mixer = Mixer::Latent(net));
    (spec.kv_heads, spec.head_dim) = (1, net.cached().head_dim);
    spec.ropes = vec![source.rope(net.rotary, &defaults)?];
    if source.flag(INTERLEAVED)?.unwrap_or(true) {
        spec.pairing = Pairing::Adjacent;
    }
    spec.attention_scale = 1.0 / (net.query_dim() as f32).sqrt();
    if let RopeScaling::Yarn { factor, mscale, .. } = &mut spec.ropes[0].scaling {
        let all = match source.is_gguf() {
            true => source.float(SCORE_SCALE)?.map(|tenth| 10.0 * tenth),
            false => source.rope_number("mscale_all_dim")?.map(|all| all as f32),
        };
        if let Some(all) = all.filter(|&all| all != 0.0) {
            spec.attention_scale *= yarn_mscale(*factor, all).powi(2);
            // A GGUF says no more: files scale scores and leave the rotation as it is.
            *mscale = if source.is_gguf() { 1.0 } else { *mscale };
        }
    }
    experts(source, &mut spec, class)?;
    Ok(spec)
}

/// Refuses what is not built.
fn refuse(source: &Source) -> Result<(), Error> {
    use crate::source::RawValue::{Flag, Number};
    for (key, neutral, expected) in NEUTRAL {
        let told = match source.raw(key) {
            None => continue,
            Some(Flag(flag)) => usize::from(flag),
            Some(Number(number)) if number >= 0.0 => number as usize,
            Some(_) => usize::MAX,
        };
        if told != neutral {
            return Err(source.bad(key, told, expected.to_owned()));
        }
    }
    Ok(())
}

fn latent(source: &Source, heads: usize) -> Result<LatentAttention, Error> {
    if let Some(other) = source.size(KV_HEADS)?.filter(|&kv_heads| kv_heads != heads) {
        return Err(source.bad(KV_HEADS, other, format!("the {heads} heads, which share a latent")));
    }
    let (rank, rotary) = (source.need(RANK, None)?, source.need(ROTARY, None)?);
    if rotary < 2 || !rotary.is_multiple_of(2) || rotary >= MAX_HEAD_DIM {
        return Err(source.bad(ROTARY, rotary, format!("an even number from 2 to {}", MAX_HEAD_DIM - 2)));
    }
    let most = MAX_HEAD_DIM - rotary;
    if !(1..=most).contains(&rank) {
        let expected = format!("1 to {most}, {MAX_HEAD_DIM} less the {rotary} values that rotate");
        return Err(source.bad(RANK, rank, expected));
    }
    let (plain, value_dim) = if source.is_gguf() {
        let either = |key, old| source.size(key)?.map_or_else(|| source.need(old, None), Ok);
        let query_dim: usize = either(QUERY_DIM, OLD_QUERY_DIM)?;
        if query_dim <= rotary {
            return Err(source.bad(
                QUERY_DIM,
                query_dim,
                format!("more than the {rotary} values that rotate"),
            ));
        }
        (query_dim - rotary, either(VALUE_DIM, OLD_VALUE_DIM)?)
    } else {
        (source.need(PLAIN, None)?, source.need(VALUE_DIM, None)?)
    };
    let query_rank = source.size(QUERY_RANK)?;
    Ok(LatentAttention { heads, query_rank, rank, rotary, plain, value_dim })
}

/// Gives experts to the layers that have them.
fn experts(source: &Source, spec: &mut Spec, class: Class) -> Result<(), Error> {
    let there = if source.is_gguf() { source.gguf_has_experts()? } else { class != Class::Youtu };
    if !there {
        return Ok(());
    }
    let layers = spec.layers.len();
    let width = source.need(EXPERT_WIDTH, None)?;
    let mut mixture = source.mixture(width, router(source, layers, class)?)?;
    // A GGUF may have the bias without its sigmoid being told.
    let sigmoid = mixture.router.score == Score::Sigmoid;
    let no_bias =
        source.is_gguf() && has_any(source, layers, "ffn_gate_inp.weight") && !has_bias(source, layers);
    mixture.router.bias = (sigmoid && !no_bias).then_some(RouterBias::Choice);
    if source.text(CHOICE)? != Some("greedy") {
        mixture.router.groups = source.expert_groups()?;
    }
    mixture.shared = match source.is_gguf() {
        true => source.gguf_shared(layers, false)?,
        false => {
            let count = source.need(SHARED, None)?;
            (count > 0).then_some(SharedExpert { width: count.saturating_mul(width), gated: false })
        }
    };
    let kinds = source.texts(LAYER_KINDS)?;
    if !kinds.is_empty() {
        let kinds = source.one_for_each(LAYER_KINDS, kinds, layers)?;
        source.spread(spec, mixture, |index| kinds[index] == "sparse");
        return Ok(());
    }
    let usual = if source.is_gguf() { 0 } else { class.dense_layers() };
    let first = source.leading_dense()?.unwrap_or(usual);
    source.spread(spec, mixture, |index| index >= first);
    Ok(())
}

/// The router by the class, or by the tensors of a GGUF.
fn router(source: &Source, layers: usize, class: Class) -> Result<Router, Error> {
    let sigmoid = if source.is_gguf() { has_bias(source, layers) } else { class != Class::V2 };
    let (score, named) = if sigmoid { (Score::Sigmoid, "sigmoid") } else { (Score::Softmax, "softmax") };
    if let Some(other) = source.text(SCORE_FUNCTION)?.filter(|told| *told != named) {
        return Err(source.bad(SCORE_FUNCTION, other, named.to_owned()));
    }
    Ok(Router { score, renormalise: !source.is_gguf() && sigmoid, ..Router::SOFTMAX })
}

fn has_bias(source: &Source, layers: usize) -> bool {
    has_any(source, layers, "exp_probs_b.bias")
}

/// Whether a layer of a GGUF has the tensor.
fn has_any(source: &Source, layers: usize, name: &str) -> bool {
    (0..layers).any(|layer| source.has(&format!("blk.{layer}.{name}")))
}
