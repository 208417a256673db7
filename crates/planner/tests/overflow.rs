//! The gateway's overflow against the optimum of the hybrid: own machines for the base load, an API above it.
//!
//! The hybrid assumes that exactly the requests above the capacity of the own machines leave, and that the load of each
//! hour is known. The gateway's router decides for each request when it comes, in the simulation of `routing`, by the
//! code that serves.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::time::Duration;

use planner::cost::{Request, Server};
use planner::hybrid::{self, HybridLevel};
use planner::{Capacity, Money};
use routing::retry::RetryPolicy;
use routing::simulator::{Arrivals, Load, NodeSpec, Report, Scenario, quantile, run};
use routing::{OverflowPolicy, Policy, Price, Speed, StepTimes, Target, Tier};

/// Tokens of a request: exponential around these means.
const PROMPT: f64 = 300.0;
const ANSWER: f64 = 150.0;
/// Rates of a machine: 8 rows in 30 ms.
const PROMPT_TOKENS_PER_S: f64 = 480.0;
const TOKENS_PER_S: f64 = 8.0 / 0.030;
/// Requests a second in each hour of half a day, of which 20 minutes are simulated.
const RATES: [f64; 12] = [0.4, 0.6, 1.0, 1.4, 1.8, 2.4, 2.8, 2.2, 1.6, 1.2, 0.8, 0.5];
const SIMULATED_S: f64 = 1200.0;
/// Nano units of a token.
const API: Price = Price { input: 150, cached: 75, output: 600 };
/// The service level: seconds to the first token, 95th percentile.
const LEVEL_S: f64 = 6.0;

fn scenario(machines: usize, seed: u64) -> Scenario {
    let steps = StepTimes::new([(1.0, 0.013), (4.0, 0.020), (8.0, 0.030)]).unwrap();
    let own = Speed { prompt_tokens_per_s: PROMPT_TOKENS_PER_S, steps, slots: Some(8) };
    let fast = StepTimes::new([(1.0, 0.010)]).unwrap();
    let api = Speed { prompt_tokens_per_s: 10_000.0, steps: fast, slots: None };
    let node = |target: Target, speed: Speed| {
        let tells = target.tier == Tier::Own;
        NodeSpec { target, speed, max_waiting: 10_000, cached_boundaries: 0, tells }
    };
    let mut nodes: Vec<NodeSpec> =
        (0..machines).map(|at| node(Target::new(format!("own-{at}"), Tier::Own), own)).collect();
    nodes.push(node(Target { price: Some(API), ..Target::new("api", Tier::Metered) }, api));
    let per_s = RATES.to_vec();
    let load = Arrivals {
        per_s,
        period_s: SIMULATED_S,
        prompt_tokens: PROMPT,
        answer_tokens: ANSWER,
        is_fixed: false,
    };
    Scenario {
        nodes,
        load: Load::Arrivals(load),
        requests: (RATES.iter().sum::<f64>() * SIMULATED_S) as usize,
        policy: Policy { overflow: Some(OverflowPolicy::for_level(LEVEL_S)), ..Policy::default() },
        retry: RetryPolicy::default(),
        replicas: 1,
        faults: Vec::new(),
        first_byte: Duration::from_secs(300),
        hedges: false,
        seed,
    }
}

#[test]
fn the_overflow_costs_what_the_hybrid_plans_and_keeps_the_level() {
    let request = Request::new(PROMPT as u64, ANSWER as u64, 0.0).unwrap();
    let price_per_hour = Money::from_f64(0.12);
    let server = Server::new("own", price_per_hour, TOKENS_PER_S, Some(PROMPT_TOKENS_PER_S), 1.0).unwrap();
    let capacity = Capacity::by_throughput(&server, &request);
    let hourly = RATES.map(|per_s| per_s * 3600.0);
    let each = Money::from_f64(API.of(PROMPT as u64, 0, ANSWER as u64) as f64 / 1e9);
    let levels = hybrid::levels(server.price_per_month(), &capacity, &hourly, each).unwrap();
    let best = hybrid::cheapest(&levels).unwrap();
    assert_eq!(best.machines, 2);

    for seed in 1..=3 {
        check(&run(&scenario(2, seed)), best);
    }
}

/// Compares half a day of the gateway with the plan.
fn check(report: &Report, best: &HybridLevel) {
    assert_eq!((report.failed, report.in_flight), (0, 0));
    // A month of simulated hours, as the plan counts it.
    let months = RATES.len() as f64 * SIMULATED_S / 3600.0 / 730.0;
    let overflow = report.cost as f64 / 1e9 / months;
    let (planned, own) = (best.overflow.value(), best.own.value());
    let first_token = quantile(&report.own_first_token_s, 0.95);
    let told = format!(
        "overflow {overflow:.2} planned {planned:.2}, own {own:.2}, p95 {first_token:.2} s, left {} of {}, planned share {:.3}",
        report.left, report.answered, best.overflow_share
    );
    // The overflow alone, and with the own machines.
    assert!((overflow / planned - 1.0).abs() < 0.05, "{told}");
    assert!(((own + overflow) / (own + planned) - 1.0).abs() < 0.05, "{told}");
    assert!(first_token <= LEVEL_S, "{told}");
}
