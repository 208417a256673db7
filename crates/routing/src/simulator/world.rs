//! The event loop of the simulation.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::load::{Conversation, Load, Prompt, single};
use super::node::{Job, Node, NodeSpec};
use super::report::{NodeReport, Report};
use crate::flight::Flight;
use crate::random::Random;
use crate::retry::{RetryBudget, RetryPolicy};
use crate::router::{Policy, Router};
use crate::target::TargetId;

/// What goes wrong with a node, until it ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultKind {
    /// The process dies, its cache with it; connections are refused until it starts again.
    Crash,
    /// Steps take so many times as long.
    Slow(f64),
    /// Nothing goes on, connections stay open.
    Hang,
    /// All new requests are refused with 429.
    Refuse,
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// The node's number.
    pub node: usize,
    /// What goes wrong.
    pub kind: FaultKind,
    /// When it begins, in seconds.
    pub from_s: f64,
    /// When it ends, in seconds.
    pub to_s: f64,
}

/// A simulation to run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The nodes.
    pub nodes: Vec<NodeSpec>,
    /// What clients send.
    pub load: Load,
    /// Requests to send.
    pub requests: usize,
    /// Settings of the routers.
    pub policy: Policy,
    /// Settings of retries.
    pub retry: RetryPolicy,
    /// Routers that share the load at random.
    pub replicas: usize,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// Longest time to a first token, after which an attempt has failed.
    pub first_byte: Duration,
    /// Whether slow requests are hedged.
    pub hedges: bool,
    /// Seed of all random numbers.
    pub seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Happens {
    /// A client sends a request; the number of a client, or none for a single request.
    Sends(Option<usize>),
    /// A request is tried (again).
    Tries(usize),
    /// A step of a node's start ends.
    Steps(usize, u64),
    FaultBegins(usize),
    FaultEnds(usize),
    /// The first token of an attempt is overdue.
    Overdue(usize, u32),
    /// A request may be hedged.
    Hedges(usize, u32),
    /// A connection was refused, or the request was.
    Rejected(usize, u32),
    /// Nodes push their records.
    Records,
}

/// An attempt that is under way.
pub(super) struct Attempt {
    pub(super) number: u32,
    pub(super) node: usize,
    pub(super) flight: Flight,
    pub(super) sent_at: Duration,
    pub(super) first_at: Option<Duration>,
    pub(super) is_rejected_by_refusal: bool,
}

/// A request.
pub(super) struct Request {
    pub(super) client: Option<usize>,
    pub(super) prompt: Prompt,
    pub(super) replica: usize,
    pub(super) came_at: Duration,
    pub(super) first_at: Option<Duration>,
    /// Tokens that the client has.
    pub(super) seen: u64,
    pub(super) attempts: u32,
    pub(super) tried: Vec<TargetId>,
    pub(super) under_way: Vec<Attempt>,
    pub(super) waits_until_s: f64,
}

pub(super) struct World<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) now: Duration,
    pub(super) nodes: Vec<Node>,
    pub(super) routers: Vec<Router>,
    pub(super) budgets: Vec<RetryBudget>,
    /// Ids of the nodes' targets, the same in all routers.
    pub(super) ids: Vec<TargetId>,
    pub(super) requests: Vec<Option<Request>>,
    pub(super) open: usize,
    pub(super) report: Report,
    conversations: Vec<Conversation>,
    random: Random,
    events: BinaryHeap<Reverse<(Duration, u64, Happens)>>,
    scheduled: u64,
}

/// Runs a scenario.
#[must_use]
pub fn run(scenario: &Scenario) -> Report {
    World::new(scenario).run()
}

