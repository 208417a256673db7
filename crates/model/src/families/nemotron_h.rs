//! Nemotron-H and the Nemotron models after it: each layer is one of Mamba-2, attention without rope, a feed-forward of
//! squared ReLU, or experts of it beside a shared one.

use super::mamba2;
use crate::error::Error;
use crate::mixer::{Mamba2, Mixer};
use crate::mixture::{Mixture, Router, RouterBias, Score, SharedExpert};
use crate::source::{Defaults, EXPERT_WIDTH, Key, Source};
use crate::spec::{FeedForward, Spec};
use kernels::Activation;

const LETTERS: Key = Key("", &["hybrid_override_pattern"]);
const WORDS: Key = Key("", &["layers_block_type"]);
const SHARED: Key = Key("expert_shared_feed_forward_length", &["moe_shared_expert_intermediate_size"]);
const FEED_ACT: Key = Key("", &["mlp_hidden_act"]);
const MIXER_ACT: Key = Key("", &["mamba_hidden_act"]);
const LEAST_STEP: Key = Key("", &["time_step_min"]);
const EPS: Key = Key("attention.layer_norm_epsilon", &["layer_norm_epsilon"]);
const RMS_EPS: Key = Key("attention.layer_norm_rms_epsilon", &[]);

const MAMBA2: mamba2::Defaults =
    mamba2::Defaults { heads: 128, head_dim: Some(64), inner: None, groups: 8, state_dim: 128 };

/// What a layer is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Mamba2,
    Attention,
    FeedForward,
    Experts,
}

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    refuse(source)?;
    let listed = listed_parts(source)?;
    let defaults = Defaults {
        listed: true,
        layers: listed.as_ref().map(Vec::len),
        heads: Some(32),
        kv_heads: Some(8),
        head_dim: Some(128),
        feed: Some(21_504),
        context: Some(4096),
        ..Defaults::default()
    };
    let mut spec = source.decoder("nemotron_h", &defaults)?;
    spec.norm.eps = epsilon(source, spec.norm.eps)?;
    spec.activation = source.activation(FEED_ACT)?.unwrap_or(Activation::Relu2);
    spec.gated = false;
    spec.biases.feed = match source.is_gguf() {
        true => (0..spec.layers.len()).any(|layer| source.has(&format!("blk.{layer}.ffn_up.bias"))),
        false => source.flag(Key("", &["mlp_bias"]))?.unwrap_or(false),
    };
    let parts = match listed {
        Some(listed) => source.one_for_each(LETTERS, listed, spec.layers.len())?,
        None => gguf_parts(source, &spec)?,
    };
    source.leave_out_prediction(&mut spec)?;
    set_parts(source, &mut spec, &parts)?;
    Ok(spec)
}

/// Refuses what is not built, by its key.
fn refuse(source: &Source) -> Result<(), Error> {
    for key in [Key("", &["use_bias"]), Key("", &["attention_bias"])] {
        if source.flag(key)?.unwrap_or(false) {
            return Err(source.bad(key, true, "false: biases of mixers are not built".into()));
        }
    }
    const LATENT: Key = Key("moe_latent_size", &["moe_latent_size"]);
    if let Some(size) = source.size(LATENT)?.filter(|&size| size > 0) {
        return Err(source.bad(LATENT, size, "not there: latent experts are not built".into()));
    }
    const WINDOW: Key = Key("attention.sliding_window", &["sliding_window"]);
    if let Some(window) = source.size(WINDOW)?.filter(|&window| window > 0) {
        return Err(source.bad(WINDOW, window, "not there: this family has no windows here".into()));
    }
    match source.text(MIXER_ACT)? {
        None | Some("silu") => Ok(()),
        Some(other) => Err(source.bad(MIXER_ACT, other, "silu".into())),
    }
}

/// The epsilon of all norms: converters write that of RMS norms under another key.
fn epsilon(source: &Source, rms: f32) -> Result<f32, Error> {
    match source.raw(RMS_EPS) {
        Some(_) => Ok(rms),
        None => Ok(source.float(EPS)?.unwrap_or(1e-5)),
    }
}

