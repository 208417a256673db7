//! The router of a route: its targets with their state, and the decisions about its requests.
//!
//! A request is counted in flight by the same call that chooses its target, and until it is finished: two requests
//! that come at once do not see the same idle target.

use std::time::Duration;

use crate::ask::Ask;
use crate::breaker::{Gate, Opening};
use crate::candidate::{Candidate, Reason};
use crate::decision::{Context, Decision, Scratch};
use crate::estimate::PoolRates;
use crate::failure::{Answer, Failure, Outcome};
use crate::flight::Flight;
use crate::hedge::{HedgePolicy, Hedger};
use crate::lengths::AnswerLengths;
use crate::overflow::{Overflow, OverflowPolicy};
use crate::policies::Method;
use crate::prefix::{PrefixIndex, tokens_of};
use crate::random::Random;
use crate::state::{Pool, TRUSTED, TargetState};
use crate::target::{NodeRecord, Target, TargetId, Tier};
use crate::verdict::{Considered, Refused, Verdict};

/// Settings of a route.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// How a target is chosen.
    pub method: Method,
    /// Upper bound of the prefix index, in bytes.
    pub prefix_bytes: usize,
    /// Replicas of the gateway that share the requests, this one included.
    pub replicas: u32,
    /// When requests leave the own targets; without it, only when no own target can be used.
    pub overflow: Option<OverflowPolicy>,
    /// When a second attempt is made beside a slow one.
    pub hedge: HedgePolicy,
    /// Whether others answer when no target can: then all circuit breakers may open, else half of them.
    pub has_fallback: bool,
}

impl Default for Policy {
    fn default() -> Policy {
        let (method, hedge) = (Method::default(), HedgePolicy::default());
        Policy { method, prefix_bytes: 8 << 20, replicas: 1, overflow: None, hedge, has_fallback: false }
    }
}

/// Finished requests after which the mean rates of the pool are computed anew.
const RATES_EVERY: u32 = 16;
/// Cached tokens that may be missing without a correction: blocks are cached whole.
const BLOCK_TOKENS: f64 = 64.0;
/// Weight of an answer in the share of assumed tokens that were cached.
const ASSUMED_FOLLOWS: f64 = 0.05;
/// Weight of an answer in the mean prediction error.
const ERROR_FOLLOWS: f64 = 0.05;

/// The router of a route.
pub struct Router {
    policy: Policy,
    pool: Pool,
    prefixes: PrefixIndex,
    lengths: AnswerLengths,
    overflow: Option<Overflow>,
    hedger: Hedger,
    random: Random,
    scratch: Scratch,
    rates: Option<PoolRates>,
    rates_age: u32,
    /// Share of assumed tokens that were cached, smoothed.
    assumed_held: f64,
    last: u32,
}

/// A target's state, for metrics and pages.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetStatus {
    /// The target.
    pub target: TargetId,
    /// Its name.
    pub name: String,
    /// Requests of this router in flight.
    pub in_flight: u32,
    /// Requests believed to be at the target, those of others included.
    pub requests: f64,
    /// Whether requests may be sent.
    pub gate: Gate,
    /// Cached tokens as a share of those predicted, smoothed.
    pub cache_trust: f64,
    /// Mean |ln(measured / predicted)| seconds to the end of answers: 0.1 is 10 % off.
    pub prediction_error: f64,
}

impl Router {
    /// A router of these targets; `seed` decides among ties.
    #[must_use]
    pub fn new(policy: Policy, targets: Vec<Target>, seed: u64) -> Router {
        let mut router = Router {
            prefixes: PrefixIndex::new(policy.prefix_bytes),
            overflow: policy.overflow.map(Overflow::new),
            hedger: Hedger::new(policy.hedge),
            policy,
            pool: Pool::default(),
            lengths: AnswerLengths::new(),
            random: Random::new(seed),
            scratch: Scratch::default(),
            rates: None,
            rates_age: 0,
            assumed_held: 0.5,
            last: u32::MAX,
        };
        router.replace(targets);
        router
    }

    /// Makes `targets` the targets of the route. Those of the same name keep their state, requests in flight of
    /// others are forgotten when they finish.
    pub fn replace(&mut self, targets: Vec<Target>) {
        for slot in self.pool.replace(targets) {
            self.prefixes.forget(slot);
        }
        self.update_rates(Duration::ZERO);
    }

