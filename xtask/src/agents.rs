//! Coding agents against the server: Claude Code and Codex with their default flags, from npm, pinned in `tools/clients/package.json`.

use crate::client::Server;
use crate::program::Program;
use crate::shell::{TaskResult, call, root};
use std::path::PathBuf;
use std::process::Command;

const MODEL: &str = "qwen2.5-coder-1.5b-instruct";
/// Claude Code's first prompt has 19,000 tokens; the model's window has 32,768.
const FLAGS: [&str; 6] = ["--context", "32768", "--parallel", "2", "--tool-calls-from-json", "on"];
const PINS: &str = "tools/clients/package.json";

/// Starts the server, has each agent edit a file through it, and writes accounts of the requests below `target/agents`.
pub fn check(program: &Program, agents: &[&str]) -> TaskResult {
    let packages = packages()?;
    let kept = packages.join(format!("run-{}", std::process::id()));
    let server = Server::with(&|port| {
        let mut serve = program.command(&["serve", MODEL, "--port", port]);
        serve.args(FLAGS);
        serve
    })?
    .0;
    let mut run = Command::new("python3");
    run.args(["tools/clients/coding_agents.py", &server.url(), "--packages"]).arg(&packages);
    run.arg("--keep").arg(&kept).args(agents.iter().flat_map(|agent| ["--only", *agent]));
    call(run.current_dir(root()))
}

/// The folder with the pinned packages, installed once for each set of pins.
fn packages() -> Result<PathBuf, String> {
    let base = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let folder = base.join("agents");
    let pins = std::fs::read_to_string(root().join(PINS)).map_err(|e| format!("{PINS}: {e}"))?;
    if std::fs::read_to_string(folder.join("ready")).is_ok_and(|made| made == pins) {
        return Ok(folder);
    }
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(&folder).map_err(failed)?;
    std::fs::write(folder.join("package.json"), &pins).map_err(failed)?;
    call(Command::new("npm").args(["install", "--no-audit", "--no-fund", "--silent"]).current_dir(&folder))?;
    std::fs::write(folder.join("ready"), pins).map_err(failed)?;
    Ok(folder)
}
