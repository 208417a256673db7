//! Prices of tokens and requests on an own machine and at an API.
//!
//! A machine costs the same busy or idle, so the price of a token depends on utilization:
//! `price an hour / (tokens a second * 3600 * utilization)`. Prefill and decode share the machine's time: a request
//! takes `input * (1 - cached) / prompt rate + output / rate` seconds, with both rates of the whole machine.

use serde::Serialize;

use crate::error::{Error, not_negative, positive, required, share, utilization};
use crate::money::Money;
use crate::tables::ApiPrice;

/// Hours of an average month: 365 days by 24 hours over 12.
pub const HOURS_A_MONTH: f64 = 730.0;
const SECONDS_AN_HOUR: f64 = 3600.0;

/// A serving machine: its price and its rates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Server {
    /// Price of an hour, busy or idle.
    pub price_per_hour: Money,
    /// Tokens generated a second, all streams together.
    pub tokens_per_s: f64,
    /// Prompt tokens computed a second when nothing else is; none means that prompts take no time.
    pub prompt_tokens_per_s: Option<f64>,
    /// Share of the time in which the machine is busy, above 0 and up to 1.
    pub utilization: f64,
}

/// The sizes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Request {
    /// Prompt tokens.
    pub input_tokens: u64,
    /// Generated tokens.
    pub output_tokens: u64,
    /// Share of the input tokens that a prompt cache holds, 0 to 1.
    pub cached_share: f64,
}

impl Server {
    /// A machine with checked numbers; fields are named under `section` in errors.
    ///
    /// # Errors
    /// A rate of zero or less, a negative price, a utilization outside 0 to 1.
    pub fn new(
        section: &str,
        price_per_hour: Money,
        tokens_per_s: f64,
        prompt_tokens_per_s: Option<f64>,
        used: f64,
    ) -> Result<Server, Error> {
        let field = |name: &str| format!("{section}.{name}");
        not_negative(&field("price_per_hour"), price_per_hour.value())?;
        positive(&field("tokens_per_s"), tokens_per_s)?;
        if let Some(rate) = prompt_tokens_per_s {
            positive(&field("prompt_tokens_per_s"), rate)?;
        }
        utilization(&field("utilization"), used)?;
        Ok(Server { price_per_hour, tokens_per_s, prompt_tokens_per_s, utilization: used })
    }

    /// Price of a month.
    #[must_use]
    pub fn price_per_month(&self) -> Money {
        self.price_per_hour.times(HOURS_A_MONTH)
    }

    /// Price of a million generated tokens.
    #[must_use]
    pub fn output_per_million(&self) -> Money {
        self.per_million(self.tokens_per_s)
    }

    /// Price of a million prompt tokens, where the rate is known.
    #[must_use]
    pub fn input_per_million(&self) -> Option<Money> {
        self.prompt_tokens_per_s.map(|rate| self.per_million(rate))
    }

    fn per_million(&self, tokens_per_s: f64) -> Money {
        self.price_per_hour.times(1e6 / (tokens_per_s * SECONDS_AN_HOUR * self.utilization))
    }

    /// Tokens generated in a month at this utilization.
    #[must_use]
    pub fn tokens_per_month(&self) -> f64 {
        self.tokens_per_s * SECONDS_AN_HOUR * HOURS_A_MONTH * self.utilization
    }

    /// Seconds of the whole machine for a request.
    #[must_use]
    pub fn seconds(&self, request: &Request) -> f64 {
        let prompt = request.input_tokens as f64 * (1.0 - request.cached_share);
        let prompt = self.prompt_tokens_per_s.map_or(0.0, |rate| prompt / rate);
        prompt + request.output_tokens as f64 / self.tokens_per_s
    }

    /// Requests an hour at this utilization.
    #[must_use]
    pub fn requests_per_hour(&self, request: &Request) -> f64 {
        SECONDS_AN_HOUR * self.utilization / self.seconds(request)
    }

