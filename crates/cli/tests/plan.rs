//! `gristmill plan` as a process: tables, JSON, pages, and every bad input by the name of its field.

#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use crate::support;

use serde_json::Value;
use support::{failure, said};

fn plan(args: &[&str]) -> std::process::Output {
    support::run(&[&["plan"], args].concat())
}

fn json(args: &[&str]) -> Value {
    support::json(&plan(&[args, &["--json"]].concat()))
}

/// A file of the test's own.
struct File(tempfile::TempDir);

impl File {
    fn new(name: &str, text: &str) -> (File, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        (File(folder), path.to_str().unwrap().to_owned())
    }

    fn beside(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }
}

const PLAN: &str = r#"
[own]
price_per_hour = 0.79
tokens_per_s = 60
prompt_tokens_per_s = 480
[api]
model = "claude-sonnet-4.5"
[gpu]
price_per_hour = 0.70
tokens_per_s = 900
[work]
input_tokens = 500
output_tokens = 300
requests_by_hour = [100, 100, 100, 900]
[purchase]
hardware = 160000
other_per_month = 10000
amortization_months = 36
[rent]
per_month = 23000
[tco]
months = 24
[fleet]
requests = 500
step_ms = [[1, 13], [8, 30], [256, 530]]
[slo]
latency_p95_ms = 20000
"#;

