#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use super::*;
use crate::job::Class;

const NOW: Millis = 1_000_000;
const LEASE: Millis = NOW + 60_000;
const USAGE: Usage = Usage { input_tokens: 7, cached_tokens: 3, output_tokens: 5, reasoning_tokens: 1 };

fn queued() -> Job {
    let mut job = Job::new("job_1".to_owned(), Face::Job, "/v1/chat/completions".to_owned(), NOW);
    job.deadline = Some(NOW + 1_000_000);
    job
}

fn running() -> Job {
    let mut job = queued();
    job.claim("w1", LEASE, NOW).unwrap();
    job
}

fn cancelling() -> Job {
    let mut job = running();
    job.cancel(NOW + 1).unwrap();
    job
}

fn ended() -> [Job; 4] {
    let mut succeeded = running();
    succeeded.succeed(1, success(), NOW + 2).unwrap();
    let mut failed = running();
    failed.fail(1, 400, error("bad"), NOW + 2).unwrap();
    let mut cancelled = queued();
    cancelled.cancel(NOW + 2).unwrap();
    let mut expired = queued();
    expired.expire(NOW + 1_000_000).unwrap();
    [succeeded, failed, cancelled, expired]
}

fn success() -> Success {
    Success {
        status_code: 200,
        result_sha256: "ab".to_owned(),
        result_bytes: 9,
        usage: USAGE,
        cost_micros: Some(12),
    }
}

fn error(code: &str) -> JobError {
    JobError { code: code.to_owned(), message: "a sentence".to_owned(), param: None }
}

/// Nothing is changed by what is refused.
fn refused(job: &Job, event: impl FnOnce(&mut Job) -> Result<Change, Refused>) -> Refused {
    let mut tried = job.clone();
    let refused = event(&mut tried).unwrap_err();
    assert_eq!(tried, *job);
    refused
}

#[test]
fn a_claim_takes_the_job() {
    let mut job = queued();
    assert_eq!(job.sequence, 1);
    assert_eq!(job.claim("w1", LEASE, NOW), Ok(Change::Running));
    assert_eq!(job.status, JobStatus::Running);
    assert_eq!((job.epoch, job.attempts, job.sequence), (1, 1, 2));
    assert_eq!(job.worker.as_deref(), Some("w1"));
    assert_eq!(job.lease_until, Some(LEASE));
    assert_eq!(job.started_at, Some(NOW));
    assert_eq!(job.progress.phase, "waiting");
}

#[test]
fn the_first_claim_is_the_start() {
    let mut job = running();
    job.release(1, NOW + 5).unwrap();
    job.claim("w2", LEASE, NOW + 10).unwrap();
    assert_eq!(job.started_at, Some(NOW));
    assert_eq!(job.epoch, 2);
}

#[test]
fn a_claim_waits_for_its_time_and_comes_before_the_deadline() {
    let mut job = queued();
    job.run_at = NOW + 10;
    assert_eq!(refused(&job, |job| job.claim("w", LEASE, NOW + 9)), Refused::NotDue);
    assert!(job.clone().claim("w", LEASE, NOW + 10).is_ok());
    assert!(job.clone().claim("w", LEASE, NOW + 999_999).is_ok());
    assert_eq!(refused(&job, |job| job.claim("w", LEASE, NOW + 1_000_000)), Refused::PastDeadline);
}

#[test]
fn only_a_waiting_job_is_claimed() {
    for job in [running(), cancelling()].iter().chain(&ended()) {
        assert_eq!(refused(job, |job| job.claim("w", LEASE, NOW)), Refused::NotQueued, "{:?}", job.status);
    }
}

#[test]
fn a_renewed_lease_ends_later() {
    let mut job = running();
    let progress = Progress { phase: "decode".to_owned(), output_tokens: 3, ..Progress::default() };
    assert_eq!(job.renew(1, LEASE + 5, progress.clone()), Ok(Change::Progress));
    assert_eq!((job.lease_until, &job.progress, job.sequence), (Some(LEASE + 5), &progress, 3));
    // Of two renewals that overtake each other, the longer one stays.
    job.renew(1, LEASE, progress).unwrap();
    assert_eq!(job.lease_until, Some(LEASE + 5));
}

