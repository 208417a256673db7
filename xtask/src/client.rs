//! Tests of the server with client packages: `gristmill serve` on the default model and on an encoder, and clients of
//! several vendors.

use crate::http::{free_port, healthy};
use crate::program::Program;
use crate::shell::{TaskResult, call, cargo, root};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Loading a 100 MB model takes a second or two; a busy machine may take much longer.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
/// The embedding model of the checks, also in the code blocks of the docs.
const ENCODER: &str = "all-minilm-l6-v2";
/// ONNX models with inputs and what ONNX Runtime gives for them.
const GRAPHS: &str = "crates/onnx/tests/fixtures/ml";
/// A set of pinned packages, and the checks that run with them: on the default model, and on the embedding model.
struct Clients {
    pins: &'static str,
    folder: &'static str,
    checks: &'static [&'static str],
    encoder_checks: &'static [&'static str],
    /// The checks that run on a folder of ONNX models.
    graph_checks: &'static [&'static str],
    /// The checks that run on the folder that [`REPOSITORY`] writes.
    repository_checks: &'static [&'static str],
}

/// Writes a folder of Triton's layout with `--make`, and checks a server of it.
const REPOSITORY: &str = "tools/clients/repository_check.py";
const CLIENTS: Clients = Clients {
    pins: "tools/clients/requirements.txt",
    folder: "openai-client",
    checks: &[
        "tools/clients/openai_check.py",
        "tools/clients/anthropic_check.py",
        "tools/clients/agent_check.py",
        "tools/clients/ollama_check.py",
        "tools/clients/oip_check.py",
    ],
    encoder_checks: &["tools/clients/encoders_check.py", "tools/clients/oip_check.py"],
    graph_checks: &["tools/clients/onnx_check.py"],
    repository_checks: &[REPOSITORY],
};
/// LiteLLM, LlamaIndex and LangChain, which need an older `openai` than the newest.
const LITELLM: Clients = Clients {
    pins: "tools/clients/requirements-litellm.txt",
    folder: "litellm-client",
    checks: &["tools/clients/litellm_check.py"],
    encoder_checks: &["tools/clients/encoders_frameworks_check.py"],
    graph_checks: &[],
    repository_checks: &[],
};
/// KServe's clients, which pin many packages.
const KSERVE: Clients = Clients {
    pins: "tools/clients/requirements-kserve.txt",
    folder: "kserve-client",
    checks: &[],
    encoder_checks: &["tools/clients/kserve_check.py"],
    graph_checks: &["tools/clients/kserve_check.py"],
    repository_checks: &[],
};
/// Clients of jobs, batches and webhooks, and data frames and Celery on top of them.
const JOBS: Clients = Clients {
    pins: "tools/clients/requirements-jobs.txt",
    folder: "jobs-client",
    checks: &[
        "tools/clients/jobs_own.py",
        "tools/clients/jobs_openai.py",
        "tools/clients/jobs_anthropic.py",
        "tools/clients/jobs_guide.py",
        "tools/clients/webhooks_receiver.py",
        "tools/clients/pipelines.py",
    ],
    encoder_checks: &[],
    graph_checks: &[],
    repository_checks: &[],
};
/// A JSON-schema validator that is independent of this project.
const SCHEMAS: Clients = Clients {
    pins: "tools/fixtures/schemas/requirements.txt",
    folder: "schema-validator",
    checks: &["tools/fixtures/schemas/walks.py"],
    encoder_checks: &[],
    graph_checks: &[],
    repository_checks: &[],
};
/// Checks of schemathesis: status, content type and schema of responses agree with the OpenAPI document.
const SCHEMA_CHECKS: &str =
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";
/// Context length for the schema tests; few answers of the small model are longer.
const SCHEMA_CONTEXT: &str = "512";

/// Creates the virtual environments of the checks, unless they exist, and downloads the embedding model.
pub fn install(program: &Program) -> TaskResult {
    [CLIENTS, LITELLM, KSERVE, JOBS, SCHEMAS].iter().try_for_each(|clients| clients.python().map(drop))?;
    call(&mut program.command(&["pull", ENCODER]))
}

/// Starts the server with the default model, then with the embedding model, then with a folder of ONNX models and with
/// one of Triton's layout, and runs the checks of `tools/clients` on each. All checks run, so that one run reports all errors.
pub fn check(program: &Program) -> TaskResult {
    install(program)?;
    let mut failed = checked(program, &[], |clients| clients.checks)?;
    failed.extend(checked(program, &[ENCODER], |clients| clients.encoder_checks)?);
    let graphs = root().join(GRAPHS);
    let flags = ["--models-dir", &graphs.to_string_lossy()];
    failed.extend(checked(program, &flags, |clients| clients.graph_checks)?);
    let folder = std::env::temp_dir().join(format!("gristmill-repository-{}", std::process::id()));
    call(Command::new(CLIENTS.python()?).args([REPOSITORY, "--make"]).arg(&folder).current_dir(root()))?;
    let flags = ["--models-dir", &folder.to_string_lossy()];
    failed.extend(checked(program, &flags, |clients| clients.repository_checks)?);
    // What is left in the folder for temporary files does not matter.
    let _ = std::fs::remove_dir_all(&folder);
    failed.extend(checked_jobs(program)?);
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
}

