//! A simulated node: continuous batching with step times by rows, chunks of prompts, a queue, and a prefix cache.

use std::collections::VecDeque;

use crate::chain::Boundary;
use crate::lru::Lru;
use crate::target::{NodeRecord, Speed};

/// Prompt tokens of a step at most.
const CHUNK: u64 = 256;
/// Slots of a node that has no bound.
const UNBOUNDED: usize = 4096;

/// A node to simulate.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// Its target, as the router is told of it.
    pub target: crate::target::Target,
    /// Its true speed.
    pub speed: Speed,
    /// Requests that wait at most; further ones are refused.
    pub max_waiting: usize,
    /// Boundaries that its prefix cache holds; 0 for no cache.
    pub cached_boundaries: usize,
    /// Whether it tells its load and cached tokens, as a Gristmill node does.
    pub tells: bool,
}

/// A request at a node.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) request: usize,
    /// Number of the attempt, so that what ends late is told from what goes on.
    pub(super) attempt: u32,
    pub(super) prompt_tokens: u64,
    pub(super) chain: Vec<Boundary>,
    /// Hash of the prompt with its answer, which the cache holds afterwards.
    pub(super) after: u64,
    pub(super) output: u64,
    /// Prompt tokens left to compute.
    left: u64,
    pub(super) cached: u64,
    pub(super) generated: u64,
    rows: u64,
}

impl Job {
    pub(super) fn new(
        request: usize,
        attempt: u32,
        chain: Vec<Boundary>,
        prompt_tokens: u64,
        output: u64,
        after: u64,
    ) -> Job {
        let left = prompt_tokens;
        Job { request, attempt, prompt_tokens, chain, after, output, left, cached: 0, generated: 0, rows: 0 }
    }
}

/// What happened in a step.
pub(super) enum Progress {
    FirstToken(usize, u32),
    Done(Job),
}

/// A node with its state.
pub(super) struct Node {
    pub(super) spec: NodeSpec,
    running: Vec<Job>,
    waiting: VecDeque<Job>,
    cache: Option<Lru<()>>,
    /// Slowdown of steps.
    pub(super) slow: f64,
    pub(super) is_down: bool,
    pub(super) is_hung: bool,
    pub(super) refuses: bool,
    pub(super) is_stepping: bool,
    /// Number of starts; steps of an earlier one are void.
    pub(super) boot: u64,
    pub(super) busy_s: f64,
}

impl Node {
    pub(super) fn new(spec: NodeSpec) -> Node {
        let cache = (spec.cached_boundaries > 0).then(|| Lru::new(spec.cached_boundaries));
        Node {
            spec,
            running: Vec::new(),
            waiting: VecDeque::new(),
            cache,
            slow: 1.0,
            is_down: false,
            is_hung: false,
            refuses: false,
            is_stepping: false,
            boot: 1,
            busy_s: 0.0,
        }
    }

    fn slots(&self) -> usize {
        self.spec.speed.slots.map_or(UNBOUNDED, |slots| slots as usize)
    }

    pub(super) fn requests(&self) -> usize {
        self.running.len() + self.waiting.len()
    }

    /// Takes a request, unless the queue is full.
    pub(super) fn accept(&mut self, job: Job) -> bool {
        let full = self.running.len() >= self.slots() && self.waiting.len() >= self.spec.max_waiting;
        if full || self.refuses {
            return false;
        }
        self.waiting.push_back(job);
        true
    }

    /// Takes a request out.
    pub(super) fn cancel(&mut self, request: usize, attempt: u32) {
        self.running.retain(|job| (job.request, job.attempt) != (request, attempt));
        self.waiting.retain(|job| (job.request, job.attempt) != (request, attempt));
    }

    /// Ends everything: the process died. Returns the requests that it had.
    pub(super) fn crash(&mut self) -> Vec<Job> {
        self.is_down = true;
        self.is_stepping = false;
        self.boot += 1;
        self.cache = (self.spec.cached_boundaries > 0).then(|| Lru::new(self.spec.cached_boundaries));
        self.running.drain(..).chain(self.waiting.drain(..)).collect()
    }

    /// Begins a step. Its seconds, if it has rows.
    pub(super) fn begin_step(&mut self) -> Option<f64> {
        while self.running.len() < self.slots() {
            let Some(mut job) = self.waiting.pop_front() else { break };
            job.cached = self.held(&job).min(job.prompt_tokens.saturating_sub(1));
            job.left = job.prompt_tokens - job.cached;
            self.running.push(job);
        }
        let decoding = self.running.iter().filter(|job| job.left == 0).count();
        let mut chunk = CHUNK;
        for job in self.running.iter_mut() {
            job.rows = job.left.min(chunk);
            chunk -= job.rows;
        }
        let speed = &self.spec.speed;
        let decode_s = if decoding > 0 { speed.steps.seconds(decoding as f64) } else { 0.0 };
        let seconds = (decode_s + (CHUNK - chunk) as f64 / speed.prompt_tokens_per_s) * self.slow;
        self.is_stepping = seconds > 0.0 && !self.is_hung && !self.is_down;
        self.busy_s += if self.is_stepping { seconds } else { 0.0 };
        self.is_stepping.then_some(seconds)
    }

    /// Ends the step.
    pub(super) fn end_step(&mut self) -> Vec<Progress> {
        self.is_stepping = false;
        let mut progress = Vec::new();
        let mut at = 0;
        while at < self.running.len() {
            let job = &mut self.running[at];
            let reads = job.left > 0;
            job.left -= job.rows.min(job.left);
            if job.left > 0 {
                at += 1;
                continue;
            }
            job.generated += 1;
            if reads {
                progress.push(Progress::FirstToken(job.request, job.attempt));
                let chain = std::mem::take(&mut job.chain);
                self.keep(&chain);
                self.running[at].chain = chain;
            }
            if self.running[at].generated >= self.running[at].output {
                let job = self.running.remove(at);
                if let Some(cache) = &mut self.cache {
                    cache.use_or_insert(job.after, || ());
                }
                progress.push(Progress::Done(job));
            } else {
                at += 1;
            }
        }
        progress
    }

    /// Tokens of a prompt that the cache holds: up to the deepest boundary before which none is missing.
    fn held(&self, job: &Job) -> u64 {
        let Some(cache) = &self.cache else { return 0 };
        let held = job.chain.iter().take_while(|boundary| cache.peek(boundary.hash).is_some());
        held.last().map_or(0, |boundary| boundary.tokens)
    }

    fn keep(&mut self, chain: &[Boundary]) {
        if let Some(cache) = &mut self.cache {
            chain.iter().rev().for_each(|boundary| {
                cache.use_or_insert(boundary.hash, || ());
            });
        }
    }

    /// The node's record.
    pub(super) fn record(&self) -> NodeRecord {
        let waiting = self.waiting.iter().map(|job| job.prompt_tokens);
        let running = self.running.iter().map(|job| job.left);
        NodeRecord {
            boot: self.boot,
            running: self.running.len() as u32,
            waiting: self.waiting.len() as u32,
            backlog_tokens: waiting.chain(running).sum(),
            prompt_tokens_per_s: Some(self.spec.speed.prompt_tokens_per_s / self.slow),
            steps: crate::target::StepTimes::new(
                [1.0, 2.0, 4.0, 8.0, 16.0]
                    .map(|rows| (rows, self.spec.speed.steps.seconds(rows) * self.slow)),
            ),
            slots: self.spec.speed.slots,
        }
    }
}