    /// Chooses a target for a request and counts it in flight there.
    ///
    /// # Errors
    /// No target can take it, with the reasons.
    pub fn dispatch(&mut self, now: Duration, ask: &Ask<'_>) -> Result<Flight, Refused> {
        let (scratch, random) = (&mut self.scratch, &mut self.random);
        let context = Context {
            now,
            method: &self.policy.method,
            pool: &self.pool,
            prefixes: &self.prefixes,
            lengths: &self.lengths,
            overflow: self.overflow.as_ref(),
            rates: self.rates,
            is_shared: self.policy.replicas > 1,
            assumed_held: self.assumed_held,
            last: self.last,
        };
        let decision = context.decide(ask, scratch, random)?;
        self.hedger.dispatched();
        if let (Some(overflow), Some(leaver)) = (&mut self.overflow, &decision.leaver) {
            overflow.note(now, leaver, decision.reason == Reason::Overflow);
        }
        self.turn(&decision.chosen);
        Ok(self.commit(now, ask, &decision))
    }

    /// What each target looks like to a request, without dispatching it: by the code that dispatches.
    #[must_use]
    pub fn explain(&self, now: Duration, ask: &Ask<'_>) -> Vec<Considered> {
        let mut scratch = Scratch::telling();
        let context = Context {
            now,
            method: &self.policy.method,
            pool: &self.pool,
            prefixes: &self.prefixes,
            lengths: &self.lengths,
            overflow: self.overflow.as_ref(),
            rates: self.rates,
            is_shared: self.policy.replicas > 1,
            assumed_held: self.assumed_held,
            last: self.last,
        };
        // What is refused is told by the verdicts.
        let _ = context.decide(ask, &mut scratch, &mut self.random.clone());
        let mut seen = scratch.seen.unwrap_or_default();
        seen.sort_by_key(|(slot, ..)| *slot);
        let tell = |(slot, candidate, verdict): (u32, Option<Candidate>, Verdict)| {
            let state = self.pool.in_slot(slot)?;
            let estimate = candidate.map(|candidate| candidate.estimate).unwrap_or_default();
            Some(Considered {
                target: state.id,
                name: state.target.name.clone(),
                wait_s: estimate.wait_s,
                prefill_s: estimate.prefill_s,
                decode_s: estimate.decode_s,
                cached: candidate.map_or(0, |candidate| candidate.cached as u64),
                price: candidate.and_then(|candidate| candidate.price),
                verdict,
            })
        };
        seen.into_iter().filter_map(tell).collect()
    }

    /// Takes the turn of round robin and of the weights.
    fn turn(&mut self, chosen: &Candidate) {
        self.last = chosen.slot;
        if self.policy.method == Method::Weighted {
            let mut sum = 0;
            for state in self.pool.iter_mut() {
                let weight = i64::from(state.target.weight.max(1));
                state.turn_weight += weight;
                sum += weight;
            }
            if let Some(state) = self.pool.in_slot_mut(chosen.slot) {
                state.turn_weight -= sum;
            }
        }
    }

    fn commit(&mut self, now: Duration, ask: &Ask<'_>, decision: &Decision) -> Flight {
        let chosen = &decision.chosen;
        let uncached = (ask.prompt_tokens as f64 - chosen.cached).max(1.0);
        let probe = chosen.gate == Gate::ProbeDue;
        let mut flight = Flight {
            target: TargetId { slot: chosen.slot, generation: 0 },
            reason: decision.reason,
            first_token_s: chosen.first_token_s(),
            completion_s: chosen.completion_s(),
            cached_tokens: chosen.cached as u64,
            output_tokens: decision.output as u64,
            price: chosen.price,
            probe,
            tenant: ask.tenant,
            prompt_tokens: ask.prompt_tokens,
            ahead: 0.0,
            requests: 1.0,
            uncached,
            waits: false,
            assumed: chosen.assumed,
            depth: chosen.depth as usize,
            chain: ask.chain.into(),
        };
        if let Some(state) = self.pool.in_slot_mut(chosen.slot) {
            flight.target = state.id;
            flight.ahead = state.known.backlog_tokens(now, &state.target);
            flight.requests = state.known.requests(now, state.in_flight) + 1.0;
            flight.waits = state.known.slots(&state.target).is_some_and(|slots| flight.requests > slots);
            state.in_flight += 1;
            state.known.dispatched(now, &state.target, uncached);
            if probe {
                state.probing_gate(&self.policy.method);
            }
            if state.trust >= TRUSTED {
                self.prefixes.insert(ask.chain, chosen.slot);
            }
        }
        flight
    }