/// Runs the `selected` checks on a server with these flags, and returns the errors.
fn checked(
    program: &Program,
    flags: &[&str],
    selected: fn(&Clients) -> &'static [&'static str],
) -> Result<Vec<String>, String> {
    let server = Server::start(program, flags)?;
    let mut failed = Vec::new();
    for clients in [CLIENTS, LITELLM, KSERVE] {
        for check in selected(&clients) {
            let mut run = Command::new(clients.python()?);
            failed.extend(call(run.args([check, server.url().as_str()]).current_dir(root())).err());
        }
    }
    Ok(failed)
}

/// Runs the checks of jobs on a server that keeps them, and returns the errors.
fn checked_jobs(program: &Program) -> Result<Vec<String>, String> {
    let folder = std::env::temp_dir().join(format!("gristmill-jobs-{}", std::process::id()));
    let flags = ["--jobs", &folder.to_string_lossy(), "--webhook-allow", "127.0.0.1"];
    let server = Server::start(program, &flags)?;
    let python = JOBS.python()?;
    let run = |check: &&str| {
        let mut run = Command::new(&python);
        call(run.args([*check, server.url().as_str()]).current_dir(root())).err()
    };
    let failed = JOBS.checks.iter().filter_map(run).collect();
    drop(server);
    let _ = std::fs::remove_dir_all(&folder);
    Ok(failed)
}

/// Runs the code blocks of the docs, or of the pages whose path contains `page`, with the packages that they import.
pub fn docs(program: &Program, page: Option<&str>) -> TaskResult {
    call(&mut program.command(&["pull", ENCODER]))?;
    crate::docs::run(program, &CLIENTS.python()?, page)
}

/// Generates random answers that schemas allow, and checks them with an independent validator.
pub fn walks() -> TaskResult {
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

/// Starts the server with the default model, then with the embedding model, each with jobs, and runs schemathesis on
/// each for half of about `seconds`, with requests that its `/openapi.json` allows and does not allow.
pub fn schema(program: &Program, seconds: u64) -> TaskResult {
    let folder = std::env::temp_dir().join(format!("gristmill-schema-{}", std::process::id()));
    let jobs = folder.to_string_lossy();
    let checked = schema_of(program, &["--context", SCHEMA_CONTEXT, "--jobs", &jobs], seconds / 2)
        .and_then(|()| schema_of(program, &[ENCODER, "--jobs", &jobs], seconds / 2));
    let _ = std::fs::remove_dir_all(&folder);
    checked
}

fn schema_of(program: &Program, flags: &[&str], seconds: u64) -> TaskResult {
    let python = CLIENTS.python()?;
    let server = Server::start(program, flags)?;
    let url = server.url();
    let mut run = Command::new(python.with_file_name("schemathesis"));
    run.args(["run", &format!("{url}/openapi.json"), "--url", &url, "--phases", "coverage,fuzzing"]);
    run.args(["--checks", SCHEMA_CHECKS, "--max-examples", "12", "--seed", "7", "--request-timeout", "60"]);
    run.args(["--max-time", &seconds.to_string(), "--no-color"]);
    // schemathesis writes a record of examples, which does not belong into the checkout.
    call(run.current_dir(std::env::temp_dir()))
}

/// A running server: `gristmill serve`, or another to compare with. Stopped on drop.
pub struct Server {
    child: Child,
    /// Port on the loopback.
    pub port: u16,
}

impl Server {
    /// Starts `gristmill serve` on a free port and waits until it is ready.
    pub fn start(program: &Program, flags: &[&str]) -> Result<Server, String> {
        let (server, after) = Server::with(&|port| {
            let mut serve = program.command(&["serve", "--port", port]);
            serve.args(flags);
            serve
        })?;
        eprintln!("ready after {:.1} s", after.as_secs_f64());
        Ok(server)
    }

    /// Starts the server that `command` makes for a free port, and returns it with the time until `/health` was ready.
    pub fn with(command: &dyn Fn(&str) -> Command) -> Result<(Server, Duration), String> {
        let port = free_port()?;
        let mut command = command(&port.to_string());
        let start = Instant::now();
        let child = command.spawn().map_err(|error| format!("cannot start {command:?}: {error}"))?;
        let mut server = Server { child, port };
        while start.elapsed() < READY_TIMEOUT {
            if healthy(port) {
                return Ok((server, start.elapsed()));
            }
            if let Ok(Some(status)) = server.child.try_wait() {
                return Err(format!("{command:?} ended before it was ready: {status}"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(format!("{command:?} was not ready within {} s", READY_TIMEOUT.as_secs()))
    }

    /// Base URL, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Bytes of a line of `/proc/PID/status` (proc(5)): `RssAnon` is resident anonymous memory, `VmHWM` the peak of
    /// resident memory.
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
    /// A virtual environment with the pinned packages, created once for each set of pins.
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
