//! Everything a change must pass, cheapest first, the tests last so that their summary ends the log.

use crate::program::Program;
use crate::shell::{Done, call, cargo, has};
use crate::{aarch64, client, counts, docs, fuzz, models, page};
use std::thread::ScopedJoinHandle;
use std::time::Instant;

/// Seconds of requests made up from the OpenAPI document.
const SCHEMA_SECONDS: u64 = 45;
/// Seconds of fuzzing a target in a smoke run.
const SMOKE_SECONDS: u64 = 5;

/// The steps that failed. All steps run, so that one run tells everything that is wrong.
#[derive(Default)]
struct Report {
    failed: Vec<String>,
}

impl Report {
    fn step(&mut self, name: &str, step: impl FnOnce() -> Done) {
        self.value(name, step);
    }

    /// As [`Report::step`], with what the step gives.
    fn value<T>(&mut self, name: &str, step: impl FnOnce() -> Result<T, String>) -> Option<T> {
        eprintln!("\n=== {name}");
        let start = Instant::now();
        let done = step();
        let seconds = start.elapsed().as_secs_f64();
        match done {
            Ok(value) => {
                eprintln!("=== {name}: done in {seconds:.0} s");
                Some(value)
            }
            Err(error) => {
                eprintln!("=== {name}: FAILED after {seconds:.0} s: {error}");
                self.failed.push(name.to_owned());
                None
            }
        }
    }
}

pub fn run(flags: &[&str]) -> Done {
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
        // It waits for the network while the steps below compile.
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
        // Some virtual machines have the last one and hide it: then nothing takes it unless it is asked for.
        let hidden = program.as_ref().is_some_and(|program| runs(program, "amx-fp16"));
        for tier in ["scalar", "avx2"].into_iter().chain(hidden.then_some("amx-fp16")) {
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
    // Late: the program that it leaves behind has the feature, until the tests' build takes its place.
    report.step("OTLP traces", traces);
    report.step("tests", tests);
    if report.failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", report.failed.join(", "))) }
}

/// What the tests have from elsewhere. Its lines are among those of other steps.
fn fetch(program: &Program) -> Done {
    models::pull(program)?;
    client::install()
}

fn fetched(fetching: ScopedJoinHandle<'_, Done>) -> Done {
    fetching.join().map_err(|_| "it panicked".to_owned())?
}

fn lints() -> Done {
    let mut clippy = cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--quiet"]);
    call(clippy.args(["--", "-D", "warnings"]))
}

/// What the feature `otlp` adds. The whole workspace is named, so that nothing but the command line is compiled again.
fn traces() -> Done {
    let selected = ["--workspace", "--features", "cli/otlp", "--test", "traces"];
    let mut clippy = cargo(&["clippy", "--locked", "--quiet", "--bin", "gristmill"]);
    call(clippy.args(selected).args(["--", "-D", "warnings"]))?;
    call(&mut tests_of(&selected))
}

fn api_docs() -> Done {
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--locked", "--quiet"]);
    call(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

fn formatting() -> Done {
    call(&mut cargo(&["fmt", "--all", "--check"]))
}

/// Whether this machine runs `tier` when it is asked for.
fn runs(program: &Program, tier: &str) -> bool {
    let doctor = program.command(&["doctor", "--json"]).env("GRISTMILL_ISA", tier).output();
    doctor.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).contains(&format!("\"tier\": \"{tier}\"")))
}

/// The rooms whose results depend on the tier, held to one that is not the widest.
fn arithmetic(tier: &str) -> Done {
    // The whole workspace's build, if the runner can choose from it.
    let mut command = if nextest() {
        tests_of(&["--workspace", "-E", "package(kernels) | package(model)"])
    } else {
        tests_of(&["--package", "kernels", "--package", "model"])
    };
    call(command.env("GRISTMILL_ISA", tier))
}

fn tests() -> Done {
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
