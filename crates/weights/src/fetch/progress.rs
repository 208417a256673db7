//! Progress events of a pull, and its cancellation.

use super::error::Error;
use std::time::Duration;

/// A progress event of a pull. Its texts contain no secrets.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A source is being tried.
    Source {
        /// Model as the user knows it.
        model: &'a str,
        /// The source as text.
        source: &'a str,
    },
    /// A source failed; the next one, if any, is tried.
    SourceFailed {
        /// The source as text.
        source: &'a str,
        /// The error of this source.
        error: &'a Error,
    },
    /// The download of a file begins.
    Begin {
        /// File within the model.
        file: &'a str,
        /// Length in bytes, if known.
        total_bytes: Option<u64>,
        /// Bytes from an earlier attempt.
        resumed_bytes: u64,
    },
    /// The file holds this many bytes now.
    Bytes {
        /// File within the model.
        file: &'a str,
        /// Bytes received so far.
        done_bytes: u64,
    },
    /// The file is complete and verified.
    End {
        /// File within the model.
        file: &'a str,
    },
    /// An attempt failed, and will be repeated after a pause.
    Retry {
        /// File within the model.
        file: &'a str,
        /// The error of the attempt.
        reason: &'a str,
        /// Pause in milliseconds.
        pause_ms: u64,
    },
    /// Another process is pulling the same model.
    Waiting {
        /// Model as the user knows it.
        model: &'a str,
        /// Seconds waited so far.
        waited_s: u64,
    },
    /// Files on disk are being hashed.
    Verify {
        /// File within the model.
        file: &'a str,
        /// Length in bytes.
        total_bytes: u64,
    },
}

/// An observer of a pull, which can cancel it.
pub trait Progress {
    /// Called often, from the pulling thread; must not block for long.
    fn event(&mut self, event: Event<'_>);

    /// Called between chunks of at most 256 KiB and during pauses; true ends the pull with [`Error::Cancelled`].
    fn cancelled(&mut self) -> bool {
        false
    }
}

/// A [`Progress`] that ignores all events and never cancels.
#[derive(Debug, Default, Clone, Copy)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn event(&mut self, _: Event<'_>) {}
}

/// Sleeps in slices, so that a cancellation takes effect within a tenth of a second.
pub(crate) fn pause(length: Duration, progress: &mut dyn Progress) -> Result<(), Error> {
    let end = std::time::Instant::now() + length;
    loop {
        if progress.cancelled() {
            return Err(Error::Cancelled);
        }
        let left = end.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(Duration::from_millis(100)));
    }
}
