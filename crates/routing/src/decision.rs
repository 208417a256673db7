//! The choice of a target for a request: the same code decides and explains.

use std::time::Duration;

use crate::ask::{Ask, Class};
use crate::breaker::Gate;
use crate::candidate::{Candidate, Choice, Reason};
use crate::estimate::{Estimate, PoolRates, Sizes};
use crate::lengths::AnswerLengths;
use crate::overflow::{Leaver, Overflow};
use crate::policies::{Method, expected_completion, least_connections, round_robin, sticky, weighted};
use crate::prefix::{PrefixIndex, tokens_of};
use crate::random::Random;
use crate::rendezvous::score;
use crate::state::{Pool, TargetState};
use crate::target::Tier;
use crate::verdict::{Refused, Verdict};

/// Up to so many targets, all are looked at; of more, some.
const ALL: usize = 16;
/// Of many targets, so many random ones are looked at.
const RANDOM: usize = 8;
/// And so many that hold the most of the prompt.
const HOLDERS: usize = 4;

/// The state that a decision is made from.
pub(crate) struct Context<'a> {
    pub(crate) now: Duration,
    pub(crate) method: &'a Method,
    pub(crate) pool: &'a Pool,
    pub(crate) prefixes: &'a PrefixIndex,
    pub(crate) lengths: &'a AnswerLengths,
    pub(crate) overflow: Option<&'a Overflow>,
    pub(crate) rates: Option<PoolRates>,
    /// Whether other replicas of the gateway serve turns of the same conversations.
    pub(crate) is_shared: bool,
    /// Share of a conversation's earlier turns that its own target is thought to hold where the index does not know:
    /// they may have gone through another replica of the gateway.
    pub(crate) assumed_held: f64,
    /// Slot that was chosen last, for round robin.
    pub(crate) last: u32,
}

/// Buffers that are used again.
#[derive(Default)]
pub(crate) struct Scratch {
    own: Vec<Candidate>,
    outside: Vec<Candidate>,
    depths: Vec<u32>,
    slots: Vec<u32>,
    /// What every target looked like, if wanted.
    pub(crate) seen: Option<Vec<(u32, Option<Candidate>, Verdict)>>,
}

impl Scratch {
    /// Buffers in which what every target looked like is kept.
    pub(crate) fn telling() -> Scratch {
        Scratch { seen: Some(Vec::new()), ..Scratch::default() }
    }
}

/// A decision.
#[derive(Clone, Copy)]
pub(crate) struct Decision {
    pub(crate) chosen: Candidate,
    pub(crate) reason: Reason,
    /// Expected tokens of the answer.
    pub(crate) output: f64,
    /// The request as the overflow sees it, where it could leave.
    pub(crate) leaver: Option<Leaver>,
}

