//! `gristmill plan`: what serving costs, what it takes, and who would do it for less. `docs/plan.md` is its manual.
//!
//! The arithmetic is room `planner`. Here the plan is read, the machine is measured, and answers become tables, JSON and pages.

mod bench_files;
mod choose;
mod compare;
mod cost;
mod farm;
mod fit;
mod fleet;
mod html;
mod models;
mod report;
mod session;
mod tco;

use crate::Failure;

/// What serving costs, what it takes, and who would do it for less.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Which models run on this machine or another, how fast, and in how much memory.
    Fit(Box<fit::Args>),
    /// What a million tokens and a request cost on a machine of ours, beside commercial APIs.
    Cost(Box<session::Inputs>),
    /// What a month costs in each way, from which volume on, and with overflow to an API.
    Compare(Box<session::Inputs>),
    /// Buying against renting over months: break-even, and which input matters most.
    Tco(Box<tco::Args>),
    /// How many machines a load takes, and how long requests wait: simulated step by step.
    Fleet(Box<fleet::Args>),
    /// Whether models fit on one machine, their cold starts, how long requests wait, and what each costs.
    Farm(Box<farm::Args>),
    /// Which way to serve, with the reasons.
    Choose(Box<choose::Args>),
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    match args.what {
        What::Fit(args) => fit::run(*args),
        What::Cost(args) => cost::run(&args),
        What::Compare(args) => compare::run(&args),
        What::Tco(args) => tco::run(&args),
        What::Fleet(args) => fleet::run(&args),
        What::Farm(args) => farm::run(&args),
        What::Choose(args) => choose::run(&args),
    }
}
