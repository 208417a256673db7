//! What a month's volume costs in each way of serving it, and from which volume on one is cheaper than another.

use serde::Serialize;

use crate::cost::{Request, Server};
use crate::error::{Error, not_negative};
use crate::money::Money;
use crate::tables::ApiPrice;

/// A month on machines of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fleet {
    /// How many it takes, each up to its utilization.
    pub machines: u64,
    /// What they cost.
    pub price_per_month: Money,
    /// Share of their whole time that the work takes.
    pub used: f64,
}

/// The machines that `requests` a month take, spread evenly. At least one, even for no request: a service that is not there answers
/// none.
#[must_use]
pub fn fleet(server: &Server, request: &Request, requests: f64) -> Fleet {
    fleet_of(server, request, requests, 1)
}

/// The same, of `least` machines or more: as many as a busy hour takes.
#[must_use]
pub fn fleet_of(server: &Server, request: &Request, requests: f64, least: u64) -> Fleet {
    let each = server.requests_per_month(request);
    let machines = Server::machines(requests, each).max(least).max(1);
    let used = requests / (each / server.utilization) / machines as f64;
    Fleet { machines, price_per_month: server.price_per_month().each(machines), used }
}

/// Where machines become cheaper than a price for each request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Crossover {
    /// The least monthly requests at which machines cost no more. None if they never do.
    pub first: Option<f64>,
    /// The monthly requests from which on they never cost more again: a machine more for a few requests can make the API
    /// cheaper for a while.
    pub always: Option<f64>,
}

/// Where a fleet of `server`s becomes cheaper than `each` a request.
///
/// With `c` a machine's month, `n` its requests, `a` the price of one elsewhere: `k` machines do up to `k n`, and cost no more from
/// `k c / a` on. So the first crossing is at `c / a` if that is no more than `n`, and the last is that of the greatest `k` whose
/// crossing lies after `(k - 1) n`, where the k-th machine is bought.
///
/// # Errors
/// A negative price.
pub fn crossover(server: &Server, request: &Request, each: Money) -> Result<Crossover, Error> {
    not_negative("the price of a request", each.value())?;
    let (month, capacity) = (server.price_per_month(), server.requests_per_month(request));
    let never = Crossover { first: None, always: None };
    let Some(step) = month.over(each) else {
        // Nothing to pay elsewhere: machines that cost nothing tie from the start.
        let free = month == Money::ZERO;
        return Ok(if free { Crossover { first: Some(0.0), always: Some(0.0) } } else { never });
    };
    if step > capacity {
        return Ok(never);
    }
    let gain = 1.0 - step / capacity;
    // The greatest k with k step > (k - 1) capacity, that is k < 1 / gain.
    let most = if gain <= 0.0 { None } else { Some(((1.0 / gain) - 1e-9).ceil() - 1.0) };
    let always = most.map(|k| (k.max(1.0) * step).max(step));
    Ok(Crossover { first: Some(step), always })
}

/// The least monthly requests at which a fleet of `a` costs no more than one of `b`, and one request more or fewer
/// does not hide it: looked for at the volumes where either buys a machine, up to a thousand of them.
#[must_use]
pub fn cheaper_from(a: &Server, b: &Server, request: &Request) -> Option<f64> {
    let cost = |server: &Server, requests: f64| fleet(server, request, requests).price_per_month;
    let steps = |server: &Server| {
        let each = server.requests_per_month(request);
        (0..1000).map(move |k| f64::from(k) * each * (1.0 + 1e-5) + 1e-9)
    };
    let mut volumes: Vec<f64> = steps(a).chain(steps(b)).collect();
    volumes.sort_by(f64::total_cmp);
    volumes.into_iter().find(|&requests| cost(a, requests) <= cost(b, requests))
}

/// One month at an API.
///
/// # Errors
/// A cached share without a price.
pub fn api_month(price: &ApiPrice, request: &Request, requests: u64) -> Result<Money, Error> {
    price.requests(request, requests)
}