#[test]
fn a_success_keeps_what_it_took() {
    let mut job = running();
    job.error = Some(error("earlier"));
    assert_eq!(job.succeed(1, success(), NOW + 3), Ok(Change::Succeeded));
    assert_eq!(job.status, JobStatus::Succeeded);
    assert_eq!((job.status_code, job.result_bytes, job.usage), (Some(200), Some(9), Some(USAGE)));
    assert_eq!((job.result_sha256.as_deref(), job.cost_micros), (Some("ab"), Some(12)));
    assert_eq!((job.finished_at, job.error.clone(), job.dead), (Some(NOW + 3), None, false));
    assert_eq!((job.worker.clone(), job.lease_until), (None, None));
    assert_eq!(job.retain_until(), Some(NOW + 3 + job.retain));
}

#[test]
fn a_fault_of_the_request_is_not_tried_again() {
    let mut job = running();
    assert_eq!(job.fail(1, 400, error("context_length_exceeded"), NOW + 3), Ok(Change::Failed));
    assert_eq!((job.status, job.dead, job.status_code), (JobStatus::Failed, false, Some(400)));
    assert_eq!(job.error.unwrap().code, "context_length_exceeded");
}

#[test]
fn a_fault_that_may_pass_is_tried_again_later() {
    let mut job = running();
    assert_eq!(job.retry_later(1, error("engine"), Some(503), 0.5, NOW), Ok(Change::Retrying));
    assert_eq!((job.status, job.run_at, job.attempts), (JobStatus::Queued, NOW + 5_000, 1));
    assert_eq!((job.worker.clone(), job.lease_until, job.finished_at), (None, None, None));
    assert_eq!(job.error.as_ref().unwrap().code, "engine");
    job.claim("w", LEASE, NOW + 5_000).unwrap();
    job.retry_later(2, error("engine"), None, 0.5, NOW + 6_000).unwrap();
    assert_eq!(job.run_at, NOW + 26_000);
    job.claim("w", LEASE, NOW + 26_000).unwrap();
    assert_eq!(job.retry_later(3, error("engine"), Some(503), 0.5, NOW + 27_000), Ok(Change::Failed));
    assert_eq!((job.status, job.dead, job.attempts), (JobStatus::Failed, true, 3));
}

#[test]
fn a_job_that_is_given_back_has_lost_no_attempt() {
    let mut job = running();
    assert_eq!(job.release(1, NOW + 3), Ok(Change::Queued));
    assert_eq!((job.status, job.attempts, job.run_at), (JobStatus::Queued, 0, NOW + 3));
    assert_eq!((job.worker.clone(), job.lease_until, job.lost_leases), (None, None, 0));
    assert!(job.claim("w2", LEASE, NOW + 3).is_ok());
}

/// celery #3270, pretix #2058: a task was delivered again and again.
#[test]
fn fault_a_lost_lease_is_an_attempt_and_the_third_is_the_last() {
    let mut job = running();
    job.max_attempts = 10;
    assert_eq!(refused(&job, |job| job.lose_lease(LEASE)), Refused::NotDue);
    assert_eq!(job.lose_lease(LEASE + 1), Ok(Change::Retrying));
    assert_eq!((job.status, job.attempts, job.lost_leases), (JobStatus::Queued, 1, 1));
    assert_eq!(job.run_at, LEASE + 1);
    assert!(!job.runs_alone());
    job.claim("w", LEASE, LEASE + 1).unwrap();
    job.take_back(LEASE + 2).unwrap();
    assert!(job.runs_alone());
    job.claim("w", LEASE, LEASE + 3).unwrap();
    assert_eq!(job.take_back(LEASE + 4), Ok(Change::Failed));
    assert_eq!((job.status, job.dead), (JobStatus::Failed, true));
    assert_eq!(job.error.unwrap().code, "worker_lost");
}

#[test]
fn a_lost_lease_of_the_last_attempt_is_a_dead_letter() {
    let mut job = running();
    job.max_attempts = 1;
    assert_eq!(job.lose_lease(LEASE + 1), Ok(Change::Failed));
    assert!(job.dead);
}

#[test]
fn only_held_leases_are_lost() {
    for job in [queued()].iter().chain(&ended()) {
        assert_eq!(refused(job, |job| job.lose_lease(LEASE + 1)), Refused::NotRunning);
        assert_eq!(refused(job, |job| job.take_back(NOW)), Refused::NotRunning);
    }
}

