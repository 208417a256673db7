//! The scheduling policy of a shared device: which engine computes next. Plain data, with the time as an argument.
//!
//! Each member (an engine) has a *virtual time*: the milliseconds that it computed, divided by the weight of what it
//! computed. A free device goes to the waiting member of the most urgent class, and within a class to the one with the
//! least virtual time, so compute time is shared by weight whatever the lengths of the steps. Three rules bound the
//! rest:
//!
//! - *No starvation.* A waiter whose virtual time lags more than [`LAG`] behind that of the more urgent ones overtakes
//!   them.
//! - *Short gaps.* It overtakes no member that a less urgent turn has already kept waiting. So between two steps of a
//!   decoding engine there is at most one step of less urgent engines, whose length [`Turns::max_stall`] bounds.
//! - *No hoarding.* A member that was idle starts at the least virtual time of the busy ones, and a busy one is never
//!   more than [`CREDIT`] behind the member that computed most.
//!
//! No clock, no thread, no lock: the simulator and the property tests drive it by hand.

use std::time::Duration;

/// Virtual milliseconds by which a less urgent waiter must lag to overtake: 100 ms of decode steps of the others.
const LAG: f64 = 25.0;
/// Virtual milliseconds that a busy member may be behind the one that computed most.
const CREDIT: f64 = 500.0;
/// Weight of a new turn in the moving average of decoding turns.
const NEW_TURN_WEIGHT: f64 = 0.125;

/// How urgent the most urgent work of an engine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Urgency {
    /// A running stream waits for its next token.
    Decode,
    /// A prompt waits to be read.
    Prompt,
    /// Nobody waits: batch work, loading, measurements.
    Batch,
}

impl Urgency {
    /// All of them, the most urgent first.
    pub const ALL: [Urgency; 3] = [Urgency::Decode, Urgency::Prompt, Urgency::Batch];

    /// The class's weight in sharing compute time.
    fn weight(self) -> f64 {
        match self {
            Urgency::Decode | Urgency::Prompt => 4.0,
            Urgency::Batch => 1.0,
        }
    }
}

/// A member of a device that has not left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct MemberId(u64);

/// What streams of other members bear, where some decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Streams {
    /// The usual turn of a decoding member, the shortest of all; zero before the first one.
    pub(crate) step: Duration,
    /// Longest time between two tokens of a stream, the least of all.
    pub(crate) max_stall: Duration,
}

/// Totals of a member's turns since it joined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TurnTotals {
    /// Turns taken.
    pub turns: u64,
    /// Time in those turns.
    pub computed: Duration,
    /// Time spent waiting for turns.
    pub waited: Duration,
    /// The longest of the waits.
    pub longest_wait: Duration,
}

#[derive(Debug)]
struct Member {
    id: MemberId,
    /// Longest time between two tokens of a stream of this member.
    max_stall: Duration,
    /// Virtual milliseconds.
    served: f64,
    /// Urgency of the member's last request; none while it is idle.
    busy: Option<Urgency>,
    /// Start of the current wait for a turn; none while the member does not wait.
    waits_since: Option<Duration>,
    /// Whether a less urgent turn held the device while the member waited.
    held_up: bool,
    /// Moving average of its decoding turns; zero before the first.
    decode_turn: Duration,
    totals: TurnTotals,
}

impl Member {
    /// Whether it has streams, whose tokens somebody waits for.
    fn streams(&self) -> bool {
        self.busy == Some(Urgency::Decode) && self.max_stall < Duration::MAX
    }

    /// Learns how long a decoding turn was.
    fn observe_decode(&mut self, turn: Duration) {
        self.decode_turn = match self.decode_turn {
            Duration::ZERO => turn,
            known => known.mul_f64(1.0 - NEW_TURN_WEIGHT) + turn.mul_f64(NEW_TURN_WEIGHT),
        };
    }

