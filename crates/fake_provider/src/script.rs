//! What a provider does: its answers, their speed, their price and its faults.

use crate::{Fault, FaultRule, Price, Reply, When};
use serde::Deserialize;
use thiserror::Error;

/// A script that does not parse.
#[derive(Debug, Error)]
#[error("script of the fake provider: {0}")]
pub struct ScriptError(#[from] toml::de::Error);

/// What a provider does.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Script {
    /// Where words and faults are drawn from.
    pub seed: u64,
    /// Tokens of an answer, if the request's limit is not lower.
    pub tokens: usize,
    /// What the answers say.
    pub reply: Reply,
    /// Wait before the first token, in milliseconds.
    pub first_token_ms: u64,
    /// Wait between two tokens, in milliseconds. Whole answers wait for all of them at once.
    pub gap_ms: u64,
    /// Tokens of the prompt that are reported as cached, up to its length.
    pub cached_tokens: u64,
    /// Prices of tokens.
    pub price: Price,
    /// Whether requests whose client left are billed as if they had been answered to the end. Without it they are billed
    /// the tokens that were generated.
    pub bill_to_the_end: bool,
    /// The key that requests must have; all are let in without one.
    pub key: Option<String>,
    /// Models that are known, for `GET /v1/models` and status 404; all are known when empty.
    pub models: Vec<String>,
    /// Requests answered at once; more are refused with status 429. 0 is without limit.
    pub max_concurrent: u64,
    /// Length of embeddings, if the request asks for none.
    pub dimensions: usize,
    /// Margins between the log-probabilities of a chat answer's tokens and those of their second candidates, in nats; the
    /// last one goes on. Sent if the request asks for `logprobs`; without any, none are sent.
    pub margins: Vec<f64>,
    /// Faults. The first that hits a request is played.
    #[serde(rename = "fault")]
    pub faults: Vec<FaultRule>,
    /// Whether a request that is equal to the last one gets the same bytes, ids included. It is then neither read nor
    /// logged: for benchmarks, where the provider is to cost little. Only whole answers without waits and faults.
    pub repeat: bool,
    /// Records that the log keeps; the oldest are forgotten.
    pub log_records: usize,
    /// Bytes of a body that a record keeps.
    pub log_body_bytes: usize,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            seed: 1,
            tokens: 16,
            reply: Reply::Words,
            first_token_ms: 0,
            gap_ms: 0,
            cached_tokens: 0,
            price: Price::default(),
            bill_to_the_end: false,
            key: None,
            models: Vec::new(),
            max_concurrent: 0,
            dimensions: 8,
            margins: Vec::new(),
            faults: Vec::new(),
            repeat: false,
            log_records: 4_096,
            log_body_bytes: 16 << 10,
        }
    }
}

impl Script {
    /// A provider without faults, that answers 16 tokens at once.
    pub fn new() -> Self {
        Self::default()
    }

    /// A script in TOML; its keys are the fields.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        Ok(toml::from_str(text)?)
    }

    /// Another seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Answers of so many tokens.
    pub fn tokens(mut self, tokens: usize) -> Self {
        self.tokens = tokens;
        self
    }

    /// Other answers.
    pub fn reply(mut self, reply: Reply) -> Self {
        self.reply = reply;
        self
    }

    /// Waits before the first token and between two tokens, in milliseconds.
    pub fn pace(mut self, first_token_ms: u64, gap_ms: u64) -> Self {
        self.first_token_ms = first_token_ms;
        self.gap_ms = gap_ms;
        self
    }

    /// Prices of tokens.
    pub fn price(mut self, price: Price) -> Self {
        self.price = price;
        self
    }

    /// With these margins of log-probabilities.
    #[must_use]
    pub fn margins(mut self, margins: &[f64]) -> Self {
        self.margins = margins.to_vec();
        self
    }

    /// A key that requests must have.
    pub fn key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// A further fault, for requests that no earlier one hits.
    pub fn fault(mut self, when: When, fault: Fault) -> Self {
        self.faults.push(FaultRule { fault, when, billed: false });
        self
    }

    /// A further fault after which the provider bills the whole answer all the same.
    pub fn billed_fault(mut self, when: When, fault: Fault) -> Self {
        self.faults.push(FaultRule { fault, when, billed: true });
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_in_toml_are_those_in_code() {
        let parsed = Script::parse(
            r#"
            seed = 9
            tokens = 4
            reply = { text = "Hello." }
            price = { input = 150_000, output = 600_000 }
            [[fault]]
            kind = "rate_limited"
            retry_after = "1"
            when = { requests = [1, 3] }
            [[fault]]
            kind = "reset"
            billed = true
            when = { probability = 0.5, model = "m" }
            "#,
        )
        .unwrap();
        let when = When { model: Some("m".to_owned()), ..When::probability(0.5) };
        let built = Script::new()
            .seed(9)
            .tokens(4)
            .reply(Reply::Text("Hello.".to_owned()))
            .price(Price { input: 150_000, cached_input: 0, output: 600_000 })
            .fault(When::requests([1, 3]), Fault::rate_limited("1"))
            .billed_fault(when, Fault::Reset);
        assert_eq!(parsed, built);
    }

    #[test]
    fn unknown_settings_are_errors() {
        for text in
            ["tokenz = 1", "[[fault]]\nkind = \"bang\"", "[[fault]]\nkind = \"reset\"\nwhen = { x = 1 }"]
        {
            assert!(Script::parse(text).is_err(), "{text}");
        }
        assert!(Script::parse("[[fault]]\nkind = \"status\"\nstatus = 500\nstatos = 1").is_err());
    }
}
