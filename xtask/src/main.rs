//! The project's development tasks: `cargo xtask ci` is what the README and CI run.
//!
//! All tasks call cargo (or the built `gristmill`) as a person would. The architecture's rules are tests, in `tests/`,
//! so that they run wherever tests run.

mod aarch64;
mod abuse;
mod agents;
mod ci;
mod client;
mod counts;
mod docs;
mod fuzz;
mod http;
mod models;
mod outdated;
mod page;
mod peers;
mod program;
mod shell;
mod soak;
mod soak_models;

use program::Program;
use shell::TaskResult;
use std::process::ExitCode;

const HELP: &str = "\
usage: cargo xtask COMMAND

  ci [--no-models] [--no-fuzz] [--no-aarch64] [--no-counts]
                            everything a change must pass; ends with the tests
  docs [--check]            write docs/cli.md from the flags; check that flags and links in the docs exist
  docs --run [PAGE]         follow README.md and docs/ to the letter: every code block is run as it is written
  fuzz TARGET [--seconds N] fuzz one target (default 60 s); `fuzz all` gives each N seconds; `fuzz list` names them
  fuzz smoke [--seconds N]  each target for N seconds (default 5), compiled in a hurry beside the tests
  aarch64                   build for AArch64 and run the tests of its vector code on emulated CPUs
  counts [--write]          count the instructions of the hot kernels under valgrind; check or write the record
  lengths                   name the functions and files that are long, and how many there are in each crate
  outdated                  name the dependencies that have a newer version, and why they are held back
  models                    fetch the models and vocabularies that the ignored tests need
  peers [--help]            run ours and other engines in turn, and print or write the ratios
  start [--help]            start ours and llama.cpp's server in turn, and print how long each takes until it is ready
  soak [--minutes N]        serve the default model at twice its capacity and check that nothing breaks or grows
  soak --abuse              the same of huge, abandoned and slow bodies and slow readers, for a minute and a half
  soak --models             serve three models where there is room for two, to 2,000 mixed requests; some minutes
  client                    serve the default model and check it with the openai, anthropic, ollama, litellm and pydantic-ai
                            packages; then an embedding model, with the openai, cohere, huggingface_hub, ollama, litellm,
                            LlamaIndex and LangChain packages
  agents [claude|codex]     serve a 1.5B model and have Claude Code and Codex (npm) edit a file with it; some minutes
  schema [--seconds N]      serve a model of each kind and hold it to the OpenAPI document with schemathesis (default 150 s)
  page                      serve two models and check their page in headless Chromium
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(done) = fuzz::wrapped(&std::env::args_os().skip(1).collect::<Vec<_>>()) {
        return exit(done);
    }
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["ci", flags @ ..] => ci::run(flags),
        ["docs"] => alone(docs::write),
        ["docs", "--check"] => alone(docs::check),
        ["docs", "--run"] => alone(|program| client::docs(program, None)),
        ["docs", "--run", page] => alone(|program| client::docs(program, Some(page))),
        ["fuzz", "list"] => fuzz::list(),
        ["fuzz", "smoke", rest @ ..] => fuzz::seconds(rest, 5).and_then(fuzz::smoke),
        ["fuzz", "all", rest @ ..] => fuzz::seconds(rest, 60).and_then(fuzz::all),
        ["fuzz", target, rest @ ..] => fuzz::seconds(rest, 60).and_then(|seconds| fuzz::one(target, seconds)),
        ["aarch64"] => aarch64::run(),
        ["counts"] => counts::check(),
        ["counts", "--write"] => counts::write(),
        ["lengths"] => lengths(),
        ["outdated"] => outdated::check(),
        ["models"] => alone(models::pull),
        ["client"] => alone(client::check),
        ["agents"] => alone(|program| agents::check(program, &[])),
        ["agents", agent @ ("claude" | "codex")] => alone(|program| agents::check(program, &[agent])),
        ["schema", rest @ ..] => {
            fuzz::seconds(rest, 150).and_then(|seconds| alone(|program| client::schema(program, seconds)))
        }
        ["page"] => alone(page::check),
        ["soak", "--help"] => {
            print!("{}", soak::HELP);
            return ExitCode::SUCCESS;
        }
        ["soak", rest @ ..] => soak::run(rest),
        ["peers", "--help"] => {
            print!("{}", peers::HELP);
            return ExitCode::SUCCESS;
        }
        ["peers", rest @ ..] => peers::run(rest),
        ["start", "--help"] => {
            print!("{}", peers::start::HELP);
            return ExitCode::SUCCESS;
        }
        ["start", rest @ ..] => peers::start::run(rest),
        ["--help" | "-h" | "help"] => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("{HELP}");
            return ExitCode::from(2);
        }
    };
    exit(done)
}

fn exit(done: TaskResult) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Lists the functions and files that exceed the limits of the test of lengths.
fn lengths() -> TaskResult {
    let selected = ["test", "--locked", "--quiet", "--package", "xtask", "--test", "rules"];
    let mut list = shell::cargo(&selected);
    shell::call(list.args(["--", "--ignored", "--nocapture", "lengths_in_detail"]))
}

/// Runs a task with a program built without the tests.
fn alone(chore: impl FnOnce(&Program) -> TaskResult) -> TaskResult {
    chore(&Program::alone()?)
}
