//! The beginning of a run: the input is found, and the journal is made or continued.

use crate::cancel::Cancel;
use crate::error::Error;
use crate::feed::Work;
use crate::hashing::Digested;
use crate::index::index;
use crate::input::source::spool;
use crate::journal::header::Header;
use crate::journal::lock::Lock;
use crate::journal::store::{Journal, remove_files};
use crate::options::{Format, Input, Options};
use crate::output::manifest::Manifest;
use crate::output::whole::remove;
use crate::report::{Phase, Progress, Watcher};
use crate::setup::{Files, Setup, input_format, output_format};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::cell::Cell;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time between two reports of progress.
const SHOW_EVERY: Duration = Duration::from_secs(1);

/// How a run begins.
pub(crate) enum Opened {
    /// There is something to do.
    Run(Box<Begun>),
    /// The output is there and complete.
    Complete(Box<Manifest>),
}

/// A run whose journal is open.
pub(crate) struct Begun {
    pub(crate) work: Work,
    pub(crate) header: Header,
    pub(crate) input: Digested,
    pub(crate) columns: Vec<String>,
}

/// Opens a run. Blocks.
pub(crate) fn open(
    options: Options,
    files: &Files,
    stream: Option<Box<dyn Read + Send>>,
    watcher: &Watcher,
    cancel: Cancel,
) -> Result<Opened, Error> {
    let lock = Lock::take(&files.journal)?;
    let opened = begin(options, files, stream, lock, &go_on(watcher, &cancel), cancel.clone());
    if !files.journal.exists() {
        // Without a journal, nothing needs the copy of the input.
        remove(&files.spool)?;
    }
    opened
}

fn begin(
    options: Options,
    files: &Files,
    stream: Option<Box<dyn Read + Send>>,
    lock: Lock,
    go_on: &dyn Fn(u64) -> Result<(), Error>,
    cancel: Cancel,
) -> Result<Opened, Error> {
    let (path, format) = input(&options, &files.spool, stream, go_on)?;
    let setup = Setup::new(&options, &path, format)?;
    let is_new = options.force_new || !files.journal.exists();
    if let (true, false, Some(output)) =
        (is_new, options.force_new, files.output.as_ref().filter(|file| file.exists()))
    {
        let header = setup.header(&options, &setup.source.digest(go_on)?.sha256);
        return complete(&options, files, output, &header)
            .map(|manifest| Opened::Complete(Box::new(manifest)));
    }
    if is_new {
        remove_files(&files.journal)?;
    }
    let journal = Journal::open(&files.journal, lock)?;
    let known = Known::read(&journal)?;
    let Known { header, input, columns } = match known {
        Some(known) => known.checked(&setup, &options, files, go_on)?,
        None => Known::enter(&setup, &options, &journal, go_on)?,
    };
    if options.retry_errors {
        journal.reopen_failed()?;
    }
    let work = Work { options, setup, journal, cancel };
    Ok(Opened::Run(Box::new(Begun { work, header, input, columns })))
}

/// Reports the bytes that were read, and fails once the run was cancelled.
pub(crate) fn go_on(watcher: &Watcher, cancel: &Cancel) -> impl Fn(u64) -> Result<(), Error> {
    let shown = Cell::new(Instant::now());
    move |bytes_read| {
        if shown.get().elapsed() >= SHOW_EVERY {
            shown.set(Instant::now());
            watcher(&Progress { phase: Phase::Reading, bytes_read, ..Progress::default() });
        }
        if cancel.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }
}

/// The file of records and their format: the input itself, or a copy of it.
pub(crate) fn input(
    options: &Options,
    copy: &Path,
    stream: Option<Box<dyn Read + Send>>,
    go_on: &dyn Fn(u64) -> Result<(), Error>,
) -> Result<(PathBuf, Format), Error> {
    let format = input_format(options);
    let path = match &options.input {
        Input::File(path) => path.clone(),
        Input::Stream => {
            let missing = || Error::Usage("there is no stream for the input".to_owned());
            spool(&mut *stream.ok_or_else(missing)?, copy, go_on)?;
            copy.to_owned()
        }
    };
    File::open(&path).map_err(Error::io("open", &path))?;
    if format != Format::Parquet {
        return Ok((path, format));
    }
    unpack(&path, copy, go_on)?;
    Ok((copy.to_owned(), Format::Jsonl))
}