/// What each layer of `config.json` is, by its list or its letters; `None` for a GGUF.
fn listed_parts(source: &Source) -> Result<Option<Vec<Part>>, Error> {
    if source.is_gguf() {
        return Ok(None);
    }
    let words = source.texts(WORDS)?;
    if let Some(letters) = source.text(LETTERS)?.filter(|_| words.is_empty()) {
        let part = |letter| match letter {
            'M' => Ok(Part::Mamba2),
            '*' => Ok(Part::Attention),
            '-' => Ok(Part::FeedForward),
            'E' => Ok(Part::Experts),
            _ => Err(source.bad(LETTERS, letters, "the letters M, *, - and E".into())),
        };
        return letters.chars().map(part).collect::<Result<_, _>>().map(Some);
    }
    let part = |word: &String| match word.as_str() {
        "mamba" | "linear_attention" => Ok(Part::Mamba2),
        "attention" | "full_attention" => Ok(Part::Attention),
        "mlp" => Ok(Part::FeedForward),
        "moe" => Ok(Part::Experts),
        other => Err(source.bad(WORDS, other, "mamba, attention, mlp or moe".into())),
    };
    if words.is_empty() {
        return Err(source.bad(LETTERS, "nothing", "a letter for each layer".into()));
    }
    words.iter().map(part).collect::<Result<_, _>>().map(Some)
}

/// What each layer of a GGUF is: Mamba-2 without KV heads and feed-forward, attention with the former alone.
fn gguf_parts(source: &Source, spec: &Spec) -> Result<Vec<Part>, Error> {
    let layers = spec.layers.len();
    let feed = if source.gguf_has_experts()? { Part::Experts } else { Part::FeedForward };
    let without_heads = source.layers_without_kv_heads(layers)?.unwrap_or(vec![false; layers]);
    let widths = spec.layers.iter().map(|layer| layer.feed.width());
    let part = |(without_heads, width): (bool, usize)| match (without_heads, width) {
        (true, 0) => Part::Mamba2,
        (false, 0) => Part::Attention,
        _ => feed,
    };
    Ok(without_heads.into_iter().zip(widths).map(part).collect())
}

fn set_parts(source: &Source, spec: &mut Spec, parts: &[Part]) -> Result<(), Error> {
    let mamba2 = match parts.iter().position(|part| *part == Part::Mamba2) {
        Some(first) => {
            let net = mamba2::read(source, spec.width, first, &MAMBA2)?;
            Mixer::Mamba2(Mamba2 { steps: steps(source)?, ..net })
        }
        None => Mixer::None,
    };
    let experts = match parts.contains(&Part::Experts) {
        true => FeedForward::Experts(experts(source, spec)?),
        false => FeedForward::None,
    };
    let dense = FeedForward::Dense { width: spec.feed_width() };
    for (layer, part) in spec.layers.iter_mut().zip(parts) {
        layer.rope = None;
        (layer.mixer, layer.feed) = match part {
            Part::Mamba2 => (mamba2, FeedForward::None),
            Part::Attention => (Mixer::Attention, FeedForward::None),
            Part::FeedForward => (Mixer::None, dense),
            Part::Experts => (Mixer::None, experts),
        };
    }
    Ok(())
}

/// The limits of a step in time: transformers takes the least of its initial values, and no largest, whatever
/// `time_step_limit` says. A GGUF does not tell.
fn steps(source: &Source) -> Result<(f32, f32), Error> {
    let least = match source.is_gguf() {
        true => 0.0,
        false => source.float(LEAST_STEP)?.unwrap_or(0.001),
    };
    Ok((least, f32::INFINITY))
}

fn experts(source: &Source, spec: &mut Spec) -> Result<Mixture, Error> {
    spec.family = "nemotron_h_moe";
    if spec.biases.feed {
        return Err(source.bad(Key("", &["mlp_bias"]), true, "false, beside experts".into()));
    }
    let router = Router {
        score: Score::Sigmoid,
        bias: Some(RouterBias::Choice),
        groups: source.expert_groups()?,
        ..Router::SOFTMAX
    };
    let mut mixture = source.mixture(source.need(EXPERT_WIDTH, None)?, router)?;
    let width = source.need(SHARED, None)?;
    mixture.shared = Some(SharedExpert { width, gated: false });
    Ok(mixture)
}
