//! The loop that claims jobs, keeps their leases while the engine makes steps, and gives them back when the process stops.

mod attempt;
mod checkpoint;

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use job_store::{Claim, Claimed, Renewal, Renewed, Worker};
use jobs::{Class, Progress};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::executor::Watch;
use crate::shared::Jobs;
use attempt::{Ended, Order, attempt};

/// How long a lease is valid.
const LEASE_MS: i64 = 60_000;
/// Between two renewals.
const RENEW: Duration = Duration::from_secs(5);
/// An engine that has work and makes no step for so long loses its leases.
const WEDGED: Duration = Duration::from_secs(30);
/// The longest wait before the store is asked for work again.
const POLL: Duration = Duration::from_secs(2);
/// Between two looks at whether the executor has started.
const STARTING: Duration = Duration::from_millis(100);
/// Wait after the store could not be asked.
const STORE_PAUSE: Duration = Duration::from_secs(1);
/// Tokens after which an answer is kept as a checkpoint.
const CHECKPOINT_TOKENS: usize = 256;
/// Time after which it is.
const CHECKPOINT_TIME: Duration = Duration::from_secs(60);
/// Time that jobs have to be given back when the process stops.
const RELEASE: Duration = Duration::from_secs(5);

/// A job that runs here.
struct Running {
    epoch: u64,
    watch: Arc<Watch>,
    orders: watch::Sender<Order>,
    model: String,
    output_limit: Option<u64>,
    /// Tokens and time of the last checkpoint.
    kept: (usize, Instant),
}

/// Runs jobs until `stop` is done; then gives back those that run, with what there is of them.
pub(crate) async fn run(jobs: Arc<Jobs>, stop: impl Future<Output = ()>) {
    let worker = jobs.id("worker_");
    Runner { jobs, worker, running: HashMap::new(), tasks: JoinSet::new(), paused: None }.run(stop).await;
}

struct Runner {
    jobs: Arc<Jobs>,
    worker: String,
    running: HashMap<String, Running>,
    tasks: JoinSet<(String, Ended)>,
    /// Until when nothing is claimed, as the executor is busy.
    paused: Option<Instant>,
}