#[cfg(feature = "parquet")]
fn unpack(path: &Path, copy: &Path, go_on: &dyn Fn(u64) -> Result<(), Error>) -> Result<(), Error> {
    crate::columnar::reader::unpack(path, copy, go_on)
}

#[cfg(not(feature = "parquet"))]
fn unpack(path: &Path, _: &Path, _: &dyn Fn(u64) -> Result<(), Error>) -> Result<(), Error> {
    Err(Error::Usage(format!("{}: this build reads no Parquet", path.display())))
}

/// How the output is written, for the manifest.
pub(crate) fn form(options: &Options) -> Value {
    json!({"format": output_format(options).name(), "keep": options.keep, "reproducible": options.reproducible})
}

/// The manifest of an output that is complete; an error if it is of something else.
fn complete(options: &Options, files: &Files, output: &Path, header: &Header) -> Result<Manifest, Error> {
    let other = |why: String| Error::OutputExists { path: output.to_owned(), why };
    let no_manifest = || other("has neither a journal nor a manifest".to_owned());
    let manifest = Manifest::read(&files.manifest).ok_or_else(no_manifest)?;
    let differences = header.differences(&manifest.run);
    if !differences.is_empty() {
        return Err(other(format!("is of another run: {}", differences.join("; "))));
    }
    if manifest.form != form(options) {
        return Err(other(format!("is written otherwise: as {}", manifest.form)));
    }
    let mut file = File::open(output).map_err(Error::io("open", output))?;
    let mut hashing = crate::hashing::Hashing::new(std::io::sink());
    std::io::copy(&mut file, &mut hashing).map_err(Error::io("read", output))?;
    if hashing.digest() != manifest.output {
        return Err(other("is not what its manifest tells".to_owned()));
    }
    Ok(manifest)
}

/// What a journal knows of its run.
struct Known {
    header: Header,
    input: Digested,
    columns: Vec<String>,
}

impl Known {
    /// Reads it; `None` if the input was never read to its end.
    fn read(journal: &Journal) -> Result<Option<Known>, Error> {
        let known = (value(journal, "header")?, value(journal, "input")?, value(journal, "columns")?);
        Ok(match known {
            (Some(header), Some(input), Some(columns)) => Some(Known { header, input, columns }),
            _ => None,
        })
    }

    /// Checks that it is of this run.
    fn checked(
        self,
        setup: &Setup,
        options: &Options,
        files: &Files,
        go_on: &dyn Fn(u64) -> Result<(), Error>,
    ) -> Result<Known, Error> {
        let input = setup.source.digest(go_on)?;
        let differences = setup.header(options, &input.sha256).differences(&self.header);
        if differences.is_empty() {
            return Ok(self);
        }
        Err(Error::Differs { path: files.journal.clone(), differences })
    }

    /// Reads the input into a new journal.
    fn enter(
        setup: &Setup,
        options: &Options,
        journal: &Journal,
        go_on: &dyn Fn(u64) -> Result<(), Error>,
    ) -> Result<Known, Error> {
        journal.clear()?;
        let indexed = index(setup, journal, go_on)?;
        let header = setup.header(options, &indexed.input.sha256);
        let known = Known { header, input: indexed.input, columns: indexed.columns };
        let values = [text(&known.header)?, text(&known.input)?, text(&known.columns)?];
        let [header, input, columns] = &values;
        journal.keep(&[("header", header), ("input", input), ("columns", columns)])?;
        Ok(known)
    }
}

fn text(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| Error::Internal(error.to_string()))
}

fn value<T: DeserializeOwned>(journal: &Journal, name: &str) -> Result<Option<T>, Error> {
    // A value that cannot be read is of another version: the input is read anew.
    Ok(journal.value(name)?.and_then(|text| serde_json::from_str(&text).ok()))
}
