//! The server as its users meet it: `gristmill serve` on the default model, and packages that speak to such servers against it.

use crate::http::{free_port, healthy};
use crate::program::Program;
use crate::shell::{Done, call, cargo, root};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Loading a 100 MB model takes a second or two; a busy machine may take much longer.
const READY_WITHIN: Duration = Duration::from_secs(120);
/// A set of pinned packages, and the checks that are run with it.
struct Clients {
    pins: &'static str,
    folder: &'static str,
    checks: &'static [&'static str],
}

const CLIENTS: Clients = Clients {
    pins: "tools/clients/requirements.txt",
    folder: "openai-client",
    checks: &[
        "tools/clients/openai_check.py",
        "tools/clients/anthropic_check.py",
        "tools/clients/agent_check.py",
        "tools/clients/ollama_check.py",
    ],
};
/// It wants an older `openai` than the newest.
const LITELLM: Clients = Clients {
    pins: "tools/clients/requirements-litellm.txt",
    folder: "litellm-client",
    checks: &["tools/clients/litellm_check.py"],
};
/// It knows schemas, and none of this project.
const SCHEMAS: Clients = Clients {
    pins: "tools/fixtures/schemas/requirements.txt",
    folder: "schema-validator",
    checks: &["tools/fixtures/schemas/walks.py"],
};
/// What schemathesis holds answers to: their status, type and shape are those of the document.
const HELD_TO: &str =
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";
/// Few answers of the small model are this long, and they are stopped at it.
const SCHEMA_CONTEXT: &str = "512";

/// Makes the environments that the checks run in, if they are not there.
pub fn install() -> Done {
    [CLIENTS, LITELLM, SCHEMAS].iter().try_for_each(|clients| clients.python().map(drop))
}

/// Starts the server, runs the checks of `tools/clients`, stops the server.
pub fn check(program: &Program) -> Done {
    let pythons = [(CLIENTS.python()?, CLIENTS.checks), (LITELLM.python()?, LITELLM.checks)];
    let server = Server::start(program, &[])?;
    pythons.iter().flat_map(|(python, checks)| checks.iter().map(move |check| (python, check))).try_for_each(
        |(python, check)| call(Command::new(python).args([check, server.url().as_str()]).current_dir(root())),
    )
}

/// Follows the docs, or the pages whose path contains `page`, with the packages that their Python blocks import.
pub fn docs(program: &Program, page: Option<&str>) -> Done {
    crate::docs::run(program, &CLIENTS.python()?, page)
}

/// Draws answers at random from what many schemas allow, and has a validator of others judge them.
pub fn walks() -> Done {
    let python = SCHEMAS.python()?;
    let file = std::env::temp_dir().join(format!("gristmill-walks-{}.jsonl", std::process::id()));
    let mut draw = cargo(&["test", "--locked", "--quiet", "--workspace", "--test", "text"]);
    draw.args(["--", "--ignored", "walks_are_written"]).env("GRISTMILL_WALKS", &file);
    call(&mut draw)?;
    let check = |check| call(Command::new(&python).arg(check).arg(&file).current_dir(root()));
    let outcome = SCHEMAS.checks.iter().try_for_each(check);
    let _ = std::fs::remove_file(&file);
    outcome
}

/// Starts the server and has schemathesis send what its `/openapi.json` allows and what it does not, for at most
/// `seconds` and the step it is in.
pub fn schema(program: &Program, seconds: u64) -> Done {
    let python = CLIENTS.python()?;
    let server = Server::start(program, &["--context", SCHEMA_CONTEXT])?;
    let url = server.url();
    let mut run = Command::new(python.with_file_name("schemathesis"));
    run.args(["run", &format!("{url}/openapi.json"), "--url", &url, "--phases", "coverage,fuzzing"]);
    run.args(["--checks", HELD_TO, "--max-examples", "12", "--seed", "7", "--request-timeout", "60"]);
    run.args(["--max-time", &seconds.to_string(), "--no-color"]);
    // Its record of examples is no part of the checkout.
    call(run.current_dir(std::env::temp_dir()))
}

/// A server: `gristmill serve`, or another to compare with. Stops when it goes out of scope, whatever happened.
pub struct Server {
    child: Child,
    /// Where it listens, on the loopback.
    pub port: u16,
}

impl Server {
    /// Starts it on a free port and waits until it is ready.
    pub fn start(program: &Program, flags: &[&str]) -> Result<Server, String> {
        let (server, after) = Server::with(&|port| {
            let mut serve = program.command(&["serve", "--port", port]);
            serve.args(flags);
            serve
        })?;
        eprintln!("ready after {:.1} s", after.as_secs_f64());
        Ok(server)
    }

    /// Starts what `command` makes for a free port, ours or another that answers at `/health`, and says how long it took until it was ready.
    pub fn with(command: &dyn Fn(&str) -> Command) -> Result<(Server, Duration), String> {
        let port = free_port()?;
        let mut command = command(&port.to_string());
        let start = Instant::now();
        let child = command.spawn().map_err(|error| format!("cannot start {command:?}: {error}"))?;
        let mut server = Server { child, port };
        while start.elapsed() < READY_WITHIN {
            if healthy(port) {
                return Ok((server, start.elapsed()));
            }
            if let Ok(Some(status)) = server.child.try_wait() {
                return Err(format!("{command:?} ended before it was ready: {status}"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(format!("{command:?} was not ready within {} s", READY_WITHIN.as_secs()))
    }

    /// `http://…` without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The process's number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself or by a signal.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Bytes that its `/proc/PID/status` has in a line: `RssAnon`, what it asked for and is resident; `VmHWM`, the most that was
    /// ever resident (proc(5)).
    pub fn memory(&self, line: &str) -> Option<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse::<f64>().ok().map(|kib| kib * 1024.0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Clients {
    /// A virtual environment with the pinned packages, made once for each set of pins.
    fn python(&self) -> Result<PathBuf, String> {
        let base = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
        let folder = base.join(self.folder);
        let python = folder.join("bin/python");
        let file = root().join(self.pins);
        let pins = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", self.pins))?;
        if std::fs::read_to_string(folder.join("ready")).is_ok_and(|made| made == pins) {
            return Ok(python);
        }
        call(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", self.pins]);
        call(pip.current_dir(root()))?;
        std::fs::write(folder.join("ready"), pins)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(python)
    }
}
