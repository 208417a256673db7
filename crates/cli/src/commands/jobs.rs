//! `gristmill jobs`: what a running server has to do, and the care of the store behind it. `docs/jobs.md` is its manual.

mod care;

use std::path::PathBuf;
use std::time::Duration;

use hyper::Method;
use serde_json::Value;
use weights::fetch::escaped;

use crate::Failure;
use crate::http::{Client, Reach, accepted};
use crate::term::{clean, json, out};

/// The longest that an answer may take.
const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

/// How to reach the server.
#[derive(clap::Args)]
#[group(skip)]
struct ServerFlags {
    /// Address of the server.
    #[arg(long, default_value = "http://127.0.0.1:8080", value_name = "URL")]
    url: String,

    /// The server's API key.
    #[arg(long, env = "GRISTMILL_API_KEY", hide_env_values = true, value_name = "KEY")]
    api_key: Option<String>,

    /// Trust the certificates of this file in place of the usual ones.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,

    /// Print what the server answers.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List jobs, newest first.
    List(ListArgs),
    /// Show a job.
    Show(OneArgs),
    /// Cancel a job.
    Cancel(OneArgs),
    /// Queue an ended job again.
    Retry(OneArgs),
    /// List dead letters: jobs that failed for good by a fault that was not their own.
    Dead(DeadArgs),
    /// Copy a store of jobs to another folder, while a server uses it or not.
    Export(care::ExportArgs),
    /// Check a store of jobs that no server uses.
    Check(care::CheckArgs),
    /// Copy everything from a store in a folder to a PostgreSQL database.
    Move(care::MoveArgs),
}

#[derive(clap::Args)]
struct ListArgs {
    #[command(flatten)]
    server: ServerFlags,

    /// Only jobs with this status: queued, running, cancelling, succeeded, failed, cancelled or expired.
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,

    /// At most so many.
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100))]
    limit: u8,
}

#[derive(clap::Args)]
struct OneArgs {
    /// The job's id.
    id: String,

    #[command(flatten)]
    server: ServerFlags,
}

#[derive(clap::Args)]
struct DeadArgs {
    #[command(flatten)]
    server: ServerFlags,

    /// Queue all of them again.
    #[arg(long)]
    retry: bool,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::List(args) => {
            let status = args.status.map(|status| format!("&status={}", escaped(&status, "")));
            list(&args.server, &format!("?limit={}{}", args.limit, status.unwrap_or_default()))
        }
        Command::Dead(args) if args.retry => retry_dead(&args.server),
        Command::Dead(args) => list(&args.server, "?limit=100&dead=1"),
        Command::Show(args) => show(&args),
        Command::Cancel(args) => change(&args, "cancel"),
        Command::Retry(args) => change(&args, "retry"),
        Command::Export(args) => care::export(&args),
        Command::Check(args) => care::check(&args),
        Command::Move(args) => care::move_to(&args),
    }
}

/// Asks the server.
fn ask(server: &ServerFlags, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start HTTP: {error}")))?;
    runtime.block_on(async {
        let client = Client::new(&Reach {
            base_url: &server.url,
            api_key: server.api_key.as_deref(),
            headers: &[],
            ca_file: server.ca_file.as_deref(),
            timeout: TIMEOUT,
        })?;
        let answer = async {
            let body = body.map(|body| body.to_string().into());
            let response = accepted(client.call(method, path, body).await?).await?;
            crate::http::read_json(response).await
        };
        client.in_time(answer).await.map_err(Failure::new)
    })
}

fn list(server: &ServerFlags, query: &str) -> Result<(), Failure> {
    let page = ask(server, Method::GET, &format!("/v1/jobs{query}"), None)?;
    if server.json {
        return json(&page);
    }
    let jobs = page["data"].as_array().map(Vec::as_slice).unwrap_or_default();
    let heads = ["ID", "STATUS", "ENDPOINT", "MODEL", "ATTEMPTS", "NOTE"].map(str::to_owned);
    let rows: Vec<[String; 6]> = jobs.iter().map(row).collect();
    let width = |at: usize| rows.iter().chain([&heads]).map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    for row in [&heads].into_iter().chain(&rows) {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        out!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    if page["has_more"] == true {
        out!("there are more");
    }
    Ok(())
}

fn row(job: &Value) -> [String; 6] {
    let text = |field: &str| clean(job[field].as_str().unwrap_or_default());
    let note = match (&job["error"]["message"], job["progress"]["output_tokens"].as_u64()) {
        (Value::String(message), _) => clean(message),
        (_, Some(tokens)) if job["status"] == "running" => format!("{tokens} tokens so far"),
        _ => String::new(),
    };
    let attempts = format!("{} of {}", job["attempts"], job["max_attempts"]);
    [text("id"), text("status"), text("endpoint"), text("model"), attempts, note]
}

fn show(args: &OneArgs) -> Result<(), Failure> {
    let job = ask(&args.server, Method::GET, &format!("/v1/jobs/{}", escaped(&args.id, "")), None)?;
    json(&job)
}

fn change(args: &OneArgs, change: &str) -> Result<(), Failure> {
    let path = format!("/v1/jobs/{}/{change}", escaped(&args.id, ""));
    let job = ask(&args.server, Method::POST, &path, Some(&serde_json::json!({})))?;
    if args.server.json {
        return json(&job);
    }
    out!("{}: {}", clean(&args.id), clean(job["status"].as_str().unwrap_or_default()));
    Ok(())
}

fn retry_dead(server: &ServerFlags) -> Result<(), Failure> {
    let filter = serde_json::json!({"filter": {"dead": true}});
    let answer = ask(server, Method::POST, "/v1/jobs/retry", Some(&filter))?;
    if server.json {
        return json(&answer);
    }
    out!("{} queued again", answer["retried"]);
    Ok(())
}
