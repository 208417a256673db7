//! Who watches a pull, and may stop it.

use super::error::Error;
use std::time::Duration;

/// What happens during a pull. Texts are plain and carry no secrets.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A source is being tried.
    Source {
        /// Model as the user knows it.
        model: &'a str,
        /// Source in its written form.
        source: &'a str,
    },
    /// A source failed; the next one, if any, is tried.
    SourceFailed {
        /// Source in its written form.
        source: &'a str,
        /// Why.
        error: &'a Error,
    },
    /// Bytes of a file begin to arrive.
    Begin {
        /// File within the model.
        file: &'a str,
        /// Length in bytes when known.
        total_bytes: Option<u64>,
        /// Bytes that an earlier attempt already brought.
        resumed_bytes: u64,
    },
    /// The file holds this many bytes now.
    Bytes {
        /// File within the model.
        file: &'a str,
        /// Bytes present.
        done_bytes: u64,
    },
    /// The file is complete and its hash is right.
    End {
        /// File within the model.
        file: &'a str,
    },
    /// An attempt failed and is repeated after a pause.
    Retry {
        /// File within the model.
        file: &'a str,
        /// Why.
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

/// Who watches a pull, and may stop it.
pub trait Progress {
    /// Called often, from the pulling thread; must not block for long.
    fn event(&mut self, event: Event<'_>);

    /// Asked between chunks of at most 256 KiB and in every pause; true ends the pull with [`Error::Cancelled`].
    fn cancelled(&mut self) -> bool {
        false
    }
}

/// Watches nothing.
#[derive(Debug, Default, Clone, Copy)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn event(&mut self, _: Event<'_>) {}
}

/// Sleeps in slices, so that a cancel is heard within a tenth of a second.
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
