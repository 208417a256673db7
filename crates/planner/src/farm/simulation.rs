//! The simulation of a farm: arrivals, loads, unloads and one queue of requests, in simulated time.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use residency::{Answer, Table};

use super::{FarmOutcome, FarmPlan, Group, GroupOutcome};
use crate::error::Error;
use crate::fleet::Spread;
use crate::random::Random;

/// What happens, to the model or request of this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happens {
    Arrives(usize),
    Loaded(usize),
    Computed(usize),
    /// The time at which the table said that more may be possible.
    Wakes,
    Expires,
}

struct Event {
    at_s: f64,
    order: u64,
    happens: Happens,
}

impl PartialEq for Event {
    fn eq(&self, other: &Event) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Event {}
impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Event) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Event {
    fn cmp(&self, other: &Event) -> Ordering {
        self.at_s.total_cmp(&other.at_s).then(self.order.cmp(&other.order))
    }
}

struct Request {
    model: usize,
    arrived_s: f64,
    cold: bool,
    latency_s: Option<f64>,
}

/// A model of a group.
struct Member {
    group: usize,
    /// Since when it takes memory.
    held_since: Option<f64>,
    held_s: f64,
    loads: usize,
}

struct World<'a> {
    groups: &'a [Group],
    members: Vec<Member>,
    table: Table<usize>,
    events: BinaryHeap<Reverse<Event>>,
    scheduled: u64,
    now_s: f64,
    requests: Vec<Request>,
    /// Requests that wait for their model.
    waiting: Vec<usize>,
    /// Requests whose model is in use for them, the first of which is computed.
    queue: VecDeque<usize>,
    has_changed: bool,
    busy_s: f64,
    computed_s: Vec<f64>,
    random: Random,
    arrivals_left: usize,
    wake_s: f64,
}

/// Simulates the plan's requests.
///
/// # Errors
/// A field that is missing or out of range, a model that never fits, or more work than the machine can do.
pub fn simulate(plan: &FarmPlan) -> Result<FarmOutcome, Error> {
    let (memory, groups) = plan.groups()?;
    let load: f64 = groups.iter().map(|group| group.count as f64 * group.per_s * group.request_s).sum();
    if load >= 1.0 {
        return Err(Error::Impossible {
            field: "farm.model".to_owned(),
            asked: format!("{:.0} % of the machine's time for requests", load * 100.0),
            limit: "a machine has 100 %; give it fewer requests, or use `plan fleet`".to_owned(),
        });
    }
    let mut world = World::new(plan, memory, &groups);
    while let Some(Reverse(event)) = world.events.pop() {
        // After the last request time goes on only until it is answered.
        if world.arrivals_left == 0 && matches!(event.happens, Happens::Arrives(_) | Happens::Expires) {
            continue;
        }
        world.now_s = event.at_s;
        world.step(event.happens);
        while std::mem::take(&mut world.has_changed) {
            for request in world.waiting.clone() {
                world.ask(request);
            }
        }
    }
    Ok(world.outcome(memory))
}

impl<'a> World<'a> {
    fn new(plan: &FarmPlan, memory: u64, groups: &'a [Group]) -> World<'a> {
        let mut world = World {
            groups,
            members: Vec::new(),
            table: Table::new(memory),
            events: BinaryHeap::new(),
            scheduled: 0,
            now_s: 0.0,
            requests: Vec::new(),
            waiting: Vec::new(),
            queue: VecDeque::new(),
            has_changed: false,
            busy_s: 0.0,
            computed_s: vec![0.0; groups.len()],
            random: Random::new(plan.seed),
            arrivals_left: plan.requests,
            wake_s: f64::INFINITY,
        };
        for (at, group) in groups.iter().enumerate() {
            for _ in 0..group.count {
                let keep_alive = group.keep_alive_s.map(Duration::from_secs_f64);
                let name = world.members.len().to_string();
                let model = world.table.add(vec![name], group.pinned, keep_alive, Duration::ZERO);
                world.members.push(Member { group: at, held_since: None, held_s: 0.0, loads: 0 });
                let first = world.random.exponential(1.0 / group.per_s);
                world.schedule(first, Happens::Arrives(model));
            }
        }
        // As the server does: once a second, where there is anything to expire.
        if groups.iter().any(|group| group.keep_alive_s.is_some()) {
            world.schedule(1.0, Happens::Expires);
        }
        world
    }

    fn schedule(&mut self, at_s: f64, happens: Happens) {
        self.scheduled += 1;
        self.events.push(Reverse(Event { at_s, order: self.scheduled, happens }));
    }

    fn now(&self) -> Duration {
        Duration::from_secs_f64(self.now_s)
    }

    fn group(&self, model: usize) -> &'a Group {
        &self.groups[self.members[model].group]
    }

    fn step(&mut self, happens: Happens) {
        match happens {
            Happens::Arrives(model) => self.arrives(model),
            Happens::Loaded(model) => {
                self.table.loaded(model, Ok(Arc::new(model)), self.now());
                self.has_changed = true;
            }
            Happens::Computed(request) => self.computed(request),
            Happens::Wakes => {
                self.wake_s = f64::INFINITY;
                self.has_changed = true;
            }
            Happens::Expires => {
                let going = self.table.expire(self.now());
                self.unload(going);
                self.schedule(self.now_s + 1.0, Happens::Expires);
            }
        }
    }

