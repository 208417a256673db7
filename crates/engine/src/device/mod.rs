//! The machine that several engines share: one thread pool, one memory budget, turns in milliseconds of compute.
//!
//! Every engine runs on its own thread and waits for a turn on the device before each step; during the turn it has the
//! pool for itself. So no job ever meets a busy pool, and no second pool competes for the cores. The policy is in
//! [`turns`], a plain struct; this module adds the lock and the condition variables. If another engine is next, a turn
//! ends before tokens are sampled, so that the other one computes meanwhile. See `docs/decisions/0056-device.md`.
//!
//! The lock is held for the choice only, never during computation. A waiter sleeps on its own condition variable until
//! its turn begins, its engine's inbox changes (`Waiter::interrupt`), or the engine's drain ends. A member that panics
//! leaves the device while it unwinds, which ends its turn.

mod budget;
pub(crate) mod turns;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use budget::{Full, MemoryBudget, MemoryKind, MemoryUse, Reservation};
use cpu::thread::Affinity;
use kernels::Compute;
pub(crate) use turns::Streams;
use turns::{MemberId, Turns};
pub use turns::{TurnTotals, Urgency};

/// The compute threads and the memory of this machine. Clones are the same device.
#[derive(Clone)]
pub struct Device(Arc<Shared>);

struct Shared {
    compute: Arc<Compute>,
    memory: MemoryBudget,
    state: Mutex<State>,
    began: Instant,
}

#[derive(Default)]
struct State {
    turns: Turns,
    waiters: Vec<(MemberId, Arc<Waiter>)>,
}

/// The wake-up signals of a member.
pub(crate) struct Waiter {
    name: Arc<str>,
    signals: Mutex<Signals>,
    changed: Condvar,
    /// Work that somebody waits for has come since the inbox was looked at. Read between the layers of a step.
    wanted: AtomicBool,
}

#[derive(Default)]
struct Signals {
    granted: bool,
    interrupted: bool,
}

/// The turns and compute time of an engine so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineTurns {
    /// The engine's name.
    pub engine: Arc<str>,
    /// Totals of the engine's turns.
    pub turns: TurnTotals,
}

/// An engine's membership of a device. Dropping it ends the engine's turn.
pub(crate) struct Member {
    device: Device,
    id: MemberId,
    waiter: Arc<Waiter>,
    holds: bool,
    /// Since when it has wanted a turn that has not begun.
    asked: Option<Duration>,
    /// The turn that it holds: how long it waited for it, and since when it holds it.
    turn: Option<(Duration, Duration)>,
    ended: Option<EndedTurn>,
    pinning: Pinning,
}

/// A turn that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EndedTurn {
    /// From the wish for the turn to its beginning.
    pub(crate) waited: Duration,
    /// From its beginning to its end.
    pub(crate) held: Duration,
}

/// Where the member's thread may run. Alone on a device it keeps to the pool's first CPU. With others it may run
/// anywhere, so that sampling does not compete with another's step for that CPU.
#[derive(Debug)]
enum Pinning {
    Unknown,
    Pinned(Option<Affinity>),
    Free(Option<Affinity>),
}

impl Device {
    /// A device that computes with `compute` and shares out `memory`.
    pub fn new(compute: Compute, memory: MemoryBudget) -> Device {
        let state = Mutex::default();
        Device(Arc::new(Shared { compute: Arc::new(compute), memory, state, began: Instant::now() }))
    }

    /// A device for one engine, whose memory was checked before.
    pub fn of_one(compute: Compute) -> Device {
        Device::new(compute, MemoryBudget::unlimited())
    }

    /// The kernels' instructions and threads. Whoever computes with them holds a turn, or is alone: see
    /// [`Device::exclusive`].
    pub fn compute(&self) -> &Arc<Compute> {
        &self.0.compute
    }

    /// The memory that engines reserve from.
    pub fn memory(&self) -> &MemoryBudget {
        &self.0.memory
    }

