#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use proptest::prelude::*;

use super::*;
use crate::chain::Boundary;
use crate::failure::Limit;
use crate::policies::least_connections::MaxFails;
use crate::target::{Price, Speed, StepTimes};
use crate::{Class, OverflowPolicy};

const PRICE: Price = Price { input: 100, cached: 10, output: 400 };

fn s(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn own(name: &str) -> Target {
    let steps = StepTimes::new([(1.0, 0.013), (8.0, 0.030)]).unwrap();
    let prior = Speed { prompt_tokens_per_s: 500.0, steps, slots: Some(8) };
    Target { prior: Some(prior), ..Target::new(name, Tier::Own) }
}

fn metered(name: &str, price: Option<Price>) -> Target {
    Target { price, ..Target::new(name, Tier::Metered) }
}

fn pool(count: usize) -> Vec<Target> {
    (0..count).map(|at| own(&format!("node-{at}"))).collect()
}

fn router(count: usize) -> Router {
    Router::new(Policy::default(), pool(count), 1)
}

fn with(method: Method, targets: Vec<Target>) -> Router {
    Router::new(Policy { method, ..Policy::default() }, targets, 1)
}

fn names(router: &mut Router, ask: &Ask<'_>, count: usize) -> Vec<String> {
    let mut name = |at: usize| {
        let flight = router.dispatch(s(at as f64 * 1e-3), ask).unwrap();
        let name = router.target(flight.target).unwrap().name.clone();
        router.finished(s(at as f64 * 1e-3), flight, &Outcome::Cancelled);
        name
    };
    (0..count).map(&mut name).collect()
}

fn chain(turns: u64, conversation: u64) -> Vec<Boundary> {
    let of = |turn| Boundary {
        hash: if turn == 0 { 77 } else { conversation * 1000 + turn },
        tokens: 500 * (turn + 1),
    };
    (0..turns).map(of).collect()
}

fn chat(chain: &[Boundary]) -> Ask<'_> {
    let tokens = chain.last().map_or(10, |last| last.tokens);
    Ask { chain, affinity: chain.get(1).map_or(0, |second| second.hash), ..Ask::of_size(tokens, 100) }
}

fn answer(prompt_tokens: u64, cached: u64) -> Outcome {
    let cached_tokens = Some(cached);
    Outcome::Answered(Answer {
        first_token_s: 0.5,
        total_s: 1.5,
        prompt_tokens,
        cached_tokens,
        output_tokens: 50,
    })
}

fn gate(router: &Router, name: &str, now: Duration) -> Gate {
    router.status(now).into_iter().find(|status| status.name == name).unwrap().gate
}

#[test]
fn requests_that_come_at_once_spread() {
    let mut router = router(8);
    let flights: Vec<Flight> =
        (0..80).map(|_| router.dispatch(s(1.0), &Ask::of_size(200, 100)).unwrap()).collect();
    for status in router.status(s(1.0)) {
        assert!((8..=12).contains(&status.in_flight), "{status:?}");
    }
    flights.into_iter().for_each(|flight| router.finished(s(2.0), flight, &Outcome::Cancelled));
    assert_eq!(router.in_flight(), 0);
}

/// Replicas with the same records do not all choose the same target.
#[test]
fn replicas_with_the_same_stale_records_are_no_herd() {
    let mut chosen = [0; 8];
    for replica in 0..80 {
        let mut router = Router::new(Policy::default(), pool(8), replica);
        let ids: Vec<TargetId> = router.targets().collect();
        for (id, running) in ids.iter().zip([6, 6, 2, 2, 2, 2, 6, 6]) {
            router.observe(s(1.0), *id, &NodeRecord { running, slots: Some(8), ..NodeRecord::default() });
        }
        let flight = router.dispatch(s(1.5), &Ask::of_size(200, 100)).unwrap();
        chosen[flight.target.slot as usize] += 1;
    }
    assert_eq!(chosen[0] + chosen[1] + chosen[6] + chosen[7], 0, "{chosen:?}");
    assert!(chosen[2..6].iter().all(|count| (10..=32).contains(count)), "{chosen:?}");
}