    fn arrives(&mut self, model: usize) {
        self.arrivals_left -= 1;
        let next = self.random.exponential(1.0 / self.group(model).per_s);
        self.schedule(self.now_s + next, Happens::Arrives(model));
        self.requests.push(Request { model, arrived_s: self.now_s, cold: false, latency_s: None });
        self.ask(self.requests.len() - 1);
    }

    /// What a request does until its model is ready.
    fn ask(&mut self, at: usize) {
        let model = self.requests[at].model;
        loop {
            match self.table.ask(model, self.group(model).bytes, self.now()) {
                Answer::Use(_) => return self.begin(at),
                Answer::Load => {
                    let member = &mut self.members[model];
                    (member.held_since, member.loads) = (Some(self.now_s), member.loads + 1);
                    self.schedule(self.now_s + self.group(model).load_s, Happens::Loaded(model));
                    break;
                }
                Answer::Unload(going) => self.unload(going),
                Answer::Wait(until) => {
                    let until = until.map_or(f64::INFINITY, |until| until.as_secs_f64()).max(self.now_s);
                    if until < self.wake_s {
                        self.wake_s = until;
                        // The table's times are whole nanoseconds; a moment later they are over for sure.
                        self.schedule(until + 1e-6, Happens::Wakes);
                    }
                    break;
                }
                // No load fails, no model is removed, and what cannot fit was refused before.
                Answer::Failed(_) | Answer::Gone | Answer::TooLarge { .. } => break,
            }
        }
        if !self.requests[at].cold {
            self.requests[at].cold = true;
            self.table.wait(model, self.now());
            self.waiting.push(at);
        }
    }

    /// Puts a request whose model is ready into the queue.
    fn begin(&mut self, at: usize) {
        if self.requests[at].cold {
            self.table.stop_waiting(self.requests[at].model);
            self.waiting.retain(|waiting| *waiting != at);
        }
        self.queue.push_back(at);
        if self.queue.len() == 1 {
            self.compute(at);
        }
    }

    fn compute(&mut self, at: usize) {
        let group = self.members[self.requests[at].model].group;
        let takes = self.groups[group].request_s;
        self.busy_s += takes;
        self.computed_s[group] += takes;
        self.schedule(self.now_s + takes, Happens::Computed(at));
    }

    fn computed(&mut self, at: usize) {
        let now = self.now();
        let request = &mut self.requests[at];
        request.latency_s = Some(self.now_s - request.arrived_s);
        self.table.release(request.model, now);
        self.has_changed = true;
        self.queue.pop_front();
        if let Some(next) = self.queue.front().copied() {
            self.compute(next);
        }
    }

    /// Unloads at once: an idle model has nothing to finish.
    fn unload(&mut self, going: Vec<(usize, Arc<usize>)>) {
        for (model, _) in going {
            self.table.unloaded(model);
            self.members[model].let_go(self.now_s);
            self.has_changed = true;
        }
    }

    fn outcome(mut self, memory: u64) -> FarmOutcome {
        let seconds = self.now_s.max(f64::MIN_POSITIVE);
        self.members.iter_mut().for_each(|member| member.let_go(seconds));
        let held_bytes = |group: usize| -> f64 {
            let members = self.members.iter().filter(|member| member.group == group);
            members.map(|member| member.held_s).sum::<f64>() * self.groups[group].bytes as f64
        };
        let held: Vec<f64> = (0..self.groups.len()).map(held_bytes).collect();
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let (all_held, all_computed) = (held.iter().sum::<f64>(), self.computed_s.iter().sum::<f64>());
        let dominant = |at: usize| share(held[at], all_held).max(share(self.computed_s[at], all_computed));
        let dominants: f64 = (0..self.groups.len()).map(dominant).sum();
        let groups = self.groups.iter().enumerate().map(|(at, group)| {
            let of_group = || self.requests.iter().filter(|request| self.members[request.model].group == at);
            let times = |only_cold: bool| {
                let counted = of_group().filter(|request| request.cold || !only_cold);
                Spread::of(counted.filter_map(|request| Some(request.latency_s? * 1e3)).collect())
            };
            let (requests, cold) = (of_group().count(), of_group().filter(|request| request.cold).count());
            GroupOutcome {
                name: group.name.clone(),
                count: group.count,
                requests,
                cold_share: share(cold as f64, requests as f64),
                loaded_share: held[at] / (group.bytes as f64 * group.count as f64 * seconds),
                latency_ms: times(false),
                cold_latency_ms: times(true),
                compute_share: share(self.computed_s[at], all_computed),
                memory_share: share(held[at], all_held),
                cost_share: share(dominant(at), dominants),
            }
        });
        let groups: Vec<GroupOutcome> = groups.collect();
        let wanted: u64 = self.groups.iter().map(|group| group.bytes * group.count as u64).sum();
        let again: usize = self.members.iter().map(|member| member.loads.saturating_sub(1)).sum();
        FarmOutcome {
            models: self.members.len(),
            wanted_mb: wanted as f64 / 1e6,
            memory_mb: memory as f64 / 1e6,
            fits: wanted <= memory,
            seconds,
            utilization: self.busy_s / seconds,
            loads_per_hour: again as f64 * 3600.0 / seconds,
            held_mb: all_held / seconds / 1e6,
            groups,
        }
    }
}

impl Member {
    /// The model takes no memory from now on.
    fn let_go(&mut self, now_s: f64) {
        if let Some(since) = self.held_since.take() {
            self.held_s += now_s - since;
        }
    }
}
