//! LFM2 with experts: sigmoid routers with a bias that moves the choice, after a few dense layers.

use super::lfm2;
use crate::error::Error;
use crate::mixture::{Router, RouterBias, Score};
use crate::source::{EXPERT_WIDTH, Key, Source};
use crate::spec::{FeedForward, Spec};

const FEED: Key = Key("feed_forward_length", &["intermediate_size"]);
const BIAS: Key = Key("", &["use_expert_bias"]);

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let mut spec = lfm2::shared(source, "lfm2moe")?;
    let feed = FeedForward::Dense { width: source.need(FEED, None)? };
    spec.layers.iter_mut().for_each(|layer| layer.feed = feed);
    let biased = source.flag(BIAS)?.unwrap_or(true);
    let router =
        Router { score: Score::Sigmoid, bias: biased.then_some(RouterBias::Choice), ..Router::SOFTMAX };
    let mixture = source.mixture(source.need(EXPERT_WIDTH, None)?, router)?;
    let first = source.leading_dense()?.unwrap_or(2);
    source.spread(&mut spec, mixture, |index| index >= first);
    Ok(spec)
}
