//! Running other programs, with errors that name the command.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::ScopedJoinHandle;

/// The result of a task; the error is one line.
pub type TaskResult = Result<(), String>;

/// The project's root.
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or_else(|| PathBuf::from("."), PathBuf::from)
}

/// A command of the cargo that runs this program, in the project's root.
pub fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    // The variables that cargo sets for `cargo xtask` would make the inner cargo rebuild the outer one's crates.
    for (name, _) in std::env::vars_os() {
        if ["CARGO_MANIFEST_", "CARGO_PKG_"].iter().any(|start| name.to_string_lossy().starts_with(start)) {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command; an error unless it exits with 0.
pub fn call(command: &mut Command) -> TaskResult {
    let words = words(command);
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{words}` failed: {status}")),
        Err(error) => Err(format!("cannot run `{words}`: {error}")),
    }
}

/// Runs a command and returns its standard output.
pub fn output(command: &mut Command) -> Result<String, String> {
    let words = words(command);
    let out = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run `{words}`: {error}"))?;
    if !out.status.success() {
        return Err(format!("`{words}` failed: {}", out.status));
    }
    String::from_utf8(out.stdout).map_err(|_| format!("`{words}` wrote something that is not UTF-8"))
}

/// Runs a build with cargo and returns the paths of its executables.
pub fn executables(mut build: Command) -> Result<Vec<PathBuf>, String> {
    let messages = output(build.args(["--message-format", "json-render-diagnostics"]))?;
    let executable = |line: &str| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        message["executable"].as_str().map(PathBuf::from)
    };
    Ok(messages.lines().filter_map(executable).collect())
}

/// As [`output`], followed by standard error, where some programs report.
pub fn output_and_errors(command: &mut Command) -> Result<String, String> {
    let words = words(command);
    let out =
        command.stdin(Stdio::null()).output().map_err(|error| format!("cannot run `{words}`: {error}"))?;
    let mut text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&out.stderr));
    if out.status.success() {
        return Ok(text);
    }
    let last: Vec<&str> = text.lines().rev().take(5).collect();
    Err(format!("`{words}` failed: {}; its last lines, backwards: {}", out.status, last.join(" / ")))
}

/// Runs `run` on the items in parallel, in chunks of as many as there are CPUs, and returns the results in order. Stops
/// after a chunk with an error.
pub fn parallel_map<I: Sync, T: Send>(
    items: &[I],
    run: impl Fn(&I) -> Result<T, String> + Sync,
) -> Result<Vec<T>, String> {
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
    let mut made = Vec::new();
    for together in items.chunks(cpus) {
        let ended: Vec<_> = std::thread::scope(|scope| {
            let running: Vec<_> = together.iter().map(|item| scope.spawn(|| run(item))).collect();
            running.into_iter().map(ScopedJoinHandle::join).collect()
        });
        for one in ended {
            made.push(one.map_err(|_| "it panicked".to_owned())??);
        }
    }
    Ok(made)
}

/// Writes a file atomically: a reader sees the old content or the new one.
pub fn write_whole(path: &Path, text: &str) -> TaskResult {
    let draft = path.with_added_extension("new");
    std::fs::write(&draft, text)
        .and_then(|()| std::fs::rename(&draft, path))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Whether `program` can be started at all.
pub fn has(program: &str, arg: &str) -> bool {
    let mut command = Command::new(program);
    command.arg(arg).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn words(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    words.join(" ")
}
