//! Sampling parameters of a request, with their accepted ranges.

use crate::Refused;

/// How the next token is chosen. `docs/sampling.md` gives the order in which these are applied.
///
/// The defaults are llama.cpp's, so that a figure or a habit taken from there carries over.
#[derive(Debug, Clone, PartialEq)]
pub struct Params {
    /// Divides the logits before the draw; 0 is greedy. 0 to 100.
    pub temperature: f32,
    /// Keep the k likeliest tokens; 0 keeps all.
    pub top_k: usize,
    /// Keep the smallest set of likeliest tokens whose probabilities sum to this; 1 keeps all. 0 to 1.
    pub top_p: f32,
    /// Drop tokens less likely than this share of the likeliest one; 0 keeps all. 0 to 1.
    pub min_p: f32,
    /// Locally typical sampling (Meister et al., 2022): probability mass kept; 1 keeps all. 0 to 1.
    pub typical_p: f32,
    /// Divides positive and multiplies negative logits of tokens seen lately (Keskar et al., 2019); 1 is off.
    pub repeat_penalty: f32,
    /// How many last tokens, of prompt and answer, the three penalties look at; -1 is all, 0 is none.
    pub repeat_last_n: i64,
    /// Subtracted from a token's logit for each occurrence in the window of penalties. -2 to 2.
    pub frequency_penalty: f32,
    /// Subtracted once from the logit of a token that occurs in the window of penalties. -2 to 2.
    pub presence_penalty: f32,
    /// Drop tokens whose logit is more than this many standard deviations below the best one ("top-nσ", Tang et al.,
    /// 2024); 0 is off. 0 to 100.
    pub top_n_sigma: f32,
    /// A temperature that follows the entropy.
    pub dynatemp: Dynatemp,
    /// Chooses so that each token surprises alike, in place of the filters; none is off.
    pub mirostat: Option<Mirostat>,
    /// "Don't repeat yourself": a penalty that grows with the length of a verbatim repeat.
    pub dry: Dry,
    /// "Exclude top choices": now and then all likely tokens but the least likely of them are dropped.
    pub xtc: Xtc,
    /// Added to the logit of a token, by id; minus infinity bans it.
    pub logit_bias: Vec<(u32, f32)>,
    /// Choose among these tokens only, end tokens included; none is among all.
    pub allowed_ids: Option<Vec<u32>>,
    /// Sequences of tokens that the answer must not complete.
    pub bad_words: Vec<Vec<u32>>,
    /// Where the random numbers start; none takes a seed from the operating system.
    pub seed: Option<u64>,
    /// Report the log-probability of each chosen token, and of this many most likely alternatives (0 to 20).
    pub logprobs: Option<usize>,
    /// Where log-probabilities are reported: those of these tokens, in their order, in place of the likeliest ones.
    pub scored_ids: Vec<u32>,
}

/// DRY's parameters; a multiplier of 0 turns it off.
#[derive(Debug, Clone, PartialEq)]
pub struct Dry {
    /// The penalty of a repeat of `allowed_length` tokens; 0 is off.
    pub multiplier: f32,
    /// Factor of the penalty for each further repeated token; 1 or more.
    pub base: f32,
    /// Repeats shorter than this are free.
    pub allowed_length: usize,
    /// How many last tokens are searched; -1 is all, 0 is off.
    pub last_n: i64,
    /// A repeat is not followed across these strings.
    pub sequence_breakers: Vec<String>,
}

/// Dynamic temperature: between `temperature - range` (at least 0) and `temperature + range`, by the entropy of what
/// the filters leave, normalized to 0..1 and raised to `exponent`. llama.cpp's `dynatemp`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dynatemp {
    /// 0 is off. 0 to 100.
    pub range: f32,
    /// 0.01 to 100.
    pub exponent: f32,
}

/// Mirostat's parameters (Basu et al., 2020).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mirostat {
    /// The first version estimates the distribution's exponent; the second cuts by surprise itself.
    pub version: MirostatVersion,
    /// The surprise that is aimed at, bits a token. 0 to 100.
    pub tau: f32,
    /// How fast the cut follows. 0 to 10.
    pub eta: f32,
}

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MirostatVersion {
    /// 1
    One,
    /// 2
    Two,
}

/// XTC's parameters; a probability of 0 turns it off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Xtc {
    /// Probability that the filter is applied to a token. 0 to 1.
    pub probability: f32,
    /// Tokens at least this likely are "top choices"; above 0.5 the filter has no effect. 0 to 1.
    pub threshold: f32,
}

impl Default for Dry {
    fn default() -> Dry {
        Dry {
            multiplier: 0.0,
            base: 1.75,
            allowed_length: 2,
            last_n: -1,
            sequence_breakers: ["\n", ":", "\"", "*"].map(String::from).to_vec(),
        }
    }
}

impl Default for Dynatemp {
    fn default() -> Dynatemp {
        Dynatemp { range: 0.0, exponent: 1.0 }
    }
}

impl Default for Xtc {
    fn default() -> Xtc {
        Xtc { probability: 0.0, threshold: 0.1 }
    }
}

impl Default for Params {
    fn default() -> Params {
        Params {
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            typical_p: 1.0,
            repeat_penalty: 1.0,
            repeat_last_n: 64,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            top_n_sigma: 0.0,
            dynatemp: Dynatemp::default(),
            mirostat: None,
            dry: Dry::default(),
            xtc: Xtc::default(),
            logit_bias: Vec::new(),
            allowed_ids: None,
            bad_words: Vec::new(),
            seed: None,
            logprobs: None,
            scored_ids: Vec::new(),
        }
    }
}

