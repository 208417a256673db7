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
    /// Say for margins of a cascade how many requests would go to the larger model, and how often the answers agree.
    Calibrate(CalibrateArgs),
}

#[derive(clap::Args)]
struct ImportArgs {
    /// LiteLLM's config.yaml.
    file: PathBuf,
}

#[derive(clap::Args)]
struct CalibrateArgs {
    /// The pairs that a cascade with `both` and `pairs` has written.
    file: PathBuf,

    /// Share of the small model's answers that may differ from the larger one's.
    #[arg(long, value_name = "SHARE", default_value_t = 0.05)]
    target: f64,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        None => run::run(&args.run),
        Some(Command::Explain(args)) => explain::run(&args),
        Some(Command::ImportLitellm(args)) => import(&args),
        Some(Command::Calibrate(args)) => calibrate(&args),
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

/// Longest file of pairs.
const MAX_PAIRS_BYTES: u64 = 64 << 20;

fn calibrate(args: &CalibrateArgs) -> Result<(), Failure> {
    if !(0.0..=1.0).contains(&args.target) {
        return Err(Failure::usage(format!("--target {} is no share; it must be 0 to 1", args.target)));
    }
    let file = crate::files::read("FILE", &args.file, MAX_PAIRS_BYTES)?;
    let text = file.text("FILE", &args.file)?;
    let pairs = gateway::calibrate::Calibration::read(text)
        .map_err(|error| Failure::new(format!("{}: {error}", args.file.display())))?;
    let calibration = gateway::calibrate::Calibration::new(&pairs, args.target);
    crate::term::out!("{}", calibration.to_string().trim_end());
    Ok(())
}
