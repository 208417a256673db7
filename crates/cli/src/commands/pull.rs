//! `gristmill pull`.

use std::time::{Duration, Instant};

use serde::Serialize;
use weights::fetch::Limits;
use weights::store::{FileRecord, PullOutcome, pull};

use crate::Failure;
use crate::store::{Watch, home, size};
use crate::term::{json, out};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Catalog names (see `gristmill list --all`) or sources: hf:org/repo[:file], https://…, py:name==version[:member].
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,

    /// Hash a model that is there again, and pull it anew if a file is damaged.
    #[arg(long)]
    verify: bool,

    /// Give up after this long when another process is pulling the same model.
    #[arg(long, value_name = "SECONDS", default_value_t = 6 * 3600)]
    wait: u64,

    /// Print a list of objects, one for each model.
    #[arg(long)]
    json: bool,
}

/// One model, as `--json` prints it.
#[derive(Serialize)]
struct Report<'a> {
    name: &'a str,
    path: String,
    size_bytes: u64,
    /// Source that delivered, its revision pinned.
    origin: &'a str,
    /// It was there already.
    already: bool,
    network_bytes: u64,
    seconds: f64,
    files: &'a [FileRecord],
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let home = home()?.with_limits(Limits { lock: Duration::from_secs(args.wait), ..Limits::default() });
    let mut done: Vec<(PullOutcome, f64)> = Vec::new();
    let mut failed = Vec::new();
    for name in &args.names {
        let begin = Instant::now();
        match pull(name, &home, args.verify, &mut Watch::new()) {
            Ok(pulled) => {
                let seconds = begin.elapsed().as_secs_f64();
                if !args.json {
                    tell(&pulled, args.verify, seconds);
                }
                done.push((pulled, seconds));
            }
            // The other models are still wanted.
            Err(error) => failed.push(crate::store::unknown(name, error).message),
        }
    }
    if args.json {
        json(&done.iter().map(|(pulled, seconds)| report(pulled, *seconds)).collect::<Vec<_>>())?;
    }
    if failed.is_empty() { Ok(()) } else { Err(Failure::new(failed.join("; "))) }
}

fn tell(pulled: &PullOutcome, verified: bool, seconds: f64) {
    let installed = &pulled.installed;
    let (name, path, bytes) = (&installed.record.model, installed.path(), size(installed.size_bytes()));
    match (pulled.already, verified) {
        (true, true) => out!("{name}: {bytes}, hashes right, {}", path.display()),
        (true, false) => out!("{name}: {bytes}, already there, {}", path.display()),
        (false, _) => out!("{name}: {bytes} in {seconds:.1} s, {}", path.display()),
    }
}

fn report(pulled: &PullOutcome, seconds: f64) -> Report<'_> {
    let installed = &pulled.installed;
    Report {
        name: &installed.record.model,
        path: installed.path().to_string_lossy().into_owned(),
        size_bytes: installed.size_bytes(),
        origin: &installed.record.origin,
        already: pulled.already,
        network_bytes: pulled.network_bytes,
        seconds,
        files: &installed.record.files,
    }
}
