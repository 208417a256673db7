//! `gristmill run`.

use crate::Failure;

#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> Result<(), Failure> {
    Err(Failure::new("`run` is not built yet"))
}
