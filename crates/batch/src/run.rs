//! A run from its beginning to its end.

use crate::cancel::Cancel;
use crate::drive::{Drive, Driven};
use crate::error::Error;
use crate::feed::{Work, blocking};
use crate::hashing::Digested;
use crate::journal::header::Header;
use crate::meter::Meter;
use crate::open::{Begun, Opened, form, open};
use crate::options::Options;
use crate::output::manifest::{Manifest, SEED_RULE};
use crate::output::sink::Stream;
use crate::output::whole::remove;
use crate::output::write::{Written, write};
use crate::report::{Outcome, Phase, Progress, Report, Stopped, Watcher};
use crate::runner::Runner;
use crate::setup::Files;
use std::io::{Read, Write};
use std::sync::Arc;

/// Streams in place of files.
#[derive(Default)]
pub struct Streams {
    /// Read to its end when the input is [`Input::Stream`](crate::options::Input::Stream).
    pub input: Option<Box<dyn Read + Send>>,
    /// Gets the output when [`Options::output`] is `None`.
    pub output: Option<Box<dyn Write + Send>>,
}

/// Runs every line of the input that has no answer yet, and writes the output.
///
/// Answers are kept in the journal in groups of 256 or of one second, whichever comes first: a kill costs at most the
/// requests of one group and those that were running. The output is written at the end: whole, in the order of the input.
///
/// # Errors
/// If the run cannot begin or go on. Failures of lines are no errors of the run.
pub async fn run(
    options: Options,
    runner: Arc<dyn Runner>,
    streams: Streams,
    watcher: Watcher,
    cancel: Cancel,
) -> Result<Report, Error> {
    let files = Files::new(&options)?;
    let mut meter = Meter::new(Arc::clone(&watcher), options.prices);
    meter.enter(Phase::Reading);
    let (input, places, switch) = (streams.input, files.clone(), cancel.clone());
    let opened = blocking(move || open(options, &places, input, &watcher, switch)).await;
    let begun = match opened {
        Ok(Opened::Run(begun)) => *begun,
        Ok(Opened::Complete(manifest)) => return Ok(already_complete(&meter, &manifest)),
        Err(Error::Cancelled) => return Ok(report(&meter, Outcome::Stopped(Stopped::Cancelled))),
        Err(error) => return Err(error),
    };
    let (counts, tokens) = begun.work.journal.counts()?;
    meter.take_over(counts, tokens);
    let resumed = counts.succeeded + counts.failed;
    let Begun { work, header, input, columns } = begun;
    let work = Arc::new(work);

    meter.enter(Phase::Running);
    let driven = Drive::new(Arc::clone(&work), runner, &mut meter).run().await?;
    let Driven { stopped, last_fault } = driven;
    if let Some(stopped) = stopped {
        return Ok(Report { resumed, last_fault, ..report(&meter, Outcome::Stopped(stopped)) });
    }

    meter.enter(Phase::Writing);
    let end = End { work, files, header, input, columns, progress: meter.progress(), cost: meter.cost() };
    match blocking(move || end.write(streams.output)).await {
        Ok(outcome) => Ok(Report { resumed, ..report(&meter, outcome) }),
        Err(Error::Cancelled) => {
            Ok(Report { resumed, ..report(&meter, Outcome::Stopped(Stopped::Cancelled)) })
        }
        Err(error) => Err(error),
    }
}

/// What is left when every request has ended.
struct End {
    work: Arc<Work>,
    files: Files,
    header: Header,
    input: Digested,
    columns: Vec<String>,
    progress: Progress,
    cost: Option<u64>,
}

impl End {
    /// Writes the output and what lies beside it; then the journal has served.
    fn write(self, stream: Option<Stream>) -> Result<Outcome, Error> {
        let written = write(&self.work, &self.files, stream, &self.input, &self.columns)?;
        let outcome = if written.failed_lines == 0 { Outcome::Complete } else { Outcome::SomeFailed };
        self.manifest(written).write(&self.files.manifest)?;
        // With failures it is kept, so that they can be tried again.
        let has_served = outcome == Outcome::Complete && !self.work.options.keep_journal;
        if let (true, Some(work)) = (has_served, Arc::into_inner(self.work)) {
            remove(&self.files.spool)?;
            work.journal.remove()?;
        }
        Ok(outcome)
    }

    fn manifest(&self, written: Written) -> Manifest {
        Manifest {
            gristmill: env!("CARGO_PKG_VERSION").to_owned(),
            run: self.header.clone(),
            form: form(&self.work.options),
            input: self.input.clone(),
            output: written.output,
            errors: written.errors,
            counts: self.progress.counts,
            failed_lines: written.failed_lines,
            usage: self.progress.tokens,
            cost_micros: self.cost,
            seed: SEED_RULE.to_owned(),
        }
    }
}

fn report(meter: &Meter, outcome: Outcome) -> Report {
    let progress = meter.progress();
    Report {
        outcome,
        counts: progress.counts,
        resumed: 0,
        finished_now: progress.finished_now,
        retries: progress.retries,
        tokens: progress.tokens,
        cost: meter.cost(),
        predicted_reuse: progress.predicted_reuse,
        elapsed: progress.elapsed,
        last_fault: None,
        already_complete: false,
    }
}

/// The report of a run that was complete before.
fn already_complete(meter: &Meter, manifest: &Manifest) -> Report {
    let outcome = if manifest.failed_lines == 0 { Outcome::Complete } else { Outcome::SomeFailed };
    Report {
        counts: manifest.counts,
        resumed: manifest.counts.succeeded + manifest.counts.failed,
        tokens: manifest.usage,
        cost: manifest.cost_micros,
        already_complete: true,
        ..report(meter, outcome)
    }
}
