//! The price of a month's requests on machines and at an API, and the volumes where one becomes cheaper.

use serde::Serialize;

use crate::cost::{Request, Server};
use crate::error::{Error, not_negative};
use crate::money::Money;
use crate::tables::ApiPrice;

/// Machines of one kind for a month.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fleet {
    /// Number of machines, each busy up to its utilization.
    pub machines: u64,
    /// Price of all machines, a month.
    pub price_per_month: Money,
    /// Share of the machines' time that the requests take, 0 to 1.
    pub used: f64,
}

/// The machines for `requests` a month, spread evenly. At least one, even for no request: the service must be up.
#[must_use]
pub fn fleet(server: &Server, request: &Request, requests: f64) -> Fleet {
    fleet_of_at_least(server, request, requests, 1)
}

/// As [`fleet`], with `least` machines or more: those of the busiest hour.
#[must_use]
pub fn fleet_of_at_least(server: &Server, request: &Request, requests: f64, least: u64) -> Fleet {
    let each = server.requests_per_month(request);
    let machines = Server::machines(requests, each).max(least).max(1);
    let used = requests / (each / server.utilization) / machines as f64;
    Fleet { machines, price_per_month: server.price_per_month().times_int(machines), used }
}

/// Where machines become cheaper than a price for each request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Crossover {
    /// The least monthly requests at which machines cost no more than the API. None if there is no such volume.
    pub first: Option<f64>,
    /// The monthly requests above which machines never cost more. Greater than `first` because each added machine can
    /// make the API cheaper until it is used.
    pub always: Option<f64>,
}

/// The volumes at which a fleet of `server`s becomes cheaper than an API at `each` a request.
///
/// Let `c` be the price of a machine a month, `n` its requests a month and `a` the API's price of a request. `k`
/// machines serve up to `k n` requests, and cost no more than the API from `k c / a` on. So the first crossing is at
/// `c / a` if that is at most `n`. The last is that of the greatest `k` whose crossing lies above `(k - 1) n`, where
/// the k-th machine is added.
///
/// # Errors
/// A negative price.
pub fn crossover(server: &Server, request: &Request, each: Money) -> Result<Crossover, Error> {
    not_negative("the price of a request", each.value())?;
    let (month, capacity) = (server.price_per_month(), server.requests_per_month(request));
    let never = Crossover { first: None, always: None };
    let Some(step) = month.ratio(each) else {
        // The API is free: only free machines cost no more.
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

/// The least monthly requests at which a fleet of `a` costs no more than one of `b`. Searched at the volumes where
/// either fleet adds a machine, up to a thousand machines.
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

/// Price of `requests` requests at an API.
///
/// # Errors
/// A cached share without a price.
pub fn api_month(price: &ApiPrice, request: &Request, requests: u64) -> Result<Money, Error> {
    price.requests(request, requests)
}

/// Price of one request at an API, rounded to 1e-12.
///
/// # Errors
/// A cached share without a price.
pub fn api_per_request(price: &ApiPrice, request: &Request) -> Result<Money, Error> {
    // The price of a million requests, so that a cached share of one request's tokens is not rounded away.
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
            let server = Server::new("own", Money::from_f64(price), rate, None, 0.9).unwrap();
            let request = Request::new(0, 300, 0.0).unwrap();
            let api = Money::from_f64(each);
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
        let server = Server::new("own", Money::from_f64(0.10), 10.0, None, 1.0).unwrap();
        let request = Request::new(0, 100, 0.0).unwrap();
        let month = 300.0 * 730.0;
        assert_eq!(fleet(&server, &request, month).machines, 1);
        let full = Capacity::by_throughput(&server, &request);
        let found = fleet_of_at_least(&server, &request, month, full.machines(1000.0));
        assert_eq!((found.machines, (found.used * 1000.0).round()), (3, 278.0));
        // A level that takes them half empty.
        let half = Capacity::from_points([(1, 180.0)]).unwrap();
        let found = fleet_of_at_least(&server, &request, month, half.machines(1000.0));
        assert_eq!((found.machines, (found.used * 1000.0).round()), (6, 139.0));
    }

    #[test]
    fn a_dear_machine_never_crosses() {
        let server = Server::new("own", Money::from_f64(0.79), 60.0, None, 1.0).unwrap();
        let request = Request::new(500, 300, 0.0).unwrap();
        let none = Crossover { first: None, always: None };
        assert_eq!(crossover(&server, &request, Money::from_f64(0.000_255)).unwrap(), none);
        assert_eq!(crossover(&server, &request, Money::ZERO).unwrap(), none);
    }
}
