//! Circuit breaker: stops sending to a target that fails, and tries it again with one request.
//!
//! The ratio of failures is exact over a ring of ten seconds; a moving average would hide a burst among successes
//! before it. A refusal (429) is no failure: the target is closed until the time it told.

use std::time::Duration;

/// Buckets of the ring.
const BUCKETS: u64 = 10;
/// Time of a bucket.
const BUCKET: Duration = Duration::from_secs(1);
/// Fewest failures in the ring that open the breaker.
const MIN_FAILURES: u32 = 5;
/// First time that it stays open, doubled by each trip that follows soon.
const FIRST_OPEN: Duration = Duration::from_secs(1);
/// Longest time that it stays open.
const LONGEST_OPEN: Duration = Duration::from_secs(60);
/// Time without a trip after which the next one is the first again.
const CALM: Duration = Duration::from_secs(60);
/// Time that a refusal without `Retry-After` closes a target.
const DEFAULT_THROTTLE: Duration = Duration::from_secs(1);
/// Longest time that `Retry-After` is believed.
const LONGEST_THROTTLE: Duration = Duration::from_secs(3_600);

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    number: u64,
    answered: u32,
    failed: u32,
}

/// How a failure may open a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// For a time that doubles.
    Full,
    /// For the first time only: half of the pool is out already, but this target refuses connections. Failures that
    /// take no time would draw all requests to it.
    Brief,
    /// Not at all: half of the pool is out already.
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Closed,
    Open { until: Duration },
    Probing,
}

/// Whether a request may be sent to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// It may.
    Closed,
    /// One request may, as a probe.
    ProbeDue,
    /// It may not: the target failed. Requests are sent again at the time given, or when the probe has ended.
    Open(Duration),
    /// It may not: the target refused requests until the time given.
    Throttled(Duration),
}

/// The circuit breaker of a target.
#[derive(Clone, Debug)]
pub(crate) struct Breaker {
    ring: [Bucket; BUCKETS as usize],
    state: State,
    /// Trips in a row.
    trips: u32,
    /// When it was last closed by a probe.
    closed_at: Duration,
    throttled_until: Duration,
}

impl Breaker {
    pub(crate) fn new() -> Breaker {
        Breaker {
            ring: [Bucket::default(); BUCKETS as usize],
            state: State::Closed,
            trips: 0,
            closed_at: Duration::ZERO,
            throttled_until: Duration::ZERO,
        }
    }

    pub(crate) fn gate(&self, now: Duration) -> Gate {
        match self.state {
            State::Open { until } if now < until => Gate::Open(until),
            State::Probing => Gate::Open(now + BUCKET),
            _ if now < self.throttled_until => Gate::Throttled(self.throttled_until),
            State::Open { .. } => Gate::ProbeDue,
            State::Closed => Gate::Closed,
        }
    }

    /// Whether the target is out: open, or tried with a probe.
    pub(crate) fn is_out(&self) -> bool {
        self.state != State::Closed
    }

    /// A probe was dispatched.
    pub(crate) fn probing(&mut self) {
        self.state = State::Probing;
    }

    /// A request was answered.
    pub(crate) fn answered(&mut self, now: Duration, probe: bool) {
        self.bucket(now).answered += 1;
        if probe && self.state == State::Probing {
            self.state = State::Closed;
            self.closed_at = now;
            self.ring = [Bucket::default(); BUCKETS as usize];
        }
    }

    /// A request failed. `jitter` is 0 to 1. Returns whether the breaker opened.
    pub(crate) fn failed(&mut self, now: Duration, probe: bool, opening: Opening, jitter: f64) -> bool {
        self.bucket(now).failed += 1;
        match self.state {
            State::Probing if probe && opening != Opening::Full => self.open(now, Opening::Brief, jitter),
            State::Probing if probe => self.open(now, opening, jitter),
            State::Closed if opening != Opening::Never && self.trips_now(now) => {
                if now.saturating_sub(self.closed_at) > CALM {
                    self.trips = 0;
                }
                self.open(now, opening, jitter);
            }
            State::Closed | State::Open { .. } | State::Probing => return false,
        }
        true
    }

    /// A request ended without telling anything of the target.
    pub(crate) fn undecided(&mut self, now: Duration, probe: bool) {
        if probe && self.state == State::Probing {
            self.state = State::Open { until: now };
        }
    }

    /// The target refused a request: it is closed until then.
    pub(crate) fn throttle(&mut self, now: Duration, retry_after: Option<Duration>, probe: bool) {
        let time = retry_after.unwrap_or(DEFAULT_THROTTLE).min(LONGEST_THROTTLE);
        self.throttled_until = self.throttled_until.max(now + time);
        if probe && self.state == State::Probing {
            // It answers, if only by refusing.
            self.state = State::Closed;
            self.closed_at = now;
        }
    }

    fn open(&mut self, now: Duration, opening: Opening, jitter: f64) {
        let trips = if opening == Opening::Full { self.trips.min(10) } else { 0 };
        let doubled = FIRST_OPEN * 2_u32.saturating_pow(trips);
        let time = doubled.min(LONGEST_OPEN).mul_f64(0.8 + 0.4 * jitter.clamp(0.0, 1.0));
        self.trips = self.trips.saturating_add(1);
        self.state = State::Open { until: now + time };
        self.ring = [Bucket::default(); BUCKETS as usize];
    }

    fn trips_now(&self, now: Duration) -> bool {
        let (answered, failed) = self.recent(now);
        failed >= MIN_FAILURES && failed > answered
    }

