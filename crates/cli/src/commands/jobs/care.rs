//! The care of a store of jobs: copied, checked, moved to a database.

use std::path::PathBuf;

use job_store::{PostgresStore, SqliteStore, StoreLimits};

use crate::Failure;
use crate::store::size;
use crate::term::{clean, err, json, number, out};

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

/// Copies a store.
///
/// # Errors
/// No store, no space, a copy that is there already.
pub(super) fn export(args: &ExportArgs) -> Result<(), Failure> {
    let exported = SqliteStore::export(&args.store, &args.to)?;
    out!(
        "{}: {} of tables, {}",
        args.to.display(),
        size(exported.table_bytes),
        number(usize::try_from(exported.blobs).unwrap_or(usize::MAX), "file")
    );
    if exported.missing > 0 {
        err!("{} were deleted by a running server meanwhile", exported.missing);
    }
    Ok(())
}

/// Checks a store, and changes nothing.
///
/// # Errors
/// No store, or something wrong with it.
pub(super) fn check(args: &CheckArgs) -> Result<(), Failure> {
    let report = SqliteStore::check(&args.store)?;
    if args.json {
        json(&serde_json::json!({
            "problems": report.problems, "in_use": report.in_use, "jobs": report.jobs, "lines": report.lines,
            "batches": report.batches, "files": report.files, "table_bytes": report.table_bytes,
            "blob_bytes": report.blob_bytes, "leftovers": report.leftovers,
        }))?;
    } else {
        report.problems.iter().for_each(|problem| out!("{}", clean(problem)));
        out!(
            "{} jobs, {} batches with {} lines, {} files; {} of tables, {} beside them{}",
            report.jobs,
            report.batches,
            report.lines,
            report.files,
            size(report.table_bytes),
            size(report.blob_bytes),
            if report.in_use { "; a server uses it" } else { "" }
        );
        if report.leftovers > 0 {
            out!("{} files that nothing names; a running server deletes them by and by", report.leftovers);
        }
    }
    match report.problems.len() {
        0 => Ok(()),
        some => Err(Failure::new(format!("{}: {}", args.store.display(), number(some, "problem")))),
    }
}

/// Copies everything to a database.
///
/// # Errors
/// No store, one that a server uses, a database that is not empty or cannot be reached.
pub(super) fn move_to(args: &MoveArgs) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
    let copied = runtime.block_on(async {
        let from = SqliteStore::open(&args.store, StoreLimits::default())?;
        let to = PostgresStore::new(&args.to, StoreLimits::default())?;
        to.copy_from(&from).await
    })?;
    out!(
        "{} jobs, {} batches and {} files are in the database; servers that are started with --jobs {} go on with them",
        copied.jobs,
        copied.batches,
        copied.files,
        clean(&without_password(&args.to))
    );
    Ok(())
}

/// A database's URL as it may be shown.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    match rest.rsplit_once('@') {
        Some((user, place)) => {
            let name = user.split(':').next().unwrap_or_default();
            format!("{scheme}://{name}@{place}")
        }
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(without_password("postgres://a:secret@h:1/d"), "postgres://a@h:1/d");
        assert_eq!(without_password("postgres://a:s@x@h/d"), "postgres://a@h/d");
        assert_eq!(without_password("postgres://h/d"), "postgres://h/d");
    }
}
