//! The targets of a route with their state, in slots that keep their place while others come and go.

use std::time::Duration;

use crate::breaker::{Breaker, Gate, Opening};
use crate::estimate::Knowledge;
use crate::failure::Failure;
use crate::policies::Method;
use crate::policies::least_connections::Fails;
use crate::rendezvous::name_hash;
use crate::target::{Target, TargetId, Tier};

/// Weight of an answer in the mean of how far cached tokens are as predicted.
const TRUST_FOLLOWS: f64 = 0.2;
/// Trust below which a target is thought not to keep prompts.
pub(crate) const TRUSTED: f64 = 0.5;

/// A target with its state.
#[derive(Clone, Debug)]
pub(crate) struct TargetState {
    pub(crate) id: TargetId,
    pub(crate) target: Target,
    pub(crate) name_hash: u64,
    pub(crate) in_flight: u32,
    pub(crate) breaker: Breaker,
    pub(crate) fails: Fails,
    /// Credit of smooth weighted round robin.
    pub(crate) turn_weight: i64,
    pub(crate) known: Knowledge,
    /// Cached tokens of answers as a share of those predicted, 0 to 1.
    pub(crate) trust: f64,
    /// Start of the node, as its last record told.
    pub(crate) boot: Option<u64>,
    /// Mean of |ln(seconds measured / predicted)| to the end of answers.
    pub(crate) error: f64,
}

impl TargetState {
    fn new(id: TargetId, target: Target) -> TargetState {
        // Own nodes have prefix caches; whether a service keeps one for this account shows.
        let trust = if target.tier == Tier::Own { 0.9 } else { TRUSTED };
        TargetState {
            id,
            name_hash: name_hash(&target.name),
            target,
            in_flight: 0,
            breaker: Breaker::new(),
            fails: Fails::default(),
            turn_weight: 0,
            known: Knowledge::default(),
            trust,
            boot: None,
            error: 0.0,
        }
    }

    /// Whether requests may be sent.
    pub(crate) fn gate(&self, now: Duration, method: &Method) -> Gate {
        match (method, self.breaker.gate(now)) {
            // The breaker is kept from opening then; it holds refusals.
            (Method::LeastConnections(limits), Gate::Closed) => self.fails.gate(now, limits),
            (_, gate) => gate,
        }
    }

    /// Takes note of a share of predicted cached tokens that were cached.
    pub(crate) fn trust(&mut self, share: f64) {
        self.trust += TRUST_FOLLOWS * (share.clamp(0.0, 1.0) - self.trust);
    }
}

impl TargetState {
    /// A probe was dispatched.
    pub(crate) fn probing_gate(&mut self, method: &Method) {
        match method {
            Method::LeastConnections(_) => self.fails.probing(),
            _ => self.breaker.probing(),
        }
    }

    /// A request was answered.
    pub(crate) fn answered_gate(&mut self, now: Duration, probe: bool, method: &Method) {
        match method {
            Method::LeastConnections(limits) => self.fails.answered(probe, limits),
            _ => self.breaker.answered(now, probe),
        }
    }

    /// A request ended without telling anything of the target.
    pub(crate) fn undecided_gate(&mut self, now: Duration, probe: bool) {
        self.fails.undecided(probe);
        self.breaker.undecided(now, probe);
    }

    /// A request failed.
    pub(crate) fn failed_gate(
        &mut self,
        now: Duration,
        probe: bool,
        failure: Failure,
        (opening, jitter): (Opening, f64),
        method: &Method,
    ) {
        match (failure, method) {
            (Failure::Refused { retry_after }, _) => {
                self.fails.undecided(probe);
                self.breaker.throttle(now, retry_after, probe);
            }
            (failure, Method::LeastConnections(limits)) if failure.is_unwell() => {
                self.fails.failed(now, probe, limits);
            }
            (failure, _) if failure.is_unwell() => {
                self.breaker.failed(now, probe, opening, jitter);
            }
            _ => self.undecided_gate(now, probe),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Slot {
    generation: u32,
    state: Option<TargetState>,
}

/// All targets of a route.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    slots: Vec<Slot>,
    live: usize,
}

impl Pool {
    /// Makes `targets` the targets of the route, keeping the state of those that were before, by name; of several of
    /// one name the first counts. Returns the slots that are free now or have a new target.
    pub(crate) fn replace(&mut self, targets: Vec<Target>) -> Vec<u32> {
        let mut freed = Vec::new();
        let mut targets: Vec<Option<Target>> = targets.into_iter().map(Some).collect();
        for (slot, number) in self.slots.iter_mut().zip(0..) {
            let Some(state) = &mut slot.state else { continue };
            let same = |target: &&mut Option<Target>| {
                target.as_ref().is_some_and(|target| target.name == state.target.name)
            };
            match targets.iter_mut().find(same).and_then(Option::take) {
                Some(target) => state.target = target,
                None => {
                    slot.state = None;
                    slot.generation = slot.generation.wrapping_add(1);
                    freed.push(number);
                }
            }
        }
        for target in targets.into_iter().flatten() {
            if self.iter().all(|state| state.target.name != target.name) {
                self.add(target);
            }
        }
        self.live = self.iter().count();
        freed
    }

    fn add(&mut self, target: Target) {
        let free = self.slots.iter().position(|slot| slot.state.is_none());
        let at = free.unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        let slot = &mut self.slots[at];
        let id = TargetId { slot: at as u32, generation: slot.generation };
        slot.state = Some(TargetState::new(id, target));
    }

    /// Number of targets.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Number of slots, used or free.
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn in_slot(&self, slot: u32) -> Option<&TargetState> {
        self.slots.get(slot as usize)?.state.as_ref()
    }

    pub(crate) fn in_slot_mut(&mut self, slot: u32) -> Option<&mut TargetState> {
        self.slots.get_mut(slot as usize)?.state.as_mut()
    }

    pub(crate) fn get(&self, id: TargetId) -> Option<&TargetState> {
        self.in_slot(id.slot).filter(|state| state.id == id)
    }

    pub(crate) fn get_mut(&mut self, id: TargetId) -> Option<&mut TargetState> {
        self.in_slot_mut(id.slot).filter(|state| state.id == id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &TargetState> {
        self.slots.iter().filter_map(|slot| slot.state.as_ref())
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut TargetState> {
        self.slots.iter_mut().filter_map(|slot| slot.state.as_mut())
    }

    /// Requests at own targets over their slots, each weighted by its slots. 0 where no slots are known.
    pub(crate) fn saturation(&self, now: Duration) -> f64 {
        let own = self.iter().filter(|state| state.target.tier == Tier::Own && !state.breaker.is_out());
        let (requests, slots) =
            own.fold((0.0, 0.0), |(requests, slots), state| match state.known.slots(&state.target) {
                Some(count) => (requests + state.known.requests(now, state.in_flight), slots + count),
                None => (requests, slots),
            });
        if slots > 0.0 { requests / slots } else { 0.0 }
    }
}
