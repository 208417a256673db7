//! Coverage-guided fuzzing with libFuzzer on the stable compiler.
//!
//! cargo-fuzz needs nightly for the sanitizers. Safe Rust gains little from those; coverage finds the bugs, and its
//! instrumentation is a compiler pass that stable supports through `-C passes`. The flags are cargo-fuzz's.
//!
//! A long run instruments and optimizes all crates. The smoke run of `cargo xtask ci` instruments only the workspace's
//! crates: with RUSTC_WORKSPACE_WRAPPER set, cargo keeps their artifacts separate and reuses all other crates of the
//! development build.

use crate::shell::{TaskResult, call, cargo, executables, parallel_map, root};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
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
/// Checks that Cargo.toml switches off for the arithmetic crates in development builds.
const CHECKS: [&str; 2] = ["-Cdebug-assertions=on", "-Coverflow-checks=on"];
/// Environment variable that is set when cargo calls this program as the compiler's wrapper.
const WRAPPER: &str = "GRISTMILL_FUZZ_WRAPPER";
/// Upper bound of the seconds of one input: lengths from untrusted input must not make loops long.
const INPUT_TIMEOUT_S: u32 = 5;
/// Upper bound of the memory of one input, whatever a header claims.
const MEMORY_MIB: u32 = 1024;

/// Compiles a crate of the workspace with coverage, if cargo calls this program as the compiler's wrapper.
pub fn wrapped(args: &[OsString]) -> Option<TaskResult> {
    std::env::var_os(WRAPPER)?;
    let (compiler, args) = args.split_first()?;
    let mut command = Command::new(compiler);
    command.args(args);
    // In other calls cargo queries the compiler.
    let name = args.iter().skip_while(|arg| *arg != "--crate-name").nth(1);
    if name.is_some_and(|name| name != "___") {
        command.args(COVERAGE).args(CHECKS);
    }
    // Of two levels the last counts. The kernels' instructions take minutes to optimize, and seconds of fuzzing do not
    // need them fast.
    if name.is_some_and(|name| name == "kernels") {
        command.arg("-Copt-level=1");
    }
    Some(call(&mut command))
}

/// Parses `--seconds N`.
pub fn seconds(args: &[&str], default: u64) -> Result<u64, String> {
    match args {
        [] => Ok(default),
        ["--seconds", n] => n.parse().map_err(|_| format!("`{n}` is no number of seconds")),
        [other, ..] => Err(format!("`{other}` is no flag here; `--seconds N` is")),
    }
}

/// The names of the fuzz targets, one file each.
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

pub fn list() -> TaskResult {
    for name in targets()? {
        println!("{name}");
    }
    Ok(())
}

/// Runs every target for `seconds`.
pub fn all(seconds: u64) -> TaskResult {
    every(&build()?, seconds)
}

/// Runs every target for a few `seconds`, without an optimized build.
pub fn smoke(seconds: u64) -> TaskResult {
    every(&build_for_smoke()?, seconds)
}

/// Runs the targets in parallel, each on one CPU.
fn every(built: &[PathBuf], seconds: u64) -> TaskResult {
    let run = |target: &String| {
        let program = built.iter().find(|path| path.file_stem().is_some_and(|name| name == target.as_str()));
        let program = program.ok_or_else(|| format!("cargo built no `{target}`"))?;
        fuzz(program, target, seconds)
    };
    parallel_map(&targets()?, run).map(drop)
}

/// Runs one target for `seconds`.
pub fn one(target: &str, seconds: u64) -> TaskResult {
    let known = targets()?;
    if !known.iter().any(|name| name == target) {
        return Err(format!("no fuzz target `{target}`; there are: {}", known.join(", ")));
    }
    let built = build()?;
    let program = built.iter().find(|path| path.file_stem().is_some_and(|name| name == target));
    fuzz(program.ok_or_else(|| format!("cargo built no `{target}`"))?, target, seconds)
}

fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from).join("fuzz")
}

/// Builds the targets with all crates instrumented and optimized.
fn build() -> Result<Vec<PathBuf>, String> {
    let mut command = cargo(&["build", "--package", "fuzz", "--features", "libfuzzer", "--bins"]);
    command.args(["--locked", "--quiet", "--profile", "fuzz", "--target", TARGET]);
    command.env("CARGO_TARGET_DIR", target_dir()).env("CARGO_ENCODED_RUSTFLAGS", COVERAGE.join("\u{1f}"));
    executables(command)
}

/// Builds the targets as a development build with only the workspace's crates instrumented.
fn build_for_smoke() -> Result<Vec<PathBuf>, String> {
    let this = copy_of_this_program()?;
    let mut command = cargo(&["build", "--workspace", "--features", "fuzz/libfuzzer", "--locked", "--quiet"]);
    for target in targets()? {
        command.args(["--bin", &target]);
    }
    command.env("RUSTC_WORKSPACE_WRAPPER", this).env(WRAPPER, "1");
    // Incremental artifacts of another set of flags cannot be reused.
    command.env("CARGO_INCREMENTAL", "0");
    executables(command)
}

/// Copies this program to a place where a build of the workspace does not replace it while it runs.
fn copy_of_this_program() -> Result<PathBuf, String> {
    let copy = target_dir().join("xtask");
    let folder = std::fs::create_dir_all(target_dir());
    // `/proc/self/exe` leads to the running program even if its file was replaced, unlike the path that it shows.
    folder
        .and_then(|()| std::fs::copy("/proc/self/exe", &copy))
        .map_err(|error| format!("{}: no copy of this program: {error}", copy.display()))?;
    Ok(copy)
}

fn fuzz(program: &Path, target: &str, seconds: u64) -> TaskResult {
    let fuzz = root().join("fuzz");
    let (corpus, artifacts) = (fuzz.join("corpus").join(target), fuzz.join("artifacts").join(target));
    for folder in [&corpus, &artifacts] {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    eprintln!("--- {target}, {seconds} s");
    let mut command = Command::new(program);
    // libFuzzer writes new inputs to the first folder; the seeds in the second are only read.
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
            "{error}\nthe input is under {}; keep it as a test of the crate when it is fixed",
            artifacts.display()
        )
    })
}