    /// Requests a month at this utilization.
    #[must_use]
    pub fn requests_per_month(&self, request: &Request) -> f64 {
        self.requests_per_hour(request) * HOURS_A_MONTH
    }

    /// Price of one request at this utilization.
    #[must_use]
    pub fn per_request(&self, request: &Request) -> Money {
        self.price_per_hour.times(self.seconds(request) / (SECONDS_AN_HOUR * self.utilization))
    }

    /// Machines for `requests` in a period in which one machine serves `each`; 0 for 0.
    #[must_use]
    pub fn machines(requests: f64, each: f64) -> u64 {
        // A millionth of a machine is a rounding error, not a machine.
        (requests / each - 1e-6).ceil().max(0.0) as u64
    }
}

impl Request {
    /// A request with checked numbers.
    ///
    /// # Errors
    /// No tokens out, or a share outside 0 to 1.
    pub fn new(input_tokens: u64, output_tokens: u64, cached_share: f64) -> Result<Request, Error> {
        positive("work.output_tokens", output_tokens as f64)?;
        share("work.cached_share", cached_share)?;
        Ok(Request { input_tokens, output_tokens, cached_share })
    }
}

impl ApiPrice {
    /// Price of `count` equal requests at this API.
    ///
    /// # Errors
    /// A cached share where the provider has no price for cached tokens.
    pub fn requests(&self, request: &Request, count: u64) -> Result<Money, Error> {
        let all = request.input_tokens.saturating_mul(count);
        let cached = (all as f64 * request.cached_share).round() as u64;
        let cached_price = match (self.cached, cached) {
            (Some(price), _) => price,
            (None, 0) => Money::ZERO,
            (None, _) => {
                let why = "work.cached_share is above 0 and this API has no price for cached tokens";
                required(&format!("price `{}`: cached", self.name), None, why)?
            }
        };
        Ok(self.input.per_million(all - cached)
            + cached_price.per_million(cached)
            + self.output.per_million(request.output_tokens.saturating_mul(count)))
    }
}

/// A machine's measured throughput and latency at one load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OperatingPoint {
    /// Source of the figures: a file, or a name.
    pub name: String,
    /// Price of an hour of the machine.
    pub price_per_hour: Money,
    /// Requests completed a second.
    pub requests_per_s: f64,
    /// 95th percentile of latency, in milliseconds.
    pub p95_ms: f64,
}

impl OperatingPoint {
    /// Price of a thousand requests at this load.
    #[must_use]
    pub fn per_thousand(&self) -> Money {
        self.price_per_hour.times(1000.0 / (self.requests_per_s * SECONDS_AN_HOUR))
    }
}

/// The load with the cheapest 1,000 requests of those that keep the target p95: the published selection rule.
///
/// # Errors
/// No points; a rate of zero or less; a target that none of them keeps, with the fastest.
pub fn cheapest_within(points: &[OperatingPoint], target_p95_ms: f64) -> Result<&OperatingPoint, Error> {
    positive("slo.latency_p95_ms", target_p95_ms)?;
    for point in points {
        positive(&format!("{}: request_throughput", point.name), point.requests_per_s)?;
    }
    let fastest = points.iter().min_by(|a, b| a.p95_ms.total_cmp(&b.p95_ms));
    let Some(fastest) = fastest else {
        return Err(Error::Empty { what: "the list of measured loads".into() });
    };
    let kept = points.iter().filter(|point| point.p95_ms <= target_p95_ms);
    kept.min_by_key(|point| point.per_thousand()).ok_or_else(|| Error::Impossible {
        field: "slo.latency_p95_ms".to_owned(),
        asked: format!("{target_p95_ms} ms"),
        limit: format!("the fastest load measured, {}, has {:.0} ms", fastest.name, fastest.p95_ms),
    })
}

/// What `b` saves against `a`, as a share of `a`; negative when `b` is more. None when `a` is zero.
#[must_use]
pub fn saving_share(a: Money, b: Money) -> Option<f64> {
    (a - b).ratio(a)
}
