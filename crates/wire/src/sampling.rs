//! How tokens are chosen and where an answer ends: the fields that both endpoints share.
//!
//! Names are OpenAI's; where OpenAI has none, vLLM's and llama.cpp's, both spellings where they differ.
//! `None` is "not said", so that the server's own default holds.

use serde_json::Value;

use crate::error::Fault;
use crate::fields::{self, Fields};
use crate::limits;
use crate::samplers::{self, Sampler};

/// The sampling part of a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sampling {
    /// 0 to 2; 0 is greedy.
    pub temperature: Option<f32>,
    /// Keep the `k` likeliest; 0 keeps all (−1 in the request too).
    pub top_k: Option<usize>,
    /// Nucleus, 0 to 1.
    pub top_p: Option<f32>,
    /// Least probability relative to the likeliest, 0 to 1.
    pub min_p: Option<f32>,
    /// Locally typical mass, 0 to 1 (`typ_p` too).
    pub typical_p: Option<f32>,
    /// Divides or multiplies logits of tokens seen (`repeat_penalty` too).
    pub repetition_penalty: Option<f32>,
    /// Tokens that the penalties look back at; −1 is all.
    pub repeat_last_n: Option<i64>,
    /// −2 to 2, for each time a token was seen.
    pub frequency_penalty: Option<f32>,
    /// −2 to 2, once a token was seen.
    pub presence_penalty: Option<f32>,
    /// DRY: 0 is off.
    pub dry_multiplier: Option<f32>,
    /// DRY: growth with the length of the repeat.
    pub dry_base: Option<f32>,
    /// DRY: longest repeat that costs nothing.
    pub dry_allowed_length: Option<usize>,
    /// DRY: tokens to look back at; −1 is all.
    pub dry_penalty_last_n: Option<i64>,
    /// DRY: strings that a repeat does not cross.
    pub dry_sequence_breakers: Option<Vec<String>>,
    /// XTC: chance that it acts.
    pub xtc_probability: Option<f32>,
    /// XTC: least probability of a top choice.
    pub xtc_threshold: Option<f32>,
    /// Most standard deviations below the best logit; 0 is off.
    pub top_n_sigma: Option<f32>,
    /// How far the temperature follows the entropy, up and down; 0 is off.
    pub dynatemp_range: Option<f32>,
    /// How it follows.
    pub dynatemp_exponent: Option<f32>,
    /// Mirostat's version, 1 or 2; 0 is off.
    pub mirostat: Option<usize>,
    /// Mirostat: bits of surprise that are aimed at.
    pub mirostat_tau: Option<f32>,
    /// Mirostat: how fast its cut follows.
    pub mirostat_eta: Option<f32>,
    /// Only these tokens may come.
    pub allowed_token_ids: Option<Vec<u32>>,
    /// Words that must not be completed.
    pub bad_words: Vec<String>,
    /// Added to logits, by token id.
    pub logit_bias: Vec<(u32, f32)>,
    /// Start of the random numbers; none is a new one each time (llama.cpp's −1 too).
    pub seed: Option<u64>,
    /// The answer ends before any of these.
    pub stop: Vec<String>,
    /// The answer ends at any of these tokens.
    pub stop_token_ids: Vec<u32>,
    /// Tokens before which nothing ends the answer.
    pub min_tokens: usize,
    /// The stop that is met is part of the text.
    pub include_stop: bool,
    /// Go on past the model's own end of text.
    pub ignore_eos: bool,
}

