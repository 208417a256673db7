//! Closed form of the M/M/c queue (one queue, `c` servers, exponential arrivals and service), which the simulation is
//! tested against. Erlang, 1917; any textbook, e.g. Kleinrock, Queueing Systems I, section 3.5.

/// Steady state of an M/M/c queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Erlang {
    /// Share of the time in which a server is busy.
    pub utilization: f64,
    /// Probability that a request waits.
    pub waits: f64,
    /// Mean waiting time, in seconds.
    pub mean_wait_s: f64,
    /// Mean time from arrival to departure, in seconds.
    pub mean_response_s: f64,
}

/// The steady state at `per_s` requests a second with a mean service time of `service_s` seconds on `servers` servers.
/// None for an overloaded queue, or numbers that are not positive.
#[must_use]
pub fn mmc(per_s: f64, service_s: f64, servers: usize) -> Option<Erlang> {
    let load = per_s * service_s;
    let (c, utilization) = (servers as f64, load / servers as f64);
    if !(load > 0.0 && utilization < 1.0) {
        return None;
    }
    // Erlang B by its recursion, which neither overflows nor cancels; then Erlang C from B.
    let blocked = (1..=servers).fold(1.0, |b, k| load * b / (k as f64 + load * b));
    let waits = blocked / (1.0 - utilization * (1.0 - blocked));
    let mean_wait_s = waits * service_s / (c - load);
    Some(Erlang { utilization, waits, mean_wait_s, mean_response_s: mean_wait_s + service_s })
}

#[cfg(test)]
mod tests {
    use super::mmc;

    #[test]
    fn known_queues() {
        // M/M/1: the wait is rho / (1 - rho) of the service.
        let one = mmc(0.8, 1.0, 1).unwrap();
        assert!((one.mean_wait_s - 4.0).abs() < 1e-12 && (one.waits - 0.8).abs() < 1e-12);
        // M/M/2: C = 2 rho^2 / (1 + rho).
        let two = mmc(1.0, 1.0, 2).unwrap();
        assert!((two.waits - 1.0 / 3.0).abs() < 1e-12 && (two.mean_wait_s - 1.0 / 3.0).abs() < 1e-12);
        assert!(mmc(1.0, 1.0, 1).is_none() && mmc(0.0, 1.0, 1).is_none() && mmc(f64::NAN, 1.0, 1).is_none());
        assert!(mmc(900.0, 1.0, 1000).unwrap().waits < 0.01);
    }
}
