#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::time::Duration;

use super::*;
use crate::target::{Speed, StepTimes, Target, Tier};
use crate::{Policy, retry::RetryPolicy};

fn node(name: &str, tokens_per_s: f64) -> NodeSpec {
    let steps = StepTimes::new([(1.0, 0.013), (4.0, 0.020), (8.0, 0.030)]).unwrap();
    let speed = Speed { prompt_tokens_per_s: tokens_per_s, steps, slots: Some(8) };
    NodeSpec {
        target: Target::new(name, Tier::Own),
        speed,
        max_waiting: 200,
        cached_boundaries: 4_000,
        tells: true,
    }
}

fn chats(clients: usize) -> Chats {
    Chats {
        clients,
        turns: 8,
        systems: 4,
        system_tokens: 300,
        question_tokens: 80.0,
        answer_tokens: 100.0,
        think_s: 2.0,
    }
}

fn scenario(nodes: usize, clients: usize, requests: usize) -> Scenario {
    Scenario {
        nodes: (0..nodes).map(|at| node(&format!("node-{at}"), 480.0)).collect(),
        load: Load::Chats(chats(clients)),
        requests,
        policy: Policy::default(),
        retry: RetryPolicy::default(),
        replicas: 1,
        faults: Vec::new(),
        first_byte: Duration::from_secs(30),
        hedges: false,
        seed: 1,
    }
}

fn told(report: &Report) -> String {
    let of = |sorted: &[f32]| format!("{:.2}/{:.2}/{:.2}", quantile(sorted, 0.5), quantile(sorted, 0.95), quantile(sorted, 0.99));
    let nodes: Vec<String> = report.nodes.iter().map(|n| format!("{} {}a {}f {:.2}u {:.2}c", n.name, n.answered, n.failed, n.utilization, n.crowding)).collect();
    format!("answered {} failed {} retries {} resumed {} hedges {} in flight {} hit {:.3} predicted {:.3} imbalance {:.3} left {} cost {} ttft {} total {} s {:.0}\n{}",
        report.answered, report.failed, report.retries, report.resumed, report.hedges, report.in_flight, report.hit_rate(), report.predicted_cached as f64 / report.prompt_tokens as f64, report.imbalance(), report.left, report.cost, of(&report.first_token_s), of(&report.total_s), report.seconds, nodes.join("\n"))
}

#[test]
fn explore() {
    for (nodes, clients) in [(1, 8), (4, 32), (4, 20), (3, 16)] {
        for replicas in [1, 3] {
            let start = std::time::Instant::now();
            let report = run(&Scenario { replicas, policy: Policy { replicas: replicas as u32, ..Policy::default() }, ..scenario(nodes, clients, 20_000) });
            println!("{nodes} nodes {clients} clients {replicas} replicas: {} in {:?}\n", told(&report), start.elapsed());
        }
    }
}