impl World<'_> {
    fn new(scenario: &Scenario) -> World<'_> {
        let targets: Vec<_> = scenario.nodes.iter().map(|node| node.target.clone()).collect();
        let replica =
            |at: usize| Router::new(scenario.policy, targets.clone(), scenario.seed + 101 * at as u64);
        let routers: Vec<Router> = (0..scenario.replicas.max(1)).map(replica).collect();
        let name = |node: &NodeSpec| NodeReport { name: node.target.name.clone(), ..NodeReport::default() };
        let report = Report { nodes: scenario.nodes.iter().map(name).collect(), ..Report::default() };
        let mut world = World {
            scenario,
            now: Duration::ZERO,
            nodes: scenario.nodes.iter().cloned().map(Node::new).collect(),
            ids: routers[0].targets().collect(),
            budgets: routers.iter().map(|_| RetryBudget::new(scenario.retry.budget)).collect(),
            routers,
            requests: Vec::new(),
            open: 0,
            report,
            conversations: Vec::new(),
            random: Random::new(scenario.seed),
            events: BinaryHeap::new(),
            scheduled: 0,
        };
        world.start();
        world
    }

    fn start(&mut self) {
        match &self.scenario.load {
            Load::Chats(chats) => {
                self.conversations = vec![Conversation::default(); chats.clients];
                for client in 0..chats.clients {
                    let after = self.random.unit() * chats.think_s;
                    self.schedule(after, Happens::Sends(Some(client)));
                }
            }
            Load::Arrivals(_) => self.schedule(0.0, Happens::Sends(None)),
        }
        for (at, fault) in self.scenario.faults.iter().enumerate() {
            self.schedule(fault.from_s, Happens::FaultBegins(at));
            self.schedule(fault.to_s, Happens::FaultEnds(at));
        }
        self.schedule(1.0, Happens::Records);
    }

    pub(super) fn schedule(&mut self, after_s: f64, happens: Happens) {
        self.scheduled += 1;
        let at = self.now + Duration::from_secs_f64(after_s.max(0.0));
        self.events.push(Reverse((at, self.scheduled, happens)));
    }

    fn run(mut self) -> Report {
        while let Some(Reverse((at, _, happens))) = self.events.pop() {
            self.now = at;
            match happens {
                Happens::Sends(client) => self.send(client),
                Happens::Tries(request) => self.attempt(request, None),
                Happens::Steps(node, boot) => self.step(node, boot),
                Happens::FaultBegins(fault) => self.fault(fault, true),
                Happens::FaultEnds(fault) => self.fault(fault, false),
                Happens::Overdue(request, attempt) => self.overdue(request, attempt),
                Happens::Hedges(request, attempt) => self.hedge(request, attempt),
                Happens::Rejected(request, attempt) => self.rejected(request, attempt),
                Happens::Records => self.push_records(),
            }
        }
        self.end()
    }

    fn is_sending(&self) -> bool {
        self.requests.len() < self.scenario.requests
    }

    fn send(&mut self, client: Option<usize>) {
        if !self.is_sending() {
            return;
        }
        let scenario = self.scenario;
        let prompt = match (&scenario.load, client) {
            (Load::Chats(chats), Some(client)) => {
                self.conversations[client].next(client, chats, &mut self.random)
            }
            (Load::Arrivals(arrivals), _) => {
                let after = arrivals.next_s(self.now.as_secs_f64(), &mut self.random);
                self.schedule(after, Happens::Sends(None));
                single(arrivals, &mut self.random)
            }
            (Load::Chats(_), None) => return,
        };
        let replica = self.random.below(self.routers.len());
        self.budgets[replica].request();
        self.requests.push(Some(Request {
            client,
            prompt,
            replica,
            came_at: self.now,
            first_at: None,
            seen: 0,
            attempts: 0,
            tried: Vec::new(),
            under_way: Vec::new(),
            waits_until_s: self.now.as_secs_f64() + 60.0,
        }));
        self.open += 1;
        self.report.requests += 1;
        self.attempt(self.requests.len() - 1, None);
    }

    /// The client of a request that has ended thinks, and sends the next.
    pub(super) fn think(&mut self, client: Option<usize>) {
        if let (Load::Chats(chats), Some(_)) = (&self.scenario.load, client) {
            let after = self.random.exponential(chats.think_s);
            self.schedule(after, Happens::Sends(client));
        }
    }

    /// Begins the next step of a node that does not step.
    pub(super) fn wake(&mut self, node: usize) {
        let boot = self.nodes[node].boot;
        if self.nodes[node].is_stepping {
            return;
        }
        if let Some(seconds) = self.nodes[node].begin_step() {
            self.schedule(seconds, Happens::Steps(node, boot));
        }
    }

    fn step(&mut self, node: usize, boot: u64) {
        if self.nodes[node].boot != boot {
            return;
        }
        for progress in self.nodes[node].end_step() {
            self.progress(node, progress);
        }
        self.wake(node);
    }

    fn fault(&mut self, fault: usize, begins: bool) {
        let Fault { node, kind, .. } = self.scenario.faults[fault];
        match kind {
            FaultKind::Crash if begins => {
                let lost: Vec<Job> = self.nodes[node].crash();
                lost.iter().for_each(|job| self.reset(job));
            }
            FaultKind::Crash => self.nodes[node].is_down = false,
            FaultKind::Slow(factor) => self.nodes[node].slow = if begins { factor } else { 1.0 },
            FaultKind::Hang => self.nodes[node].is_hung = begins,
            FaultKind::Refuse => self.nodes[node].refuses = begins,
        }
        self.wake(node);
    }

    fn push_records(&mut self) {
        for node in 0..self.nodes.len() {
            let at = &self.nodes[node];
            if at.spec.tells && !at.is_down && !at.is_hung {
                let record = at.record();
                self.routers.iter_mut().for_each(|router| router.observe(self.now, self.ids[node], &record));
            }
        }
        self.crowding();
        if self.open > 0 || self.is_sending() {
            self.schedule(1.0, Happens::Records);
        }
    }

    /// Notes the largest share of the requests that a node has, once there are several for each.
    fn crowding(&mut self) {
        let all: usize = self.nodes.iter().map(Node::requests).sum();
        if all < 8 * self.nodes.len() {
            return;
        }
        for (node, report) in self.nodes.iter().zip(&mut self.report.nodes) {
            let share = node.requests() as f64 * self.scenario.nodes.len() as f64 / all as f64;
            report.crowding = report.crowding.max(share);
        }
    }

    fn end(mut self) -> Report {
        let report = &mut self.report;
        report.seconds = self.now.as_secs_f64();
        report.in_flight = self.routers.iter().map(Router::in_flight).sum();
        for (node, told) in self.nodes.iter().zip(&mut report.nodes) {
            told.utilization = node.busy_s / report.seconds.max(1e-9);
        }
        let of_periods = report.periods.iter_mut().map(|period| &mut period.own_first_token_s);
        let of_all = [&mut report.own_first_token_s, &mut report.first_token_s, &mut report.total_s];
        for values in of_all.into_iter().chain(of_periods) {
            values.sort_by(f32::total_cmp);
        }
        self.report
    }
}
