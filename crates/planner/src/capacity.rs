//! Requests an hour by number of machines: the capacity model of fleets, hybrids and recommendations.

use serde::Serialize;

use crate::cost::{Request, Server};
use crate::step::interpolate;

/// Requests an hour of N machines together: piecewise linear in N, from the origin through the points. Beyond the last
/// point, each machine adds the average of those before it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Capacity {
    /// Pairs of (machines, requests an hour), at least one. Both values are above zero and ascend.
    points: Vec<(f64, f64)>,
}

impl Capacity {
    /// The capacity of machines that are busy up to their utilization, without regard to latency.
    #[must_use]
    pub fn by_throughput(server: &Server, request: &Request) -> Capacity {
        Capacity { points: vec![(1.0, server.requests_per_hour(request))] }
    }

    /// `machines` machines that serve `requests` an hour together, in equal parts. None if `requests` is zero.
    #[must_use]
    pub fn uniform(machines: usize, requests: f64) -> Option<Capacity> {
        Capacity::from_points([(machines, requests)])
    }

    /// The capacity through points of (machines, requests an hour), ascending by machines. Points that serve no more
    /// than fewer machines do are left out. None if no point is above zero.
    pub(crate) fn from_points(points: impl IntoIterator<Item = (usize, f64)>) -> Option<Capacity> {
        let mut kept: Vec<(f64, f64)> = Vec::new();
        for (machines, requests) in points {
            if requests > kept.last().map_or(0.0, |(_, before)| *before) {
                kept.push((machines as f64, requests));
            }
        }
        (!kept.is_empty()).then_some(Capacity { points: kept })
    }

    /// Requests an hour that `machines` machines serve.
    #[must_use]
    pub fn requests_per_hour(&self, machines: u64) -> f64 {
        through_points(&self.points, machines as f64, |point| point)
    }

    /// The fewest machines that serve `requests` an hour; 0 for 0.
    #[must_use]
    pub fn machines(&self, requests: f64) -> u64 {
        Server::machines(through_points(&self.points, requests, |(machines, done)| (done, machines)), 1.0)
    }

    /// The lesser of both capacities at each point of `self`.
    #[must_use]
    pub fn pointwise_min(self, other: &Capacity) -> Capacity {
        let points = self.points.into_iter();
        Capacity {
            points: points
                .map(|(m, done)| (m, done.min(other.requests_per_hour(m.round() as u64))))
                .collect(),
        }
    }
}

/// The value at `x` on the line through the origin and the points, with `axes` applied to each point.
fn through_points(points: &[(f64, f64)], x: f64, axes: impl Fn((f64, f64)) -> (f64, f64)) -> f64 {
    let origin = std::iter::once((0.0, 0.0));
    match points.last().map(|point| axes(*point)) {
        Some((right, high)) if x > right => x / right * high,
        _ => interpolate(origin.chain(points.iter().map(|point| axes(*point))), x, |x| x),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Money;

    #[test]
    fn between_points_and_beyond_them_and_back() {
        let found = Capacity::from_points([(1, 0.0), (2, 100.0), (3, 90.0), (4, 300.0)]).unwrap();
        assert_eq!(
            [0, 1, 2, 3, 4, 8].map(|m| found.requests_per_hour(m)),
            [0.0, 50.0, 100.0, 200.0, 300.0, 600.0]
        );
        assert_eq!([0.0, 1.0, 100.0, 100.1, 300.0, 301.0].map(|r| found.machines(r)), [0, 1, 2, 3, 4, 5]);
        assert_eq!(Capacity::from_points([(1, 0.0)]), None);
    }

    #[test]
    fn what_both_allow_is_the_less_of_each() {
        // 360 requests an hour each.
        let server = Server::new("own", Money::from_f64(0.10), 10.0, None, 1.0).unwrap();
        let full = Capacity::by_throughput(&server, &Request::new(0, 100, 0.0).unwrap());
        assert_eq!((full.requests_per_hour(3), full.machines(361.0)), (1080.0, 2));
        let slow = Capacity::from_points([(1, 200.0), (4, 2000.0)]).unwrap();
        let both = slow.pointwise_min(&full);
        assert_eq!(
            (both.requests_per_hour(1), both.requests_per_hour(4), both.requests_per_hour(8)),
            (200.0, 1440.0, 2880.0)
        );
    }
}
