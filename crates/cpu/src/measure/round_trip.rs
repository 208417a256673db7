//! What it costs to hand an empty job to a pool and to meet again.

use crate::Pool;
use serde::Serialize;
use std::hint::black_box;
use std::time::Instant;

/// Passes, of which the best and the median are told.
const PASSES: usize = 50;
/// Rounds in a pass: a millisecond or two, so that the workers never park.
const ROUNDS: usize = 1000;

/// A pool's round trip: one empty task a thread, handed out and waited for, the threads awake from the round before.
#[derive(Clone, Debug, Serialize)]
pub struct RoundTrip {
    /// Threads of the pool, the caller included.
    pub threads: usize,
    /// The best pass, in microseconds a round: what nothing disturbed.
    pub best_us: f64,
    /// The middle one.
    pub median_us: f64,
}

/// Measures `pool`, whose caller is the calling thread. Takes a tenth of a second.
#[must_use]
pub fn round_trip(pool: &Pool) -> RoundTrip {
    let threads = pool.threads();
    let empty = |task| {
        black_box(task);
    };
    let mut passes: Vec<f64> = (0..PASSES)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..ROUNDS {
                pool.run(threads, &empty);
            }
            start.elapsed().as_secs_f64() * 1e6 / ROUNDS as f64
        })
        .collect();
    passes.sort_by(f64::total_cmp);
    RoundTrip { threads, best_us: passes[0], median_us: passes[PASSES / 2] }
}

#[cfg(test)]
mod tests {
    use crate::Pool;

    #[test]
    fn a_round_takes_time_and_the_middle_no_less_than_the_best() {
        for threads in [1, 2] {
            let trip = super::round_trip(&Pool::new(threads, None).expect("threads"));
            assert_eq!(trip.threads, threads);
            assert!(trip.best_us > 0.0 && trip.best_us <= trip.median_us);
        }
    }
}
