//! LFM2 and LFM2.5: short convolutions, and attention with normalised queries and keys in some layers.

use crate::error::Error;
use crate::mixer::{Mixer, ShortConv};
use crate::source::{Defaults, Key, Source, WINDOW};
use crate::spec::{FeedForward, QkNorm, Spec};

const KERNEL: Key = Key("shortconv.l_cache", &["conv_L_cache"]);
const FEED: Key = Key("feed_forward_length", &["block_ff_dim", "intermediate_size"]);
const ADJUST: Key = Key("", &["block_auto_adjust_ff_dim"]);
const MULTIPLIER: Key = Key("", &["block_ffn_dim_multiplier"]);
const MULTIPLE: Key = Key("", &["block_multiple_of"]);

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let mut spec = shared(source, "lfm2")?;
    let feed = FeedForward::Dense { width: feed_width(source)? };
    spec.layers.iter_mut().for_each(|layer| layer.feed = feed);
    Ok(spec)
}

/// What the dense and the sparse models share: all but the feed-forward.
pub(super) fn shared(source: &Source, family: &'static str) -> Result<Spec, Error> {
    let defaults = Defaults {
        tied: true,
        eps: Some(1e-5),
        rope_base: 1_000_000.0,
        listed: true,
        feed: Some(0),
        ..Defaults::default()
    };
    let mut spec = source.decoder(family, &defaults)?;
    spec.qk_norm = QkNorm::Head;
    let conv = ShortConv { channels: spec.width, kernel: source.need(KERNEL, Some(3))? };
    let window = source.size(WINDOW)?.filter(|&window| window > 0);
    let convolved = source.convolved_layers(spec.layers.len())?;
    for (layer, convolved) in spec.layers.iter_mut().zip(convolved) {
        layer.window = window;
        if convolved {
            layer.mixer = Mixer::ShortConv(conv);
        }
    }
    Ok(spec)
}

/// Rows of gate and up: a GGUF has the number, a configuration one that two thirds are taken of, times a multiplier and
/// rounded up.
fn feed_width(source: &Source) -> Result<usize, Error> {
    let feed = source.need(FEED, None)?;
    if source.is_gguf() || !source.flag(ADJUST)?.unwrap_or(true) {
        return Ok(feed);
    }
    let multiple = source.need(MULTIPLE, Some(256))?;
    if multiple == 0 {
        return Err(source.bad(MULTIPLE, multiple, "at least 1".into()));
    }
    let multiplier = source.float(MULTIPLIER)?.unwrap_or(1.0);
    let adjusted = (f64::from(multiplier) * (2 * feed / 3) as f64) as usize;
    Ok(adjusted.next_multiple_of(multiple))
}