    /// Takes a request out of flight and learns from how it ended. To be called once for each flight, whatever
    /// happens to its request.
    pub fn finished(&mut self, now: Duration, flight: Flight, outcome: &Outcome) {
        let may_open = self.may_open();
        let jitter = self.random.unit();
        let method = self.policy.method;
        let Some(state) = self.pool.get_mut(flight.target) else { return };
        let rows = (flight.requests + state.known.requests(now, state.in_flight)) / 2.0;
        state.in_flight = state.in_flight.saturating_sub(1);
        match outcome {
            Outcome::Answered(answer) => {
                state.answered_gate(now, flight.probe, &method);
                learn_speed(state, &flight, answer, rows);
                correct_prefix(&mut self.prefixes, state, &flight, answer);
                if let Some(share) = assumed_share(&flight, answer) {
                    self.assumed_held += ASSUMED_FOLLOWS * (share - self.assumed_held);
                }
                self.lengths.observe(flight.tenant, answer.output_tokens);
                if state.target.tier == Tier::Own {
                    self.hedger.answered(flight.prompt_tokens, answer.first_token_s);
                    if let Some(overflow) = &mut self.overflow {
                        overflow.answered(answer.first_token_s);
                    }
                }
            }
            Outcome::Failed(failure) => {
                let opening = match failure {
                    _ if may_open => Opening::Full,
                    Failure::Connect => Opening::Brief,
                    _ => Opening::Never,
                };
                state.failed_gate(now, flight.probe, *failure, (opening, jitter), &method);
                state.known.withdrawn(now, &state.target, flight.uncached);
                self.prefixes.truncate(&flight.chain, flight.depth, flight.target.slot);
            }
            Outcome::Cancelled => {
                state.undecided_gate(now, flight.probe);
                state.known.withdrawn(now, &state.target, flight.uncached);
                self.prefixes.truncate(&flight.chain, flight.depth, flight.target.slot);
            }
        }
        self.rates_age += 1;
        if self.rates_age >= RATES_EVERY {
            self.update_rates(now);
        }
    }

    /// Whether one more circuit breaker may open fully: at most half of the targets are out at a time.
    fn may_open(&self) -> bool {
        let out = self.pool.iter().filter(|state| state.breaker.is_out()).count();
        self.policy.has_fallback || (out + 1) * 2 <= self.pool.live()
    }

    /// Takes a node's record.
    pub fn observe(&mut self, now: Duration, target: TargetId, record: &NodeRecord) {
        let Some(state) = self.pool.get_mut(target) else { return };
        if state.boot.is_some_and(|boot| boot != record.boot) {
            state.known.restarted();
            self.prefixes.forget(target.slot);
        }
        let state = self.pool.get_mut(target);
        if let Some(state) = state {
            state.boot = Some(record.boot);
            state.known.observe(now, record, state.in_flight);
        }
    }

    /// The time after the dispatch of `flight` at which it may be hedged if it has no token yet. None if it may not.
    #[must_use]
    pub fn hedge_delay(&self, now: Duration, flight: &Flight) -> Option<Duration> {
        let state = self.pool.get(flight.target)?;
        let is_own = state.target.tier == Tier::Own;
        is_own.then(|| self.hedger.delay(flight.prompt_tokens, self.pool.saturation(now)))?
    }

    /// Dispatches a second attempt of a request at another own target, if it still may be hedged. The caller finishes
    /// the slower of both as cancelled.
    pub fn hedge(&mut self, now: Duration, ask: &Ask<'_>, first: &Flight) -> Option<Flight> {
        self.hedge_delay(now, first)?;
        let pool = &self.pool;
        let is_own = |id| pool.get(id).is_some_and(|state| state.target.tier == Tier::Own);
        let own: Vec<TargetId> = pool.iter().map(|state| state.id).filter(|id| is_own(*id)).collect();
        let allowed = |id| id != first.target && own.contains(&id) && (ask.allowed)(id);
        let second = Ask { allowed: &allowed, may_leave: false, ..*ask };
        let mut flight = self.dispatch(now, &second).ok()?;
        flight.reason = Reason::Hedge;
        self.hedger.hedged();
        Some(flight)
    }

    fn update_rates(&mut self, now: Duration) {
        self.rates_age = 0;
        let known = self.pool.iter().filter_map(|state| state.known.rates(now, &state.target));
        let (sum, count) = known.fold((PoolRates::default(), 0.0), |(sum, count), rates| {
            let sum = PoolRates {
                base_s: sum.base_s + rates.base_s,
                token_s: sum.token_s + rates.token_s,
                step_s: sum.step_s + rates.step_s,
            };
            (sum, count + 1.0)
        });
        self.rates = (count > 0.0).then(|| PoolRates {
            base_s: sum.base_s / count,
            token_s: sum.token_s / count,
            step_s: sum.step_s / count,
        });
    }

    /// The targets' ids.
    pub fn targets(&self) -> impl Iterator<Item = TargetId> {
        self.pool.iter().map(|state| state.id)
    }

