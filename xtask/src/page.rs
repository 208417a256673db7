//! Test of the web page of `gristmill serve` in headless Chromium, with two small models.

use crate::client::Server;
use crate::program::Program;
use crate::shell::{TaskResult, call, has, output, root};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CHECK: &str = "tools/page/check.mjs";
/// The default chat model, and another small model.
const MODELS: [&str; 2] = ["smollm2-135m-instruct", "gemma3-270m"];
/// Timeout of all checks together, which take a fraction of it.
const TIMEOUT: Duration = Duration::from_secs(110);
/// Names of Chromium programs, tried after `GRISTMILL_CHROMIUM`.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// As [`check`], but without Chromium the check is skipped, unless `GRISTMILL_CHROMIUM` is set.
pub fn check_where_possible(program: &Program) -> TaskResult {
    match browser() {
        Err(missing) if std::env::var_os("GRISTMILL_CHROMIUM").is_none() => {
            eprintln!("skipped: {missing}");
            Ok(())
        }
        Err(missing) => Err(missing),
        Ok(_) => check(program),
    }
}

/// Starts a server with two models and one with an API key, and runs `tools/page/check.mjs` against them.
pub fn check(program: &Program) -> TaskResult {
    let browser = browser()?;
    let folder = driver()?;
    let key = format!("page-{}", std::process::id());
    let open = Server::start(program, &MODELS)?;
    let keyed = Server::start(program, &["--api-key", &key])?;
    let mut node = Command::new("node");
    // The script is copied next to its modules: node searches for them from the script's folder upwards.
    let script = folder.join("check.mjs");
    std::fs::copy(root().join(CHECK), &script).map_err(|error| format!("{}: {error}", script.display()))?;
    node.arg(&script).arg(browser).args([open.url(), keyed.url(), key]);
    bounded(&mut node)
}

fn browser() -> Result<String, String> {
    let chosen = std::env::var("GRISTMILL_CHROMIUM").ok();
    let names = chosen.into_iter().chain(BROWSERS.map(str::to_owned));
    // The driver needs a path, not a name.
    let mut paths = names
        .filter(|name| has(name, "--version"))
        .filter_map(|name| output(Command::new("sh").args(["-c", "command -v \"$0\"", &name])).ok());
    let found = paths.next().map(|path| path.trim().to_owned());
    found.ok_or_else(|| "no Chromium: `apt-get install chromium`, or set GRISTMILL_CHROMIUM".to_owned())
}

/// A folder with the pinned driver, created once.
fn driver() -> Result<PathBuf, String> {
    let base = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let folder = base.join("page-check");
    let manifest = std::fs::read(root().join("tools/page/package.json"))
        .map_err(|error| format!("tools/page/package.json: {error}"))?;
    let ready = folder.join("ready");
    if std::fs::read(&ready).is_ok_and(|made| made == manifest) {
        return Ok(folder);
    }
    let failed = |error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(&folder).map_err(failed)?;
    std::fs::write(folder.join("package.json"), &manifest).map_err(failed)?;
    let mut npm = Command::new("npm");
    call(
        npm.args(["install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"])
            .current_dir(&folder),
    )?;
    std::fs::write(ready, manifest).map_err(failed)?;
    Ok(folder)
}

/// As [`call`], with a timeout of [`TIMEOUT`].
fn bounded(command: &mut Command) -> TaskResult {
    let mut child =
        command.stdin(Stdio::null()).spawn().map_err(|error| format!("cannot run node: {error}"))?;
    let began = Instant::now();
    loop {
        match child.try_wait().map_err(|error| format!("cannot wait for node: {error}"))? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("{CHECK} failed: {status}")),
            None if began.elapsed() > TIMEOUT => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{CHECK} was not done within {} s", TIMEOUT.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}