#[test]
fn a_conversation_stays_with_its_cache_until_waiting_costs_more() {
    let mut router = router(4);
    let first = router.dispatch(s(1.0), &chat(&chain(3, 5))).unwrap();
    let home = first.target;
    assert_eq!((first.cached_tokens, first.reason), (0, Reason::Affinity));
    router.finished(s(3.0), first, &answer(1500, 0));
    let second = router.dispatch(s(4.0), &chat(&chain(5, 5))).unwrap();
    assert_eq!((second.target, second.reason), (home, Reason::CachedPrefix));
    assert!((1300..=1500).contains(&second.cached_tokens), "{}", second.cached_tokens);
    router.finished(s(5.0), second, &answer(2500, 1500));
    // The node tells that it is full: computing 2,500 tokens elsewhere takes 5 s, waiting there longer.
    let record = NodeRecord {
        running: 8,
        waiting: 20,
        backlog_tokens: 9_000,
        slots: Some(8),
        ..NodeRecord::default()
    };
    router.observe(s(6.0), home, &record);
    let third = router.dispatch(s(6.1), &chat(&chain(7, 5))).unwrap();
    assert_ne!(third.target, home);
    // A minute later that record means nothing any more.
    router.finished(s(6.2), third, &Outcome::Cancelled);
    assert_eq!(router.dispatch(s(90.0), &chat(&chain(7, 5))).unwrap().target, home);
}

#[test]
fn the_prefix_index_is_corrected() {
    let mut router = router(2);
    let ask_chain = chain(4, 9);
    let cached = |router: &Router, at: TargetId| {
        let seen = router.explain(s(9.0), &chat(&ask_chain));
        seen.into_iter().find(|considered| considered.target == at).unwrap().cached
    };
    // A failure undoes what the dispatch wrote.
    let flight = router.dispatch(s(1.0), &chat(&ask_chain)).unwrap();
    let target = flight.target;
    assert!(cached(&router, target) > 1500);
    router.finished(s(1.1), flight, &Outcome::Failed(Failure::Connect));
    assert_eq!(cached(&router, target), 0);
    // A target that never has what it was sent before is not believed to keep prompts.
    for at in 0..12 {
        let only = |id| id == target;
        let flight =
            router.dispatch(s(2.0 + f64::from(at)), &Ask { allowed: &only, ..chat(&ask_chain) }).unwrap();
        router.finished(s(2.5 + f64::from(at)), flight, &answer(2000, 0));
    }
    assert_eq!(cached(&router, target), 0);
    // And believed again once it has: through another gateway, for instance.
    for at in 0..12 {
        let only = |id| id == target;
        let flight =
            router.dispatch(s(20.0 + f64::from(at)), &Ask { allowed: &only, ..chat(&ask_chain) }).unwrap();
        router.finished(s(20.5 + f64::from(at)), flight, &answer(2000, 1900));
    }
    assert!(cached(&router, target) > 1500, "{}", cached(&router, target));
    // A node that started anew has an empty cache.
    router.observe(s(40.0), target, &NodeRecord { boot: 1, ..NodeRecord::default() });
    router.observe(s(41.0), target, &NodeRecord { boot: 2, ..NodeRecord::default() });
    assert_eq!(cached(&router, target), 0);
}

#[test]
fn what_is_explained_is_what_is_done() {
    let mut router = router(3);
    for at in 0..50 {
        let (ask_chain, now) = (chain(2 + at % 5, at % 7), s(at as f64 * 0.1));
        let seen = router.explain(now, &chat(&ask_chain));
        assert_eq!(seen.len(), 3);
        let chosen: Vec<_> =
            seen.iter().filter(|considered| matches!(considered.verdict, Verdict::Chosen(_))).collect();
        let flight = router.dispatch(now, &chat(&ask_chain)).unwrap();
        assert_eq!(chosen.len(), 1);
        assert_eq!((chosen[0].target, chosen[0].cached), (flight.target, flight.cached_tokens));
        let total = chosen[0].wait_s + chosen[0].prefill_s + chosen[0].decode_s;
        assert!((total - flight.completion_s).abs() < 1e-9);
        if at % 3 == 0 {
            router.finished(now, flight, &answer(500, 0));
        }
    }
}

#[test]
fn a_failing_target_is_left_probed_once_and_taken_back() {
    let mut router = with(Method::RoundRobin, pool(3));
    let mut now = 1.0;
    while gate(&router, "node-1", s(now)) == Gate::Closed {
        let flight = router.dispatch(s(now), &Ask::of_size(10, 10)).unwrap();
        let fails = router.target(flight.target).unwrap().name == "node-1";
        let outcome = if fails { Outcome::Failed(Failure::Reset) } else { answer(10, 0) };
        router.finished(s(now), flight, &outcome);
        now += 0.01;
        assert!(now < 2.0);
    }
    let mut used = names(&mut router, &Ask::of_size(10, 10), 20);
    used.dedup();
    assert!(!used.contains(&"node-1".to_owned()));
    now += 2.0;
    let probe = router.dispatch(s(now), &Ask::of_size(10, 10)).unwrap();
    assert_eq!(probe.reason, Reason::Probe);
    // Only one at a time.
    let others: Vec<Flight> =
        (0..9).map(|_| router.dispatch(s(now), &Ask::of_size(10, 10)).unwrap()).collect();
    assert!(others.iter().all(|flight| flight.target != probe.target));
    router.finished(s(now), probe, &answer(10, 0));
    assert_eq!(gate(&router, "node-1", s(now)), Gate::Closed);
    others.into_iter().for_each(|flight| router.finished(s(now), flight, &Outcome::Cancelled));
}

