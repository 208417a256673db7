//! Random events against a model of the state machine that is a table of words.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use super::*;
use proptest::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Claim,
    Renew,
    Succeed,
    Fail,
    RetryLater,
    Release,
    ConfirmCancel,
    LoseLease,
    TakeBack,
    Cancel,
    Expire,
    QueueAgain,
}

/// Event, status, what follows: the next status, and effects. `|` parts what happens while attempts are left from what
/// happens after the last one.
const TABLE: &[(Event, &str, &str)] = &[
    (Event::Claim, "queued", "running epoch attempt"),
    (Event::Renew, "running", "running"),
    (Event::Succeed, "running", "succeeded"),
    (Event::Succeed, "cancelling", "cancelled"),
    (Event::Fail, "running", "failed"),
    (Event::Fail, "cancelling", "cancelled"),
    (Event::RetryLater, "running", "queued pause | failed dead"),
    (Event::RetryLater, "cancelling", "cancelled"),
    (Event::Release, "running", "queued unattempt"),
    (Event::Release, "cancelling", "cancelled"),
    (Event::ConfirmCancel, "cancelling", "cancelled"),
    (Event::LoseLease, "running", "queued lost | failed dead lost"),
    (Event::LoseLease, "cancelling", "cancelled"),
    (Event::TakeBack, "running", "queued lost | failed dead lost"),
    (Event::TakeBack, "cancelling", "cancelled"),
    (Event::Cancel, "queued", "cancelled"),
    (Event::Cancel, "running", "cancelling"),
    (Event::Expire, "queued", "expired"),
    (Event::Expire, "running", "expired"),
    (Event::Expire, "cancelling", "cancelled"),
    (Event::QueueAgain, "failed", "queued epoch fresh"),
    (Event::QueueAgain, "expired", "queued epoch fresh"),
    (Event::QueueAgain, "cancelled", "queued epoch fresh"),
];

/// Events that name the epoch of the worker from which they come.
const OF_WORKERS: [Event; 6] =
    [Event::Renew, Event::Succeed, Event::Fail, Event::RetryLater, Event::Release, Event::ConfirmCancel];

const LEASE: Millis = 60_000;
/// Pauses after failed attempts, in the middle of their spread.
const PAUSES: [Millis; 7] = [5_000, 20_000, 80_000, 300_000, 300_000, 300_000, 300_000];

/// What the table is applied to.
#[derive(Debug, Clone)]
struct Model {
    status: &'static str,
    epoch: u64,
    attempts: u32,
    max_attempts: u32,
    lost: u32,
    dead: bool,
    sequence: u64,
    run_at: Millis,
    lease_until: Millis,
    deadline: Millis,
}

impl Model {
    /// Whether time and epoch allow the event.
    fn allows(&self, event: Event, epoch: u64, now: Millis) -> bool {
        match event {
            Event::Claim => now >= self.run_at && now < self.deadline,
            Event::LoseLease => now > self.lease_until,
            Event::Expire => now >= self.deadline,
            _ if OF_WORKERS.contains(&event) => epoch == self.epoch,
            _ => true,
        }
    }

    /// Applies an event; false if nothing follows.
    fn apply(&mut self, event: Event, epoch: u64, now: Millis) -> bool {
        let row = TABLE.iter().find(|row| row.0 == event && row.1 == self.status);
        let Some((_, _, follows)) = row.filter(|_| self.allows(event, epoch, now)) else { return false };
        let lost = self.lost + u32::from(follows.contains("lost"));
        let last = self.attempts >= self.max_attempts || lost >= 3;
        let words = match follows.split_once('|') {
            Some((_, after)) if last => after,
            Some((before, _)) => before,
            None => follows,
        };
        let mut words = words.split_whitespace();
        self.status = words.next().unwrap();
        self.sequence += 1;
        self.run_at = if self.status == "queued" { now } else { self.run_at };
        words.for_each(|word| self.effect(word, now));
        if matches!(event, Event::Claim | Event::Renew) {
            self.lease_until = now + LEASE;
        }
        true
    }

    fn effect(&mut self, word: &str, now: Millis) {
        match word {
            "epoch" => self.epoch += 1,
            "attempt" => self.attempts += 1,
            "unattempt" => self.attempts -= 1,
            "lost" => self.lost += 1,
            "dead" => self.dead = true,
            "pause" => self.run_at = now + PAUSES[self.attempts as usize - 1],
            "fresh" => (self.attempts, self.lost, self.dead, self.deadline) = (0, 0, false, now + 400_000),
            other => panic!("{other} is no effect"),
        }
    }
}