/// Most biases one request may carry (OpenAI's limit is 300).
pub const MAX_LOGIT_BIAS: usize = 1024;
/// Most tokens in [`Params::scored_ids`].
pub const MAX_SCORED_IDS: usize = 1_024;
/// Most tokens in [`Params::allowed_ids`].
pub const MAX_ALLOWED_IDS: usize = 16_384;
/// Upper bound of the sequences in [`Params::bad_words`], and of the tokens in one.
pub const MAX_BAD_WORDS: usize = 256;
/// Upper bound of the alternatives reported with each chosen token.
pub const MAX_LOGPROBS: usize = 20;
/// Upper bound of the strings in [`Dry::sequence_breakers`], and of the bytes in one.
pub const MAX_BREAKERS: usize = 64;

impl Params {
    /// Greedy: the likeliest token each time.
    pub fn greedy() -> Params {
        Params { temperature: 0.0, ..Params::default() }
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// The first parameter out of range, with its value and range.
    pub fn check(&self, vocab: usize) -> Result<(), Refused> {
        within("temperature", self.temperature, 0.0, 100.0)?;
        within("top_p", self.top_p, 0.0, 1.0)?;
        within("min_p", self.min_p, 0.0, 1.0)?;
        within("typical_p", self.typical_p, 0.0, 1.0)?;
        within("repeat_penalty", self.repeat_penalty, 0.01, 100.0)?;
        within("frequency_penalty", self.frequency_penalty, -2.0, 2.0)?;
        within("presence_penalty", self.presence_penalty, -2.0, 2.0)?;
        within("dry_multiplier", self.dry.multiplier, 0.0, 100.0)?;
        within("dry_base", self.dry.base, 1.0, 100.0)?;
        within("xtc_probability", self.xtc.probability, 0.0, 1.0)?;
        within("xtc_threshold", self.xtc.threshold, 0.0, 1.0)?;
        within("top_n_sigma", self.top_n_sigma, 0.0, 100.0)?;
        within("dynatemp_range", self.dynatemp.range, 0.0, 100.0)?;
        within("dynatemp_exponent", self.dynatemp.exponent, 0.01, 100.0)?;
        if let Some(mirostat) = self.mirostat {
            within("mirostat_tau", mirostat.tau, 0.0, 100.0)?;
            within("mirostat_eta", mirostat.eta, 0.0, 10.0)?;
        }
        for (name, last_n) in [("repeat_last_n", self.repeat_last_n), ("dry_penalty_last_n", self.dry.last_n)]
        {
            if last_n < -1 {
                return Err(invalid(name, last_n, "-1 (all) or more"));
            }
        }
        if self.dry.sequence_breakers.len() > MAX_BREAKERS
            || self.dry.sequence_breakers.iter().any(|b| b.is_empty() || b.len() > MAX_BREAKERS)
        {
            let what = format!("{} strings", self.dry.sequence_breakers.len());
            return Err(invalid("dry_sequence_breakers", what, "at most 64 strings of 1 to 64 bytes"));
        }
        if self.logit_bias.len() > MAX_LOGIT_BIAS {
            return Err(invalid("logit_bias", self.logit_bias.len(), "at most 1024 entries"));
        }
        for &(id, bias) in &self.logit_bias {
            if id as usize >= vocab {
                return Err(invalid("logit_bias", id, &format!("a token id below {vocab}")));
            }
            if bias.is_nan() || bias == f32::INFINITY {
                return Err(invalid("logit_bias", bias, "a number, or minus infinity"));
            }
        }
        self.check_lists(vocab)?;
        match self.logprobs {
            Some(n) if n > MAX_LOGPROBS => Err(invalid("logprobs", n, "at most 20")),
            _ => Ok(()),
        }
    }
}

impl Params {
    /// Which tokens may be chosen.
    fn check_lists(&self, vocab: usize) -> Result<(), Refused> {
        let known = |name, ids: &[u32]| match ids.iter().find(|id| **id as usize >= vocab) {
            Some(id) => Err(invalid(name, id, &format!("token ids below {vocab}"))),
            None => Ok(()),
        };
        if let Some(allowed) = &self.allowed_ids {
            if allowed.is_empty() || allowed.len() > MAX_ALLOWED_IDS {
                return Err(invalid("allowed_token_ids", format!("{} ids", allowed.len()), "1 to 16384"));
            }
            known("allowed_token_ids", allowed)?;
        }
        if self.scored_ids.len() > MAX_SCORED_IDS {
            return Err(invalid("scored_ids", format!("{} ids", self.scored_ids.len()), "at most 1024"));
        }
        known("scored_ids", &self.scored_ids)?;
        if self.bad_words.len() > MAX_BAD_WORDS {
            return Err(invalid("bad_words", format!("{} sequences", self.bad_words.len()), "at most 256"));
        }
        for word in &self.bad_words {
            if word.is_empty() || word.len() > MAX_BAD_WORDS {
                return Err(invalid("bad_words", format!("{} tokens", word.len()), "1 to 256 a word"));
            }
            known("bad_words", word)?;
        }
        Ok(())
    }
}

fn within(name: &'static str, value: f32, low: f32, high: f32) -> Result<(), Refused> {
    if value.is_finite() && (low..=high).contains(&value) {
        return Ok(());
    }
    Err(invalid(name, value, &format!("a number from {low} to {high}")))
}

pub(crate) fn invalid(name: &'static str, value: impl ToString, expected: &str) -> Refused {
    Refused::InvalidParam { name, value: value.to_string(), expected: expected.to_owned() }
}