#[test]
fn cost_is_told_with_two_places_and_the_currency() {
    let shown = said(&plan(&["cost", "--price-per-hour", "0.79", "--tokens-per-s", "60"]));
    for part in ["3.66 USD", "576.70 USD", "157.7 M", "gpt-4o-mini", "2026-06-20"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let answer = json(&["cost", "--price-per-hour", "0.25", "--tokens-per-s", "11.2"]);
    assert_eq!(
        (&answer["currency"], &answer["answer"]["output_per_million"]),
        (&"USD".into(), &6.200397.into())
    );
}

#[test]
fn the_printed_plan_gives_the_same_numbers_again() {
    let first =
        json(&["cost", "--price-per-hour", "0.79", "--tokens-per-s", "60", "--set", "own.utilization=0.5"]);
    let (_file, path) = File::new("plan.toml", first["plan"].as_str().unwrap());
    assert_eq!(json(&["cost", "--input", &path]), first);
}

#[test]
fn every_command_writes_a_page_with_the_plan_in_it() {
    let (file, path) = File::new("plan.toml", PLAN);
    for (command, figures) in [("cost", 2), ("compare", 1), ("tco", 2), ("fleet", 1), ("choose", 1)] {
        let page = file.beside(&format!("{command}.html"));
        let done = plan(&[command, "--input", &path, "--html", &page]);
        assert!(done.status.success(), "{command}: {}", support::text(&done.stderr));
        let page = std::fs::read_to_string(page).unwrap();
        assert_eq!(page.matches("<svg").count(), figures, "{command}");
        assert!(page.contains("price_per_hour = 0.79") && page.ends_with("</html>\n"), "{command}");
        assert!(!page.contains("NaN") && !page.contains("inf\""), "{command}");
    }
}

#[test]
fn compare_finds_the_cheapest_level() {
    let (_file, path) = File::new("plan.toml", PLAN);
    let answer = &json(&["compare", "--input", &path])["answer"];
    let levels = answer["hybrid"]["levels"].as_array().unwrap();
    let total = |level: &Value| level["own"].as_f64().unwrap() + level["overflow"].as_f64().unwrap();
    let least = levels.iter().map(total).fold(f64::INFINITY, f64::min);
    assert!((answer["hybrid"]["per_month"].as_f64().unwrap() - least).abs() < 1e-3);
    assert_eq!(answer["requests"], 219_000.0);
    assert_eq!(answer["gpu"]["price_per_month"], 511.0);
}

#[test]
fn tco_has_the_right_values_of_a_figure_published_wrong() {
    let args = ["tco", "--hardware", "160000", "--running-per-month", "10000", "--amortization-months", "36"];
    let args = [&args[..], &["--rent-per-month", "23000", "--months", "24"]].concat();
    let shown = said(&plan(&args));
    assert!(shown.contains("after 12.3 months") && shown.contains("152,000.00 USD"), "{shown}");
}

#[test]
fn fleet_is_the_same_for_the_same_seed() {
    let (_file, path) = File::new("plan.toml", PLAN);
    let run = |seed: &str| json(&["fleet", "--input", &path, "--seed", seed])["answer"].clone();
    let (first, again, other) = (run("1"), run("1"), run("2"));
    assert_eq!(first, again);
    assert_ne!(first["outcome"]["latency_ms"], other["outcome"]["latency_ms"]);
    assert_eq!((&first["slo_kept"], &first["outcome"]["refused"]), (&true.into(), &0.into()));
    assert_eq!(first["machines_by_hour"].as_array().unwrap().len(), 4);
}

#[test]
fn fleet_takes_a_log() {
    let mut log = "seconds,input,output\n".to_owned();
    for i in 0..200 {
        log.push_str(&format!("{},100,{}\n", f64::from(i) * 1.5, 20 + i % 7));
    }
    let (file, path) = File::new("log.csv", &log);
    let plan_path = file.beside("plan.toml");
    std::fs::write(&plan_path, PLAN).unwrap();
    let answer = &json(&["fleet", "--input", &plan_path, "--log", &path])["answer"];
    assert_eq!(answer["requests_per_hour"], 2400.0);
    assert_eq!(answer["outcome"]["requests"], 180);
}

#[test]
fn choose_says_why() {
    let (_file, path) = File::new("plan.toml", PLAN);
    let secret = json(&["choose", "--input", &path, "--data", "secret"]);
    let candidates = secret["answer"]["choice"]["candidates"].as_array().unwrap();
    let api = candidates.iter().find(|candidate| candidate["way"] == "api").unwrap();
    assert_eq!(api["out"], "the data may not leave");
    assert_ne!(secret["answer"]["choice"]["recommended"], "api");
    let shown = said(&plan(&["choose", "--input", &path]));
    assert!(shown.contains("Recommended: ") && shown.contains("predictability"), "{shown}");
}

/// Once the fleet was counted by the service level and the hybrid beside it by throughput, which made the hybrid look cheap.
#[test]
fn compare_choose_and_fleet_count_machines_alike() {
    let (_file, path) = File::new("plan.toml", PLAN);
    // By throughput one machine would do; alone on it, requests take half of the time that they may.
    let work = ["--input", &path, "--set", "own.tokens_per_s=300", "--set", "slo.latency_p95_ms=9000"];
    let answer = |command: &str| json(&[&[command], &work[..]].concat())["answer"].clone();
    let (fleet, compared, chosen) = (answer("fleet"), answer("compare"), answer("choose"));
    let machines = fleet["outcome"]["machines"].as_u64().unwrap();
    assert!(machines > 1, "{fleet}");
    assert_eq!(compared["counted"], "level");
    assert_eq!(
        (&compared["cpu"]["machines"], &chosen["facts"]["cpu"][0]),
        (&machines.into(), &machines.into())
    );
    let levels = compared["hybrid"]["levels"].as_array().unwrap();
    let last = &levels[levels.len() - 1];
    assert_eq!((&last["machines"], &last["overflow_requests"]), (&machines.into(), &0.0.into()));
    assert!(levels[1]["overflow_requests"].as_f64().unwrap() > 0.0, "{levels:?}");
    // Without a level, by throughput.
    let free = json(&[&["compare"], &work[..4], &["--set", "slo={}"]].concat())["answer"].clone();
    assert_eq!((&free["counted"], &free["cpu"]["machines"]), (&"throughput".into(), &1.into()));
    let shown = said(&plan(&[&["compare"], &work[..]].concat()));
    assert!(shown.contains("as many as keep the service level"), "{shown}");
    // One that cannot be kept is said.
    let shown = said(&plan(&[&["compare"], &work[..4], &["--set", "slo.latency_p95_ms=10"]].concat()));
    assert!(
        shown.contains("CPUs do not keep the service level") && shown.contains("is impossible"),
        "{shown}"
    );
}

#[test]
fn bench_files_give_the_rates() {
    let rows = r#"[
        {"model":"m","test":"pp512","isa":"avx2","n_prompt":512,"n_gen":0,"n_depth":0,"n_streams":1,"avg_ns":1e9,
         "avg_ts":512.0,"output_ts":null,"ceiling_gb_per_s":30.0,"peak_numbers":"int8","peak_g_multiply_adds_per_s":400.0},
        {"model":"m","test":"tg8 x4","isa":"avx2","n_prompt":0,"n_gen":8,"n_depth":0,"n_streams":4,"avg_ns":160000000,
         "avg_ts":200.0,"output_ts":200.0,"ceiling_gb_per_s":30.0,"peak_numbers":"int8","peak_g_multiply_adds_per_s":400.0}]"#;
    let (file, path) = File::new("bench.json", rows);
    let answer = json(&["cost", "--bench", &path, "--price-per-hour", "0.36"]);
    assert_eq!(answer["answer"]["server"]["tokens_per_s"], 200.0);
    assert_eq!(answer["answer"]["output_per_million"], 0.5);
    assert!(answer["plan"].as_str().unwrap().contains("prompt_tokens_per_s = 512.0"), "{answer}");
    // Two loads of `bench serve`: the cheaper one is too slow.
    let served = |name: &str, rate: f64, p95: f64| {
        let path = file.beside(name);
        let text = format!(
            r#"{{"completed":10,"total_input_tokens":5000,"total_output_tokens":3000,"request_throughput":{rate},
                "output_throughput":50.0,"p95_e2el_ms":{p95}}}"#
        );
        std::fs::write(&path, text).unwrap();
        path
    };
    let (slow, fast) = (served("slow.json", 2.0, 9000.0), served("fast.json", 1.0, 1500.0));
    let target = "slo.latency_p95_ms=2000";
    let args = ["cost", "--bench", &slow, "--bench", &fast, "--price-per-hour", "0.36", "--set", target];
    let selected = &json(&args)["answer"]["selected"];
    assert_eq!((&selected["name"], &selected["per_thousand_requests"]), (&"fast".into(), &0.1.into()));
}

