//! What signals do: stop, read files again, or nothing. None but SIGKILL ends a server at once, unless it comes twice.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::operations::LogFormat;
use super::reread::Rereader;

/// The signals that a server hears. Those that it does not act on are caught too: their default would end it without a
/// drain.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    quit: Signal,
    hang_up: Signal,
    users: [Signal; 2],
    files: Rereader,
}

impl Signals {
    /// Catches signals from now on; SIGHUP has `files` read again. Called within the async runtime.
    pub(super) fn new(files: Rereader) -> std::io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            hang_up: signal(SignalKind::hangup())?,
            users: [signal(SignalKind::user_defined1())?, signal(SignalKind::user_defined2())?],
            files,
        })
    }

    /// Waits for the next signal that means the end: Ctrl-C, SIGTERM or SIGQUIT. Acts on the others meanwhile.
    pub(super) async fn next(&mut self) -> &'static str {
        let [first, second] = &mut self.users;
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => return "interrupted",
                _ = self.terminate.recv() => return "terminated",
                _ = self.quit.recv() => return "told to quit",
                _ = self.hang_up.recv() => self.files.read_again(),
                _ = first.recv() => tracing::info!("SIGUSR1 means nothing here"),
                _ = second.recv() => tracing::info!("SIGUSR2 means nothing here"),
            }
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
