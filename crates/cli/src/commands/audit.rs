//! `gristmill audit`: whether a gateway's audit log is as it was written.

use std::path::PathBuf;

use ledger::audit::{Head, verify};

use crate::Failure;
use crate::files;
use crate::term::{json, number, out};

/// Longest file of a head.
const MAX_BYTES: u64 = 4 << 10;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Check that no line of an audit log was changed, removed or moved.
    Verify(VerifyArgs),
}

#[derive(clap::Args)]
struct VerifyArgs {
    /// The log's directory, or one of its files.
    path: PathBuf,

    /// A head that was kept elsewhere: the log must have its line, so that lines missing at the end are found out.
    #[arg(long, value_name = "FILE")]
    head: Option<PathBuf>,

    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let Command::Verify(args) = args.command;
    let head = match &args.head {
        None => None,
        Some(path) => {
            let file = files::read("--head", path, MAX_BYTES)?;
            let text = file.text("--head", path)?;
            let head = Head::parse(text);
            Some(head.ok_or_else(|| Failure::new(format!("--head {} is not NUMBER:HASH", path.display())))?)
        }
    };
    let summary = verify(&args.path, head.as_ref()).map_err(|broken| Failure::new(broken.to_string()))?;
    if args.json {
        return json(&serde_json::json!({
            "files": summary.files,
            "first": summary.first,
            "last": summary.head.seq,
            "head": summary.head.to_string(),
            "kinds": summary.kinds,
            "lost": summary.lost,
            "set_aside_bytes": summary.set_aside,
            "unfinished_bytes": summary.unfinished,
        }));
    }
    let lines = summary.head.seq.saturating_sub(summary.first).saturating_add(1);
    let lines = number(usize::try_from(lines).unwrap_or(usize::MAX), "line");
    out!(
        "{}: {lines} unbroken in {}; the last is {}",
        args.path.display(),
        number(summary.files, "file"),
        summary.head
    );
    if summary.lost > 0 {
        out!(
            "{} were not written for want of room, as the log itself says",
            number(usize::try_from(summary.lost).unwrap_or(usize::MAX), "record")
        );
    }
    Ok(())
}
