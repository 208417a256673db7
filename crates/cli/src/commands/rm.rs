//! `gristmill rm`.

use std::time::Duration;

use serde::Serialize;
use weights::fetch::Limits;
use weights::store::remove;

use crate::Failure;
use crate::store::{Watch, home, size};
use crate::term::{json, out};

/// A model that is being pulled is not worth a long wait to remove.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Models as `gristmill list` names them.
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,

    /// Print a list of objects, one for each model.
    #[arg(long)]
    json: bool,
}

/// One removal, as `--json` prints it.
#[derive(Serialize)]
struct Report<'a> {
    name: &'a str,
    freed_bytes: u64,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let limits = Limits { lock: PATIENCE, ..Limits::default() };
    let home = home()?.with_limits(limits);
    let mut done = Vec::new();
    let mut failed = Vec::new();
    for name in &args.names {
        match remove(name, &home, &mut Watch::new()) {
            Ok(freed) => {
                if !args.json {
                    out!("{name}: freed {}", size(freed.bytes));
                }
                done.push(Report { name, freed_bytes: freed.bytes });
            }
            Err(error) => failed.push(Failure::from(error).message),
        }
    }
    if args.json {
        json(&done)?;
    }
    if failed.is_empty() { Ok(()) } else { Err(Failure::new(failed.join("; "))) }
}
