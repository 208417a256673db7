//! Gemma 4 (text): heads of another size in global layers, layers that read the keys and values of earlier ones,
//! normalised values, an embedding of each token for every layer, a factor on each layer's output, experts beside the
//! feed-forward.
//!
//! Pictures and sound are not read, and their tensors left.

use super::gemma;
use crate::error::Error;
use crate::mixture::{Mixture, Router, SharedExpert};
use crate::rope::Rope;
use crate::source::{Defaults, EXPERT_WIDTH, Key, Source, WINDOW};
use crate::spec::{FeedForward, KvSource, NormPlace, QkNorm, Spec};
use kernels::KvHeads;

const GLOBAL_DIM: Key = Key("attention.key_length", &["global_head_dim"]);
const LOCAL_DIM: Key = Key("attention.key_length_swa", &["head_dim"]);
const KV_HEADS: Key = Key("attention.head_count_kv", &["num_key_value_heads"]);
const GLOBAL_KV_HEADS: Key = Key("", &["num_global_key_value_heads"]);
const ONE_PROJECTION: Key = Key("", &["attention_k_eq_v"]);
pub(super) const SHARED: Key = Key("attention.shared_kv_layers", &["num_kv_shared_layers"]);
const DOUBLE_WIDE: Key = Key("", &["use_double_wide_mlp"]);
const PER_LAYER: Key = Key("embedding_length_per_layer_input", &["hidden_size_per_layer_input"]);
const EXPERTS: Key = Key("", &["enable_moe_block"]);
const DIRECTION: Key = Key("", &["use_bidirectional_attention"]);
const CAUSAL: Key = Key("attention.causal", &["is_causal"]);

/// What a file leaves out that names no other value.
const LOCAL_BASE: f32 = 10_000.0;
const TURNED: f64 = 0.25;

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    refuse(source)?;
    let usual = |size| (!source.is_gguf()).then_some(size);
    let dims = (source.need(LOCAL_DIM, usual(256))?, source.need(GLOBAL_DIM, usual(512))?);
    let defaults = Defaults {
        head_dim: Some(256),
        heads: Some(8),
        kv_heads: Some(4),
        listed: true,
        context: Some(131_072),
        width: Some(2304),
        feed: Some(9216),
        layers: Some(30),
        rope_base: 1_000_000.0,
        tied: true,
        ..Defaults::default()
    };
    let mut spec = gemma::shared(source, "gemma4", &defaults)?;
    spec.norm.plus_one = false;
    spec.norm_place = NormPlace::Sandwich;
    spec.qk_norm = QkNorm::Head;
    spec.value_norm = true;
    spec.layer_scale = true;
    spec.attention_scale = 1.0;
    spec.logit_soft_cap =
        source.float(Key("final_logit_softcapping", &["final_logit_softcapping"]))?.filter(|&cap| cap > 0.0);
    spec.per_layer_width = per_layer_width(source)?;
    let mut slides = source.sliding_pattern(spec.layers.len(), 6)?;
    if let Some(last) = slides.last_mut().filter(|_| !source.is_gguf()) {
        // The class takes the last layer for a global one, whatever the file says.
        *last = false;
    }
    let window = source.need(WINDOW, usual(512))?;
    heads(source, &mut spec, &slides, dims)?;
    ropes(source, &mut spec, &slides, &defaults)?;
    for (layer, slides) in spec.layers.iter_mut().zip(&slides) {
        (layer.window, layer.rope) = if *slides { (Some(window), Some(1)) } else { (None, Some(0)) };
    }
    let shared = source.size(SHARED)?.unwrap_or(0);
    share(source, &mut spec, &slides, shared)?;
    widen(source, &mut spec)?;
    experts(source, &mut spec)?;
    Ok(spec)
}

/// Refuses what is not built.
fn refuse(source: &Source) -> Result<(), Error> {
    if source.flag(CAUSAL)? == Some(false) {
        return Err(source.bad(CAUSAL, false, "true".into()));
    }
    // "vision" is about the rows of pictures only.
    match source.text(DIRECTION)? {
        None | Some("vision") => Ok(()),
        Some(other) => Err(source.bad(DIRECTION, other, "null or vision".into())),
    }
}

/// Width of the embedding that each layer has of a token; 0 for none.
pub(super) fn per_layer_width(source: &Source) -> Result<usize, Error> {
    let told = source.size(PER_LAYER)?;
    let tables = ["per_layer_token_embd".to_owned(), format!("{}embed_tokens_per_layer", source.prefix())];
    if told == Some(0) && tables.iter().any(|table| source.has(&format!("{table}.weight"))) {
        return Err(source.bad(
            PER_LAYER,
            0,
            "the width of the per-layer embeddings that the file has".into(),
        ));
    }
    Ok(told.unwrap_or(if source.is_gguf() || source.is_null(PER_LAYER.1[0]) { 0 } else { 256 }))
}

