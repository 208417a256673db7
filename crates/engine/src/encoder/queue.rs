//! Which texts are computed next: a plain struct, with the time as an argument.
//!
//! - *Two classes.* Jobs of at most [`MAX_INTERACTIVE_TEXTS`](super::MAX_INTERACTIVE_TEXTS) texts come before bulk
//!   jobs. While both wait, bulk work is owed a quarter of the time that interactive steps take, and gets a step as
//!   soon as one is paid for: a fifth of the time.
//! - *Clients* of a class share it by deficit round robin (Shreedhar and Varghese, 1996) in milliseconds: estimated
//!   from tokens when a text is taken, corrected by what its step took.
//! - *Jobs* of a client come shortest first, with ageing: each second of waiting makes up for half a second of work.
//! - *Texts* of a job come in the order that fills steps best: the longest that still fits.
//!
//! Nothing is saved up: a client without waiting texts has neither credit nor debt, and so does bulk work.

use std::collections::VecDeque;
use std::time::Duration;

use crate::queue::AGING;

/// Part of the time of interactive steps that bulk work is owed.
const BULK_SHARE: f64 = 0.25;
/// Most milliseconds that a client is granted in a round, unless a step is longer.
const QUANTUM_MS: f64 = 10.0;
/// Most milliseconds that a client may owe after a step that took longer than estimated.
const MAX_DEBT_MS: f64 = 500.0;

/// The class of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Somebody waits for a few texts.
    Interactive,
    /// Many texts.
    Bulk,
}

impl Class {
    /// The class of a job of so many texts.
    pub(crate) fn of(texts: usize) -> Class {
        if texts <= super::MAX_INTERACTIVE_TEXTS { Class::Interactive } else { Class::Bulk }
    }
}

/// A job in the queue.
pub(crate) type JobId = u64;

/// The step that is being filled.
pub(crate) trait StepBuilder {
    /// Tokens that the text would add: 0 if an equal one is in the step already.
    fn adds(&self, job: JobId, text: usize) -> usize;
    /// Takes the text into the step.
    fn add(&mut self, job: JobId, text: usize);
}

/// What a client was charged for its texts of a step, by estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Charge {
    pub(crate) client: u64,
    /// Tokens that the client's texts added to the step.
    pub(crate) tokens: usize,
    estimate_ms: f64,
}

/// Jobs with texts that were not taken yet.
#[derive(Debug, Default)]
pub(crate) struct EncodeQueue {
    interactive: ClassQueue,
    bulk: ClassQueue,
    /// Milliseconds that bulk work is owed.
    owed_ms: f64,
}

#[derive(Debug, Default)]
struct ClassQueue {
    /// The round: whose turn it is comes first.
    clients: VecDeque<ClientQueue>,
}

#[derive(Debug)]
struct ClientQueue {
    client: u64,
    deficit_ms: f64,
    /// Whether the client was granted its quantum in the present round.
    granted: bool,
    jobs: Vec<QueuedJob>,
}

#[derive(Debug)]
struct QueuedJob {
    id: JobId,
    since: Duration,
    /// Tokens of the texts below.
    tokens: usize,
    /// Texts that were not taken: their lengths and indices, ascending.
    texts: Vec<(u32, u32)>,
}

/// What came of an attempt to take a text of a client.
enum Taken {
    /// It added so many tokens.
    Tokens(usize),
    /// The client's deficit is too small.
    DeficitTooSmall,
    /// None of the texts that are next fits.
    NoneFits,
}

impl EncodeQueue {
    /// Adds a job with texts of these lengths, in tokens.
    pub(crate) fn add(&mut self, id: JobId, client: u64, class: Class, lengths: &[usize], now: Duration) {
        let whole = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let texts = lengths.iter().enumerate().map(|(index, length)| (whole(*length), whole(index)));
        let mut texts: Vec<(u32, u32)> = texts.collect();
        texts.sort_unstable();
        let job = QueuedJob { id, since: now, tokens: lengths.iter().sum(), texts };
        let queue = self.class_mut(class);
        match queue.clients.iter_mut().find(|known| known.client == client) {
            Some(known) => known.jobs.push(job),
            None => {
                let (deficit_ms, granted) = (0.0, false);
                queue.clients.push_back(ClientQueue { client, deficit_ms, granted, jobs: vec![job] });
            }
        }
    }

    /// Drops what is left of a job. Returns its texts and tokens that were not taken.
    pub(crate) fn remove(&mut self, id: JobId) -> (usize, usize) {
        for queue in [&mut self.interactive, &mut self.bulk] {
            for at in 0..queue.clients.len() {
                let jobs = &mut queue.clients[at].jobs;
                if let Some(job) = jobs.iter().position(|job| job.id == id) {
                    let job = jobs.swap_remove(job);
                    queue.drop_idle(at);
                    return (job.texts.len(), job.tokens);
                }
            }
        }
        (0, 0)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.next_class(0.0).is_none()
    }

    /// The class of the next step, if there is one, where a bulk step takes so long by estimate.
    pub(crate) fn next_class(&self, bulk_step_ms: f64) -> Option<Class> {
        match (self.interactive.clients.is_empty(), self.bulk.clients.is_empty()) {
            (true, true) => None,
            (false, true) => Some(Class::Interactive),
            (true, false) => Some(Class::Bulk),
            (false, false) if self.owed_ms > 0.0 && self.owed_ms >= bulk_step_ms => Some(Class::Bulk),
            (false, false) => Some(Class::Interactive),
        }
    }