impl Sampling {
    pub(crate) fn read(body: &Fields<'_>) -> Result<Sampling, Fault> {
        let top_k = body.integer("top_k", -1..=limits::TOKENS)?;
        let seed = body.integer("seed", i64::MIN..=i64::MAX)?;
        let mut sampling = Sampling {
            temperature: body.float("temperature", 0.0..=2.0)?,
            top_k: top_k.map(|k| usize::try_from(k).unwrap_or(0)),
            top_p: body.float("top_p", 0.0..=1.0)?,
            min_p: body.float("min_p", 0.0..=1.0)?,
            typical_p: either(body.float("typical_p", 0.0..=1.0)?, body.float("typ_p", 0.0..=1.0)?),
            repetition_penalty: either(
                body.float("repetition_penalty", 0.01..=100.0)?,
                body.float("repeat_penalty", 0.01..=100.0)?,
            ),
            repeat_last_n: body.integer("repeat_last_n", -1..=limits::TOKENS)?,
            frequency_penalty: body.float("frequency_penalty", -2.0..=2.0)?,
            presence_penalty: body.float("presence_penalty", -2.0..=2.0)?,
            dry_multiplier: body.float("dry_multiplier", 0.0..=100.0)?,
            dry_base: body.float("dry_base", 1.0..=100.0)?,
            dry_allowed_length: body.count("dry_allowed_length", 0..=limits::TOKENS)?,
            dry_penalty_last_n: body.integer("dry_penalty_last_n", -1..=limits::TOKENS)?,
            dry_sequence_breakers: texts(
                body,
                "dry_sequence_breakers",
                limits::DRY_BREAKERS,
                limits::DRY_BREAKER_BYTES,
            )?,
            xtc_probability: body.float("xtc_probability", 0.0..=1.0)?,
            xtc_threshold: body.float("xtc_threshold", 0.0..=1.0)?,
            top_n_sigma: body.float("top_n_sigma", -1.0..=100.0)?.map(|n| n.max(0.0)),
            dynatemp_range: body.float("dynatemp_range", 0.0..=100.0)?,
            dynatemp_exponent: body.float("dynatemp_exponent", 0.01..=100.0)?,
            mirostat: body.count("mirostat", 0..=2)?,
            mirostat_tau: body.float("mirostat_tau", 0.0..=100.0)?,
            mirostat_eta: body.float("mirostat_eta", 0.0..=10.0)?,
            allowed_token_ids: allowed_token_ids(body)?,
            bad_words: texts(body, "bad_words", limits::BAD_WORDS, limits::BAD_WORD_BYTES)?
                .unwrap_or_default(),
            logit_bias: logit_bias(body)?,
            // -1 is llama.cpp's word for a random seed; other negative ones keep their bits.
            seed: seed.filter(|s| *s != -1).map(i64::cast_unsigned),
            stop: stops(body, "stop")?,
            stop_token_ids: stop_token_ids(body)?,
            min_tokens: body.count("min_tokens", 0..=limits::TOKENS)?.unwrap_or(0),
            include_stop: body.boolean("include_stop_str_in_output")?.unwrap_or(false),
            ignore_eos: body.boolean("ignore_eos")?.unwrap_or(false),
        };
        samplers::left_out(body)?.into_iter().for_each(|sampler| sampling.leave_out(sampler));
        Ok(sampling)
    }

    /// Sets the fields of a sampler so that it does nothing.
    fn leave_out(&mut self, sampler: Sampler) {
        match sampler {
            Sampler::Penalties => {
                self.repetition_penalty = Some(1.0);
                self.frequency_penalty = Some(0.0);
                self.presence_penalty = Some(0.0);
            }
            Sampler::Dry => self.dry_multiplier = Some(0.0),
            Sampler::TopNSigma => self.top_n_sigma = Some(0.0),
            Sampler::TopK => self.top_k = Some(0),
            Sampler::Typical => self.typical_p = Some(1.0),
            Sampler::TopP => self.top_p = Some(1.0),
            Sampler::MinP => self.min_p = Some(0.0),
            Sampler::Xtc => self.xtc_probability = Some(0.0),
            Sampler::Temperature => {
                self.temperature = Some(1.0);
                self.dynatemp_range = Some(0.0);
            }
        }
    }
}

fn either<T>(first: Option<T>, second: Option<T>) -> Option<T> {
    first.or(second)
}

/// An answer of at most `max_tokens` can have `min_tokens`.
pub(crate) fn check_min_tokens(sampling: &Sampling, max_tokens: Option<usize>) -> Result<(), Fault> {
    match max_tokens {
        Some(most) if sampling.min_tokens > most => {
            let message =
                format!("min_tokens is {}; it must not be above max_tokens, {most}", sampling.min_tokens);
            Err(Fault::field("min_tokens", message))
        }
        _ => Ok(()),
    }
}

/// Names of the bound on an answer's tokens: OpenAI's two and llama.cpp's, whose -1 is no bound.
const MOST: [&str; 3] = ["max_completion_tokens", "max_tokens", "n_predict"];

/// The most tokens of an answer, at least `least`, under whichever name. None is "as many as fit".
pub(crate) fn max_tokens(body: &Fields<'_>, least: i64) -> Result<Option<usize>, Fault> {
    let mut found: Option<(&str, usize)> = None;
    for name in MOST {
        let count = match body.get(name) {
            Some(value) if name == "n_predict" && *value == -1 => None,
            _ => body.count(name, least..=limits::TOKENS)?,
        };
        match (found, count) {
            (Some((other, a)), Some(b)) if a != b => {
                let message = format!("{other} is {a} and {name} is {b}; give one of them");
                return Err(Fault::field(body.param(name), message));
            }
            (None, Some(count)) => found = Some((name, count)),
            _ => {}
        }
    }
    Ok(found.map(|(_, count)| count))
}

/// Answers to a prompt: OpenAI's `n`, or llama.cpp's `n_cmpl`.
pub(crate) fn answers(body: &Fields<'_>) -> Result<usize, Fault> {
    let (n, other) = (body.count("n", 1..=limits::N)?, body.count("n_cmpl", 1..=limits::N)?);
    match (n, other) {
        (Some(a), Some(b)) if a != b => {
            Err(Fault::field("n_cmpl", format!("n is {a} and n_cmpl is {b}; give one of them")))
        }
        _ => Ok(n.or(other).unwrap_or(1)),
    }
}

