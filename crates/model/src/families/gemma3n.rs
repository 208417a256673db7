//! Gemma 3n (text): several residual streams (AltUp), a low-rank map beside attention (LAuReL), feed-forwards of which a
//! few gates count, and as Gemma 4 embeddings of each token for every layer and layers that read the keys of earlier ones.
//!
//! Pictures and sound are not read, and their tensors left.

use super::{gemma, gemma4};
use crate::error::Error;
use crate::source::{Defaults, Key, Source, WINDOW};
use crate::spec::{AltUp, MAX_STREAMS, NormPlace, QkNorm, Spec};

const STREAMS: Key = Key("altup.num_inputs", &["altup_num_inputs"]);
const ACTIVE: Key = Key("altup.active_idx", &["altup_active_idx"]);
const SCALED: Key = Key("", &["altup_correct_scale"]);
const RANK: Key = Key("", &["laurel_rank"]);
const PER_LAYER: Key = Key("embedding_length_per_layer_input", &["hidden_size_per_layer_input"]);
const SOFT_CAP: Key = Key("final_logit_softcapping", &["final_logit_softcapping"]);
/// The share of gates that do not count, or in a GGUF its quantile.
const SPARSITY: Key = Key("activation_sparsity_scale", &["activation_sparsity_pattern"]);

/// The sparsity of the first layers of a file that names none.
const SPARSE_LAYERS: usize = 10;
const SPARSE_SHARE: f32 = 0.95;

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let usual = |size| (!source.is_gguf()).then_some(size);
    let defaults = Defaults {
        head_dim: Some(256),
        heads: Some(8),
        kv_heads: Some(2),
        context: Some(32_768),
        width: Some(2048),
        feed: Some(16_384),
        layers: Some(35),
        rope_base: 1_000_000.0,
        tied: true,
        ..Defaults::default()
    };
    let mut spec = gemma::shared(source, "gemma3n", &defaults)?;
    spec.norm.plus_one = false;
    spec.norm_place = NormPlace::Sandwich;
    spec.qk_norm = QkNorm::Head;
    spec.value_norm = true;
    spec.attention_scale = 1.0;
    spec.logit_soft_cap = soft_cap(source)?;
    spec.per_layer_width = gemma4::per_layer_width(source)?;
    if spec.per_layer_width == 0 {
        return Err(source.bad(PER_LAYER, 0, "at least 1".into()));
    }
    spec.per_layer_vocab = per_layer_vocab(source).unwrap_or(spec.vocab);
    spec.alt_up = Some(alt_up(source)?);
    let window = source.need(WINDOW, usual(512))?;
    spec.ropes.push(source.local_rope(spec.head_dim, 10_000.0)?);
    let slides = source.sliding_pattern(spec.layers.len(), 5)?;
    let cutoffs = cutoffs(source, spec.layers.len())?;
    for ((layer, slides), cutoff) in spec.layers.iter_mut().zip(&slides).zip(cutoffs) {
        (layer.window, layer.rope) = if *slides { (Some(window), Some(1)) } else { (None, Some(0)) };
        layer.gate_cutoff = cutoff;
    }
    let shared = source.need(gemma4::SHARED, usual(15))?;
    gemma4::share(source, &mut spec, &slides, shared)?;
    Ok(spec)
}

/// The cap of logits, 30 where a file says nothing.
fn soft_cap(source: &Source) -> Result<Option<f32>, Error> {
    let usual = if source.is_gguf() || source.is_null(SOFT_CAP.1[0]) { None } else { Some(30.0) };
    Ok(source.float(SOFT_CAP)?.or(usual).filter(|&cap| cap > 0.0))
}

/// Rows of the table of per-layer embeddings, if the file has it.
fn per_layer_vocab(source: &Source) -> Option<usize> {
    match source.is_gguf() {
        true => source.rows("per_layer_token_embd.weight"),
        false => source.rows(&format!("{}embed_tokens_per_layer.weight", source.prefix())),
    }
}

