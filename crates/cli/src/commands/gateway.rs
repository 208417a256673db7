//! `gristmill gateway`: many machines as one. `docs/gateway.md` is its manual.

mod explain;
mod run;
mod secrets;

use crate::Failure;

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    run: run::Args,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Say where a running gateway would send a request, and why.
    Explain(explain::Args),
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        None => run::run(&args.run),
        Some(Command::Explain(args)) => explain::run(&args),
    }
}
