//! Everything a change must pass, cheapest first, the tests last so that their summary ends the log.

use crate::program::Program;
use crate::shell::{TaskResult, call, cargo, has};
use crate::{aarch64, client, counts, docs, fuzz, models, page};
use std::thread::ScopedJoinHandle;
use std::time::Instant;

/// Seconds of requests made up from the OpenAPI document.
const SCHEMA_SECONDS: u64 = 45;
/// Seconds of fuzzing a target in a smoke run.
const SMOKE_SECONDS: u64 = 5;

/// Every instruction tier, by the name that crate `cpu` gives it.
const TIERS: [&str; 6] = ["scalar", "neon", "avx2", "avx512", "amx", "amx-fp16"];

/// Characters of an error that the last lines repeat.
const MOST_OF_AN_ERROR: usize = 600;

/// The results of the steps so far. All steps run, so that one run reports all errors.
#[derive(Default)]
struct Report {
    failed: Vec<String>,
    /// Name, seconds that passed, seconds of CPU.
    times: Vec<(String, f64, f64)>,
}

impl Report {
    fn step(&mut self, name: &str, step: impl FnOnce() -> TaskResult) {
        self.value(name, step);
    }

    /// As [`Report::step`], returning the step's value.
    fn value<T>(&mut self, name: &str, step: impl FnOnce() -> Result<T, String>) -> Option<T> {
        eprintln!("\n=== {name}");
        let (start, cpu_before) = (Instant::now(), cpu_seconds());
        let done = step();
        let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu_before);
        self.times.push((name.to_owned(), seconds, cpu));
        match done {
            Ok(value) => {
                eprintln!("=== {name}: done in {seconds:.0} s, {cpu:.0} s of CPU");
                Some(value)
            }
            Err(error) => {
                eprintln!("=== {name}: FAILED after {seconds:.0} s: {error}");
                // Said again at the end, where somebody looks first.
                let error: String = error.chars().take(MOST_OF_AN_ERROR).collect();
                self.failed.push(format!("{name}: {error}"));
                None
            }
        }
    }

    /// Prints the time of the steps, the longest first.
    fn summary(&self) {
        let mut times: Vec<_> = self.times.iter().collect();
        times.sort_by(|a, b| b.1.total_cmp(&a.1));
        eprintln!("\n=== seconds, seconds of CPU, step");
        for (name, seconds, cpu) in times {
            eprintln!("{seconds:8.0} {cpu:8.0}  {name}");
        }
    }
}

/// CPU seconds of all child processes that have ended. Linux only (proc(5), clock ticks of 10 ms).
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the program's name in brackets; `cutime` and `cstime` are fields 16 and 17 of the line.
    let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').skip(13).take(2);
    fields.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

pub fn run(flags: &[&str]) -> TaskResult {
    if let Some(unknown) =
        flags.iter().find(|flag| !["--no-models", "--no-fuzz", "--no-aarch64", "--no-counts"].contains(flag))
    {
        return Err(format!("`{unknown}` is no flag of `cargo xtask ci`"));
    }
    let wanted = |flag: &str| !flags.contains(&flag);
    let mut report = Report::default();
    report.step("formatting", formatting);
    report.step("lints", lints);
    let program = report.value("build", Program::with_tests);
    let for_models = program.as_ref().filter(|_| wanted("--no-models"));
    std::thread::scope(|scope| {
        // Downloads while the steps below compile.
        let fetching = for_models.map(|program| scope.spawn(|| fetch(program)));
        if let Some(program) = &program {
            report.step("generated docs", || docs::check(program));
        }
        report.step("API docs", api_docs);
        if wanted("--no-fuzz") {
            report.step("fuzz smoke", || fuzz::smoke(SMOKE_SECONDS));
        }
        if wanted("--no-aarch64") {
            report.step("AArch64", aarch64::run);
        }
        if wanted("--no-counts") {
            report.step("instruction counts", counts::check_where_possible);
        }
        for tier in program.iter().flat_map(|program| narrower(program)) {
            report.step(&format!("tests of the arithmetic, tier {tier}"), || arithmetic(tier));
        }
        if let Some(fetching) = fetching {
            report.step("models and packages for the tests", || fetched(fetching));
        }
    });
    if let Some(program) = for_models {
        report.step("tests on real models", models::tests);
        report.step("clients of others", || client::check(program));
        report.step("the commands of the docs", || client::docs(program, None));
        report.step("answers drawn from schemas", client::walks);
        report.step("the server and its OpenAPI document", || client::schema(program, SCHEMA_SECONDS));
        report.step("the page in a browser", || page::check_where_possible(program));
    }
    // A late step: it leaves a program with the feature, until the tests' build replaces it.
    report.step("OTLP traces", traces);
    report.step("batches of Parquet", tables);
    report.step("tests", tests);
    report.summary();
    if let Some(program) = &program {
        print_tiers(program, wanted("--no-aarch64"));
    }
    if report.failed.is_empty() { Ok(()) } else { Err(format!("failed:\n{}", report.failed.join("\n"))) }
}

