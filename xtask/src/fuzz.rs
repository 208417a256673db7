//! Coverage-guided fuzzing with libFuzzer on the stable compiler.
//!
//! cargo-fuzz wants nightly for the sanitizers. Safe Rust gains little from those; what finds bugs is coverage, and
//! its instrumentation is a compiler pass that stable takes through `-C passes`. The flags are cargo-fuzz's own.

use crate::shell::{Done, call, cargo, root, side_by_side};
use std::path::PathBuf;
use std::process::Command;

const TARGET: &str = "x86_64-unknown-linux-gnu";
const COVERAGE: [&str; 7] = [
    "--cfg",
    "fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];
/// One input must not take longer than this: untrusted lengths bound every loop.
const INPUT_TIMEOUT_S: u32 = 5;
/// Nor more memory than this, whatever a header claims.
const MEMORY_MIB: u32 = 1024;

/// Reads `--seconds N`.
pub fn seconds(args: &[&str], default: u64) -> Result<u64, String> {
    match args {
        [] => Ok(default),
        ["--seconds", n] => n.parse().map_err(|_| format!("`{n}` is no number of seconds")),
        [other, ..] => Err(format!("`{other}` is no flag here; `--seconds N` is")),
    }
}

/// The targets: one file each.
fn targets() -> Result<Vec<String>, String> {
    let folder = root().join("fuzz/targets");
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".rs").map(str::to_owned))
        .collect();
    names.sort();
    Ok(names)
}

pub fn list() -> Done {
    for name in targets()? {
        println!("{name}");
    }
    Ok(())
}

/// How the targets are compiled; the names are those of `fuzz/Cargo.toml`.
#[derive(Clone, Copy)]
enum Profile {
    Release,
    Smoke,
}

impl Profile {
    fn name(self) -> &'static str {
        match self {
            Profile::Release => "release",
            Profile::Smoke => "smoke",
        }
    }
}

/// Every target for `seconds` each.
pub fn all(seconds: u64) -> Done {
    every(Profile::Release, seconds)
}

/// Every target for so few `seconds` that compiling well would take longer.
pub fn smoke(seconds: u64) -> Done {
    every(Profile::Smoke, seconds)
}

/// Side by side: each runs on one CPU.
fn every(profile: Profile, seconds: u64) -> Done {
    build(profile)?;
    side_by_side(&targets()?, |target| fuzz(profile, target, seconds)).map(drop)
}

/// One target for `seconds`.
pub fn one(target: &str, seconds: u64) -> Done {
    let known = targets()?;
    if !known.iter().any(|name| name == target) {
        return Err(format!("no fuzz target `{target}`; there are: {}", known.join(", ")));
    }
    build(Profile::Release)?;
    fuzz(Profile::Release, target, seconds)
}

fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("fuzz/target"), |dir| PathBuf::from(dir).join("fuzz"))
}

fn build(profile: Profile) -> Done {
    let mut command = cargo(&["build", "--manifest-path", "fuzz/Cargo.toml", "--target", TARGET, "--quiet"]);
    command.args(["--profile", profile.name()]);
    command.env("CARGO_TARGET_DIR", target_dir()).env("CARGO_ENCODED_RUSTFLAGS", COVERAGE.join("\u{1f}"));
    call(&mut command)
}

fn fuzz(profile: Profile, target: &str, seconds: u64) -> Done {
    let fuzz = root().join("fuzz");
    let (corpus, artifacts) = (fuzz.join("corpus").join(target), fuzz.join("artifacts").join(target));
    for folder in [&corpus, &artifacts] {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    eprintln!("--- {target}, {seconds} s");
    let mut command = Command::new(target_dir().join(TARGET).join(profile.name()).join(target));
    // New inputs go to the first folder; the seeds beside it are only read.
    command.arg(&corpus);
    let seeds = fuzz.join("seeds").join(target);
    if seeds.is_dir() {
        command.arg(&seeds);
    }
    command
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={INPUT_TIMEOUT_S}"))
        .arg(format!("-rss_limit_mb={MEMORY_MIB}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(["-print_final_stats=1", "-verbosity=0", "-close_fd_mask=1"]);
    let dictionary = fuzz.join("dictionaries").join(format!("{target}.txt"));
    if dictionary.is_file() {
        command.arg(format!("-dict={}", dictionary.display()));
    }
    call(&mut command).map_err(|error| {
        format!(
            "{error}\nthe input is under {}; keep it as a test of the room when it is fixed",
            artifacts.display()
        )
    })
}
