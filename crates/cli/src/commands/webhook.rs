//! `gristmill webhook`: what a webhook's receiver gets, and why it gets nothing. `docs/webhooks.md` is its manual.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use webhooks::addresses::AddressRules;
use webhooks::event::{Event, EventType};
use webhooks::explain::{Outcome, Steps};
use webhooks::secret::{Secret, headers};
use webhooks::sender::{Sender, Sent};

use crate::Failure;
use crate::term::{clean, json, out};

/// The longest that the attempt may take.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of a file of certificates.
const CA_BYTES: u64 = 1 << 20;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Send a signed event to a URL, and say each step: address, rule, connection, answer.
    Test(TestArgs),
}

#[derive(clap::Args)]
struct TestArgs {
    /// Where the event goes.
    url: String,

    /// What it is signed with, as whsec_…; a new one without [prefer the variable: others can see command lines].
    #[arg(long, env = "GRISTMILL_WEBHOOK_SECRET", hide_env_values = true, value_name = "SECRET")]
    secret: Option<String>,

    /// An address range or a host that may be called though it is private, or speaks http; may be given again.
    #[arg(long, value_name = "RANGE")]
    webhook_allow: Vec<String>,

    /// Trust the certificates of this file beside the usual ones.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,

    /// Print the steps as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let Command::Test(args) = args.command;
    let rules = AddressRules::parse(&args.webhook_allow)
        .map_err(|error| Failure::usage(format!("--webhook-allow: {error}")))?;
    let secret = match &args.secret {
        Some(text) => {
            Secret::parse(text.trim()).map_err(|error| Failure::usage(format!("--secret: {error}")))?
        }
        None => Secret::new(rand::random()),
    };
    let authorities = args.ca_file.as_deref().map(|file| crate::files::read("--ca-file", file, CA_BYTES));
    let authorities = authorities.transpose()?;
    let authorities = authorities.map(|file| String::from_utf8_lossy(&file.bytes).into_owned());
    let sender = Sender::new(rules, authorities.as_deref())
        .map_err(|error| Failure::usage(format!("--ca-file: {error}")))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    let event = Event::new(EventType::WebhookTest, "test", now, rand::random());
    let body = event.body();
    let headers = headers(std::slice::from_ref(&secret), &event.id, now / 1_000, body.as_bytes());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
    let (sent, steps) = runtime.block_on(sender.explain(&args.url, &headers, body.clone().into(), TIMEOUT));
    runtime.shutdown_timeout(Duration::from_millis(100));
    show(&args, &sent, &steps, &headers, &body, &secret)
}

fn show(
    args: &TestArgs,
    sent: &Sent,
    steps: &Steps,
    headers: &[(&str, String)],
    body: &str,
    secret: &Secret,
) -> Result<(), Failure> {
    let status = sent.result.as_ref().ok().map(|answer| answer.status);
    if args.json {
        let steps = steps.list().iter().map(|step| {
            json!({"step": step.phase.name(), "passed": step.outcome == Outcome::Passed, "detail": step.detail})
        });
        json(&json!({
            "steps": steps.collect::<Vec<_>>(), "status": status, "milliseconds": sent.millis, "body": body,
            "headers": headers.iter().map(|(name, value)| json!({"name": name, "value": value})).collect::<Vec<_>>(),
        }))?;
    } else {
        for step in steps.list() {
            let mark = match step.outcome {
                Outcome::Passed => "ok",
                Outcome::Failed => "FAILED",
                Outcome::Unfinished => "no end",
            };
            out!("{:<11} {mark:<7} {}", step.phase.name(), clean(&step.detail));
        }
        for (name, value) in headers {
            out!("{name}: {}", clean(value));
        }
        out!("{body}");
        if args.secret.is_none() {
            out!("signed with {}, made for this attempt", secret.reveal());
        }
    }
    match (&sent.result, status) {
        (Ok(_), Some(200..300)) => Ok(()),
        (Ok(_), Some(status)) => Err(Failure::new(format!("the receiver answered {status}; 2xx is needed"))),
        (Err(failure), _) => Err(Failure::new(failure.to_string())),
        (Ok(_), None) => Ok(()),
    }
}