    fn waits(&self) -> bool {
        self.waits_since.is_some()
    }

    fn urgency(&self) -> Urgency {
        self.busy.unwrap_or(Urgency::Batch)
    }
}

/// The turn that is under way.
#[derive(Debug, Clone, Copy)]
struct Holder {
    id: MemberId,
    began: Duration,
    /// Until here the member is charged for the turn.
    since: Duration,
    urgency: Urgency,
}

/// The members of a device and the current turn. While any member waits, one holds a turn.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    members: Vec<Member>,
    holder: Option<Holder>,
    joined: u64,
    /// The most virtual time of any member so far.
    most_served: f64,
}

impl Turns {
    /// Adds a member whose streams should wait no longer than `max_stall` for a token.
    pub(crate) fn join(&mut self, max_stall: Duration) -> MemberId {
        self.joined += 1;
        let id = MemberId(self.joined);
        let totals = TurnTotals::default();
        let (served, busy, waits_since, held_up) = (0.0, None, None, false);
        let decode_turn = Duration::ZERO;
        self.members.push(Member { id, max_stall, served, busy, waits_since, held_up, decode_turn, totals });
        id
    }

    /// Removes a member in any state. Returns the member whose turn begins now.
    pub(crate) fn leave(&mut self, id: MemberId, now: Duration) -> Option<MemberId> {
        let next = self.rest(id, now);
        self.members.retain(|member| member.id != id);
        next
    }

    /// Requests a turn, or changes the urgency of a request. Returns this member if its turn begins now, none while
    /// another holds the device. In that case the turn begins when the end of the other one's turn returns this member.
    pub(crate) fn ask(&mut self, id: MemberId, urgency: Urgency, now: Duration) -> Option<MemberId> {
        let (floor, least) = (self.floor(), self.most_served - CREDIT);
        let held_up = self.holder.is_some_and(|holder| holder.urgency > urgency);
        let holds = self.holds(id);
        let member = self.member(id)?;
        if member.busy.replace(urgency).is_none() {
            member.served = member.served.max(floor);
        }
        member.served = member.served.max(least);
        if holds {
            self.charge(now);
            self.holder = Some(Holder { id, began: now, since: now, urgency });
            return Some(id);
        }
        if member.waits_since.is_none() {
            (member.waits_since, member.held_up) = (Some(now), held_up);
        }
        if self.holder.is_none() { self.grant(now) } else { None }
    }

    /// Ends the member's turn and asks for the next. Returns whose turn begins now; that may be this member's.
    pub(crate) fn renew(&mut self, id: MemberId, urgency: Urgency, now: Duration) -> Option<MemberId> {
        if self.holds(id) {
            self.end_turn(now);
        }
        self.ask(id, urgency, now)
    }

    /// Ends the member's turn, if it holds one. Returns the member whose turn begins now.
    pub(crate) fn release(&mut self, id: MemberId, now: Duration) -> Option<MemberId> {
        if !self.holds(id) {
            return None;
        }
        self.end_turn(now);
        self.grant(now)
    }

    /// Whether another member would be next if the holder ended its turn and requested another now.
    pub(crate) fn outranked(&mut self, id: MemberId, now: Duration) -> bool {
        if !self.holds(id) {
            return false;
        }
        self.charge(now);
        let mut pretend = |waits_since, held_up| {
            if let Some(member) = self.member(id) {
                (member.waits_since, member.held_up) = (waits_since, held_up);
            }
            self.choose()
        };
        let next = pretend(Some(now), false);
        pretend(None, false);
        next.is_some_and(|next| next != id)
    }

    /// Marks a member as idle: it waits for no turn and holds none. Returns the member whose turn begins now.
    pub(crate) fn rest(&mut self, id: MemberId, now: Duration) -> Option<MemberId> {
        if let Some(member) = self.member(id) {
            member.busy = None;
            member.end_wait(now);
        }
        self.release(id, now)
    }

