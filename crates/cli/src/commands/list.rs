//! `gristmill list`.

use crate::Failure;

#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> Result<(), Failure> {
    Err(Failure::new("`list` is not built yet"))
}
