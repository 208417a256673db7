//! What so many machines do in an hour: the one count that fleets, hybrids and recommendations share.

use serde::Serialize;

use crate::cost::{Request, Server};
use crate::step::interpolate;

/// Requests an hour that machines do together, by their number: on straight lines from none for none; beyond the last point each
/// machine adds what those before it do on average.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Capacity {
    /// Machines and requests an hour. At least one point; both ascend from above zero.
    points: Vec<(f64, f64)>,
}

impl Capacity {
    /// Machines that are full up to their utilization, however long requests wait.
    #[must_use]
    pub fn by_throughput(server: &Server, request: &Request) -> Capacity {
        Capacity { points: vec![(1.0, server.requests_per_hour(request))] }
    }

    /// So many machines that do so many requests, and each as many as another. None of nothing.
    #[must_use]
    pub fn alike(machines: usize, requests: f64) -> Option<Capacity> {
        Capacity::found([(machines, requests)])
    }

    /// From points: machines, in ascending order, and what was found that they do. One that does no more than fewer do is left
    /// out. None if no point does anything.
    pub(crate) fn found(points: impl IntoIterator<Item = (usize, f64)>) -> Option<Capacity> {
        let mut kept: Vec<(f64, f64)> = Vec::new();
        for (machines, requests) in points {
            if requests > kept.last().map_or(0.0, |(_, before)| *before) {
                kept.push((machines as f64, requests));
            }
        }
        (!kept.is_empty()).then_some(Capacity { points: kept })
    }

    /// Requests an hour that `machines` do.
    #[must_use]
    pub fn of(&self, machines: u64) -> f64 {
        along(&self.points, machines as f64, |point| point)
    }

    /// The fewest machines that do `requests` an hour: none for none.
    #[must_use]
    pub fn machines(&self, requests: f64) -> u64 {
        Server::machines(along(&self.points, requests, |(machines, done)| (done, machines)), 1.0)
    }

    /// What both allow.
    #[must_use]
    pub fn within(self, other: &Capacity) -> Capacity {
        let points = self.points.into_iter();
        Capacity { points: points.map(|(m, done)| (m, done.min(other.of(m.round() as u64)))).collect() }
    }
}

/// The value at `x` on the line through the origin and the points, each turned by `axes`.
fn along(points: &[(f64, f64)], x: f64, axes: impl Fn((f64, f64)) -> (f64, f64)) -> f64 {
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
        let found = Capacity::found([(1, 0.0), (2, 100.0), (3, 90.0), (4, 300.0)]).unwrap();
        assert_eq!([0, 1, 2, 3, 4, 8].map(|m| found.of(m)), [0.0, 50.0, 100.0, 200.0, 300.0, 600.0]);
        assert_eq!([0.0, 1.0, 100.0, 100.1, 300.0, 301.0].map(|r| found.machines(r)), [0, 1, 2, 3, 4, 5]);
        assert_eq!(Capacity::found([(1, 0.0)]), None);
    }

    #[test]
    fn what_both_allow_is_the_less_of_each() {
        // 360 requests an hour each.
        let server = Server::new("own", Money::of(0.10), 10.0, None, 1.0).unwrap();
        let full = Capacity::by_throughput(&server, &Request::new(0, 100, 0.0).unwrap());
        assert_eq!((full.of(3), full.machines(361.0)), (1080.0, 2));
        let slow = Capacity::found([(1, 200.0), (4, 2000.0)]).unwrap();
        let both = slow.within(&full);
        assert_eq!((both.of(1), both.of(4), both.of(8)), (200.0, 1440.0, 2880.0));
    }
}