#[test]
fn a_waiting_job_is_cancelled_at_once() {
    let mut job = queued();
    job.error = Some(error("earlier"));
    assert_eq!(job.cancel(NOW + 3), Ok(Change::Cancelled));
    assert_eq!((job.status, job.finished_at), (JobStatus::Cancelled, Some(NOW + 3)));
    assert_eq!((job.cancel_requested_at, job.error), (Some(NOW + 3), None));
}

#[test]
fn a_running_job_is_cancelled_by_its_worker() {
    let mut job = running();
    assert_eq!(job.cancel(NOW + 3), Ok(Change::Cancelling));
    assert_eq!((job.status, job.cancel_requested_at), (JobStatus::Cancelling, Some(NOW + 3)));
    assert_eq!(refused(&job, |job| job.cancel(NOW + 4)), Refused::Cancelling);
    assert_eq!(refused(&job, |job| job.renew(1, LEASE + 9, Progress::waiting())), Refused::Cancelling);
    assert_eq!(job.confirm_cancel(1, USAGE, NOW + 5), Ok(Change::Cancelled));
    assert_eq!((job.status, job.usage, job.finished_at), (JobStatus::Cancelled, Some(USAGE), Some(NOW + 5)));
}

#[test]
fn nobody_confirms_what_nobody_asked_for() {
    assert_eq!(refused(&running(), |job| job.confirm_cancel(1, USAGE, NOW)), Refused::NotCancelling);
}

#[test]
fn a_success_counts_only_before_the_wish_to_cancel() {
    let mut job = running();
    job.succeed(1, success(), NOW + 1).unwrap();
    assert_eq!(refused(&job, |job| job.cancel(NOW + 2)), Refused::Ended);
    let mut job = cancelling();
    assert_eq!(job.succeed(1, success(), NOW + 2), Ok(Change::Cancelled));
    assert_eq!((job.status, job.usage), (JobStatus::Cancelled, Some(USAGE)));
    assert_eq!((job.result_sha256, job.status_code), (None, None));
}

#[test]
fn whatever_ends_an_attempt_cancels_a_job_that_is_to_be_cancelled() {
    type Event = fn(&mut Job) -> Result<Change, Refused>;
    let events: [Event; 7] = [
        |job| job.fail(1, 400, error("bad"), NOW + 9),
        |job| job.retry_later(1, error("engine"), None, 0.5, NOW + 9),
        |job| job.release(1, NOW + 9),
        |job| job.confirm_cancel(1, USAGE, NOW + 9),
        |job| job.lose_lease(LEASE + 1),
        |job| job.take_back(NOW + 9),
        |job| job.expire(NOW + 1_000_000),
    ];
    for (place, event) in events.iter().enumerate() {
        let mut job = cancelling();
        assert_eq!(event(&mut job), Ok(Change::Cancelled), "event {place}");
        assert_eq!((job.status, job.dead, job.error), (JobStatus::Cancelled, false, None), "event {place}");
    }
}

#[test]
fn a_job_expires_at_its_deadline_also_while_it_runs() {
    for mut job in [queued(), running()] {
        assert_eq!(refused(&job, |job| job.expire(NOW + 999_999)), Refused::NotDue);
        assert_eq!(job.expire(NOW + 1_000_000), Ok(Change::Expired));
        assert_eq!((job.status, job.dead), (JobStatus::Expired, false));
        assert_eq!(job.error.as_ref().unwrap().code, "job_expired");
        assert_eq!(refused(&job, |job| job.succeed(1, success(), NOW + 1_000_001)), Refused::Fenced);
    }
    let mut endless = queued();
    endless.deadline = None;
    assert_eq!(refused(&endless, |job| job.expire(Millis::MAX)), Refused::NotDue);
}

#[test]
fn lines_expire_with_their_batch() {
    let codes = [Face::Job, Face::Response, Face::BatchLine, Face::MessageLine].map(|face| {
        let mut job = Job { face, ..queued() };
        job.expire(NOW + 1_000_000).unwrap();
        job.error.unwrap().code
    });
    assert_eq!(codes, ["job_expired", "job_expired", "batch_expired", "batch_expired"]);
}

