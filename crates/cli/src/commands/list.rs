//! `gristmill list`.

use serde::Serialize;
use weights::catalog::{Catalog, Entry, ModelKind};
use weights::store::Installed;

use crate::Failure;
use crate::store::{home, size};
use crate::term::{clean, json, out};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also those of the catalog that are not installed.
    #[arg(long)]
    all: bool,

    /// Print a list of objects, one for each model.
    #[arg(long)]
    json: bool,
}

/// One model, as `--json` prints it.
#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    installed: bool,
    /// On the disk when installed, to download otherwise.
    size_bytes: u64,
    /// The size is that of known bytes, not about right.
    size_is_exact: bool,
    kind: Option<ModelKind>,
    family: Option<&'a str>,
    licence: Option<&'a str>,
    description: Option<&'a str>,
    /// Whether `run` and `serve` take it; an installed one of no entry is looked at by `inspect`.
    runs: bool,
    /// Why it does not run.
    cannot_run: Option<String>,
    path: Option<String>,
    origin: Option<&'a str>,
    pulled_s: Option<u64>,
    sources: &'a [String],
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let home = home()?;
    let installed = home.installed()?;
    let mut rows: Vec<Row<'_>> = installed.iter().map(present).collect();
    if args.all {
        let there = |entry: &&Entry| !installed.iter().any(|model| model.record.model == entry.name);
        rows.extend(Catalog::embedded().entries.iter().filter(there).map(absent));
    }
    if args.json {
        return json(&rows);
    }
    table(&rows);
    if rows.is_empty() {
        out!("nothing is installed in {}", home.root().display());
    }
    if !args.all {
        let rest = Catalog::embedded().entries.len();
        out!("{rest} models have a name here: gristmill list --all");
    }
    Ok(())
}

fn present(model: &Installed) -> Row<'_> {
    let entry = model.entry();
    let cannot_run = entry.and_then(hindrance);
    Row {
        name: &model.record.model,
        installed: true,
        size_bytes: model.size_bytes(),
        size_is_exact: true,
        kind: entry.map(|entry| entry.kind),
        family: entry.map(|entry| entry.family.as_str()),
        licence: entry.map(|entry| entry.licence.as_str()),
        description: entry.map(|entry| entry.description.as_str()),
        runs: cannot_run.is_none(),
        cannot_run,
        path: Some(model.path().to_string_lossy().into_owned()),
        origin: Some(&model.record.origin),
        pulled_s: Some(model.record.pulled_s),
        sources: entry.map_or(&[], |entry| &entry.sources),
    }
}

/// Why nothing runs the catalog's entry yet.
fn hindrance(entry: &Entry) -> Option<String> {
    let onnx = entry.files.iter().any(|file| file.name.ends_with(".onnx"));
    let what =
        onnx.then(|| "encoders in ONNX run as plain graphs only: gristmill serve FILE.onnx".to_owned());
    let known = model::families::FAMILIES.iter().any(|family| family.name == entry.family);
    what.or_else(|| (!known).then(|| format!("the family {} is not built yet", entry.family)))
}

fn absent(entry: &Entry) -> Row<'_> {
    let cannot_run = hindrance(entry);
    Row {
        name: &entry.name,
        installed: false,
        size_bytes: entry.size_bytes,
        size_is_exact: !entry.files.is_empty() && entry.file.is_some(),
        kind: Some(entry.kind),
        family: Some(&entry.family),
        licence: Some(&entry.licence),
        description: Some(&entry.description),
        runs: cannot_run.is_none(),
        cannot_run,
        path: None,
        origin: None,
        pulled_s: None,
        sources: &entry.sources,
    }
}

fn table(rows: &[Row<'_>]) {
    if rows.is_empty() {
        return;
    }
    let width = rows.iter().map(|row| clean(row.name).chars().count()).max().unwrap_or(0).clamp(4, 60);
    out!("{:width$}  {:>10}  {:9}  {:8}  {:14}  WHAT", "NAME", "SIZE", "", "KIND", "LICENCE");
    for row in rows {
        let about = if row.size_is_exact { "" } else { "~" };
        let bytes = format!("{about}{}", size(row.size_bytes));
        let state = if row.installed { "installed" } else { "" };
        let kind = row.kind.map(|kind| kind.to_string()).unwrap_or_default();
        let mut what = clean(row.description.or(row.origin).unwrap_or_default());
        if let Some(why) = &row.cannot_run {
            what = format!("CANNOT RUN HERE: {why}; {what}");
        }
        let (name, licence) = (clean(row.name), clean(row.licence.unwrap_or_default()));
        out!("{name:width$}  {bytes:>10}  {state:9}  {kind:8}  {licence:14}  {what}");
    }
}