fn apply(job: &mut Job, event: Event, epoch: u64, now: Millis) -> Result<Change, Refused> {
    let error = JobError { code: "engine".to_owned(), message: String::new(), param: None };
    match event {
        Event::Claim => job.claim("w", now + LEASE, now),
        Event::Renew => job.renew(epoch, now + LEASE, Progress::default()),
        Event::Succeed => {
            let success = Success {
                status_code: 200,
                result_sha256: format!("result of {epoch}"),
                result_bytes: 1,
                usage: Usage::default(),
                cost_micros: None,
            };
            job.succeed(epoch, success, now)
        }
        Event::Fail => job.fail(epoch, 400, error, now),
        Event::RetryLater => job.retry_later(epoch, error, None, 0.5, now),
        Event::Release => job.release(epoch, now),
        Event::ConfirmCancel => job.confirm_cancel(epoch, Usage::default(), now),
        Event::LoseLease => job.lose_lease(now),
        Event::TakeBack => job.take_back(now),
        Event::Cancel => job.cancel(now),
        Event::Expire => job.expire(now),
        Event::QueueAgain => job.queue_again(Some(now + 400_000), now),
    }
}

fn status_word(status: JobStatus) -> String {
    serde_json::to_value(status).unwrap().as_str().unwrap().to_owned()
}

/// An event, how old the epoch is that it names, and the time that passes before it.
fn events() -> impl Strategy<Value = Vec<(Event, u64, Millis)>> {
    use Event::{
        Cancel, Claim, ConfirmCancel, Expire, Fail, LoseLease, QueueAgain, Release, Renew, RetryLater,
        Succeed, TakeBack,
    };
    let often = prop_oneof![
        6 => Just(Claim),
        2 => prop::sample::select(vec![Renew, RetryLater, Release, LoseLease, TakeBack]),
        1 => prop::sample::select(vec![Succeed, Fail, ConfirmCancel, Cancel, Expire, QueueAgain]),
    ];
    let pause = prop_oneof![3 => 0..10_000_i64, 1 => 0..100_000_i64];
    proptest::collection::vec((often, prop_oneof![4 => Just(0_u64), 1 => 1..3_u64], pause), 1..80)
}

fn start(max_attempts: u32) -> (Job, Model) {
    let mut job = Job::new("job_1".to_owned(), Face::Job, "/v1/completions".to_owned(), 0);
    job.max_attempts = max_attempts;
    job.deadline = Some(400_000);
    let model = Model {
        status: "queued",
        epoch: 0,
        attempts: 0,
        max_attempts,
        lost: 0,
        dead: false,
        sequence: 1,
        run_at: 0,
        lease_until: 0,
        deadline: 400_000,
    };
    (job, model)
}

proptest! {
    #[test]
    fn a_job_follows_the_table(events in events(), max_attempts in 1..8_u32) {
        let (mut job, mut model) = start(max_attempts);
        let mut now = 0;
        for (event, age, pause) in events {
            now += pause;
            let epoch = job.epoch.saturating_sub(age);
            let before = job.clone();
            let done = apply(&mut job, event, epoch, now);
            let expected = model.apply(event, epoch, now);
            prop_assert_eq!(done.is_ok(), expected, "{:?} of epoch {} on {:?}", event, epoch, before);
            if done.is_err() {
                prop_assert_eq!(&job, &before);
            }
            prop_assert_eq!(status_word(job.status), model.status);
            prop_assert_eq!((job.epoch, job.attempts, job.lost_leases), (model.epoch, model.attempts, model.lost));
            prop_assert_eq!((job.dead, job.sequence, job.run_at), (model.dead, model.sequence, model.run_at));
            prop_assert_eq!(job.runs_alone(), model.lost >= 2);
        }
    }

    #[test]
    fn what_is_always_so(events in events(), max_attempts in 1..8_u32) {
        let (mut job, _) = start(max_attempts);
        let mut now = 0;
        let mut ends = 0;
        let mut by_hand = 0;
        for (event, age, pause) in events {
            now += pause;
            let epoch = job.epoch.saturating_sub(age);
            let before = job.clone();
            let done = apply(&mut job, event, epoch, now);
            if OF_WORKERS.contains(&event) && epoch != before.epoch {
                prop_assert_eq!(done, Err(Refused::Fenced));
            }
            let Ok(change) = done else { continue };
            prop_assert_eq!(job.sequence, before.sequence + 1);
            prop_assert!(job.epoch >= before.epoch);
            ends += u32::from(change.is_end());
            by_hand += u32::from(event == Event::QueueAgain);
            // Once, and once more for each time that somebody asked for.
            prop_assert_eq!(ends - by_hand, u32::from(job.status.is_terminal()));
            prop_assert_eq!(change.is_end(), job.status.is_terminal());
            prop_assert_eq!(job.finished_at.is_some(), job.status.is_terminal());
            let held = matches!(job.status, JobStatus::Running | JobStatus::Cancelling);
            prop_assert_eq!((job.worker.is_some(), job.lease_until.is_some()), (held, held));
            prop_assert_eq!(job.result_sha256.is_some(), job.status == JobStatus::Succeeded);
            if let Some(result) = &job.result_sha256 {
                prop_assert_eq!(result, &format!("result of {}", job.epoch));
            }
            prop_assert!(!job.dead || job.status == JobStatus::Failed);
            prop_assert!(job.attempts <= job.max_attempts);
        }
    }
}