impl Runner {
    async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let mut renewals = tokio::time::interval(RENEW);
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let wait = self.claim().await;
            let jobs = self.jobs.clone();
            let work = async {
                match wait {
                    Wait::ForRoom => std::future::pending().await,
                    Wait::ForWork => jobs.store.wait_for_work(POLL).await,
                    Wait::For(time) => tokio::time::sleep(time).await,
                    Wait::NoMore => {}
                }
            };
            tokio::select! {
                biased;
                () = &mut stop => break,
                Some(done) = self.tasks.join_next() => self.ended(done),
                _ = renewals.tick() => self.renew().await,
                () = jobs.live.looked() => self.renew().await,
                () = work => {}
            }
        }
        self.release().await;
    }

    /// Asks for as many jobs as there is room for: twice as many as run at once, so that the engine's queue is never empty.
    async fn claim(&mut self) -> Wait {
        if let Some(until) = self.paused {
            match until.checked_duration_since(Instant::now()) {
                Some(rest) if !rest.is_zero() => return Wait::For(rest),
                _ => self.paused = None,
            }
        }
        let room = (2 * self.jobs.executor.parallel()).saturating_sub(self.running.len());
        if room == 0 {
            return Wait::ForRoom;
        }
        if !self.jobs.executor.is_ready() {
            return Wait::For(STARTING);
        }
        if self.jobs.executor.stuck().is_some_and(|stuck| stuck >= WEDGED) {
            return Wait::For(STORE_PAUSE);
        }
        let now = self.jobs.now();
        let claim = Claim {
            worker: self.worker.clone(),
            most: room,
            idle: self.running.is_empty(),
            lease_until: now + LEASE_MS,
            classes: vec![Class::Interactive, Class::Default, Class::Batch],
        };
        match self.jobs.store.claim(claim, now).await {
            Ok(claimed) if claimed.is_empty() => Wait::ForWork,
            Ok(claimed) => {
                claimed.into_iter().for_each(|claimed| self.start(claimed));
                Wait::NoMore
            }
            Err(error) => {
                tracing::warn!(%error, "no jobs could be claimed; the store is asked again in a second");
                Wait::For(STORE_PAUSE)
            }
        }
    }

    fn start(&mut self, claimed: Claimed) {
        let watch = Arc::new(Watch::default());
        let (orders, received) = watch::channel(Order::Run);
        let job = &claimed.job;
        let running = Running {
            epoch: job.epoch,
            watch: watch.clone(),
            orders,
            model: job.model.clone(),
            output_limit: job.progress.output_limit,
            kept: (0, Instant::now()),
        };
        let id = job.id.clone();
        self.jobs.live.begin(&id, watch.clone());
        self.running.insert(id.clone(), running);
        let jobs = self.jobs.clone();
        self.tasks.spawn(async move { (id, attempt(jobs, claimed, watch, received).await) });
    }

    fn ended(&mut self, done: Result<(String, Ended), tokio::task::JoinError>) {
        let (id, ended) = match done {
            Ok(done) => done,
            Err(error) => {
                tracing::error!(%error, "an attempt at a job panicked; the job is run again when its lease is over");
                self.forget_finished();
                return;
            }
        };
        self.running.remove(&id);
        self.jobs.live.end(&id);
        match ended {
            Ended::Written(job) => self.jobs.attempted(&job),
            Ended::Fenced => {
                tracing::warn!(job = id, "a late write was refused: the job was another's by then");
                self.jobs.metrics.fenced();
            }
            Ended::Busy(pause) => self.paused = Some(Instant::now() + pause),
            Ended::Dropped => {}
        }
    }

    /// Forgets jobs whose tasks are gone: nobody hears their orders.
    fn forget_finished(&mut self) {
        let live = &self.jobs.live;
        self.running.retain(|id, running| {
            let hears = !running.orders.is_closed();
            if !hears {
                live.end(id);
            }
            hears
        });
    }

    /// Renews all leases, with progress and checkpoints, unless the engine has stopped making steps.
    async fn renew(&mut self) {
        let now = self.jobs.now();
        let place = self.jobs.options.place.clone();
        // Only for people to see; a failure shows in the renewals below.
        let _ = self.jobs.store.seen(Worker { id: self.worker.clone(), place }, now).await;
        if self.running.is_empty() || self.jobs.executor.stuck().is_some_and(|stuck| stuck >= WEDGED) {
            return;
        }
        let (jobs, mut ids, mut renewals) = (self.jobs.clone(), Vec::new(), Vec::new());
        for (id, running) in &mut self.running {
            ids.push(id.clone());
            renewals.push(running.renewal(&jobs, id, now));
        }
        match jobs.store.renew(renewals, now).await {
            Ok(answers) => ids.iter().zip(answers).for_each(|(id, answer)| self.told(id, answer)),
            Err(error) => tracing::warn!(%error, "leases of jobs were not renewed"),
        }
    }

    fn told(&mut self, id: &str, answer: Renewed) {
        let Some(running) = self.running.get(id) else { return };
        match answer {
            Renewed::Kept => {}
            Renewed::Cancel => {
                running.orders.send_replace(Order::Cancel);
            }
            Renewed::Lost => {
                tracing::warn!(job = id, "the lease of a job was lost");
                self.jobs.metrics.leases_lost(1);
                running.orders.send_replace(Order::Drop);
            }
        }
    }

    /// Gives all jobs back.
    async fn release(mut self) {
        for running in self.running.values() {
            running.orders.send_replace(Order::Release);
        }
        let all = async {
            while let Some(done) = self.tasks.join_next().await {
                self.ended(done);
            }
        };
        if tokio::time::timeout(RELEASE, all).await.is_err() {
            tracing::warn!(
                "some jobs were not given back in time; they are run again when their leases are over"
            );
        }
    }
}

/// What a runner waits for before it asks for work again.
enum Wait {
    /// A job that ends.
    ForRoom,
    /// Work.
    ForWork,
    /// A time.
    For(Duration),
    /// Nothing.
    NoMore,
}

impl Running {
    fn renewal(&mut self, jobs: &Jobs, id: &str, now: i64) -> Renewal {
        let seen = self.watch.seen();
        let (count, since) = self.kept;
        let due = seen.tokens.len() >= count + CHECKPOINT_TOKENS
            || (seen.tokens.len() > count && since.elapsed() >= CHECKPOINT_TIME);
        let checkpoint = if due { jobs.executor.fingerprint(&self.model) } else { None };
        let checkpoint = checkpoint.and_then(|fingerprint| checkpoint::pack(&fingerprint, &seen.tokens));
        if checkpoint.is_some() {
            self.kept = (seen.tokens.len(), Instant::now());
        }
        let seconds = seen.first_token.map(|first| first.elapsed().as_secs_f64());
        let phase = match (seen.prompt_tokens, seen.tokens.is_empty()) {
            (None, _) => "waiting",
            (Some(_), true) => "prefill",
            (Some(_), false) => "decode",
        };
        let output_tokens = seen.tokens.len() as u64;
        let progress = Progress {
            phase: phase.to_owned(),
            prompt_tokens: seen.prompt_tokens,
            output_tokens,
            output_limit: self.output_limit,
            tokens_per_second: seconds.filter(|s| *s > 0.5).map(|s| output_tokens as f64 / s),
        };
        Renewal { id: id.to_owned(), epoch: self.epoch, lease_until: now + LEASE_MS, progress, checkpoint }
    }
}
