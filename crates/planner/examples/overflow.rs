//! The overflow of a load that rises and falls, planned and simulated: `cargo run --release -p planner --example overflow <
//! scenario.json`. tools/gateway/overflow.py runs the same load through a live gateway.
//!
//! Reads what is to be simulated as JSON and prints one line of JSON: for each period of the load the share of requests that
//! leave the own machines and their cost in an hour, as `hybrid` plans them and as the router decides in the simulator, and
//! the 95th percentile of the seconds to the first token of those that stayed. One entry for each seed.

use std::error::Error;
use std::io::{Read, Write, stdin, stdout};
use std::time::Duration;

use planner::cost::{Request, Server};
use planner::{Capacity, Money};
use routing::retry::RetryPolicy;
use routing::simulator::{Arrivals, Load, NodeSpec, PeriodReport, Scenario, quantile, run};
use routing::{OverflowPolicy, Policy, Price, Speed, StepTimes, Target, Tier};
use serde_json::{Value, json};

/// What is planned and simulated.
#[derive(serde::Deserialize)]
struct Case {
    machines: usize,
    /// Requests a second in each period.
    per_s: Vec<f64>,
    period_s: f64,
    /// Mean tokens; exponential.
    prompt_tokens: f64,
    answer_tokens: f64,
    /// Speed of an own machine: prompts, and seconds of a step by its rows, the last of which fills its slots.
    prompt_tokens_per_s: f64,
    steps: Vec<(f64, f64)>,
    slots: u32,
    /// The service level: seconds to the first token.
    level_s: f64,
    /// Price of a million tokens of prompt and answer at the API.
    price: (f64, f64),
    seeds: Vec<u64>,
}

impl Case {
    fn price(&self) -> Price {
        let nano = |price: f64| (price * 1e3).round() as u64;
        Price { input: nano(self.price.0), cached: nano(self.price.0), output: nano(self.price.1) }
    }

    /// Share that leaves and cost of an hour in each period, if exactly what the machines have no capacity for leaves.
    fn planned(&self) -> Result<Vec<Value>, Box<dyn Error>> {
        let request = Request::new(self.prompt_tokens as u64, self.answer_tokens as u64, 0.0)?;
        let (rows, step_s) = self.steps.last().copied().ok_or("steps is empty")?;
        let server = Server::new("own", Money::ZERO, rows / step_s, Some(self.prompt_tokens_per_s), 1.0)?;
        let capacity = Capacity::by_throughput(&server, &request);
        let each = self.price().of(self.prompt_tokens as u64, 0, self.answer_tokens as u64) as f64 / 1e9;
        let mut told = Vec::new();
        for per_s in &self.per_s {
            let levels =
                planner::hybrid::levels(Money::ZERO, &capacity, &[per_s * 3600.0], Money::from_f64(each))?;
            let share = levels.get(self.machines).map_or(0.0, |level| level.overflow_share);
            told.push(json!({"left": share, "cost_per_hour": share * per_s * 3600.0 * each}));
        }
        Ok(told)
    }

    fn scenario(&self, seed: u64) -> Option<Scenario> {
        let steps = StepTimes::new(self.steps.iter().copied())?;
        let own = Speed { prompt_tokens_per_s: self.prompt_tokens_per_s, steps, slots: Some(self.slots) };
        let fast = StepTimes::new([(1.0, 0.001)])?;
        let api = Speed { prompt_tokens_per_s: 100_000.0, steps: fast, slots: None };
        let node = |target: Target, speed: Speed| {
            let tells = target.tier == Tier::Own;
            NodeSpec { target, speed, max_waiting: 10_000, cached_boundaries: 0, tells }
        };
        let mut nodes: Vec<NodeSpec> =
            (0..self.machines).map(|at| node(Target::new(format!("own-{at}"), Tier::Own), own)).collect();
        nodes.push(node(Target { price: Some(self.price()), ..Target::new("api", Tier::Metered) }, api));
        let load = Arrivals {
            per_s: self.per_s.clone(),
            period_s: self.period_s,
            prompt_tokens: self.prompt_tokens,
            answer_tokens: self.answer_tokens,
            is_fixed: false,
        };
        Some(Scenario {
            nodes,
            load: Load::Arrivals(load),
            requests: (self.per_s.iter().sum::<f64>() * self.period_s) as usize,
            policy: Policy { overflow: Some(OverflowPolicy::for_level(self.level_s)), ..Policy::default() },
            retry: RetryPolicy::default(),
            replicas: 1,
            faults: Vec::new(),
            first_byte: Duration::from_secs(300),
            hedges: false,
            seed,
        })
    }

    fn told(&self, period: &PeriodReport) -> Value {
        json!({
            "requests": period.answered,
            "left": period.left as f64 / period.answered.max(1) as f64,
            "cost_per_hour": period.cost as f64 / 1e9 / self.period_s * 3600.0,
            "own_first_token_p95_s": quantile(&period.own_first_token_s, 0.95),
        })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut text = String::new();
    stdin().read_to_string(&mut text)?;
    let case: Case = serde_json::from_str(&text)?;
    let mut simulated = Vec::new();
    for seed in &case.seeds {
        let report = run(&case.scenario(*seed).ok_or("steps is empty or does not ascend")?);
        let periods: Vec<Value> = report.periods.iter().map(|period| case.told(period)).collect();
        let p95 = quantile(&report.own_first_token_s, 0.95);
        simulated.push(json!({"periods": periods, "failed": report.failed, "own_first_token_p95_s": p95}));
    }
    writeln!(stdout(), "{}", json!({"planned": case.planned()?, "simulated": simulated}))?;
    Ok(())
}
