use super::*;
use crate::fleet::queueing;

fn model(name: &str, count: usize, memory_mb: f64, per_hour: f64) -> FarmModel {
    FarmModel {
        name: name.to_owned(),
        count,
        memory_mb: Some(memory_mb),
        load_ms: Some(500.0),
        request_ms: Some(10.0),
        requests_per_hour: Some(per_hour),
        ..FarmModel::default()
    }
}

fn farm(memory_mb: f64, models: Vec<FarmModel>) -> FarmPlan {
    FarmPlan { memory_mb: Some(memory_mb), model: models, ..FarmPlan::default() }
}

#[test]
fn models_that_fit_are_loaded_once() {
    let outcome = simulate(&farm(1000.0, vec![model("a", 10, 40.0, 3600.0)])).unwrap();
    assert!(outcome.fits && outcome.models == 10);
    assert_eq!((outcome.wanted_mb, outcome.loads_per_hour), (400.0, 0.0));
    let group = &outcome.groups[0];
    // Cold are those that came within half a second of the first, of each model.
    assert!(group.cold_share < 0.002 && group.loaded_share > 0.98, "{group:?}");
    assert!((outcome.utilization - 0.1).abs() < 0.003, "{}", outcome.utilization);
    // A model that is seldom asked for does not draw the end out.
    let outcome =
        simulate(&farm(1000.0, vec![model("a", 10, 40.0, 3600.0), model("b", 10, 40.0, 1.0)])).unwrap();
    assert!((outcome.seconds - 2_000.0).abs() < 50.0, "{}", outcome.seconds);
}

/// Pollaczek and Khinchine: requests of one length wait half as long as those of exponential lengths (Kleinrock, Queueing
/// Systems I, section 5.7), whose wait Erlang's formula gives.
#[test]
fn one_model_waits_as_a_queue_of_fixed_times_does() {
    let mut one = model("a", 1, 10.0, 5.0 * 3600.0);
    (one.request_ms, one.load_ms) = (Some(100.0), Some(0.0));
    let wait = |seed| {
        let plan = FarmPlan { requests: 100_000, seed, ..farm(100.0, vec![one.clone()]) };
        simulate(&plan).unwrap().groups[0].latency_ms.mean - 100.0
    };
    let wait_ms = (1..=4).map(wait).sum::<f64>() / 4.0;
    let exponential = queueing::mmc(5.0, 0.1, 1).unwrap().mean_wait_s * 1e3;
    assert!((wait_ms / (exponential / 2.0) - 1.0).abs() < 0.03, "{wait_ms} {}", exponential / 2.0);
}

#[test]
fn models_that_do_not_fit_are_loaded_again_and_wait() {
    let models = || vec![model("often", 2, 40.0, 7200.0), model("seldom", 20, 40.0, 60.0)];
    let tight = simulate(&farm(160.0, models())).unwrap();
    let wide = simulate(&farm(880.0, models())).unwrap();
    assert!(!tight.fits && wide.fits && wide.loads_per_hour == 0.0);
    assert!(tight.held_mb <= 160.0 && tight.held_mb > 100.0, "{}", tight.held_mb);
    // What is asked for often stays; what is asked for seldom is loaded for nearly each request.
    let (often, seldom) = (&tight.groups[0], &tight.groups[1]);
    assert!(often.cold_share < 0.05 && seldom.cold_share > 0.6, "{} {}", often.cold_share, seldom.cold_share);
    assert!(seldom.latency_ms.p50 >= 510.0 - 1e-6 && seldom.cold_latency_ms.p50 >= 510.0 - 1e-6);
    assert!(tight.loads_per_hour > 0.6 * 20.0 * 60.0 && tight.loads_per_hour < 1.1 * 20.0 * 60.0);
    assert!(seldom.latency_ms.mean > 10.0 * wide.groups[1].latency_ms.mean);
}

#[test]
fn keep_alive_and_pins_are_kept() {
    let mut kept = model("kept", 1, 40.0, 60.0);
    kept.keep_alive_s = Some(5.0);
    let mut pinned = model("pinned", 1, 40.0, 60.0);
    pinned.pinned = true;
    let plan = FarmPlan { requests: 2_000, ..farm(100.0, vec![kept, pinned]) };
    let outcome = simulate(&plan).unwrap();
    // A request a minute finds a model that stays for five seconds in one of twelve cases: 1 - exp(-5/60) is 8 %.
    let cold = outcome.groups[0].cold_share;
    assert!((0.85..0.97).contains(&cold), "{cold}");
    assert!(outcome.groups[1].cold_share < 0.01 && outcome.groups[1].loaded_share > 0.95);
}

#[test]
fn costs_add_up_to_the_machine() {
    let mut busy = model("busy", 1, 10.0, 36_000.0);
    busy.request_ms = Some(50.0);
    let outcome = simulate(&farm(2000.0, vec![busy, model("large", 1, 990.0, 60.0)])).unwrap();
    let shares: Vec<f64> = outcome.groups.iter().map(|group| group.cost_share).collect();
    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{shares:?}");
    // One has all the time, the other all the memory: half each.
    assert!(shares.iter().all(|share| (share - 0.5).abs() < 0.02), "{shares:?}");
}

#[test]
fn the_same_seed_gives_the_same_plan() {
    let plan = farm(160.0, vec![model("a", 12, 40.0, 600.0)]);
    assert_eq!(simulate(&plan).unwrap(), simulate(&plan).unwrap());
    assert_ne!(simulate(&plan).unwrap(), simulate(&FarmPlan { seed: 2, ..plan }).unwrap());
}

#[test]
fn said_badly() {
    let said = |plan: &FarmPlan| simulate(plan).unwrap_err().to_string();
    let one = || model("a", 1, 40.0, 60.0);
    assert!(
        said(&FarmPlan { model: vec![one()], ..FarmPlan::default() }).contains("farm.memory_mb is missing")
    );
    assert_eq!(said(&farm(100.0, Vec::new())), "farm.model is empty");
    assert!(said(&farm(30.0, vec![one()])).contains("40 MB is impossible: models may take 30 MB"));
    let unknown = FarmModel { load_ms: None, ..one() };
    assert!(said(&farm(100.0, vec![unknown])).contains("farm.model a: load_ms is missing"));
    let nan = FarmModel { request_ms: Some(f64::NAN), ..one() };
    assert!(said(&farm(100.0, vec![nan])).contains("request_ms: NaN is outside"));
    assert!(said(&farm(100.0, vec![model("a", 5_000, 1.0, 1.0)])).contains("count: 5000 is outside"));
    let pinned = FarmModel { pinned: true, ..model("p", 2, 40.0, 60.0) };
    assert!(said(&farm(100.0, vec![pinned, one()])).contains("80 MB that stay, 40 MB"));
    let all_day = FarmModel { request_ms: Some(120_000.0), ..one() };
    assert!(said(&farm(100.0, vec![all_day])).contains("200 % of the machine's time"));
}
