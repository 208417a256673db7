//! The inbox of an engine's thread: work that arrives from any thread, and the end of the engine.
//!
//! One mutex guards what has arrived and is held for a few instructions on either side. The thread sleeps on `changed`
//! while it has nothing to do, and on the device's condition variable while it waits for a turn; a change of the inbox
//! wakes it from both. Both kinds of engines, of generation and of encoding, have one.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::device::{EndedTurn, Member, Waiter};

/// Work that arrives from any thread for one thread.
pub(crate) struct Inbox<T> {
    state: Mutex<InboxState<T>>,
    /// Notified when the state changes or a ticket is dropped.
    changed: Condvar,
    /// The thread's wait for a turn, which the same ends.
    turn: Arc<Waiter>,
    /// Notified when the thread has ended.
    ended: Condvar,
    began: Instant,
}

/// What the mutex guards.
pub(crate) struct InboxState<T> {
    /// Work that the thread has not taken.
    pub(crate) arrived: VecDeque<T>,
    /// No more submissions.
    pub(crate) closed: bool,
    /// After this everything left is cancelled.
    deadline: Option<Duration>,
    /// The thread is gone.
    ended: bool,
}

/// What a thread does with its work.
pub(crate) trait Worker {
    /// A piece of work.
    type Work;
    /// How work ends that is not finished.
    type Outcome;

    /// Takes work that has arrived.
    fn accept(&mut self, work: Self::Work);

    /// Whether there is nothing to do.
    fn is_idle(&self) -> bool;

    /// Told of the last turn on the device.
    fn watch_turn(&mut self, ended: Option<EndedTurn>);

    /// Begins work that nobody waits for or asked for, if there is some: whatever arrives ends it. True if there is
    /// something to do now.
    fn begin_spare_work(&mut self, _now: Duration) -> bool {
        false
    }

    /// Has spare work cancelled.
    fn end_spare_work(&mut self) {}

    /// Ends the time that counts as a wait for the device.
    fn end_wait(&mut self, now: Duration);

    /// Ends one piece of work.
    fn end_one(&mut self, outcome: &Self::Outcome, now: Duration);
}

impl<T> Inbox<T> {
    /// An empty inbox of the thread that waits for turns with `turn`.
    pub(crate) fn new(turn: Arc<Waiter>) -> Inbox<T> {
        let state = InboxState { arrived: VecDeque::new(), closed: false, deadline: None, ended: false };
        let (changed, ended) = (Condvar::new(), Condvar::new());
        Inbox { state: Mutex::new(state), changed, turn, ended, began: Instant::now() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, InboxState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time since the engine was started.
    pub(crate) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// The clock's time so long after the engine was started; none if that is beyond what it counts.
    pub(crate) fn instant(&self, at: Duration) -> Option<Instant> {
        self.began.checked_add(at)
    }

    /// Time from the start of the engine to `at`.
    pub(crate) fn since_start(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.began)
    }

    /// Wakes the thread to look at its inbox.
    pub(crate) fn wake(&self) {
        self.changed.notify_all();
        self.turn.interrupt();
    }

    /// As [`Inbox::wake`], for work that somebody waits for.
    pub(crate) fn wake_for_awaited(&self) {
        self.turn.want();
        self.wake();
    }

    /// Whether submissions are taken.
    pub(crate) fn is_open(&self) -> bool {
        !self.lock().closed
    }

    /// Closes the inbox to submissions; accepted work continues.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.wake();
    }

    /// Closes the inbox, waits until the work is done, has what is left after `deadline` cancelled, and returns when
    /// the thread has ended.
    pub(crate) fn drain(&self, deadline: Duration) {
        let mut state = self.lock();
        state.closed = true;
        let end = self.now().saturating_add(deadline);
        state.deadline = Some(state.deadline.map_or(end, |earlier| earlier.min(end)));
        self.wake();
        while !state.ended {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Marks the thread as gone.
    pub(crate) fn mark_ended(&self) {
        self.lock().ended = true;
        self.ended.notify_all();
    }

    /// Hands over what has arrived, and waits until there is something to do. Returns when a drain will be over, if
    /// there is one; none if the worker is done.
    pub(crate) fn take_work(
        &self,
        worker: &mut impl Worker<Work = T>,
        member: &mut Member,
    ) -> Option<Option<Duration>> {
        let mut state = self.lock();
        loop {
            member.clear_interrupt();
            state.arrived.drain(..).for_each(|work| worker.accept(work));
            if state.deadline.is_some_and(|deadline| self.now() >= deadline) {
                return None;
            }
            if state.closed {
                worker.end_spare_work();
            }
            if !worker.is_idle() {
                return Some(state.deadline);
            }
            if state.closed {
                return None;
            }
            if worker.begin_spare_work(self.now()) {
                return Some(state.deadline);
            }
            member.rest();
            worker.watch_turn(member.take_ended());
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Closes the inbox and ends whatever is left with `outcome`, even if its receiver panics in turn.
    pub(crate) fn end_all<W: Worker<Work = T>>(&self, worker: &mut W, outcome: &W::Outcome) {
        let mut state = self.lock();
        state.closed = true;
        let left = std::mem::take(&mut state.arrived);
        drop(state);
        left.into_iter().for_each(|work| worker.accept(work));
        worker.end_wait(self.now());
        while !worker.is_idle() {
            // Each round ends at least one, panic or not.
            let _ = catch_unwind(AssertUnwindSafe(|| worker.end_one(outcome, self.now())));
        }
    }
}
