//! Runs the open requests: so many at a time, their answers kept in groups.

use crate::ask::{Ended, Policy, ask};
use crate::error::Error;
use crate::feed::{Feed, Ready, Work, blocking};
use crate::journal::rows::Finished;
use crate::meter::Meter;
use crate::report::{Stopped, ratio};
use crate::runner::Runner;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};

/// Answers that are kept in one commit.
const GROUP: usize = 256;
/// Bytes of answers that are kept in one commit.
const GROUP_BYTES: usize = 16 << 20;
/// An answer is kept after this time at the latest.
const GROUP_TIME: Duration = Duration::from_secs(1);
/// After this many failures in a row that are not the requests' own, the run stops: they would all fail.
const DOUBTFUL: usize = 16;

/// Runs the open requests.
pub(crate) struct Drive<'a> {
    work: Arc<Work>,
    runner: Arc<dyn Runner>,
    meter: &'a mut Meter,
    feed: Feed,
    has_more: bool,
    running: JoinSet<Ended>,
    group: Vec<Finished>,
    group_bytes: usize,
    /// Failures that are not the requests' own, since the last answer.
    doubtful: Vec<Finished>,
    stopped: Option<Stopped>,
    last_fault: Option<String>,
}

/// How the requests were left.
pub(crate) struct Driven {
    /// Why some of them are open still.
    pub(crate) stopped: Option<Stopped>,
    pub(crate) last_fault: Option<String>,
}

/// What happened.
enum Event {
    Ended(Ended),
    Tick,
    Stop(Stopped),
}

impl<'a> Drive<'a> {
    pub(crate) fn new(work: Arc<Work>, runner: Arc<dyn Runner>, meter: &'a mut Meter) -> Drive<'a> {
        Drive {
            feed: Feed::new(Arc::clone(&work)),
            work,
            runner,
            meter,
            has_more: true,
            running: JoinSet::new(),
            group: Vec::new(),
            group_bytes: 0,
            doubtful: Vec::new(),
            stopped: None,
            last_fault: None,
        }
    }

    /// Runs until nothing is open or the run is stopped. What runs when this future is dropped is given up.
    pub(crate) async fn run(mut self) -> Result<Driven, Error> {
        let ended = self.turns().await;
        self.running.abort_all();
        match ended {
            Ok(()) => self.settle_doubts(),
            Err(Error::Cancelled) => self.stopped = Some(Stopped::Cancelled),
            // What was finished is kept, whatever stands in the way of the rest.
            Err(error) => return self.keep().await.and(Err(error)),
        }
        self.keep().await?;
        self.show();
        Ok(Driven { stopped: self.stopped, last_fault: self.last_fault })
    }

    async fn turns(&mut self) -> Result<(), Error> {
        let max_time = self.work.options.max_time;
        let end = max_time.and_then(|time| Instant::from_std(self.meter.began()).checked_add(time));
        let mut ticks = interval(GROUP_TIME);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.fill().await?;
            if self.running.is_empty() {
                return Ok(());
            }
            match self.event(end, &mut ticks).await? {
                Event::Ended(ended) => self.take(ended),
                Event::Tick => {
                    self.keep().await?;
                    self.show();
                }
                Event::Stop(why) => {
                    self.stopped = Some(why);
                    return Ok(());
                }
            }
            if self.group.len() >= GROUP || self.group_bytes >= GROUP_BYTES {
                self.keep().await?;
            }
        }
    }

    /// Starts requests until as many run as may.
    async fn fill(&mut self) -> Result<(), Error> {
        while self.has_more && self.stopped.is_none() && self.running.len() < self.work.options.concurrency {
            if self.work.options.max_cost.zip(self.meter.cost()).is_some_and(|(most, cost)| cost >= most) {
                // Those that run are paid for, and are waited for.
                self.stopped = Some(Stopped::Cost);
                return Ok(());
            }
            match self.feed.next().await? {
                Some(ready) => self.start(ready),
                None => self.has_more = false,
            }
        }
        Ok(())
    }

    fn start(&mut self, ready: Ready) {
        let (runner, policy) = (Arc::clone(&self.runner), Policy::new(&self.work.options));
        self.running.spawn(async move { ask(&*runner, policy, ready).await });
    }

    async fn event(&mut self, end: Option<Instant>, ticks: &mut Interval) -> Result<Event, Error> {
        let over = async {
            match end {
                Some(end) => sleep_until(end).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.work.cancel.cancelled() => Ok(Event::Stop(Stopped::Cancelled)),
            () = over => Ok(Event::Stop(Stopped::Time)),
            _ = ticks.tick() => Ok(Event::Tick),
            Some(ended) = self.running.join_next() => match ended {
                Ok(ended) => Ok(Event::Ended(ended)),
                Err(error) => Err(Error::Internal(error.to_string())),
            },
        }
    }

    /// Takes the end of a request.
    fn take(&mut self, ended: Ended) {
        self.meter.count_retries(ended.retries);
        if !ended.is_doubtful {
            // Others are answered: the failures before were the requests' own.
            for finished in std::mem::take(&mut self.doubtful) {
                self.count(finished);
            }
            return self.count(ended.finished);
        }
        self.last_fault = ended.finished.fault.as_ref().map(|fault| fault.message.clone());
        self.doubtful.push(ended.finished);
        if self.doubtful.len() >= DOUBTFUL {
            self.stopped = Some(Stopped::Unavailable);
            self.running.abort_all();
            self.running.detach_all();
            self.doubtful.clear();
        }
    }

    fn count(&mut self, finished: Finished) {
        self.meter.count(finished.fault.is_some(), finished.tokens);
        self.group_bytes += finished.body.len();
        self.group.push(finished);
    }

    /// Decides at the end about failures that no answer came after: if there was none at all, the fault is not theirs.
    fn settle_doubts(&mut self) {
        let doubtful = std::mem::take(&mut self.doubtful);
        if doubtful.is_empty() || self.stopped.is_some() {
            return;
        }
        if self.meter.progress().finished_now == 0 {
            self.stopped = Some(Stopped::Unavailable);
            return;
        }
        for finished in doubtful {
            self.count(finished);
        }
    }

    /// Makes the answers durable that came since the last time.
    async fn keep(&mut self) -> Result<(), Error> {
        if self.group.is_empty() {
            return Ok(());
        }
        let (group, work) = (std::mem::take(&mut self.group), Arc::clone(&self.work));
        self.group_bytes = 0;
        blocking(move || work.journal.finish(&group)).await
    }

    fn show(&mut self) {
        let reuse = self.feed.reuse();
        self.meter.set_running(self.running.len(), ratio(reuse.shared, reuse.total));
        self.meter.show();
    }
}
