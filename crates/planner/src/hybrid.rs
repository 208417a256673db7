//! Hybrid serving: own machines for the base load, an API for the overflow above it.

use serde::Serialize;

use crate::capacity::Capacity;
use crate::cost::HOURS_A_MONTH;
use crate::error::{Error, not_negative, share};
use crate::money::Money;

/// The price of an hour of which `share_of_base` is paid at the price `base` and the rest at `other`.
///
/// # Errors
/// A share outside 0 to 1.
pub fn blended(share_of_base: f64, base: Money, other: Money) -> Result<Money, Error> {
    share("hybrid.base_share", share_of_base)?;
    Ok(base.times(share_of_base) + other.times(1.0 - share_of_base))
}

/// A hybrid with a number of own machines; requests above their capacity go to the API.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HybridLevel {
    /// Own machines.
    pub machines: u64,
    /// Price of the own machines, a month.
    pub own: Money,
    /// Requests a month above the capacity of the own machines.
    pub overflow_requests: f64,
    /// Price of these requests at the API, a month.
    pub overflow: Money,
    /// Share of all requests that go to the API, 0 to 1.
    pub overflow_share: f64,
}

impl HybridLevel {
    /// Price of own machines and API together, a month.
    #[must_use]
    pub fn total(&self) -> Money {
        self.own + self.overflow
    }
}

/// Upper bound of the hours of a load curve: a leap year.
const MAX_HOURS: usize = 8784;

/// The hybrids from no own machine to as many as the peak needs. `load` is requests in each hour of a period that
/// repeats. Requests of an hour above the `capacity` of own machines (at `price` a month) go to the API at once, at
/// `each` a request; they do not wait for a quiet hour.
///
/// # Errors
/// An empty curve, one longer than a year, a negative load, or more than 100,000 machines.
pub fn levels(
    price: Money,
    capacity: &Capacity,
    load: &[f64],
    each: Money,
) -> Result<Vec<HybridLevel>, Error> {
    if load.is_empty() {
        return Err(Error::Empty { what: "work.requests_by_hour".to_owned() });
    }
    if load.len() > MAX_HOURS {
        return Err(Error::Range {
            field: "work.requests_by_hour".to_owned(),
            value: format!("{} hours", load.len()),
            expected: format!("1 to {MAX_HOURS} hours, a year"),
        });
    }
    for requests in load {
        not_negative("work.requests_by_hour", *requests)?;
    }
    let peak = load.iter().copied().fold(0.0, f64::max);
    let most = capacity.machines(peak);
    if most > 100_000 {
        return Err(Error::Range {
            field: "work.requests_by_hour".to_owned(),
            value: format!("a peak of {peak} requests, {most} machines"),
            expected: "loads of up to 100,000 machines".to_owned(),
        });
    }
    let periods = HOURS_A_MONTH / load.len() as f64;
    let all: f64 = load.iter().sum::<f64>() * periods;
    let level = |machines: u64| {
        let done = capacity.requests_per_hour(machines);
        let over = load.iter().map(|requests| (requests - done).max(0.0)).sum::<f64>() * periods;
        HybridLevel {
            machines,
            own: price.times_int(machines),
            overflow_requests: over,
            overflow: each.times(over),
            overflow_share: if all > 0.0 { over / all } else { 0.0 },
        }
    };
    Ok((0..=most).map(level).collect())
}

/// The cheapest of `levels`; of equal ones, that with fewer machines.
#[must_use]
pub fn cheapest(levels: &[HybridLevel]) -> Option<&HybridLevel> {
    levels.iter().min_by_key(|level| level.total())
}

/// Mean price of a request when all start at a small model and a share is escalated to a large one. Escalated requests
/// pay for both models.
///
/// # Errors
/// A share outside 0 to 1.
pub fn escalated(small: Money, large: Money, share_escalated: f64) -> Result<Money, Error> {
    share("work.escalated_share", share_escalated)?;
    Ok(small + large.times(share_escalated))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{Request, Server};

    /// One machine does 360 requests an hour, for 0.10.
    fn own() -> (Money, Capacity) {
        let server = Server::new("own", Money::from_f64(0.10), 10.0, None, 1.0).unwrap();
        (server.price_per_month(), Capacity::by_throughput(&server, &Request::new(0, 100, 0.0).unwrap()))
    }

    #[test]
    fn the_cheapest_level_is_between_none_and_all() {
        let (price, capacity) = own();
        let mut load = [300.0; 24];
        load[12] = 1000.0;
        let levels = levels(price, &capacity, &load, Money::from_f64(0.001)).unwrap();
        assert_eq!(levels.len(), 4);
        let best = cheapest(&levels).unwrap();
        assert_eq!(best.machines, 1);
        // 640 requests of one hour, each day of a month.
        assert!((best.overflow_requests - 640.0 * 730.0 / 24.0).abs() < 1e-6);
        assert_eq!(best.own, Money::from_f64(73.0));
        assert_eq!(levels[0].own, Money::ZERO);
        assert_eq!(levels[3].overflow, Money::ZERO);
        // Half as many within a level that must be kept: twice the machines for all of it.
        let half = Capacity::from_points([(1, 180.0)]).unwrap();
        let kept = super::levels(price, &half, &load, Money::from_f64(0.001)).unwrap();
        assert_eq!(kept.len(), 7);
        assert_eq!(kept[2].overflow_requests, levels[1].overflow_requests);
    }

    #[test]
    fn an_empty_or_negative_curve_is_refused() {
        let (price, capacity) = own();
        let refused = |load: &[f64]| levels(price, &capacity, load, Money::ZERO).unwrap_err().to_string();
        assert_eq!(refused(&[]), "work.requests_by_hour is empty");
        assert_eq!(refused(&[-1.0]), "work.requests_by_hour: -1 is outside numbers from 0 to 1e15");
        assert!(refused(&[1e12]).contains("100,000 machines"));
    }

    #[test]
    fn escalating_pays_both() {
        let each = escalated(Money::from_f64(0.001), Money::from_f64(0.02), 0.1).unwrap();
        assert_eq!(each, Money::from_f64(0.003));
        assert!(escalated(Money::ZERO, Money::ZERO, 1.1).is_err());
    }
}
