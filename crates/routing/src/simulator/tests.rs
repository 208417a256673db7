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

/// Some lines on a run, for the messages of assertions.
fn told(report: &Report) -> String {
    let of = |sorted: &[f32]| [0.5, 0.95, 0.99].map(|share| quantile(sorted, share));
    format!(
        "{:?} {:?} {} s, hits {}, imbalance {}, answered {}, failed {}, retries {}, resumed {}, {:#?}",
        of(&report.first_token_s),
        of(&report.total_s),
        report.seconds,
        report.hit_rate(),
        report.imbalance(),
        report.answered,
        report.failed,
        report.retries,
        report.resumed,
        report.nodes
    )
}

/// What must hold in every run: each request ends once, and nothing stays in flight.
fn whole(report: &Report, requests: usize) {
    let ended = report.answered + report.failed;
    assert_eq!((report.requests, ended, report.in_flight), (requests as u64, requests as u64, 0));
}

fn shared(replicas: u32, scenario: Scenario) -> Scenario {
    let policy = Policy { replicas, ..scenario.policy };
    Scenario { replicas: replicas as usize, policy, ..scenario }
}

#[test]
fn chats_find_their_caches_and_nodes_are_equally_loaded() {
    let single = run(&scenario(1, 8, 20_000));
    let (mut report, mut seeds) = (Report::default(), 0);
    for (nodes, clients) in [(3, 16), (4, 32), (8, 48)] {
        report = run(&Scenario { seed: 2 + seeds, ..scenario(nodes, clients, 20_000) });
        seeds += 1;
        whole(&report, 20_000);
        assert_eq!(report.failed, 0);
        assert!(report.hit_rate() >= 0.9 * single.hit_rate(), "{} {}", single.hit_rate(), told(&report));
        assert!(report.imbalance() <= 1.25, "{}", told(&report));
    }
    assert!(report.predicted_cached <= report.cached_tokens, "{}", told(&report));
}

#[test]
fn replicas_agree_on_where_a_conversation_belongs() {
    let single = run(&scenario(1, 8, 20_000)).hit_rate();
    let agreed = run(&shared(3, scenario(4, 24, 20_000)));
    whole(&agreed, 20_000);
    assert!(agreed.hit_rate() >= 0.85 * single, "{single} {}", told(&agreed));
    assert!(agreed.imbalance() <= 1.25, "{}", told(&agreed));
    // Without a conversation's mark they do not: this is what the agreement is worth.
    let mut apart = shared(3, scenario(4, 24, 20_000));
    apart.policy.method = crate::Method::LeastConnections(crate::MaxFails::default());
    let apart = run(&apart);
    assert!(apart.hit_rate() < agreed.hit_rate() - 0.15, "{}", told(&apart));
}

/// A hundred thousand requests while nodes crash, slow down, hang, flap and refuse: each is answered, once.
#[test]
fn nothing_is_lost_to_faults() {
    let fault = |node, kind, from_s: f64, for_s: f64| Fault { node, kind, from_s, to_s: from_s + for_s };
    let mut faults = vec![
        fault(0, FaultKind::Crash, 100.0, 60.0),
        fault(1, FaultKind::Slow(5.0), 300.0, 200.0),
        fault(2, FaultKind::Hang, 600.0, 40.0),
        fault(3, FaultKind::Refuse, 900.0, 30.0),
    ];
    faults.extend((0..20).map(|at| fault(4, FaultKind::Crash, 1_200.0 + 10.0 * f64::from(at), 5.0)));
    faults.extend((0..2).map(|node| fault(node, FaultKind::Crash, 1_600.0, 20.0)));
    let chaos = Scenario { faults, first_byte: Duration::from_secs(30), ..scenario(5, 40, 100_000) };
    let short = Scenario { requests: 20_000, ..chaos.clone() };
    for scenario in [short, Scenario { hedges: true, ..shared(3, chaos) }] {
        let report = run(&scenario);
        whole(&report, scenario.requests);
        // What may fail: a request whose third attempt met a third fault.
        assert!(report.failed <= 2, "{}", told(&report));
        assert!(report.resumed > 10 && report.retries < 2_000, "{}", told(&report));
        assert!(report.hedges <= 5_000 + 15 && (report.hedges > 0) == scenario.hedges, "{}", told(&report));
        // The node that flaps gets few requests while it does: five failures a trip at most, and probes.
        assert!(report.nodes[4].failed < 600, "{}", told(&report));
    }
}

/// A node of half the speed gets about half the work, and no one waits long for it.
#[test]
fn work_follows_speed() {
    let mut unequal = scenario(4, 24, 20_000);
    let slow = StepTimes::new([(1.0, 0.026), (4.0, 0.040), (8.0, 0.060)]).unwrap();
    unequal.nodes[3].speed = Speed { prompt_tokens_per_s: 240.0, steps: slow, slots: Some(8) };
    // The router is told nothing of the speeds: it learns them.
    let known = run(&unequal);
    unequal.nodes.iter_mut().for_each(|node| node.tells = false);
    let learned = run(&unequal);
    for report in [&known, &learned] {
        whole(report, 20_000);
        let tokens = |at: usize| report.nodes[at].tokens as f64;
        let share = tokens(3) / ((tokens(0) + tokens(1) + tokens(2)) / 3.0);
        assert!((0.25..0.8).contains(&share), "{share} {}", told(report));
    }
    let p95 = |report: &Report| quantile(&report.total_s, 0.95);
    let mut blind = unequal;
    blind.policy.method = crate::Method::RoundRobin;
    let blind = run(&blind);
    assert!(p95(&known) < p95(&blind) && p95(&learned) < p95(&blind), "{} {}", told(&learned), told(&blind));
}

#[test]
fn the_same_seed_gives_the_same_report() {
    let of = |seed| run(&Scenario { seed, ..shared(2, scenario(3, 20, 3_000)) });
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}
