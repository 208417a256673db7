//! Token counts and cost, as OpenAI's endpoints report them.

use serde::{Serialize, Serializer};

/// `usage` of an answer, in tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Usage {
    /// Tokens of all prompts, special ones included.
    pub prompt_tokens: usize,
    /// Tokens generated, over all choices.
    pub completion_tokens: usize,
    /// The sum of both.
    pub total_tokens: usize,
    /// Details of the prompt tokens.
    pub prompt_tokens_details: PromptDetails,
    /// Details of the generated tokens, for an answer that another node began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_tokens_details: Option<CompletionDetails>,
    /// The request's cost, if requested (`include_cost`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// `usage.prompt_tokens_details`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PromptDetails {
    /// Prompt tokens found in the prefix cache.
    pub cached_tokens: usize,
}

/// `usage.completion_tokens_details`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CompletionDetails {
    /// Tokens of the answer that another node generated (`resume`).
    pub resumed_tokens: usize,
}

impl Usage {
    /// Usage with these counts, without a cost.
    pub fn new(prompt_tokens: usize, completion_tokens: usize, cached_tokens: usize) -> Usage {
        Usage {
            prompt_tokens,
            completion_tokens,
            total_tokens: prompt_tokens + completion_tokens,
            prompt_tokens_details: PromptDetails { cached_tokens },
            completion_tokens_details: None,
            cost: None,
        }
    }
}

/// `usage` of an encoder's answer, in tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct EncoderUsage {
    /// Tokens of all inputs that were encoded, special ones included.
    pub prompt_tokens: usize,
    /// The same.
    pub total_tokens: usize,
    /// Tokens of inputs that were cut; absent if none were.
    #[serde(skip_serializing_if = "is_zero")]
    pub truncated_tokens: usize,
}

impl EncoderUsage {
    /// Usage with these counts.
    pub fn new(tokens: usize, truncated_tokens: usize) -> EncoderUsage {
        EncoderUsage { prompt_tokens: tokens, total_tokens: tokens, truncated_tokens }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// `usage.cost`: the request's share of the machine's time, at the machine's price.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cost {
    /// Currency of the amounts.
    pub currency: Currency,
    /// Cost of prompts and answers together.
    pub total: f64,
    /// Cost of prefill.
    pub prompt: f64,
    /// Cost of decode.
    pub completion: f64,
    /// Charged time of the whole machine, in seconds.
    pub machine_seconds: f64,
    /// Price of an hour of the machine.
    pub price_per_hour: f64,
}

impl Cost {
    /// The cost of these seconds of the whole machine at `price_per_hour`. Amounts are rounded to 1e-12.
    pub fn new(currency: Currency, price_per_hour: f64, prompt_s: f64, completion_s: f64) -> Cost {
        let amount = |seconds: f64| (seconds * price_per_hour / 3_600.0 * 1e12).round() / 1e12;
        let machine_seconds = prompt_s + completion_s;
        Cost {
            currency,
            total: amount(machine_seconds),
            prompt: amount(prompt_s),
            completion: amount(completion_s),
            machine_seconds: (machine_seconds * 1e9).round() / 1e9,
            price_per_hour,
        }
    }
}

/// A currency, by its ISO 4217 code of three capital letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Currency([u8; 3]);

impl Currency {
    /// The currency with this code of three letters, in upper or lower case; none for other text.
    pub fn new(code: &str) -> Option<Currency> {
        let letters: [u8; 3] = code.as_bytes().try_into().ok()?;
        letters.iter().all(u8::is_ascii_alphabetic).then(|| Currency(letters.map(|l| l.to_ascii_uppercase())))
    }

    /// The ISO 4217 code, in capital letters.
    pub fn code(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl Serialize for Currency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_seconds_at_a_price() {
        let dollar = Currency::new("usd").unwrap();
        let cost = Cost::new(dollar, 0.79, 0.5, 1.5);
        let json = serde_json::to_value(cost).unwrap();
        assert_eq!((json["currency"].as_str(), json["machine_seconds"].as_f64()), (Some("USD"), Some(2.0)));
        assert!((cost.total - 0.79 / 1800.0).abs() < 1e-12, "{cost:?}");
        assert!((cost.total - cost.prompt - cost.completion).abs() < 2e-12, "{cost:?}");
        for bad in ["", "US", "USDT", "U$D", "€"] {
            assert_eq!(Currency::new(bad), None, "{bad}");
        }
    }
}