/// The residual streams.
fn alt_up(source: &Source) -> Result<AltUp, Error> {
    let streams = source.size(STREAMS)?.unwrap_or(4);
    if !(1..=MAX_STREAMS).contains(&streams) {
        return Err(source.bad(STREAMS, streams, format!("1 to {MAX_STREAMS}")));
    }
    let active = source.size(ACTIVE)?.unwrap_or(0);
    if active >= streams {
        return Err(source.bad(ACTIVE, active, format!("less than the {streams} streams")));
    }
    // A GGUF has no key for it.
    let of_tensor = if source.is_gguf() { source.rows("blk.0.laurel_l.weight") } else { None };
    let laurel_rank = source.size(RANK)?.or(of_tensor).unwrap_or(64);
    if laurel_rank == 0 {
        return Err(source.bad(RANK, laurel_rank, "at least 1".into()));
    }
    let scaled = source.flag(SCALED)?.unwrap_or(true);
    Ok(AltUp { streams, active, scaled, laurel_rank })
}

/// [`Layer::gate_cutoff`](crate::spec::Layer::gate_cutoff) of each layer.
fn cutoffs(source: &Source, layers: usize) -> Result<Vec<Option<f32>>, Error> {
    let Some(listed) = source.layer_floats(SPARSITY, layers)? else {
        let sparse = if layers > SPARSE_LAYERS { SPARSE_LAYERS } else { 0 };
        return Ok((0..layers).map(|layer| (layer < sparse).then(|| quantile(SPARSE_SHARE))).collect());
    };
    let of_layer = |told: f32| match source.is_gguf() {
        true if told == f32::NEG_INFINITY => Ok(None),
        true if told.is_finite() => Ok(Some(told)),
        true => Err(source.bad(SPARSITY, told, "finite, or -inf where all gates count".into())),
        false if told == 0.0 => Ok(None),
        false if told > 0.0 && told < 1.0 => Ok(Some(quantile(told))),
        false => Err(source.bad(SPARSITY, told, "at least 0 and less than 1".into())),
    };
    listed.into_iter().map(of_layer).collect()
}

/// The value below which this share of a standard normal distribution lies, for shares between 0 and 1 (Wichura, 1988,
/// algorithm AS 241, PPND7: seven digits).
fn quantile(share: f32) -> f32 {
    const MIDDLE: ([f64; 4], [f64; 4]) = (
        [59.109_374_720, 159.291_132_02, 50.434_271_938, 3.387_132_717_9],
        [67.187_563_600, 78.757_757_664, 17.895_169_469, 1.0],
    );
    const TAIL: ([f64; 4], [f64; 3]) = (
        [0.170_238_211_03, 1.306_728_481_6, 2.756_815_390_0, 1.423_437_277_7],
        [0.120_211_329_75, 0.737_001_642_50, 1.0],
    );
    const FAR: ([f64; 4], [f64; 3]) = (
        [0.017_337_203_997, 0.428_682_943_37, 3.081_226_386_0, 6.657_905_115_0],
        [0.012_258_202_635, 0.241_978_942_25, 1.0],
    );
    let share = f64::from(share);
    let offset = share - 0.5;
    if offset.abs() <= 0.425 {
        let r = 0.180_625 - offset * offset;
        return (offset * polynomial(&MIDDLE.0, r) / polynomial(&MIDDLE.1, r)) as f32;
    }
    let r = (-share.min(1.0 - share).ln()).sqrt();
    let ((above, below), r) = if r <= 5.0 { (TAIL, r - 1.6) } else { (FAR, r - 5.0) };
    (offset.signum() * polynomial(&above, r) / polynomial(&below, r)) as f32
}

/// The polynomial with these coefficients, that of the highest power first.
fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().fold(0.0, |sum, coefficient| sum * x + coefficient)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_normal_distribution() {
        // By NormalDist of Python's statistics, of the shares as they are in f32.
        let known = [
            (0.95, 1.644_853_6),
            (0.5, 0.0),
            (0.3, -0.524_400_5),
            (0.925, 1.439_531_5),
            (0.075, -1.439_531_5),
            (0.99, 2.326_348_2),
            (1e-6, -4.753_424),
            (1e-12, -7.034_484),
            (0.999_999, 4.750_757_8),
        ];
        for (share, value) in known {
            let error = (quantile(share) - value).abs() / f32::max(value.abs(), 1.0);
            assert!(error < 3e-7, "{share}: {} is not {value}", quantile(share));
        }
    }
}
