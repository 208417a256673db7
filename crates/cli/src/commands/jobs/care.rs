//! The care of a store of jobs: copied, checked, moved to a database.

use std::path::PathBuf;

use crate::Failure;

#[derive(clap::Args)]
pub(super) struct ExportArgs {
    /// The folder of the store.
    store: PathBuf,

    /// The folder of the copy, which must not be there.
    to: PathBuf,
}

#[derive(clap::Args)]
pub(super) struct CheckArgs {
    /// The folder of the store.
    store: PathBuf,

    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub(super) struct MoveArgs {
    /// The folder of the store.
    store: PathBuf,

    /// The database, as postgres://USER@HOST/NAME; its tables of jobs must be empty.
    #[arg(long, value_name = "URL")]
    to: String,
}

pub(super) fn export(_args: &ExportArgs) -> Result<(), Failure> { Err(Failure::new("stub")) }
pub(super) fn check(_args: &CheckArgs) -> Result<(), Failure> { Err(Failure::new("stub")) }
pub(super) fn move_to(_args: &MoveArgs) -> Result<(), Failure> { Err(Failure::new("stub")) }