    /// Estimated milliseconds of the texts of a class that wait.
    pub(crate) fn waiting_ms(&self, class: Class, ms_per_token: f64) -> f64 {
        let clients = self.class(class).clients.iter();
        let tokens: usize = clients.flat_map(|client| &client.jobs).map(|job| job.tokens).sum();
        tokens as f64 * ms_per_token
    }

    /// Fills a step with at most `budget` tokens of one class, or with one longer text. Returns what each client is
    /// charged.
    pub(crate) fn take(
        &mut self,
        now: Duration,
        budget: usize,
        ms_per_token: f64,
        step: &mut impl StepBuilder,
    ) -> Option<(Class, Vec<Charge>)> {
        let step_ms = budget as f64 * ms_per_token;
        let class = self.next_class(step_ms)?;
        let quantum_ms = step_ms.max(QUANTUM_MS);
        let charges = self.class_mut(class).fill(now, budget, ms_per_token, quantum_ms, step);
        Some((class, charges))
    }

    /// Corrects the estimates: a step took so long, of which each client has a part by its tokens.
    pub(crate) fn settle(&mut self, class: Class, charges: &[Charge], took_ms: f64) {
        let bulk_waits = !self.bulk.clients.is_empty();
        self.owed_ms = match class {
            Class::Interactive if bulk_waits => self.owed_ms + BULK_SHARE * took_ms,
            Class::Bulk if bulk_waits => (self.owed_ms - took_ms).max(0.0),
            Class::Interactive | Class::Bulk => 0.0,
        };
        let tokens: usize = charges.iter().map(|charge| charge.tokens).sum();
        let queue = self.class_mut(class);
        for charge in charges {
            let share = charge.tokens as f64 / tokens.max(1) as f64;
            let known = queue.clients.iter_mut().find(|client| client.client == charge.client);
            if let Some(client) = known {
                let settled = client.deficit_ms - (took_ms * share - charge.estimate_ms);
                client.deficit_ms = settled.max(-MAX_DEBT_MS);
            }
        }
    }

    fn class(&self, class: Class) -> &ClassQueue {
        match class {
            Class::Interactive => &self.interactive,
            Class::Bulk => &self.bulk,
        }
    }

    fn class_mut(&mut self, class: Class) -> &mut ClassQueue {
        match class {
            Class::Interactive => &mut self.interactive,
            Class::Bulk => &mut self.bulk,
        }
    }
}

impl ClassQueue {
    /// Deficit round robin, until the step is full or nothing fits.
    fn fill(
        &mut self,
        now: Duration,
        budget: usize,
        ms_per_token: f64,
        quantum_ms: f64,
        step: &mut impl StepBuilder,
    ) -> Vec<Charge> {
        let (mut charges, mut left, mut is_empty) = (Vec::<Charge>::new(), budget, true);
        // Clients at the head of the round none of whose texts fits; they keep their places.
        let mut passed = 0;
        while passed < self.clients.len() {
            let client = &mut self.clients[passed];
            if !std::mem::replace(&mut client.granted, true) {
                client.deficit_ms += quantum_ms;
            }
            let id = client.client;
            match client.take(now, left, is_empty, ms_per_token, step) {
                Taken::Tokens(tokens) => {
                    let estimate_ms = tokens as f64 * ms_per_token;
                    client.deficit_ms -= estimate_ms;
                    match charges.iter_mut().find(|charge| charge.client == id) {
                        Some(charge) => {
                            charge.tokens += tokens;
                            charge.estimate_ms += estimate_ms;
                        }
                        None => charges.push(Charge { client: id, tokens, estimate_ms }),
                    }
                    (left, is_empty) = (left.saturating_sub(tokens), false);
                    self.drop_idle(passed);
                }
                Taken::DeficitTooSmall => {
                    client.granted = false;
                    if let Some(client) = self.clients.remove(passed) {
                        self.clients.push_back(client);
                    }
                }
                Taken::NoneFits => passed += 1,
            }
        }
        charges
    }

    /// Removes the client at this place if it has nothing left.
    fn drop_idle(&mut self, at: usize) {
        if self.clients.get(at).is_some_and(|client| client.jobs.is_empty()) {
            self.clients.remove(at);
        }
    }
}

impl ClientQueue {
    /// Takes the longest text that fits of the job that is next.
    fn take(
        &mut self,
        now: Duration,
        left: usize,
        is_empty: bool,
        ms_per_token: f64,
        step: &mut impl StepBuilder,
    ) -> Taken {
        let key = |job: &QueuedJob| {
            let waited = now.saturating_sub(job.since).as_secs_f64() * 1000.0;
            job.tokens as f64 * ms_per_token - f64::from(AGING) * waited
        };
        let order =
            |a: &(usize, f64, JobId), b: &(usize, f64, JobId)| a.1.total_cmp(&b.1).then(a.2.cmp(&b.2));
        let jobs = self.jobs.iter().enumerate().map(|(at, job)| (at, key(job), job.id));
        let Some((at, ..)) = jobs.min_by(order) else { return Taken::NoneFits };
        let job = &mut self.jobs[at];
        let place = match job.texts.partition_point(|(length, _)| *length as usize <= left) {
            // A text that is longer than any step comes when it is the job's shortest.
            0 if is_empty => 0,
            0 => return Taken::NoneFits,
            fitting => fitting - 1,
        };
        let (length, text) = job.texts[place];
        let adds = step.adds(job.id, text as usize);
        if adds as f64 * ms_per_token > self.deficit_ms {
            return Taken::DeficitTooSmall;
        }
        step.add(job.id, text as usize);
        job.texts.remove(place);
        job.tokens -= length as usize;
        if job.texts.is_empty() {
            self.jobs.swap_remove(at);
        }
        Taken::Tokens(adds)
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
