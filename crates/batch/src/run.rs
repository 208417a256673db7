//! A run from its beginning to its end.

use crate::cancel::Cancel;
use crate::error::Error;
use crate::options::Options;
use crate::report::{Plan, Report, Watcher};
use crate::runner::Runner;
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
/// # Errors
/// If the run cannot begin or go on. Failures of lines are no errors of the run.
pub async fn run(
    options: Options,
    runner: Arc<dyn Runner>,
    streams: Streams,
    watcher: Watcher,
    cancel: Cancel,
) -> Result<Report, Error> {
    drop((options, runner, streams, watcher, cancel));
    Err(Error::Internal("not there yet".to_owned()))
}

/// Reads the input and tells what a run would do. Writes nothing but a spooled stream, which is removed.
///
/// # Errors
/// If the input cannot be read or the options do not fit it.
pub async fn plan(
    options: Options,
    runner: Option<Arc<dyn Runner>>,
    streams: Streams,
    cancel: Cancel,
) -> Result<Plan, Error> {
    drop((options, runner, streams, cancel));
    Err(Error::Internal("not there yet".to_owned()))
}
