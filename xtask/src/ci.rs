//! Everything a change must pass, cheapest first, the tests last so that their summary ends the log.

use crate::shell::{Done, call, cargo, has};
use crate::{aarch64, client, docs, fuzz, models};
use std::time::Instant;

/// Seconds of fuzzing a target in a smoke run.
const SMOKE_SECONDS: u64 = 5;

pub fn run_step(name: &str, step: impl FnOnce() -> Done) -> Done {
    eprintln!("\n=== {name}");
    let start = Instant::now();
    step().map_err(|error| format!("{name}: {error}"))?;
    eprintln!("=== {name}: done in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

pub fn run(flags: &[&str]) -> Done {
    if let Some(unknown) =
        flags.iter().find(|flag| !["--no-models", "--no-fuzz", "--no-aarch64"].contains(flag))
    {
        return Err(format!("`{unknown}` is no flag of `cargo xtask ci`"));
    }
    let wanted = |flag: &str| !flags.contains(&flag);
    run_step("formatting", formatting)?;
    run_step("lints", || {
        call(
            cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--quiet"])
                .args(["--", "-D", "warnings"]),
        )
    })?;
    run_step("generated docs", docs::check)?;
    run_step("API docs", || {
        call(
            cargo(&["doc", "--workspace", "--no-deps", "--locked", "--quiet"])
                .env("RUSTDOCFLAGS", "-D warnings"),
        )
    })?;
    if wanted("--no-fuzz") {
        run_step("fuzz smoke", || fuzz::all(SMOKE_SECONDS))?;
    }
    if wanted("--no-aarch64") {
        run_step("AArch64", aarch64::run)?;
    }
    for tier in ["scalar", "avx2"] {
        run_step(&format!("tests of the arithmetic, tier {tier}"), || arithmetic(tier))?;
    }
    if wanted("--no-models") {
        run_step("models for the tests", models::pull)?;
        run_step("tests on real models", models::tests)?;
        run_step("the openai client", client::check)?;
    }
    run_step("tests", tests)
}

fn formatting() -> Done {
    call(&mut cargo(&["fmt", "--all", "--check"]))?;
    call(&mut cargo(&["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]))
}

/// The rooms whose results depend on the tier, held to one that is not the widest.
fn arithmetic(tier: &str) -> Done {
    let mut command = tests_of(&["--package", "kernels", "--package", "model"]);
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
