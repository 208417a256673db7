//! The command `gristmill`.
//!
//! This file is the table of contents: one line a subcommand, each in its own file under [`commands`]. The command
//! line is the only room that writes to standard output, reads the environment and chooses the exit code; every
//! other room hands it values.

#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "help texts are written for the terminal: [x] is an option there"
)]

mod calendar;
mod commands;
mod config;
mod details;
mod encoder_session;
mod encoders;
mod failure;
mod files;
mod flags;
mod found;
mod http;
mod kept_jobs;
mod lines;
mod loading;
mod packed_files;
mod progress;
mod sampling;
mod store;
mod svg;
mod term;
mod tuned;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::process::ExitCode;

pub(crate) use failure::Failure;

/// Serves language models on the CPUs you already own.
#[derive(Parser)]
#[command(name = "gristmill", version, max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve a model over HTTP with the OpenAI API.
    Serve(Box<commands::serve::Args>),
    /// Route requests over many machines and APIs, within budgets and rules.
    Gateway(Box<commands::gateway::Args>),
    /// Check the audit log of a gateway.
    Audit(commands::audit::Args),
    /// Answer a file of requests, resumable after any kill.
    Batch(Box<commands::batch::Args>),
    /// See and change the jobs of a running server; check, copy and move their store.
    Jobs(commands::jobs::Args),
    /// Try where a webhook goes, and what it brings.
    Webhook(commands::webhook::Args),
    /// See and change which models a running server has in memory.
    Farm(commands::farm::Args),
    /// Answer one prompt, or chat in the terminal.
    Run(Box<commands::run::Args>),
    /// Turn texts into vectors, a line each.
    Embed(Box<commands::embed::Args>),
    /// Rank documents by how relevant they are to a query.
    Rerank(Box<commands::rerank::Args>),
    /// Say the label of each text, or the entities in it.
    Classify(Box<commands::classify::Args>),
    /// Fetch a model into the store.
    Pull(commands::pull::Args),
    /// List the models in the catalog and in the store.
    List(commands::list::Args),
    /// Remove a model from the store.
    Rm(commands::rm::Args),
    /// Show what is in a model file, and the memory it needs.
    Inspect(commands::inspect::Args),
    /// Turn text into a model's tokens.
    Tokenize(commands::tokenize::Args),
    /// Score a text: perplexity by llama-perplexity's definition.
    Perplexity(commands::perplexity::Args),
    /// Measure how fast a model runs, by llama-bench's tests.
    Bench(Box<commands::bench::Args>),
    /// Find the threads and steps that are fastest for a model on this machine; serve and run then use them.
    Tune(commands::bench::tune::Args),
    /// Plan: what serving costs, what it takes, and who would do it for less.
    Plan(commands::plan::Args),
    /// Show what this machine gives us, and what slows it down.
    Doctor(commands::doctor::Args),
}

fn main() -> ExitCode {
    let cli = match read() {
        Ok(cli) => cli,
        Err(Misread::Usage(usage)) => return term::usage(&usage),
        Err(Misread::File(failure)) => {
            term::failure(&failure);
            return ExitCode::from(failure.code);
        }
    };
    let done = match cli.command {
        Command::Serve(args) => commands::serve::run(*args),
        Command::Gateway(args) => commands::gateway::run(*args),
        Command::Audit(args) => commands::audit::run(args),
        Command::Batch(args) => commands::batch::run(*args),
        Command::Jobs(args) => commands::jobs::run(args),
        Command::Webhook(args) => commands::webhook::run(args),
        Command::Farm(args) => commands::farm::run(args),
        Command::Run(args) => commands::run::run(*args),
        Command::Embed(args) => commands::embed::run(*args),
        Command::Rerank(args) => commands::rerank::run(*args),
        Command::Classify(args) => commands::classify::run(*args),
        Command::Pull(args) => commands::pull::run(args),
        Command::List(args) => commands::list::run(args),
        Command::Rm(args) => commands::rm::run(args),
        Command::Inspect(args) => commands::inspect::run(args),
        Command::Tokenize(args) => commands::tokenize::run(args),
        Command::Perplexity(args) => commands::perplexity::run(args),
        Command::Bench(args) => commands::bench::run(*args),
        Command::Tune(args) => commands::bench::tune::run(&args),
        Command::Plan(args) => commands::plan::run(args),
        Command::Doctor(args) => commands::doctor::run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            term::failure(&failure);
            ExitCode::from(failure.code)
        }
    }
}

/// Why there is nothing to run.
enum Misread {
    Usage(clap::Error),
    File(Failure),
}

/// The command line, and for `serve` the environment and the file behind it.
fn read() -> Result<Cli, Misread> {
    let command = config::with_environment(Cli::command());
    let words: Vec<_> = std::env::args_os().collect();
    let parse = |words: &[std::ffi::OsString]| -> Result<ArgMatches, Misread> {
        command.clone().try_get_matches_from(words).map_err(Misread::Usage)
    };
    let mut matches = parse(&words)?;
    let more = config::arguments(&command, &matches).map_err(Misread::File)?;
    if !more.is_empty() {
        matches = parse(&[words, more].concat())?;
    }
    Cli::from_arg_matches(&matches).map_err(|error| Misread::Usage(error.format(&mut Cli::command())))
}
