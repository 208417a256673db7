//! One attempt at a job, from its claim to what is written of it.

use std::sync::Arc;
use std::time::Duration;

use job_store::{Claimed, Finish, Finished, StoreError};
use jobs::{Job, JobError, Usage};
use serde::Deserialize;
use tokio::sync::watch;

use super::checkpoint;
use crate::executor::{Ran, Watch, Work};
use crate::shared::Jobs;

/// Statuses of an executor that is busy, loads or stops: no fault of the job's.
const BUSY: [u16; 2] = [429, 503];
/// Pause after an executor that did not say for how long it is busy.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// How often an end is written again that the store did not take, a second apart, before the lease is over.
const WRITES: u32 = 50;

/// What a running job is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Go on.
    Run,
    /// Stop, and say so.
    Cancel,
    /// Stop and give the job back, with what there is of it.
    Release,
    /// Stop: the job is another's.
    Drop,
}

/// What became of an attempt.
#[derive(Debug)]
pub(super) enum Ended {
    /// It was written.
    Written(Box<Job>),
    /// The job was another's by then.
    Fenced,
    /// The executor was busy: the job is queued again, and nothing more is asked of it for a while.
    Busy(Duration),
    /// The job was another's, or could not be written before its lease was over.
    Dropped,
}

/// Runs a claimed job to its end, or until it is told to stop, and writes what became of it.
pub(super) async fn attempt(
    jobs: Arc<Jobs>,
    claimed: Claimed,
    watch: Arc<Watch>,
    mut orders: watch::Receiver<Order>,
) -> Ended {
    let Claimed { job, body, checkpoint } = claimed;
    let (id, epoch, model) = (job.id.clone(), job.epoch, job.model.clone());
    let resume = checkpoint.and_then(|bytes| checkpoint::unpack(&bytes));
    let work = Work { job, body, resume, watch: watch.clone() };
    let ran = tokio::select! {
        biased;
        ran = jobs.executor.run(work) => Ok(ran),
        order = stopped(&mut orders) => Err(order),
    };
    let (finish, pause) = match ran {
        Ok(ran) => finish_of(ran, jobs.fraction()),
        Err(Order::Cancel) => (Finish::Cancelled { usage: usage_so_far(&watch) }, None),
        Err(Order::Release) => {
            let fingerprint = jobs.executor.fingerprint(&model);
            let checkpoint = fingerprint.and_then(|of| checkpoint::pack(&of, &watch.seen().tokens));
            (Finish::Released { checkpoint }, None)
        }
        Err(Order::Run | Order::Drop) => return Ended::Dropped,
    };
    match (write(&jobs, &id, epoch, finish).await, pause) {
        (Ok(Finished::Done(_)), Some(pause)) => Ended::Busy(pause),
        (Ok(Finished::Done(job)), None) => Ended::Written(job),
        (Ok(Finished::Fenced), _) => Ended::Fenced,
        (Err(error), _) => {
            tracing::error!(job = id, %error, "the end of a job was not written; it is run again when its lease is over");
            Ended::Dropped
        }
    }
}

/// Waits for an order to stop.
async fn stopped(orders: &mut watch::Receiver<Order>) -> Order {
    match orders.wait_for(|order| *order != Order::Run).await {
        Ok(order) => *order,
        // Whoever gave orders is gone, and so is the lease.
        Err(_) => Order::Drop,
    }
}

/// Writes an end, again while the store cannot be reached.
async fn write(jobs: &Jobs, id: &str, epoch: u64, finish: Finish) -> Result<Finished, StoreError> {
    for _ in 1..WRITES {
        match jobs.store.finish(id, epoch, finish.clone(), jobs.now()).await {
            Err(StoreError::Unavailable(why)) => {
                tracing::warn!(job = id, why, "the store did not take the end of a job; it is asked again");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Err(StoreError::Full(why)) => {
                tracing::warn!(job = id, why, "the store is full; the job is queued again");
                let error = JobError {
                    code: "storage_full".to_owned(),
                    message: "there was no space for the result".to_owned(),
                    param: None,
                };
                let finish = Finish::Retry { error, status_code: Some(507), random: jobs.fraction() };
                return jobs.store.finish(id, epoch, finish, jobs.now()).await;
            }
            other => return other,
        }
    }
    jobs.store.finish(id, epoch, finish, jobs.now()).await
}

/// What is written of an answer, and for how long the executor is left alone.
fn finish_of(ran: Ran, random: f64) -> (Finish, Option<Duration>) {
    let Ran { status, body, usage, cost_micros, retry_after } = ran;
    if (200..300).contains(&status) {
        return (Finish::Succeeded { status_code: status, result: body, usage, cost_micros }, None);
    }
    if BUSY.contains(&status) {
        let pause = retry_after.unwrap_or(PAUSE).clamp(Duration::from_millis(100), MAX_PAUSE);
        return (Finish::Released { checkpoint: None }, Some(pause));
    }
    let error = error_of(status, &body);
    if status >= 500 || status == 408 {
        return (Finish::Retry { error, status_code: Some(status), random }, None);
    }
    (Finish::Failed { status_code: status, result: body, error }, None)
}

fn usage_so_far(watch: &Watch) -> Usage {
    let seen = watch.seen();
    Usage {
        input_tokens: seen.prompt_tokens.unwrap_or_default(),
        output_tokens: seen.tokens.len() as u64,
        ..Usage::default()
    }
}

/// The error of a body, in OpenAI's or Anthropic's shape, or of one that says nothing.
fn error_of(status: u16, body: &[u8]) -> JobError {
    #[derive(Deserialize)]
    struct Body {
        error: Told,
    }
    #[derive(Deserialize)]
    struct Told {
        message: String,
        code: Option<String>,
        r#type: Option<String>,
        param: Option<String>,
    }
    match serde_json::from_slice(body) {
        Ok(Body { error }) => JobError {
            code: error.code.or(error.r#type).unwrap_or_else(|| format!("http_{status}")),
            message: error.message,
            param: error.param,
        },
        Err(_) => JobError {
            code: format!("http_{status}"),
            message: format!("the endpoint answered with status {status}"),
            param: None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(status: u16, body: &str) -> Ran {
        let usage = Usage::default();
        Ran { status, body: body.as_bytes().to_vec(), usage, cost_micros: None, retry_after: None }
    }

    #[test]
    fn statuses_decide_what_is_written() {
        assert!(matches!(finish_of(ran(200, "{}"), 0.5), (Finish::Succeeded { .. }, None)));
        assert!(matches!(finish_of(ran(429, "{}"), 0.5), (Finish::Released { .. }, Some(PAUSE))));
        assert!(matches!(finish_of(ran(503, "{}"), 0.5), (Finish::Released { .. }, Some(_))));
        assert!(matches!(finish_of(ran(500, "{}"), 0.5), (Finish::Retry { .. }, None)));
        let body = r#"{"error":{"message":"too long","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#;
        let (Finish::Failed { error, .. }, None) = finish_of(ran(400, body), 0.5) else {
            panic!("not failed")
        };
        assert_eq!(error.code, "context_length_exceeded");
        assert_eq!(error.param.as_deref(), Some("messages"));
        assert_eq!(error_of(404, b"<html>").code, "http_404");
    }
}