#[test]
fn fit_plans_for_a_machine_that_is_not_here() {
    let args =
        ["fit", "--machine", "aws-c7a.4xlarge", "--shape", "qwen3-0.6b:q4_k_m", "--shape", "phi-4:bf16"];
    let answer = &json(&[&args[..], &["--ttft-ms", "2000"]].concat())["answer"];
    let small = &answer["models"][0];
    let rate = |index: usize| small["decode"][index]["tokens_per_s"].as_f64().unwrap();
    assert!(rate(0) > 20.0 && rate(0) < rate(1) && rate(1) < rate(2), "{small}");
    assert_eq!((&small["fits"], &answer["largest"]), (&true.into(), &"qwen3-0.6b:q4_k_m".into()));
    let large = &answer["models"][1];
    assert!(large["need_bytes"].as_u64().unwrap() > 22_000_000_000, "{large}");
}

#[test]
fn fit_says_how_fast_a_model_is_that_stays_partly_on_the_disk() {
    let of = |more: &[&str]| {
        let args = ["fit", "--machine", "aws-c7a.4xlarge", "--context", "4096"];
        json(&[&args[..], more].concat())["answer"]["models"][0].clone()
    };
    let rate = |fit: &serde_json::Value| fit["from_disk"]["tokens_per_s"].as_f64().unwrap();
    let read = |fit: &serde_json::Value| fit["from_disk"]["read_bytes_per_token"].as_u64().unwrap();
    let mixture = ["--shape", "qwen3.6-35b-a3b:bf16"];
    let slow = of(&mixture);
    let fast = of(&[&mixture[..], &["--disk-gb-per-s", "4"]].concat());
    assert!(slow["fits"] == false && rate(&fast) > 2.5 * rate(&slow), "{slow} {fast}");
    // Eight of 256 experts are chosen.
    let on_disk = slow["from_disk"]["disk_bytes"].as_u64().unwrap();
    assert!(read(&slow) * 20 < on_disk && read(&slow) * 40 > on_disk, "{slow}");
    let small = of(&["--shape", "qwen3-0.6b:q4_k_m"]);
    assert!(small["fits"] == true && small.get("from_disk").is_none(), "{small}");
    let refused = plan(&["fit", "--disk-gb-per-s", "0", "phi-4:bf16"]);
    let said = support::text(&refused.stderr);
    assert!(refused.status.code() == Some(2) && said.contains("0 is outside 0.001..=1000"), "{said}");
}