/// Downloads the tests' models and vocabularies. The output is interleaved with that of other steps.
fn fetch(program: &Program) -> TaskResult {
    models::pull(program)?;
    client::install(program)
}

fn fetched(fetching: ScopedJoinHandle<'_, TaskResult>) -> TaskResult {
    fetching.join().map_err(|_| "it panicked".to_owned())?
}

fn lints() -> TaskResult {
    let mut clippy = cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--quiet"]);
    call(clippy.args(["--", "-D", "warnings"]))
}

/// Tests the feature `otlp`. Names the whole workspace, so that only the command line is compiled again.
fn traces() -> TaskResult {
    let selected = ["--workspace", "--features", "cli/otlp", "--test", "traces"];
    let mut clippy = cargo(&["clippy", "--locked", "--quiet", "--bin", "gristmill"]);
    call(clippy.args(selected).args(["--", "-D", "warnings"]))?;
    call(&mut tests_of(&selected))
}

/// Tests the feature `parquet` of the batch command.
fn tables() -> TaskResult {
    let selected = ["--package", "batch", "--features", "parquet"];
    let mut clippy = cargo(&["clippy", "--locked", "--quiet", "--all-targets"]);
    call(clippy.args(selected).args(["--", "-D", "warnings"]))?;
    call(&mut tests_of(&[selected.as_slice(), &["columnar"]].concat()))
}

fn api_docs() -> TaskResult {
    // With examples, cargo selects the same features as with tests, so other crates are not compiled again.
    let mut doc =
        cargo(&["doc", "--workspace", "--lib", "--bins", "--examples", "--no-deps", "--locked", "--quiet"]);
    call(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

fn formatting() -> TaskResult {
    call(&mut cargo(&["fmt", "--all", "--check"]))
}

/// The ISA tier that the program runs on, with `asked` as `--isa`. Some virtual machines hide their widest tier: it is
/// then used only if asked for.
fn selected_tier(program: &Program, asked: Option<&str>) -> Option<String> {
    let mut doctor = program.command(&["doctor", "--json"]);
    doctor.env_remove("GRISTMILL_ISA").envs(asked.map(|tier| ("GRISTMILL_ISA", tier)));
    let told: serde_json::Value = serde_json::from_slice(&doctor.output().ok()?.stdout).ok()?;
    told["tier"].as_str().map(str::to_owned)
}

/// The tiers that this machine supports, without the default one, which the tests use anyway.
fn narrower(program: &Program) -> Vec<&'static str> {
    let own = selected_tier(program, None);
    let runs = |name: &&str| selected_tier(program, Some(name)).as_deref() == Some(*name);
    TIERS.into_iter().filter(|name| own.as_deref() != Some(*name)).filter(runs).collect()
}

/// Prints which tiers were tested, and which this machine does not support.
fn print_tiers(program: &Program, emulated: bool) {
    let own = selected_tier(program, None).unwrap_or_default();
    let mut tested = narrower(program);
    tested.extend(TIERS.into_iter().find(|name| *name == own));
    let missing = TIERS.into_iter().filter(|name| !tested.contains(name));
    let neon = emulated && !tested.contains(&"neon");
    let missing: Vec<&str> = missing.filter(|name| !(neon && *name == "neon")).collect();
    eprintln!(
        "\n=== instruction tiers tested: {}{}",
        tested.join(", "),
        if neon { "; neon in the emulator" } else { "" }
    );
    if !missing.is_empty() {
        eprintln!("=== NOT tested, for this machine has not the instructions: {}", missing.join(", "));
    }
}

/// Tests `model`, whose results depend on the tier, on a narrower tier. The tests of `kernels` themselves go through all
/// tiers.
fn arithmetic(tier: &str) -> TaskResult {
    // nextest can select crates from the build of the whole workspace.
    let mut command = if nextest() {
        tests_of(&["--workspace", "-E", "package(model)"])
    } else {
        tests_of(&["--package", "model"])
    };
    call(command.env("GRISTMILL_ISA", tier))
}

fn tests() -> TaskResult {
    if nextest() {
        // nextest does not run the examples in the documentation.
        call(&mut cargo(&["test", "--workspace", "--doc", "--locked", "--quiet"]))?;
    }
    call(&mut tests_of(&["--workspace"]))
}

/// `cargo nextest run` where it is installed, else `cargo test`.
pub fn tests_of(packages: &[&str]) -> std::process::Command {
    let mut command = if nextest() {
        cargo(&["nextest", "run", "--no-fail-fast"])
    } else {
        cargo(&["test", "--no-fail-fast"])
    };
    command.arg("--locked").args(packages);
    command
}

pub fn nextest() -> bool {
    has("cargo-nextest", "--version")
}
