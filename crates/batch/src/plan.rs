//! What a run would do, found without running it.

use crate::cancel::Cancel;
use crate::error::Error;
use crate::feed::{Feed, Ready, Work, blocking};
use crate::index::index;
use crate::journal::store::Journal;
use crate::open::{go_on, input};
use crate::options::{Input, Options};
use crate::output::whole::{remove, with_ending};
use crate::report::{Counts, Plan, Watcher, ratio};
use crate::run::Streams;
use crate::runner::Runner;
use crate::setup::{Files, Setup};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Requests whose tokens are counted at once.
const COUNTED: usize = 64;
/// Faults of lines that are shown.
const FAULTS: usize = 20;
/// Bytes of a token, where tokens cannot be counted.
const BYTES_PER_TOKEN: u64 = 4;

/// Reads the input and tells what a run would do. Leaves nothing behind.
///
/// # Errors
/// If the input cannot be read or the options do not fit it.
pub async fn plan(
    options: Options,
    runner: Option<Arc<dyn Runner>>,
    streams: Streams,
    watcher: Watcher,
    cancel: Cancel,
) -> Result<Plan, Error> {
    let copy = copy_path(&options)?;
    let place = copy.clone();
    let read = blocking(move || read(options, &place, streams.input, &watcher, cancel)).await;
    let plan = match read {
        Ok(read) => weigh(read, runner).await,
        Err(error) => Err(error),
    };
    remove(&copy)?;
    plan
}

/// Where a stream is copied to.
fn copy_path(options: &Options) -> Result<PathBuf, Error> {
    let beside = match &options.input {
        Input::File(path) if options.output.is_none() && options.beside.is_none() => path.clone(),
        _ => Files::new(options)?.spool,
    };
    Ok(with_ending(&beside, &format!(".plan-{}", std::process::id())))
}

/// The lines of the input.
struct Lines {
    work: Arc<Work>,
    counts: Counts,
    bytes: u64,
    faults: Vec<(u64, String)>,
}

fn read(
    options: Options,
    copy: &Path,
    stream: Option<Box<dyn Read + Send>>,
    watcher: &Watcher,
    cancel: Cancel,
) -> Result<Lines, Error> {
    let go_on = go_on(watcher, &cancel);
    let (path, format) = input(&options, copy, stream, &go_on)?;
    let setup = Setup::new(&options, &path, format)?;
    let journal = Journal::temporary()?;
    let indexed = index(&setup, &journal, &go_on)?;
    let (counts, _) = journal.counts()?;
    let faults = journal.faults(FAULTS)?;
    let work = Arc::new(Work { options, setup, journal, cancel: cancel.clone() });
    Ok(Lines { work, counts, bytes: indexed.input.bytes, faults })
}

async fn weigh(read: Lines, runner: Option<Arc<dyn Runner>>) -> Result<Plan, Error> {
    let mut feed = Feed::new(Arc::clone(&read.work));
    let mut counter = Counter { runner, group: Vec::new(), tokens: 0, estimated: false };
    let (mut limits, mut unlimited) = (0u64, 0);
    while let Some(ready) = feed.next().await? {
        read.work.go_on()?;
        match ready.output_limit {
            Some(limit) => limits = limits.saturating_add(limit),
            None => unlimited += 1,
        }
        counter.add(ready).await;
    }
    counter.count().await;
    Ok(Plan {
        counts: read.counts,
        bytes: read.bytes,
        prompt_tokens: counter.tokens,
        estimated: counter.estimated,
        max_completion_tokens: limits,
        unlimited,
        predicted_reuse: ratio(feed.reuse().shared, feed.reuse().total),
        faults: read.faults,
    })
}

/// Counts the tokens of prompts in groups of one endpoint.
struct Counter {
    runner: Option<Arc<dyn Runner>>,
    group: Vec<Ready>,
    tokens: u64,
    estimated: bool,
}

impl Counter {
    async fn add(&mut self, ready: Ready) {
        let is_other = self.group.first().is_some_and(|first| first.path != ready.path);
        if is_other || self.group.len() >= COUNTED {
            self.count().await;
        }
        self.group.push(ready);
    }

    async fn count(&mut self) {
        let group = std::mem::take(&mut self.group);
        let Some(path) = group.first().map(|first| first.path) else { return };
        let bytes: u64 = group.iter().map(|ready| jobs::beginning(&ready.body).len() as u64).sum();
        let count = group.len();
        let counted = match &self.runner {
            Some(runner) => runner.count(path, group.into_iter().map(|ready| ready.body).collect()).await,
            None => None,
        };
        let sum = match counted.filter(|counts| counts.len() == count) {
            Some(counts) => counts.iter().fold(0, |sum: u64, one| sum.saturating_add(*one)),
            None => {
                self.estimated = true;
                bytes.div_ceil(BYTES_PER_TOKEN)
            }
        };
        self.tokens = self.tokens.saturating_add(sum);
    }
}
