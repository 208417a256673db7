//! The sampler's flags, each spelled once. `docs/sampling.md` tells what they do and in which order.

use engine::{Dry, Params, Xtc};

use crate::Failure;

/// How tokens are chosen; the defaults are llama.cpp's.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct Sampling {
    /// Divides the logits; 0 takes the likeliest token each time.
    #[arg(long, value_name = "T", default_value_t = 0.8, allow_negative_numbers = true)]
    pub(crate) temperature: f32,
    /// Keep the K likeliest tokens; 0 keeps all.
    #[arg(long, value_name = "K", default_value_t = 40, allow_negative_numbers = true)]
    top_k: usize,
    /// Keep the likeliest tokens whose probabilities sum to P.
    #[arg(long, value_name = "P", default_value_t = 0.95, allow_negative_numbers = true)]
    top_p: f32,
    /// Drop tokens less likely than P times the likeliest.
    #[arg(long, value_name = "P", default_value_t = 0.05, allow_negative_numbers = true)]
    min_p: f32,
    /// Locally typical sampling; 1 is off.
    #[arg(long, value_name = "P", default_value_t = 1.0, allow_negative_numbers = true)]
    typical_p: f32,
    /// Penalty of tokens seen lately; 1 is off.
    #[arg(long, value_name = "R", default_value_t = 1.0, allow_negative_numbers = true)]
    repeat_penalty: f32,
    /// How many last tokens count as lately; -1 is all.
    #[arg(long, value_name = "N", default_value_t = 64, allow_negative_numbers = true)]
    repeat_last_n: i64,
    /// Penalty for each time a token was seen lately.
    #[arg(long, value_name = "F", default_value_t = 0.0, allow_negative_numbers = true)]
    frequency_penalty: f32,
    /// Penalty of a token that was seen lately.
    #[arg(long, value_name = "F", default_value_t = 0.0, allow_negative_numbers = true)]
    presence_penalty: f32,
    /// DRY's multiplier; 0 is off.
    #[arg(long, value_name = "F", default_value_t = 0.0, allow_negative_numbers = true)]
    dry_multiplier: f32,
    /// DRY's base.
    #[arg(long, value_name = "F", default_value_t = 1.75, allow_negative_numbers = true)]
    dry_base: f32,
    /// DRY: repeats shorter than this are free.
    #[arg(long, value_name = "N", default_value_t = 2, allow_negative_numbers = true)]
    dry_allowed_length: usize,
    /// DRY: how many last tokens are searched; -1 is all.
    #[arg(long, value_name = "N", default_value_t = -1, allow_negative_numbers = true)]
    dry_penalty_last_n: i64,
    /// DRY: a string that ends a repeat; may be given again. Replaces the default ones (newline : " *).
    #[arg(long, value_name = "TEXT")]
    dry_sequence_breaker: Vec<String>,
    /// XTC: how often likely tokens are dropped; 0 is off.
    #[arg(long, value_name = "P", default_value_t = 0.0, allow_negative_numbers = true)]
    xtc_probability: f32,
    /// XTC: how likely a token must be to be dropped.
    #[arg(long, value_name = "P", default_value_t = 0.1, allow_negative_numbers = true)]
    xtc_threshold: f32,
    /// Added to a token's logit: ID=BIAS, where BIAS may be -inf; may be given again.
    #[arg(long, value_name = "ID=BIAS", value_parser = bias)]
    logit_bias: Vec<(u32, f32)>,
    /// Where the random numbers start [default: the operating system's choice, which is reported].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
}

fn bias(text: &str) -> Result<(u32, f32), String> {
    let (id, bias) = text.split_once('=').ok_or("expected ID=BIAS")?;
    let id = id.parse().map_err(|error| format!("token id {id:?}: {error}"))?;
    let bias = bias.parse().map_err(|error| format!("bias {bias:?}: {error}"))?;
    Ok((id, bias))
}

impl Sampling {
    /// What the flags mean, checked for a model of `vocab` tokens.
    ///
    /// # Errors
    /// A value out of its range, by its name.
    pub(crate) fn params(&self, vocab: usize, logprobs: Option<usize>) -> Result<Params, Failure> {
        let mut dry = Dry {
            multiplier: self.dry_multiplier,
            base: self.dry_base,
            allowed_length: self.dry_allowed_length,
            last_n: self.dry_penalty_last_n,
            ..Dry::default()
        };
        if !self.dry_sequence_breaker.is_empty() {
            dry.sequence_breakers.clone_from(&self.dry_sequence_breaker);
        }
        let params = Params {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            typical_p: self.typical_p,
            repeat_penalty: self.repeat_penalty,
            repeat_last_n: self.repeat_last_n,
            frequency_penalty: self.frequency_penalty,
            presence_penalty: self.presence_penalty,
            dry,
            xtc: Xtc { probability: self.xtc_probability, threshold: self.xtc_threshold },
            logit_bias: self.logit_bias.clone(),
            seed: self.seed,
            logprobs,
            ..Params::default()
        };
        params.check(vocab).map_err(|refused| Failure::usage(refused.to_string()))?;
        Ok(params)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        sampling: Sampling,
    }

    fn params(line: &[&str]) -> Result<Params, Failure> {
        Line::try_parse_from([&["x"], line].concat()).unwrap().sampling.params(10, None)
    }

    #[test]
    fn without_flags_the_defaults_are_the_engines() {
        assert_eq!(params(&[]).unwrap(), Params::default());
    }

    #[test]
    fn flags_reach_their_parameters() {
        let line =
            ["--logit-bias", "3=-inf", "--logit-bias", "4=1.5", "--repeat-last-n", "-1", "--seed", "9"];
        let got = params(&line).unwrap();
        assert_eq!(got.logit_bias, [(3, f32::NEG_INFINITY), (4, 1.5)]);
        assert_eq!((got.repeat_last_n, got.seed), (-1, Some(9)));
    }

    #[test]
    fn out_of_range_is_a_usage_error() {
        let failure = params(&["--top-p", "1.5"]).unwrap_err();
        assert_eq!(
            (failure.code, failure.message.as_str()),
            (2, "top_p is 1.5, expected a number from 0 to 1")
        );
        assert!(Line::try_parse_from(["x", "--logit-bias", "3"]).is_err());
    }
}