    /// The turns of each running engine so far, in the order in which they started.
    pub fn engines(&self) -> Vec<EngineTurns> {
        let state = self.lock();
        let of = |(id, waiter): &(MemberId, Arc<Waiter>)| EngineTurns {
            engine: waiter.name.clone(),
            turns: state.turns.totals(*id),
        };
        state.waiters.iter().map(of).collect()
    }

    /// Runs work that is not an engine's step, such as a measurement, in a turn of urgency [`Urgency::Batch`]. `work`
    /// runs on this thread while all engines wait, so it should be short.
    pub fn exclusive<T>(&self, name: &str, work: impl FnOnce(&Compute) -> T) -> T {
        let mut member = self.join(name, Duration::MAX);
        // Nobody interrupts this member, so the first wait ends with its turn.
        while !member.acquire(Urgency::Batch, None).0 {}
        work(&self.0.compute)
    }

    /// Kernels that run on the calling thread only, for long work concurrent with the engines, such as loading a model.
    /// Such kernels need no turn, as they do not use the pool.
    ///
    /// # Errors
    /// Errors of creating a pool of one, which starts no threads.
    pub fn single_threaded(&self) -> std::io::Result<Compute> {
        let Compute { tier, prompt_tiles, .. } = *self.0.compute;
        Ok(Compute { prompt_tiles, ..Compute::new(tier, cpu::Pool::new(1, None)?) })
    }