#[test]
fn at_most_half_of_a_pool_is_out_and_refusals_are_waited_for() {
    let mut router = with(Method::RoundRobin, pool(4));
    for at in 0..400 {
        let now = s(1.0 + f64::from(at) * 1e-3);
        let flight = router.dispatch(now, &Ask::of_size(10, 10)).unwrap();
        router.finished(now, flight, &Outcome::Failed(Failure::Timeout(Limit::FirstByte)));
        let out = router.status(now).iter().filter(|status| status.gate != Gate::Closed).count();
        assert!(out <= 2, "{out}");
    }
    let mut router = self::router(2);
    for _ in 0..2 {
        let flight = router.dispatch(s(1.0), &Ask::of_size(10, 10)).unwrap();
        let retry_after = Some(s(7.0));
        router.finished(s(1.0), flight, &Outcome::Failed(Failure::Refused { retry_after }));
    }
    let refused = router.dispatch(s(2.0), &Ask::of_size(10, 10)).unwrap_err();
    assert_eq!((refused.throttled, refused.retry_after), (2, Some(s(6.0))));
    assert_eq!(refused.to_string(), "no target can take the request: 2 refusing for now");
    assert!(router.dispatch(s(8.0), &Ask::of_size(10, 10)).is_ok());
}

#[test]
fn what_may_not_leave_does_not_and_no_price_is_no_target() {
    let targets = vec![own("a"), metered("api", Some(PRICE)), metered("unpriced", None)];
    let mut router = Router::new(Policy::default(), targets, 1);
    let (a, api) = (router.find("a").unwrap(), router.find("api").unwrap());
    let ask = Ask::of_size(100, 100);
    assert_eq!(router.dispatch(s(1.0), &ask).unwrap().target, a);
    let not_own = |id| id != a;
    let away = Ask { allowed: &not_own, ..ask };
    let flight = router.dispatch(s(1.0), &away).unwrap();
    assert_eq!((flight.target, flight.reason), (api, Reason::NoOwn));
    assert!(flight.price.unwrap() > 10_000);
    let secret = Ask { may_leave: false, ..away };
    let refused = router.dispatch(s(1.0), &secret).unwrap_err();
    assert_eq!((refused.outside, refused.not_allowed, refused.retry_after), (2, 1, None));
    let neither = |id| id != a && id != api;
    let refused = router.dispatch(s(1.0), &Ask { allowed: &neither, ..ask }).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "no target can take the request: 2 not allowed or tried before, 1 without a known price"
    );
    assert_eq!(
        Router::new(Policy::default(), vec![], 1).dispatch(s(0.0), &ask).unwrap_err(),
        Refused::default()
    );
}

#[test]
fn urgent_requests_use_rented_machines_and_batch_never_leaves() {
    let steps = StepTimes::new([(1.0, 0.002), (64.0, 0.01)]).unwrap();
    let speed = Speed { prompt_tokens_per_s: 20_000.0, steps, slots: Some(64) };
    let gpu = Target { prior: Some(speed), ..Target::new("gpu", Tier::Rented) };
    let patient = OverflowPolicy { allowance: 1.0, ..OverflowPolicy::for_level(2.0) };
    let policy = Policy { overflow: Some(patient), ..Policy::default() };
    let mut router = Router::new(policy, vec![own("a"), gpu], 1);
    let (a, gpu) = (router.find("a").unwrap(), router.find("gpu").unwrap());
    let of = |class| Ask { class, ..Ask::of_size(2_000, 200) };
    let chosen = |router: &mut Router, now, class| router.dispatch(s(now), &of(class)).unwrap().target;
    assert_eq!(chosen(&mut router, 1.0, Class::Urgent), gpu);
    assert_eq!(chosen(&mut router, 1.0, Class::Standard), a);
    // Each request takes four seconds of the own machine: after ten seconds over the level some leave.
    let mut left = [0, 0];
    for at in 0..300 {
        let now = 1.0 + f64::from(at) * 0.1;
        for (count, class) in left.iter_mut().zip([Class::Standard, Class::Batch]) {
            *count += u32::from(chosen(&mut router, now, class) == gpu);
        }
        assert!(at > 90 || left[0] == 0, "{at}");
    }
    assert!(left[0] > 100 && left[1] == 0, "{left:?}");
    let (price, share) = router.shadow_price(s(31.0)).unwrap();
    assert!(price > 0.0 && share > 0.9, "{price} {share}");
}

