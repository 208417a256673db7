//! Counts of tokens, as both endpoints report them.

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
    /// What the prompts consisted of.
    pub prompt_tokens_details: PromptDetails,
    /// What that cost, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// `usage.prompt_tokens_details`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PromptDetails {
    /// Prompt tokens whose keys and values were already there.
    pub cached_tokens: usize,
}

impl Usage {
    /// From its three counts.
    pub fn new(prompt_tokens: usize, completion_tokens: usize, cached_tokens: usize) -> Usage {
        Usage {
            prompt_tokens,
            completion_tokens,
            total_tokens: prompt_tokens + completion_tokens,
            prompt_tokens_details: PromptDetails { cached_tokens },
            cost: None,
        }
    }
}

/// `usage.cost`: the request's share of the machine's time, at the machine's price.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cost {
    /// Of the amounts.
    pub currency: Currency,
    /// All of it.
    pub total: f64,
    /// For reading the prompts.
    pub prompt: f64,
    /// For the answers.
    pub completion: f64,
    /// Seconds of the whole machine that are paid for.
    pub machine_seconds: f64,
    /// Price of the machine an hour.
    pub price_per_hour: f64,
}

impl Cost {
    /// At `price_per_hour`, of shares in seconds. Amounts are told to a millionth of a millionth.
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

/// A currency by its code of ISO 4217: three capital letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Currency([u8; 3]);

impl Currency {
    /// From its code; none if it is no such code. Small letters are taken too.
    pub fn new(code: &str) -> Option<Currency> {
        let letters: [u8; 3] = code.as_bytes().try_into().ok()?;
        letters.iter().all(u8::is_ascii_alphabetic).then(|| Currency(letters.map(|l| l.to_ascii_uppercase())))
    }

    /// Its code.
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
