//! `[model.cascade]`: a small model first, a larger one where the small one wavers.

use std::path::PathBuf;

use serde::Deserialize;

/// A small model first, a larger one where the small one wavers.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cascade {
    /// The model that is asked where the small one is not sure.
    pub larger: String,
    /// What decides beside the rules below.
    #[serde(default)]
    pub when: CascadeWhen,
    /// Mean margin of the two likeliest tokens below which the answer is given up, in natural logarithms.
    #[serde(default)]
    pub margin: f64,
    /// Tokens of the window in which the margin is taken.
    #[serde(default = "sixteen")]
    pub window: usize,
    /// How much of the small model's answer is held back: `window` unless given for streams, always `whole` for others.
    pub hold: Option<Hold>,
    /// Rule: prompts of more tokens go to the larger model at once.
    pub prompt_tokens: Option<u64>,
    /// Rule: requests with images, sound or files go to the larger model at once.
    #[serde(default)]
    pub media: bool,
    /// Rule: requests with tools go to the larger model at once.
    #[serde(default)]
    pub tools: bool,
    /// Share of requests that both answer, to calibrate. They are held back whole.
    #[serde(default)]
    pub both: f64,
    /// The file that gets a line for each request that both answered.
    pub pairs: Option<PathBuf>,
    /// Bytes after which that file gets no more.
    #[serde(default = "pairs_bytes")]
    pub pairs_bytes: u64,
}

/// What decides whether the larger model is asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CascadeWhen {
    /// The small model's log-probabilities.
    #[default]
    Margin,
    /// The rules alone.
    Rules,
}

/// How much of the small model's answer is held back until it is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hold {
    /// The first window: what follows is not judged.
    Window,
    /// All of it: each window is judged.
    Whole,
}

/// Most tokens of a window.
const MAX_WINDOW: usize = 4_096;

fn sixteen() -> usize {
    16
}

fn pairs_bytes() -> u64 {
    16 << 20
}

impl Cascade {
    /// Whether all of the answer is held back.
    pub(crate) fn holds_whole(&self, stream: bool) -> bool {
        !stream || self.hold == Some(Hold::Whole)
    }

    /// What is wrong with the settings by themselves.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if !(0.0..=1.0).contains(&self.both) {
            problems.push(format!("cascade.both is {}; it must be 0 to 1", self.both));
        }
        if self.window == 0 || self.window > MAX_WINDOW {
            problems.push(format!("cascade.window is {}; it must be 1 to {MAX_WINDOW}", self.window));
        }
        if !self.margin.is_finite() || self.margin < 0.0 {
            problems.push(format!("cascade.margin is {}; it must be at least 0", self.margin));
        }
        let rules = self.prompt_tokens.is_some() || self.media || self.tools;
        match self.when {
            CascadeWhen::Margin if self.margin == 0.0 && !rules && self.both == 0.0 => {
                problems.push("cascade.margin is 0: the larger model would never be asked".to_owned());
            }
            CascadeWhen::Rules if self.margin != 0.0 || self.both != 0.0 || self.hold.is_some() => {
                problems
                    .push("cascade: margin, both and hold have no effect under when = \"rules\"".to_owned());
            }
            CascadeWhen::Rules if !rules => {
                problems.push("cascade: when = \"rules\" needs prompt_tokens, media or tools".to_owned());
            }
            _ => {}
        }
        if (self.both > 0.0) != self.pairs.is_some() {
            problems.push("cascade: both and pairs need each other".to_owned());
        }
        problems
    }
}