#[test]
fn a_reload_keeps_the_state_of_targets_by_name() {
    let mut router = router(3);
    let flights: Vec<Flight> =
        (0..6).map(|_| router.dispatch(s(1.0), &Ask::of_size(100, 100)).unwrap()).collect();
    let (kept, gone) = (router.find("node-1").unwrap(), router.find("node-2").unwrap());
    router.replace(vec![own("new"), own("node-1"), own("node-0"), own("node-1")]);
    assert_eq!(router.targets().count(), 3);
    assert_eq!((router.find("node-1"), router.target(gone)), (Some(kept), None));
    let new = router.find("new").unwrap();
    assert_ne!(new, gone);
    assert_eq!(router.in_flight(), 4);
    router.observe(s(1.5), gone, &NodeRecord { running: 9, ..NodeRecord::default() });
    flights.into_iter().for_each(|flight| router.finished(s(2.0), flight, &answer(100, 0)));
    assert_eq!(router.in_flight(), 0);
}

#[test]
fn simple_policies_take_their_turns() {
    let weighted = |weights: [u32; 3]| {
        let targets = pool(3).into_iter().zip(weights);
        targets.map(|(target, weight)| Target { weight, ..target }).collect::<Vec<_>>()
    };
    let ask = Ask::of_size(10, 10);
    let last = |name: &String| name.as_bytes()[5] - b'0';
    let turns = |router: &mut Router, count| names(router, &ask, count).iter().map(last).collect::<Vec<u8>>();
    assert_eq!(turns(&mut with(Method::RoundRobin, pool(3)), 7), [0, 1, 2, 0, 1, 2, 0]);
    // The order that nginx has for weights 5, 1, 1.
    assert_eq!(turns(&mut with(Method::Weighted, weighted([5, 1, 1])), 7), [0, 0, 1, 0, 2, 0, 0]);
    let mut least = with(Method::LeastConnections(MaxFails::default()), weighted([2, 1, 1]));
    let flights: Vec<Flight> = (0..12).map(|_| least.dispatch(s(1.0), &ask).unwrap()).collect();
    let of = |slot| flights.iter().filter(|flight| flight.target.slot == slot).count();
    assert_eq!([0, 1, 2].map(of), [6, 3, 3]);
    // One failure takes a target out for ten seconds.
    let mut flights = flights.into_iter();
    least.finished(s(2.0), flights.next().unwrap(), &Outcome::Failed(Failure::Connect));
    flights.for_each(|flight| least.finished(s(2.0), flight, &Outcome::Cancelled));
    assert_eq!(least.status(s(3.0)).iter().filter(|status| status.gate != Gate::Closed).count(), 1);
    let mut sticky = with(Method::Sticky, pool(3));
    for conversation in 0..20 {
        let asked = chain(3, conversation);
        let mut used = names(&mut sticky, &chat(&asked), 10);
        used.dedup();
        assert_eq!(used.len(), 1);
    }
}

#[test]
fn hedges_go_to_another_own_target() {
    let mut targets = pool(2);
    targets.push(metered("api", Some(PRICE)));
    let mut router = Router::new(Policy::default(), targets, 1);
    let ask = Ask::of_size(100, 100);
    for at in 0..60 {
        let flight = router.dispatch(s(f64::from(at)), &ask).unwrap();
        router.finished(s(f64::from(at) + 0.9), flight, &answer(100, 0));
    }
    let first = router.dispatch(s(100.0), &ask).unwrap();
    assert_eq!(router.hedge_delay(s(100.0), &first), Some(s(0.5)));
    let second = router.hedge(s(100.6), &ask, &first).unwrap();
    assert_eq!(second.reason, Reason::Hedge);
    assert!(second.target != first.target && router.target(second.target).unwrap().tier == Tier::Own);
    router.finished(s(101.0), first, &Outcome::Cancelled);
    router.finished(s(101.0), second, &answer(100, 0));
    assert_eq!(router.in_flight(), 0);
}