impl Context<'_> {
    /// Chooses a target for a request.
    pub(crate) fn decide(
        &self,
        ask: &Ask<'_>,
        scratch: &mut Scratch,
        random: &mut Random,
    ) -> Result<Decision, Refused> {
        let output = self.lengths.expected(ask.tenant, ask.max_tokens);
        scratch.depths.resize(self.pool.slots(), 0);
        self.prefixes.depths(ask.chain, &mut scratch.depths);
        let mut refused = Refused::default();
        let is_sampled = self.sample(ask, scratch, random);
        self.gather(ask, output, scratch, &mut refused);
        if is_sampled && scratch.own.is_empty() && scratch.outside.is_empty() {
            scratch.slots.clear();
            scratch.slots.extend(self.pool.iter().map(|state| state.id.slot));
            refused = Refused::default();
            self.gather(ask, output, scratch, &mut refused);
        }
        self.assume_held(ask, output, scratch);
        let (choice, is_outside, leaver) = self.choose(ask, scratch, random).ok_or(refused)?;
        let chosen = if is_outside { scratch.outside[choice.at] } else { scratch.own[choice.at] };
        self.tell(scratch, &choice, is_outside);
        Ok(Decision { chosen, reason: choice.reason, output, leaver })
    }

    /// Fills `slots` with those to look at. Returns whether some are left out.
    fn sample(&self, ask: &Ask<'_>, scratch: &mut Scratch, random: &mut Random) -> bool {
        let slots = &mut scratch.slots;
        slots.clear();
        if self.pool.live() <= ALL || scratch.seen.is_some() {
            slots.extend(self.pool.iter().map(|state| state.id.slot));
            return false;
        }
        let of = |state: &TargetState| score(ask.affinity, state.name_hash, state.target.weight);
        let best = self.pool.iter().max_by(|a, b| of(a).total_cmp(&of(b)));
        slots.extend(best.map(|state| state.id.slot));
        for _ in 0..HOLDERS {
            let deeper = |slot: &u32| scratch.depths[*slot as usize];
            let rest =
                (0..scratch.depths.len() as u32).filter(|slot| deeper(slot) > 0 && !slots.contains(slot));
            let Some(next) = rest.max_by_key(deeper) else { break };
            slots.push(next);
        }
        for _ in 0..RANDOM {
            let slot = random.below(self.pool.slots()) as u32;
            if self.pool.in_slot(slot).is_some() && !slots.contains(&slot) {
                slots.push(slot);
            }
        }
        // A failed target is tried even if the sample misses it, and an outside one is there when it is needed.
        let is_special = |state: &&TargetState| {
            state.target.tier != Tier::Own || state.gate(self.now, self.method) == Gate::ProbeDue
        };
        for state in self.pool.iter().filter(is_special).take(ALL) {
            if !slots.contains(&state.id.slot) {
                slots.push(state.id.slot);
            }
        }
        true
    }

    /// Fills the candidates from `slots`, and counts why others are none.
    fn gather(&self, ask: &Ask<'_>, output: f64, scratch: &mut Scratch, refused: &mut Refused) {
        scratch.own.clear();
        scratch.outside.clear();
        for slot in &scratch.slots {
            let Some(state) = self.pool.in_slot(*slot) else { continue };
            let verdict = self.verdict(ask, state);
            if let Err(verdict) = verdict {
                refused.count(self.now, verdict);
                if let Some(seen) = &mut scratch.seen {
                    seen.push((*slot, None, verdict));
                }
                continue;
            }
            let candidate = self.candidate(ask, state, scratch.depths[*slot as usize], output);
            let at_home = state.target.tier == Tier::Own
                || (state.target.tier == Tier::Rented && ask.class == Class::Urgent);
            if at_home { &mut scratch.own } else { &mut scratch.outside }.push(candidate);
        }
    }

    /// Whether a request may use a target; why not.
    fn verdict(&self, ask: &Ask<'_>, state: &TargetState) -> Result<(), Verdict> {
        let is_own = state.target.tier == Tier::Own;
        let is_full = state.target.max_in_flight.is_some_and(|most| state.in_flight >= most);
        match state.gate(self.now, self.method) {
            _ if !is_own && !ask.may_leave => Err(Verdict::MayNotLeave),
            _ if state.target.tier == Tier::Metered && state.target.price.is_none() => Err(Verdict::NoPrice),
            Gate::Open(until) => Err(Verdict::Open(until)),
            Gate::Throttled(until) => Err(Verdict::Throttled(until)),
            _ if is_full => Err(Verdict::Full),
            _ if !(ask.allowed)(state.id) => Err(Verdict::NotAllowed),
            Gate::Closed | Gate::ProbeDue => Ok(()),
        }
    }

    fn candidate(&self, ask: &Ask<'_>, state: &TargetState, depth: u32, output: f64) -> Candidate {
        let start = ask.chain.iter().position(|boundary| boundary.hash == ask.affinity);
        let shared = start.map_or(0, |at| at as u32);
        let held = tokens_of(ask.chain, depth as usize).min(ask.prompt_tokens.saturating_sub(1));
        let cached = state.trust * held as f64;
        let affinity = match ask.affinity {
            0 => 0.0,
            key => score(key, state.name_hash, state.target.weight),
        };
        let price = state.target.price.map(|price| {
            let cached = cached as u64;
            price.of(ask.prompt_tokens.saturating_sub(cached), cached, output as u64)
        });
        Candidate {
            slot: state.id.slot,
            gate: state.gate(self.now, self.method),
            weight: state.target.weight.max(1),
            in_flight: state.in_flight,
            requests: state.known.requests(self.now, state.in_flight),
            failures: state.breaker.failures_expected(self.now),
            affinity,
            turn_weight: state.turn_weight,
            depth,
            own_depth: if depth > shared && !self.is_shared { depth } else { 0 },
            cached,
            assumed: 0,
            estimate: self.estimate(ask, state, cached, output),
            price,
        }
    }

    fn estimate(&self, ask: &Ask<'_>, state: &TargetState, cached: f64, output: f64) -> Estimate {
        let uncached = (ask.prompt_tokens as f64 - cached).max(1.0);
        let sizes = Sizes { uncached, output, mean_output: self.lengths.mean() };
        state.known.estimate(self.now, &state.target, state.in_flight, sizes, self.rates.as_ref())
    }

    /// Where the index does not know all of a conversation's earlier turns, its own target is thought to hold a part
    /// of them: the one that holds the most of the conversation, or the first by rendezvous.
    fn assume_held(&self, ask: &Ask<'_>, output: f64, scratch: &mut Scratch) {
        let earlier = ask.chain.len().saturating_sub(2);
        let is_on = *self.method == Method::ExpectedCompletion && ask.affinity != 0 && earlier > 0;
        let Some(candidate) = scratch.own.iter_mut().filter(|_| is_on).max_by(|a, b| a.by_affinity(b)) else {
            return;
        };
        let Some(state) = self.pool.in_slot(candidate.slot) else { return };
        let missing =
            tokens_of(ask.chain, earlier).saturating_sub(tokens_of(ask.chain, candidate.depth as usize));
        if missing > 0 {
            candidate.assumed = missing;
            let assumed = candidate.cached + self.assumed_held * state.trust * missing as f64;
            candidate.estimate = self.estimate(ask, state, assumed, output);
        }
    }

    /// The choice, whether it is outside, and what the overflow notes.
    fn choose(
        &self,
        ask: &Ask<'_>,
        scratch: &mut Scratch,
        random: &mut Random,
    ) -> Option<(Choice, bool, Option<Leaver>)> {
        let Scratch { own, outside, .. } = scratch;
        let Some(choice) = self.choose_among(ask, own, random) else {
            let has_own = self.pool.iter().any(|state| state.target.tier == Tier::Own);
            let choice = match self.overflow {
                Some(overflow) => choose_outside(outside, overflow.level_s())?,
                None => self.choose_among(ask, outside, random)?,
            };
            let reason = if has_own { Reason::NoOwn } else { choice.reason };
            return Some((Choice { reason, ..choice }, true, None));
        };
        let (Some(overflow), Method::ExpectedCompletion) = (self.overflow, self.method) else {
            return Some((choice, false, None));
        };
        let Some(away) = choose_outside(outside, overflow.level_s()) else {
            return Some((choice, false, None));
        };
        let here = &own[choice.at];
        let price = outside[away.at].price.unwrap_or(0);
        let leaver = Leaver { own_s: here.first_token_s(), machine_s: here.estimate.machine_s, price };
        let leaves = match ask.class {
            Class::Batch => false,
            Class::Urgent => leaver.own_s > overflow.level_s(),
            Class::Premium | Class::Standard => overflow.leaves(&leaver, random.unit()),
        };
        let noted = (ask.class != Class::Batch).then_some(leaver);
        match leaves && choice.reason != Reason::Probe {
            true => Some((away, true, noted)),
            false => Some((choice, false, noted)),
        }
    }

    /// The policy's choice among candidates; a probe first, unless the request is urgent.
    fn choose_among(&self, ask: &Ask<'_>, all: &mut Vec<Candidate>, random: &mut Random) -> Option<Choice> {
        let is_due = |candidate: &Candidate| candidate.gate == Gate::ProbeDue;
        if let Some(at) = all.iter().position(is_due) {
            if ask.class != Class::Urgent || all.iter().all(is_due) {
                return Some(Choice { at, reason: Reason::Probe });
            }
            all.retain(|candidate| !is_due(candidate));
        }
        let choice = match self.method {
            Method::ExpectedCompletion => expected_completion::choose(all, self.is_shared, random),
            Method::LeastConnections(_) => least_connections::choose(all, random.bits()),
            Method::RoundRobin => round_robin::choose(all, self.last),
            Method::Weighted => weighted::choose(all),
            Method::Sticky => sticky::choose(all, random),
        }?;
        let reason = if all.len() == 1 { Reason::OnlyOne } else { choice.reason };
        Some(Choice { reason, ..choice })
    }

    /// Writes down how the candidates looked.
    fn tell(&self, scratch: &mut Scratch, choice: &Choice, is_outside: bool) {
        let Scratch { own, outside, seen, .. } = scratch;
        let Some(seen) = seen else { return };
        for (candidates, at_home) in [(own, true), (outside, false)] {
            for (candidate, at) in candidates.iter().zip(0..) {
                let verdict = match () {
                    () if at == choice.at && at_home != is_outside => Verdict::Chosen(choice.reason),
                    () if at_home == is_outside && !is_outside => Verdict::Slower,
                    () if !at_home && !is_outside => Verdict::NotNeeded,
                    () => Verdict::Slower,
                };
                seen.push((candidate.slot, Some(*candidate), verdict));
            }
        }
    }
}

/// The cheapest candidate that keeps the service level, or the fastest if none does.
fn choose_outside(outside: &[Candidate], level_s: f64) -> Option<Choice> {
    let rank = |candidate: &Candidate| match candidate.first_token_s() <= level_s {
        true => (false, candidate.price.unwrap_or(0) as f64, candidate.completion_s()),
        false => (true, candidate.completion_s(), 0.0),
    };
    let order = |a: &usize, b: &usize| {
        let (a, b) = (rank(&outside[*a]), rank(&outside[*b]));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2))
    };
    let at = (0..outside.len()).min_by(order)?;
    let reason = if outside[at].gate == Gate::ProbeDue { Reason::Probe } else { Reason::Overflow };
    Some(Choice { at, reason })
}