    /// The target of an id, unless it was removed.
    #[must_use]
    pub fn target(&self, id: TargetId) -> Option<&Target> {
        self.pool.get(id).map(|state| &state.target)
    }

    /// The id of the target of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<TargetId> {
        self.pool.iter().find(|state| state.target.name == name).map(|state| state.id)
    }

    /// The state of all targets.
    #[must_use]
    pub fn status(&self, now: Duration) -> Vec<TargetStatus> {
        let of = |state: &TargetState| TargetStatus {
            target: state.id,
            name: state.target.name.clone(),
            in_flight: state.in_flight,
            requests: state.known.requests(now, state.in_flight),
            gate: state.gate(now, &self.policy.method),
            cache_trust: state.trust,
            prediction_error: state.error,
        };
        self.pool.iter().map(of).collect()
    }

    /// Requests in flight at all targets.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.pool.iter().map(|state| u64::from(state.in_flight)).sum()
    }

    /// Requests at own targets over their slots; 0 where no slots are known.
    #[must_use]
    pub fn saturation(&self, now: Duration) -> f64 {
        self.pool.saturation(now)
    }

    /// The worth of a second of an own machine, in nano units, and the share of requests that may leave.
    #[must_use]
    pub fn shadow_price(&self, now: Duration) -> Option<(f64, f64)> {
        let overflow = self.overflow.as_ref()?;
        Some((overflow.shadow_price(self.saturation(now)), overflow.share()))
    }

    /// Upper bound of the bytes that the prefix index uses now.
    #[must_use]
    pub fn prefix_bytes(&self) -> usize {
        self.prefixes.bytes()
    }
}

/// The share of the tokens that a target was thought to hold that it did, if it tells.
fn assumed_share(flight: &Flight, answer: &Answer) -> Option<f64> {
    let cached = answer.cached_tokens.filter(|_| flight.assumed > 0)?;
    let beyond = cached as f64 - tokens_of(&flight.chain, flight.depth) as f64;
    Some((beyond / flight.assumed as f64).clamp(0.0, 1.0))
}

/// Learns from the times of an answer.
fn learn_speed(state: &mut TargetState, flight: &Flight, answer: &Answer, rows: f64) {
    let told = answer.cached_tokens.map(|cached| answer.prompt_tokens.saturating_sub(cached) as f64);
    let own = told.filter(|_| answer.prompt_tokens > 0).unwrap_or(flight.uncached);
    let after = answer.output_tokens.checked_sub(1).filter(|count| *count > 0);
    let step_s = after.map(|count| (answer.total_s - answer.first_token_s).max(0.0) / count as f64);
    if !flight.waits {
        state.known.answered(flight.ahead + own, answer.first_token_s, rows, step_s);
    } else if let Some(step_s) = step_s {
        state.known.stepped(rows, step_s);
    }
    let output = answer.output_tokens.max(1) as f64 / flight.output_tokens.max(1) as f64;
    let decode_s = (flight.completion_s - flight.first_token_s) * output;
    let off = (answer.total_s.max(1e-6) / (flight.first_token_s + decode_s).max(1e-6)).ln().abs();
    if off.is_finite() {
        state.error += ERROR_FOLLOWS * (off - state.error);
    }
}

/// Corrects the prefix index by the cached tokens of an answer.
fn correct_prefix(prefixes: &mut PrefixIndex, state: &mut TargetState, flight: &Flight, answer: &Answer) {
    let slot = flight.target.slot;
    let Some(got) = answer.cached_tokens else {
        if state.trust >= TRUSTED {
            prefixes.insert(&flight.chain, slot);
        }
        return;
    };
    // Boundaries count in the gateway's tokens, usage in the target's.
    let scale = match answer.prompt_tokens {
        0 => 1.0,
        tokens => flight.prompt_tokens as f64 / tokens as f64,
    };
    let got = got as f64 * scale;
    let predicted = tokens_of(&flight.chain, flight.depth) as f64;
    match predicted > 0.0 {
        true => state.trust((got + BLOCK_TOKENS.min(0.1 * predicted)) / predicted),
        false if got > 0.0 => state.trust(1.0),
        false => {}
    }
    let kept = flight.chain.partition_point(|boundary| boundary.tokens as f64 <= got + BLOCK_TOKENS);
    let kept = if got > 0.0 { kept } else { 0 };
    if got + BLOCK_TOKENS < predicted {
        prefixes.truncate(&flight.chain, kept, slot);
    }
    // The prompt was computed for this answer, so a target that keeps prompts holds all of it now.
    let now_held = if state.trust >= TRUSTED { flight.chain.len() } else { kept };
    prefixes.insert(&flight.chain[..now_held], slot);
}

#[cfg(test)]
#[path = "router_tests.rs"]
mod tests;