/// One request at an API, to the nearest 1e-12: a crossing needs no more.
///
/// # Errors
/// A cached share without a price.
pub fn api_each(price: &ApiPrice, request: &Request) -> Result<Money, Error> {
    // A million at once, so that a share of the tokens of one request is not rounded away.
    Ok(price.requests(request, 1_000_000)?.times(1e-6))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Capacity;
    use proptest::prelude::*;

    proptest! {
        /// The closed form against a walk over volumes.
        #[test]
        fn crossings_are_where_a_walk_finds_them(price in 0.05..5.0_f64, rate in 5.0..200.0_f64, each in 1e-5..1e-2_f64) {
            let server = Server::new("own", Money::of(price), rate, None, 0.9).unwrap();
            let request = Request::new(0, 300, 0.0).unwrap();
            let api = Money::of(each);
            let found = crossover(&server, &request, api).unwrap();
            let capacity = server.requests_per_month(&request);
            let own = |v: f64| fleet(&server, &request, v).price_per_month.value();
            let cheaper = |v: f64| own(v) <= v * api.value() * (1.0 + 1e-9);
            // 40 machines in steps of a hundredth of one.
            let volumes: Vec<f64> = (1..4000).map(|i| f64::from(i) * capacity / 100.0).collect();
            let step = capacity / 100.0;
            match found.first {
                None => prop_assert!(volumes.iter().all(|&v| !cheaper(v))),
                Some(first) => {
                    prop_assert!(cheaper(first * (1.0 + 1e-6)) && !cheaper(first * (1.0 - 1e-6)));
                    let walked = volumes.iter().find(|&&v| cheaper(v)).copied().unwrap();
                    prop_assert!((walked - first).abs() <= step * 1.001, "{walked} {first}");
                }
            }
            if let Some(always) = found.always {
                // The machines of the last crossing, by its own formula: a fleet's size is rounded by a millionth of a machine.
                // Where the last window in which the API wins, or the lead after it, is as narrow, or lost in the share by which
                // `cheaper` errs, either answer is right.
                let month = server.price_per_month().value() / api.value();
                let bought = ((always / month).round() - 1.0) * capacity;
                let narrow = (1e-5 * capacity).max(1e-8 * always);
                let room = bought + capacity - always;
                prop_assert!(room.abs() < narrow || cheaper(always + room / 2.0), "{always} {room}");
                let window = always - bought;
                prop_assert!(window.abs() < narrow || !cheaper(always - window / 2.0), "{always} {window}");
                // That window may also be narrower than a step of the walk.
                prop_assert!(volumes.iter().filter(|&&v| v > always * (1.0 + 1e-6)).all(|&v| cheaper(v)));
            }
        }
    }

    #[test]
    fn a_busy_hour_needs_its_machines() {
        // 360 requests an hour each.
        let server = Server::new("own", Money::of(0.10), 10.0, None, 1.0).unwrap();
        let request = Request::new(0, 100, 0.0).unwrap();
        let month = 300.0 * 730.0;
        assert_eq!(fleet(&server, &request, month).machines, 1);
        let full = Capacity::by_throughput(&server, &request);
        let found = fleet_of(&server, &request, month, full.machines(1000.0));
        assert_eq!((found.machines, (found.used * 1000.0).round()), (3, 278.0));
        // A level that takes them half empty.
        let half = Capacity::found([(1, 180.0)]).unwrap();
        let found = fleet_of(&server, &request, month, half.machines(1000.0));
        assert_eq!((found.machines, (found.used * 1000.0).round()), (6, 139.0));
    }

    #[test]
    fn a_dear_machine_never_crosses() {
        let server = Server::new("own", Money::of(0.79), 60.0, None, 1.0).unwrap();
        let request = Request::new(500, 300, 0.0).unwrap();
        let none = Crossover { first: None, always: None };
        assert_eq!(crossover(&server, &request, Money::of(0.000_255)).unwrap(), none);
        assert_eq!(crossover(&server, &request, Money::ZERO).unwrap(), none);
    }
}
