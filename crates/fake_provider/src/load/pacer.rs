//! Waiting until a moment, to some ten microseconds: the runtime's own timers have steps of a millisecond.

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::time::Instant;
use tokio::net::unix::pipe::Receiver;

/// A timer of the operating system, which becomes readable at its time as a pipe does.
pub(super) struct Pacer(Receiver);

impl Pacer {
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        Ok(Self(Receiver::from_owned_fd_unchecked(timerfd_create(TimerfdClockId::Monotonic, flags)?)?))
    }

    /// Waits until a moment; past ones are not waited for.
    pub(super) async fn until(&mut self, due: Instant) {
        let wait = due.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            return;
        }
        if self.sleep(wait).await.is_err() {
            // A coarser timer is better than none.
            tokio::time::sleep_until(due.into()).await;
        }
    }

    async fn sleep(&mut self, wait: std::time::Duration) -> io::Result<()> {
        let seconds = i64::try_from(wait.as_secs()).unwrap_or(i64::MAX);
        let it_value = Timespec { tv_sec: seconds, tv_nsec: i64::from(wait.subsec_nanos()) };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once)?;
        let mut expirations = [0; 8];
        loop {
            self.0.readable().await?;
            match self.0.try_read(&mut expirations) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                read => return read.map(drop),
            }
        }
    }
}