/// Of many targets only some are looked at; all of them get work.
#[test]
fn hundreds_of_targets_are_sampled() {
    let mut router = router(300);
    let mut flights = Vec::new();
    for conversation in 0..3_000 {
        let asked = chain(3, conversation);
        flights.push(router.dispatch(s(conversation as f64 * 1e-4), &chat(&asked)).unwrap());
    }
    let most = router.status(s(1.0)).iter().map(|status| status.in_flight).max();
    assert!(most <= Some(25), "{most:?}");
    assert!(router.status(s(1.0)).iter().filter(|status| status.in_flight == 0).count() < 15);
    let only = router.find("node-299").unwrap();
    let allowed = |id| id == only;
    assert_eq!(
        router.dispatch(s(1.0), &Ask { allowed: &allowed, ..Ask::of_size(9, 9) }).unwrap().target,
        only
    );
    flights.into_iter().for_each(|flight| router.finished(s(2.0), flight, &Outcome::Cancelled));
    assert_eq!(router.in_flight(), 1);
}

/// A node's record of any figures.
fn any_record(random: u64, size: u32) -> NodeRecord {
    NodeRecord {
        boot: random % 3,
        running: size % 99,
        waiting: size % 7,
        backlog_tokens: random,
        prompt_tokens_per_s: Some(f64::from(size) - 9.0),
        steps: StepTimes::new([(1.0, f64::from(size) - 9.0)]),
        slots: Some(size % 5),
    }
}

/// An end of any kind.
fn any_outcome(random: u64, size: u32) -> Outcome {
    let answer = Answer {
        first_token_s: f64::from(size) / 1e3,
        total_s: f64::from(size) / 5e2,
        prompt_tokens: random % 5_000,
        cached_tokens: random.is_multiple_of(2).then_some(random % 9_000),
        output_tokens: random % 700,
    };
    match random % 5 {
        0 => Outcome::Failed(Failure::Reset),
        1 => Outcome::Failed(Failure::Refused { retry_after: Some(s(0.5)) }),
        2 => Outcome::Cancelled,
        _ => Outcome::Answered(answer),
    }
}

proptest! {
    /// Whatever happens in whatever order: requests in flight are those that are not finished, nobody goes where they
    /// may not, and numbers stay finite.
    #[test]
    fn flights_are_counted_whatever_happens(
        steps in prop::collection::vec((0_u8..12, any::<u64>(), 0_u32..50_000), 1..200),
        method in 0_usize..5,
    ) {
        let methods = [Method::ExpectedCompletion, Method::LeastConnections(MaxFails::default()),
            Method::RoundRobin, Method::Weighted, Method::Sticky];
        let mut targets = pool(3);
        targets.extend([metered("api", Some(PRICE)), metered("unpriced", None), Target::new("gpu", Tier::Rented)]);
        let policy = Policy { method: methods[method], overflow: Some(OverflowPolicy::for_level(1.0)),
            prefix_bytes: 4096, ..Policy::default() };
        let mut router = Router::new(policy, targets.clone(), 7);
        let (mut now, mut open) = (Duration::ZERO, Vec::new());
        for (what, random, size) in steps {
            now += Duration::from_millis(random % 3_000);
            match what {
                0..=5 => {
                    let may_leave = random % 3 == 0;
                    let asked = chain(random % 20, random % 5);
                    let ask = Ask { may_leave, prompt_tokens: u64::from(size), tenant: random % 4,
                        class: Class::ALL[(random % 4) as usize], ..chat(&asked) };
                    if let Ok(flight) = router.dispatch(now, &ask) {
                        let target = router.target(flight.target).unwrap();
                        prop_assert!(may_leave || target.tier == Tier::Own);
                        prop_assert!(target.tier != Tier::Metered || target.price.is_some());
                        prop_assert!(flight.completion_s.is_finite() && flight.completion_s >= 0.0);
                        open.push(flight);
                    }
                }
                6..=8 if !open.is_empty() => {
                    let flight = open.swap_remove((random % open.len() as u64) as usize);
                    router.finished(now, flight, &any_outcome(random, size));
                }
                9 => {
                    let kept = targets.iter().filter(|target| !(random + target.name.len() as u64).is_multiple_of(3));
                    router.replace(kept.cloned().collect());
                    let left = std::mem::take(&mut open);
                    for flight in left {
                        match router.target(flight.target) {
                            Some(_) => open.push(flight),
                            None => router.finished(now, flight, &Outcome::Cancelled),
                        }
                    }
                }
                _ => {
                    let id = router.targets().nth((random % 6) as usize);
                    if let Some(id) = id {
                        router.observe(now, id, &any_record(random, size));
                    }
                }
            }
            prop_assert_eq!(router.in_flight(), open.len() as u64);
            prop_assert!(router.prefix_bytes() <= 4096);
        }
    }
}