    /// Requests of the last ten seconds that were answered, and that failed.
    fn recent(&self, now: Duration) -> (u32, u32) {
        let number = number_of(now);
        let recent = self.ring.iter().filter(|bucket| bucket.number + BUCKETS > number);
        recent.fold((0, 0), |(answered, failed), bucket| (answered + bucket.answered, failed + bucket.failed))
    }

    /// Expected failures before an answer: the odds of the last ten seconds, with two answers more. A target that
    /// fails but may not be left, because half of the pool is out, is thereby the last choice.
    pub(crate) fn failures_expected(&self, now: Duration) -> f64 {
        let (answered, failed) = self.recent(now);
        f64::from(failed) / (f64::from(answered) + 2.0)
    }

    fn bucket(&mut self, now: Duration) -> &mut Bucket {
        let number = number_of(now);
        let bucket = &mut self.ring[(number % BUCKETS) as usize];
        if bucket.number != number {
            *bucket = Bucket { number, ..Bucket::default() };
        }
        bucket
    }
}

fn number_of(now: Duration) -> u64 {
    now.as_secs() / BUCKET.as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Duration {
        Duration::from_secs(100) + Duration::from_millis(ms)
    }

    fn tripped() -> Breaker {
        let mut breaker = Breaker::new();
        for _ in 0..5 {
            breaker.failed(at(0), false, Opening::Full, 0.5);
        }
        breaker
    }

    #[test]
    fn five_failures_and_more_than_half_open_it() {
        let mut breaker = Breaker::new();
        (0..5).for_each(|_| breaker.answered(at(0), false));
        for failures in 1..=5 {
            assert!(!breaker.failed(at(500), false, Opening::Full, 0.5), "{failures}");
        }
        assert!(breaker.failed(at(600), false, Opening::Full, 0.5));
        assert_eq!(breaker.gate(at(700)), Gate::Open(at(1600)));
        // Old successes are forgotten, and so are old failures.
        let mut slow = Breaker::new();
        for second in 0..50 {
            assert!(!slow.failed(at(second * 3_000), false, Opening::Full, 0.5));
        }
    }

    #[test]
    fn one_probe_closes_it_or_opens_it_for_twice_the_time() {
        let mut breaker = tripped();
        assert_eq!(breaker.gate(at(999)), Gate::Open(at(1000)));
        assert_eq!(breaker.gate(at(1000)), Gate::ProbeDue);
        breaker.probing();
        assert!(matches!(breaker.gate(at(1001)), Gate::Open(_)));
        // What was sent before says nothing of the probe.
        breaker.answered(at(1002), false);
        assert!(matches!(breaker.gate(at(1003)), Gate::Open(_)));
        assert!(breaker.failed(at(1100), true, Opening::Full, 0.5));
        assert_eq!(breaker.gate(at(1101)), Gate::Open(at(3100)));
        breaker.probing();
        breaker.undecided(at(3200), true);
        assert_eq!(breaker.gate(at(3200)), Gate::ProbeDue);
        breaker.probing();
        breaker.answered(at(3300), true);
        assert_eq!(breaker.gate(at(3300)), Gate::Closed);
        // Soon after, the next trip goes on doubling; it is never longer than a minute.
        for _ in 0..20 {
            for _ in 0..5 {
                breaker.failed(at(3400), false, Opening::Full, 1.0);
            }
            breaker.probing();
            breaker.failed(at(3400), true, Opening::Full, 1.0);
        }
        assert_eq!(breaker.gate(at(3400)), Gate::Open(at(3400) + LONGEST_OPEN.mul_f64(1.2)));
    }

    #[test]
    fn a_refusal_is_no_failure_and_closes_until_its_time() {
        let mut breaker = Breaker::new();
        (0..100).for_each(|_| breaker.throttle(at(0), Some(Duration::from_secs(7)), false));
        assert_eq!(breaker.gate(at(6_999)), Gate::Throttled(at(7_000)));
        assert!(!breaker.is_out());
        breaker.throttle(at(0), Some(Duration::from_secs(1)), false);
        assert_eq!(breaker.gate(at(6_999)), Gate::Throttled(at(7_000)));
        assert_eq!(breaker.gate(at(7_000)), Gate::Closed);
        breaker.throttle(at(8_000), Some(Duration::MAX), false);
        assert_eq!(breaker.gate(at(8_000)), Gate::Throttled(at(8_000) + LONGEST_THROTTLE));
    }

    #[test]
    fn it_does_not_open_when_half_of_the_pool_is_out() {
        let mut breaker = Breaker::new();
        for _ in 0..50 {
            assert!(!breaker.failed(at(0), false, Opening::Never, 0.5));
        }
        assert_eq!(breaker.gate(at(0)), Gate::Closed);
        // It opens once the others are back, or for a second if it refuses connections.
        let mut refusing = breaker.clone();
        assert!(refusing.failed(at(10), false, Opening::Brief, 0.5));
        assert_eq!(refusing.gate(at(10)), Gate::Open(at(1010)));
        for probe in 0..3 {
            refusing.probing();
            refusing.failed(at(2000 * (probe + 1)), true, Opening::Brief, 0.5);
            assert_eq!(refusing.gate(at(2000 * (probe + 1))), Gate::Open(at(2000 * (probe + 1) + 1000)));
        }
        assert!(breaker.failed(at(10), false, Opening::Full, 0.5));
    }
}
