//! `gristmill gateway`: many machines as one. `docs/gateway.md` is its manual.

mod explain;
mod run;
mod secrets;

use std::path::PathBuf;

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
    /// Write a configuration from one of LiteLLM's proxy.
    ImportLitellm(ImportArgs),
}

#[derive(clap::Args)]
struct ImportArgs {
    /// LiteLLM's config.yaml.
    file: PathBuf,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        None => run::run(&args.run),
        Some(Command::Explain(args)) => explain::run(&args),
        Some(Command::ImportLitellm(args)) => import(&args),
    }
}

/// Longest configuration of LiteLLM.
const MAX_BYTES: u64 = 4 << 20;

fn import(args: &ImportArgs) -> Result<(), Failure> {
    let file = crate::files::read("FILE", &args.file, MAX_BYTES)?;
    let text = file.text("FILE", &args.file)?;
    let imported = gateway::litellm::import(text).map_err(Failure::new)?;
    for remark in &imported.remarks {
        crate::term::err!("{remark}");
    }
    crate::term::out!("{}", imported.toml.trim_end());
    Ok(())
}