/// Stop strings: one, or a list.
pub(crate) fn stops(body: &Fields<'_>, name: &str) -> Result<Vec<String>, Fault> {
    let Some(value) = body.get(name) else { return Ok(Vec::new()) };
    let name = body.param(name);
    let one = std::slice::from_ref(value);
    let (entries, listed) = match value {
        Value::String(_) => (one, false),
        Value::Array(entries) if entries.len() > limits::STOPS => {
            return Err(fields::too_many(&name, entries.len(), limits::STOPS));
        }
        Value::Array(entries) => (entries.as_slice(), true),
        other => return Err(fields::wrong(&name, other, "a string or an array of strings")),
    };
    let mut stops = Vec::with_capacity(entries.len());
    for (i, entry) in entries.iter().enumerate() {
        let param = if listed { format!("{name}[{i}]") } else { name.clone() };
        let text = fields::text(&param, entry, limits::STOP_BYTES)?;
        if text.is_empty() {
            return Err(Fault::field(param.clone(), format!("{param} is empty; it must have a character")));
        }
        stops.push(text.to_owned());
    }
    Ok(stops)
}

fn stop_token_ids(body: &Fields<'_>) -> Result<Vec<u32>, Fault> {
    let entries = body.list("stop_token_ids", limits::STOP_IDS)?.unwrap_or_default();
    token_ids(&body.param("stop_token_ids"), entries)
}

pub(crate) fn token_ids(param: &str, entries: &[Value]) -> Result<Vec<u32>, Fault> {
    let id = |(i, entry): (usize, &Value)| {
        let id = fields::integer(&format!("{param}[{i}]"), entry, 0..=i64::from(u32::MAX))?;
        Ok(u32::try_from(id).unwrap_or(u32::MAX))
    };
    entries.iter().enumerate().map(id).collect()
}

/// None is all of them; a list must have one.
fn allowed_token_ids(body: &Fields<'_>) -> Result<Option<Vec<u32>>, Fault> {
    let name = "allowed_token_ids";
    let Some(entries) = body.list(name, limits::ALLOWED_IDS)? else { return Ok(None) };
    if entries.is_empty() {
        let name = body.param(name);
        return Err(Fault::field(name.clone(), format!("{name} is empty; it must have at least 1 token id")));
    }
    token_ids(&body.param(name), entries).map(Some)
}

/// A list of texts that are not empty.
fn texts(body: &Fields<'_>, name: &str, most: usize, bytes: usize) -> Result<Option<Vec<String>>, Fault> {
    let Some(entries) = body.list(name, most)? else { return Ok(None) };
    let mut texts = Vec::with_capacity(entries.len());
    for (i, entry) in entries.iter().enumerate() {
        let param = format!("{}[{i}]", body.param(name));
        let text = fields::text(&param, entry, bytes)?;
        if text.is_empty() {
            return Err(Fault::field(param.clone(), format!("{param} is empty; it must have a character")));
        }
        texts.push(text.to_owned());
    }
    Ok(Some(texts))
}

/// OpenAI's form, an object of token ids, or llama.cpp's, an array of `[id, bias]`. −100 and 100 ban and force in
/// effect; `false` bans, in llama.cpp's form.
fn logit_bias(body: &Fields<'_>) -> Result<Vec<(u32, f32)>, Fault> {
    let name = "logit_bias";
    match body.get(name) {
        Some(Value::Array(pairs)) if pairs.len() > limits::LOGIT_BIAS => {
            Err(fields::too_many(name, pairs.len(), limits::LOGIT_BIAS))
        }
        Some(Value::Array(pairs)) => pairs.iter().enumerate().map(|(i, pair)| bias_pair(i, pair)).collect(),
        _ => {
            let map = body.object(name, limits::LOGIT_BIAS)?;
            map.into_iter().flatten().map(|(id, bias)| bias_entry(id, bias)).collect()
        }
    }
}

fn bias_entry(id: &str, bias: &Value) -> Result<(u32, f32), Fault> {
    let Ok(token) = id.parse::<u32>() else {
        let shown = fields::show(&Value::from(id));
        return Err(Fault::field(
            "logit_bias",
            format!("logit_bias has the key {shown}; keys are token ids"),
        ));
    };
    Ok((token, fields::float(&format!("logit_bias.{token}"), bias, -100.0..=100.0)?))
}

fn bias_pair(i: usize, pair: &Value) -> Result<(u32, f32), Fault> {
    let param = format!("logit_bias[{i}]");
    let Value::Array(pair) = pair else {
        return Err(fields::wrong(&param, pair, "an array [token id, bias]"));
    };
    let [id, bias] = pair.as_slice() else {
        let message = format!("{param} has {} entries; it must be [token id, bias]", pair.len());
        return Err(Fault::field(param, message));
    };
    let id = fields::integer(&format!("{param}[0]"), id, 0..=i64::from(u32::MAX))?;
    let bias = match bias {
        Value::Bool(false) => f32::NEG_INFINITY,
        number => fields::float(&format!("{param}[1]"), number, -100.0..=100.0)?,
    };
    Ok((u32::try_from(id).unwrap_or(u32::MAX), bias))
}
