//! When to stop.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::operations::LogFormat;

/// Ctrl-C and SIGTERM.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(super) fn new() -> std::io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next of either.
    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "interrupted",
            _ = self.terminate.recv() => "terminated",
        }
    }
}

/// Waits for the second signal.
#[allow(clippy::exit, reason = "the second signal means now, whatever is still running")]
pub(super) async fn end_at_once(mut signals: Signals, log: LogFormat) {
    let name = signals.next().await;
    log.say(&format!("{name} again: ending at once"));
    std::process::exit(130)
}