    /// A place for an engine whose streams should wait no longer than `max_stall` for their next token.
    pub(crate) fn join(&self, name: &str, max_stall: Duration) -> Member {
        let waiter = Arc::new(Waiter {
            name: Arc::from(name),
            signals: Mutex::default(),
            changed: Condvar::new(),
            wanted: AtomicBool::new(false),
        });
        let mut state = self.lock();
        let id = state.turns.join(max_stall);
        state.waiters.push((id, waiter.clone()));
        drop(state);
        Member {
            device: self.clone(),
            id,
            waiter,
            holds: false,
            asked: None,
            turn: None,
            ended: None,
            pinning: Pinning::Unknown,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.0.began.elapsed()
    }
}

impl State {
    /// Wakes the member whose turn has begun, if any.
    fn wake(&self, next: Option<MemberId>) {
        let waiter = next.and_then(|next| self.waiters.iter().find(|(id, _)| *id == next));
        if let Some((_, waiter)) = waiter {
            waiter.signals().granted = true;
            waiter.changed.notify_one();
        }
    }
}

impl Waiter {
    fn signals(&self) -> MutexGuard<'_, Signals> {
        self.signals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that work has come which somebody waits for: a step of batch work is given up for it.
    pub(crate) fn want(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    /// Ends the wait for a turn, the present one or the next, so that the engine's thread looks at its inbox.
    pub(crate) fn interrupt(&self) {
        self.signals().interrupted = true;
        self.changed.notify_one();
    }

    /// Sleeps until the turn begins (true), an interrupt, or `until`.
    fn wait(&self, until: Option<Instant>) -> bool {
        let mut signals = self.signals();
        loop {
            if signals.interrupted {
                signals.interrupted = false;
                return false;
            }
            if std::mem::take(&mut signals.granted) {
                return true;
            }
            signals = match until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => self.changed.wait(signals).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return false,
                Some(left) => {
                    self.changed.wait_timeout(signals, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

impl Member {
    /// The signals that interrupt this member's waits.
    pub(crate) fn waiter(&self) -> &Arc<Waiter> {
        &self.waiter
    }

    /// Clears earlier interrupts, as the caller checks their causes next.
    pub(crate) fn clear_interrupt(&self) {
        self.waiter.wanted.store(false, Ordering::Relaxed);
        self.waiter.signals().interrupted = false;
    }

    /// Waits for a turn and begins it, after ending one that this member still holds. False if the wait ended by an
    /// interrupt or at `until`: the member keeps its place, and the next call continues to wait.
    pub(crate) fn begin(&mut self, urgency: Urgency, until: Option<Instant>) -> bool {
        let (holds, alone) = self.acquire(urgency, until);
        if holds {
            self.pin(alone);
        }
        holds
    }

    /// As [`Member::begin`], wherever the thread runs. Also returns whether the member is the only one.
    fn acquire(&mut self, urgency: Urgency, until: Option<Instant>) -> (bool, bool) {
        let now = self.device.now();
        self.end_turn(now);
        let asked = *self.asked.get_or_insert(now);
        let mut state = self.device.lock();
        let next = if self.holds {
            state.turns.renew(self.id, urgency, now)
        } else {
            state.turns.ask(self.id, urgency, now)
        };
        self.holds = next == Some(self.id);
        if !self.holds {
            state.wake(next);
        }
        let alone = state.turns.len() == 1;
        drop(state);
        let mut began = now;
        if self.holds {
            // The turn may have begun while the engine checked its inbox.
            self.waiter.signals().granted = false;
        } else {
            self.holds = self.waiter.wait(until);
            began = self.device.now();
        }
        if self.holds {
            self.asked = None;
            self.turn = Some((began.saturating_sub(asked), began));
        }
        (self.holds, alone)
    }

    /// Ends the turn early, as the pool is not needed any more, if another member is next. Otherwise the turn
    /// continues, as this member would be next anyway.
    pub(crate) fn yield_turn(&mut self) {
        if !self.holds {
            return;
        }
        let now = self.device.now();
        let mut state = self.device.lock();
        if state.turns.outranked(self.id, now) {
            self.holds = false;
            let next = state.turns.release(self.id, now);
            state.wake(next);
            drop(state);
            self.end_turn(now);
        }
    }

    /// Whether work that somebody waits for has come since [`Member::clear_interrupt`].
    pub(crate) fn is_wanted(&self) -> bool {
        self.waiter.wanted.load(Ordering::Relaxed)
    }

    /// Whether the member has a turn, which it may have given up.
    pub(crate) fn holds_turn(&self) -> bool {
        self.holds
    }

    /// What the streams of other engines bear; none if no other engine decodes.
    pub(crate) fn streams(&self) -> Option<Streams> {
        self.device.lock().turns.streams(self.id)
    }

    /// Ends the turn or the wait for one: there is nothing to do.
    pub(crate) fn rest(&mut self) {
        let now = self.device.now();
        let mut state = self.device.lock();
        let next = state.turns.rest(self.id, now);
        state.wake(next);
        drop(state);
        self.end_turn(now);
        self.asked = None;
        self.holds = false;
        self.waiter.signals().granted = false;
    }

    /// The last turn that ended, once.
    pub(crate) fn take_ended(&mut self) -> Option<EndedTurn> {
        self.ended.take()
    }

    fn end_turn(&mut self, now: Duration) {
        if let Some((waited, began)) = self.turn.take() {
            self.ended = Some(EndedTurn { waited, held: now.saturating_sub(began) });
        }
    }

    /// Longest that a step should take for the sake of other engines' streams; none if no other engine decodes.
    pub(crate) fn max_stall(&self) -> Option<Duration> {
        self.device.lock().turns.max_stall(self.id)
    }

    #[cfg(test)]
    pub(crate) fn totals(&self) -> TurnTotals {
        self.device.lock().turns.totals(self.id)
    }

    /// Pins this thread to the pool's first CPU if the member is alone on the device, else unpins it.
    fn pin(&mut self, alone: bool) {
        let before = match &mut self.pinning {
            Pinning::Unknown => Affinity::of_caller(),
            Pinning::Pinned(_) if alone => return,
            Pinning::Free(_) if !alone => return,
            Pinning::Pinned(before) | Pinning::Free(before) => before.take(),
        };
        if alone {
            self.device.0.compute.pool.pin_caller();
            self.pinning = Pinning::Pinned(before);
        } else {
            if let Some(before) = &before {
                before.apply();
            }
            self.pinning = Pinning::Free(before);
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let now = self.device.now();
        let mut state = self.device.lock();
        let next = state.turns.leave(self.id, now);
        state.waiters.retain(|(id, _)| *id != self.id);
        state.wake(next);
    }
}

#[cfg(test)]
mod tests;