    /// Longest that a turn of this member should take, for the streams of others; none if no other decodes.
    pub(crate) fn max_stall(&self, id: MemberId) -> Option<Duration> {
        self.streams(id).map(|streams| streams.max_stall)
    }

    /// What the streams of other members bear; none if no other decodes.
    pub(crate) fn streams(&self, id: MemberId) -> Option<Streams> {
        let others = || self.members.iter().filter(|member| member.id != id && member.streams());
        let max_stall = others().map(|member| member.max_stall).min()?;
        let step = others().map(|member| member.decode_turn).min()?;
        Some(Streams { step, max_stall })
    }

    pub(crate) fn holds(&self, id: MemberId) -> bool {
        self.holder.is_some_and(|holder| holder.id == id)
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// Totals of the member up to the last end of a turn.
    pub(crate) fn totals(&self, id: MemberId) -> TurnTotals {
        self.members.iter().find(|member| member.id == id).map_or_else(TurnTotals::default, |m| m.totals)
    }

    /// Charges the holder for its time up to now and ends its turn.
    fn end_turn(&mut self, now: Duration) {
        self.charge(now);
        let Some(Holder { id, began, urgency, .. }) = self.holder.take() else { return };
        if let Some(member) = self.member(id).filter(|_| urgency == Urgency::Decode) {
            member.observe_decode(now.saturating_sub(began));
        }
    }

    /// Charges the holder for its time up to now, without ending the turn.
    fn charge(&mut self, now: Duration) {
        let Some(holder) = &mut self.holder else { return };
        let Holder { id, since, urgency, .. } = *holder;
        let time = now.saturating_sub(since);
        holder.since = since.max(now);
        let Some(member) = self.member(id) else { return };
        member.totals.computed += time;
        member.served += time.as_secs_f64() * 1000.0 / urgency.weight();
        let served = member.served;
        self.most_served = self.most_served.max(served);
    }

    /// Gives the free device to the next waiter.
    fn grant(&mut self, now: Duration) -> Option<MemberId> {
        let id = self.choose()?;
        let member = self.member(id)?;
        member.end_wait(now);
        member.totals.turns += 1;
        let urgency = member.urgency();
        self.holder = Some(Holder { id, began: now, since: now, urgency });
        for member in self.members.iter_mut().filter(|member| member.waits()) {
            member.held_up |= urgency > member.urgency();
        }
        Some(id)
    }

    /// The waiter that comes next.
    fn choose(&self) -> Option<MemberId> {
        let waiters = || self.members.iter().filter(|member| member.waits());
        let order = |a: &&Member, b: &&Member| {
            let served = a.served.total_cmp(&b.served);
            a.urgency().cmp(&b.urgency()).then(served).then(a.waits_since.cmp(&b.waits_since))
        };
        let first = waiters().min_by(order)?;
        let lags = |member: &&Member| {
            let mut urgent = waiters().filter(|other| other.urgency() < member.urgency());
            urgent.all(|other| !other.held_up && member.served + LAG < other.served)
        };
        let overtakes = waiters().filter(|member| member.urgency() > first.urgency()).filter(lags);
        let next = overtakes.min_by(|a, b| a.served.total_cmp(&b.served)).unwrap_or(first);
        Some(next.id)
    }

    /// The least virtual time of the busy members, or the most of all if none is busy.
    fn floor(&self) -> f64 {
        let busy = self.members.iter().filter(|member| member.busy.is_some());
        busy.map(|member| member.served).reduce(f64::min).unwrap_or(self.most_served)
    }

    fn member(&mut self, id: MemberId) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.id == id)
    }
}

impl Member {
    fn end_wait(&mut self, now: Duration) {
        if let Some(since) = self.waits_since.take() {
            let waited = now.saturating_sub(since);
            self.totals.waited += waited;
            self.totals.longest_wait = self.totals.longest_wait.max(waited);
        }
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