#[test]
fn bad_input_is_one_line_that_names_the_field() {
    let priced = ["--price-per-hour", "0.79"];
    let cost = |args: &[&str]| failure(&plan(&[&["cost"], &priced[..], args].concat()), 1);
    for (args, says) in [
        (&["--tokens-per-s", "0"][..], "own.tokens_per_s: 0 is outside"),
        (&["--tokens-per-s", "-5"], "own.tokens_per_s: -5 is outside"),
        (&["--tokens-per-s", "60", "--utilization", "1.5"], "own.utilization: 1.5 is outside"),
        (&["--tokens-per-s", "60", "--utilization", "0"], "own.utilization: 0 is outside"),
        (&["--tokens-per-s", "fast"], "[own] tokens_per_s"),
        (&[], "own.tokens_per_s is missing"),
        (
            &["--tokens-per-s", "60", "--api", "gpt-nine"],
            "no API model is called `gpt-nine`; there are: gpt-4o-mini",
        ),
        (&["--tokens-per-s", "60", "--set", "own.prize=1"], "[own] prize"),
        (&["--tokens-per-s", "60", "--set", "currency=\"euro\""], "currency: `euro` is outside"),
        (&["--tokens-per-s", "60", "--input-tokens", "5"], "work.output_tokens is missing"),
        (&["--input", "/nonexistent/plan.toml"], "cannot read /nonexistent/plan.toml"),
    ] {
        let line = cost(args);
        assert!(line.contains(says), "{args:?}: {line}");
    }
    let unpriced = failure(&plan(&["cost", "--tokens-per-s", "60"]), 1);
    assert!(unpriced.contains("own.price_per_hour is missing"), "{unpriced}");
    let unknown = failure(&plan(&["fit", "--machine", "abacus"]), 1);
    assert!(unknown.contains("no machine is called `abacus`; there are: aws-"), "{unknown}");
    let shape = failure(&plan(&["fit", "--machine", "aws-m7g.large", "--shape", "nine"]), 2);
    assert!(shape.contains("nine"), "{shape}");
    let usage = failure(&plan(&["cost", "--set", "nothing"]), 2);
    assert!(usage.contains("--set nothing: wants FIELD=VALUE"), "{usage}");
}

#[test]
fn an_impossible_level_says_what_the_limit_is() {
    let (file, path) = File::new("plan.toml", PLAN);
    let why = failure(&plan(&["fleet", "--input", &path, "--ttft-p95-ms", "50"]), 1);
    assert!(
        why.contains("slo.ttft_p95_ms: 50 ms is impossible: alone on an empty machine the p95 is "),
        "{why}"
    );
    let empty = file.beside("empty.csv");
    std::fs::write(&empty, "").unwrap();
    let why = failure(&plan(&["fleet", "--input", &path, "--log", &empty]), 1);
    assert!(why.contains("empty.csv is empty"), "{why}");
    let why = failure(&plan(&["fleet", "--requests-per-hour", "10"]), 1);
    assert!(why.contains("missing"), "{why}");
    let why = failure(&plan(&["tco", "--hardware", "1"]), 1);
    assert!(why.contains("[rent] is missing"), "{why}");
}