/// Sets the heads of each layer, of these sizes in sliding and in global layers, and where its values are from.
fn heads(
    source: &Source,
    spec: &mut Spec,
    slides: &[bool],
    (local_dim, global_dim): (usize, usize),
) -> Result<(), Error> {
    let listed = source.listed_sizes(KV_HEADS);
    let listed = listed.map(|list| source.one_for_each(KV_HEADS, list, slides.len())).transpose()?;
    let one_projection = source.flag(ONE_PROJECTION)?.unwrap_or(false);
    let global_kv = if one_projection { source.size(GLOBAL_KV_HEADS)? } else { None };
    let most = spec.kv_heads;
    for (index, (layer, slides)) in spec.layers.iter_mut().zip(slides).enumerate() {
        let own = |name, usual| source.layer_size(index, name).map(|own| own.unwrap_or(usual));
        let (kv_heads, head_dim) = match slides {
            true => (most, local_dim),
            false => (global_kv.unwrap_or(most), global_dim),
        };
        let kv_heads = listed.as_ref().map_or(kv_heads, |list| list[index]);
        layer.heads = Some(KvHeads {
            kv_heads: own("num_key_value_heads", kv_heads)?,
            head_dim: own("head_dim", head_dim)?,
        });
        let has = |part: &str| source.has(&format!("blk.{index}.{part}.weight"));
        let without_values = has("attn_k") && !has("attn_v");
        if without_values || (one_projection && !slides) {
            layer.kv = KvSource::OneProjection;
        }
    }
    spec.head_dim = local_dim;
    Ok(())
}

/// The tables of global and of sliding layers. Of a global head, a quarter of the pairs rotates.
fn ropes(source: &Source, spec: &mut Spec, slides: &[bool], defaults: &Defaults) -> Result<(), Error> {
    let width = |sliding: bool| {
        let layer = spec.layers.iter().zip(slides).find(|(_, slides)| **slides == sliding);
        layer.map_or(spec.head_dim, |(layer, _)| spec.heads_of(layer).head_dim)
    };
    let (local, global) = (width(true), width(false));
    let mut global = source.rope(global, defaults)?;
    let told = source.raw(Key("", &["rope_parameters"])).is_some() || source.has("rope_freqs.weight");
    if !told {
        global = Rope::proportional(global.rotary_dim, global.base, TURNED, 1.0);
    }
    spec.ropes = vec![global, source.local_rope(local, LOCAL_BASE)?];
    Ok(())
}

/// Lets the last `shared` layers read the keys and values of the last layer of their kind that has its own.
pub(super) fn share(source: &Source, spec: &mut Spec, slides: &[bool], shared: usize) -> Result<(), Error> {
    let layers = spec.layers.len();
    if shared >= layers {
        return Err(source.bad(SHARED, shared, format!("fewer than the {layers} layers")));
    }
    let first = layers - shared;
    for index in first..layers {
        let kind = slides[index];
        let Some(from) = slides[..first].iter().rposition(|slides| *slides == kind) else {
            let kind = if kind { "sliding" } else { "global" };
            let expected = format!("so few that one of the layers before the last {shared} is {kind} too");
            return Err(source.bad(SHARED, shared, expected));
        };
        spec.layers[index].kv = KvSource::Layer(from);
    }
    Ok(())
}

/// Doubles the feed-forwards of layers without keys of their own, if the file says so.
fn widen(source: &Source, spec: &mut Spec) -> Result<(), Error> {
    if !source.flag(DOUBLE_WIDE)?.unwrap_or(false) {
        return Ok(());
    }
    for layer in spec.layers.iter_mut().filter(|layer| !layer.has_own_keys()) {
        if let FeedForward::Dense { width } = &mut layer.feed {
            *width *= 2;
        }
    }
    Ok(())
}

/// Puts experts beside the feed-forwards, if the model has some.
fn experts(source: &Source, spec: &mut Spec) -> Result<(), Error> {
    let there = match source.is_gguf() {
        true => source.gguf_has_experts()?,
        false => source.flag(EXPERTS)?.unwrap_or(false),
    };
    if !there {
        return Ok(());
    }
    let mut mixture = source.mixture(source.need(EXPERT_WIDTH, None)?, Router::SOFTMAX)?;
    mixture.beside = true;
    for layer in &mut spec.layers {
        let shared = SharedExpert { width: layer.feed.width(), gated: false };
        layer.feed = FeedForward::Experts(Mixture { shared: Some(shared), ..mixture });
    }
    Ok(())
}