#[test]
fn what_has_ended_does_not_end_again() {
    for job in &ended() {
        assert_eq!(refused(job, |job| job.cancel(NOW)), Refused::Ended);
        assert_eq!(refused(job, |job| job.expire(Millis::MAX)), Refused::Ended);
        assert_eq!(refused(job, |job| job.succeed(job.epoch, success(), NOW)), Refused::Fenced);
        assert_eq!(refused(job, |job| job.fail(job.epoch, 400, error("bad"), NOW)), Refused::Fenced);
    }
}

#[test]
fn an_ended_job_is_queued_again_by_hand() {
    let [succeeded, others @ ..] = ended();
    assert_eq!(refused(&succeeded, |job| job.queue_again(None, NOW)), Refused::Ended);
    for mut job in others {
        let (epoch, sequence) = (job.epoch, job.sequence);
        job.dead = true;
        job.lost_leases = 3;
        assert_eq!(job.queue_again(Some(NOW + 50), NOW + 10), Ok(Change::Queued));
        assert_eq!((job.status, job.attempts, job.lost_leases), (JobStatus::Queued, 0, 0));
        assert_eq!((job.epoch, job.sequence), (epoch + 1, sequence + 1));
        assert_eq!((job.deadline, job.run_at, job.finished_at), (Some(NOW + 50), NOW + 10, None));
        assert_eq!((job.error.clone(), job.dead, job.usage), (None, false, None));
        assert_eq!((job.cancel_requested_at, job.status_code), (None, None));
        assert!(job.claim("w", LEASE, NOW + 10).is_ok());
    }
}

#[test]
fn an_open_job_is_not_queued_again() {
    for job in [queued(), running(), cancelling()] {
        assert_eq!(refused(&job, |job| job.queue_again(None, NOW)), Refused::NotEnded);
    }
    let [_, failed, ..] = ended();
    assert_eq!(refused(&failed, |job| job.queue_again(Some(NOW), NOW)), Refused::PastDeadline);
    let line = Job { batch: Some("batch_1".to_owned()), ..failed };
    assert_eq!(refused(&line, |job| job.queue_again(None, NOW)), Refused::LineOfBatch);
}

/// nats-server #4786: late acknowledgements counted.
#[test]
fn fault_writes_of_another_epoch_are_fenced() {
    type Event = fn(&mut Job, u64) -> Result<Change, Refused>;
    let events: [Event; 6] = [
        |job, epoch| job.renew(epoch, LEASE + 9, Progress::waiting()),
        |job, epoch| job.succeed(epoch, success(), NOW),
        |job, epoch| job.fail(epoch, 400, error("bad"), NOW),
        |job, epoch| job.retry_later(epoch, error("engine"), None, 0.5, NOW),
        |job, epoch| job.release(epoch, NOW),
        |job, epoch| job.confirm_cancel(epoch, USAGE, NOW),
    ];
    for event in events {
        for job in [running(), cancelling()] {
            assert_eq!(refused(&job, |job| event(job, 0)), Refused::Fenced);
            assert_eq!(refused(&job, |job| event(job, 2)), Refused::Fenced);
        }
        // A worker that lost its lease, before and after somebody else took the job.
        let mut job = running();
        job.lose_lease(LEASE + 1).unwrap();
        assert_eq!(refused(&job, |job| event(job, 1)), Refused::Fenced);
        job.claim("w2", LEASE, LEASE + 2).unwrap();
        assert_eq!(refused(&job, |job| event(job, 1)), Refused::Fenced);
        assert_eq!(refused(&queued(), |job| event(job, 0)), Refused::Fenced);
    }
}

#[test]
fn a_worker_of_before_a_retry_by_hand_is_fenced() {
    let mut job = running();
    job.expire(NOW + 1_000_000).unwrap();
    job.queue_again(None, NOW + 1_000_001).unwrap();
    job.claim("w2", NOW + 2_000_000, NOW + 1_000_001).unwrap();
    assert_eq!(job.epoch, 3);
    assert_eq!(refused(&job, |job| job.succeed(1, success(), NOW + 1_000_002)), Refused::Fenced);
}

#[test]
fn changes_have_names_and_ends_are_ends() {
    assert_eq!(Change::Retrying.name(), "job.retrying");
    let mut job = running();
    let change = job.fail(1, 400, error("bad"), NOW).unwrap();
    assert_eq!((change.name(), change.is_end()), ("job.failed", true));
    assert!(!Change::Cancelling.is_end());
    assert_eq!(queued().class, Class::Default);
}
