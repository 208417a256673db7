//! The threads of models of tensors: how many compute at once, and how many requests wait for one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use inference::{LimitReached, Owner, Share, Shares};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use wire::Fault;

/// Requests that models of tensors compute at once, and so the threads that they need.
pub const TENSOR_THREADS: usize = 2;
/// Requests to pipelines that run at once.
pub(crate) const PIPELINES: usize = 4;
/// Requests that may wait for that, and those of one client.
const WAITING: usize = 256;
const WAITING_EACH: usize = 64;
/// Longest wait, for requests that set no limit.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The threads of models of tensors.
pub(crate) struct TensorSlots {
    slots: Arc<Semaphore>,
    waiting: Arc<Shares>,
}

/// A thread, and a place of the model's own; free when this is dropped.
pub(crate) struct Entered {
    _slot: OwnedSemaphorePermit,
    _instance: Option<OwnedSemaphorePermit>,
}

impl Default for TensorSlots {
    fn default() -> TensorSlots {
        TensorSlots::new(TENSOR_THREADS)
    }
}

impl TensorSlots {
    /// Places for so many requests at once.
    pub(crate) fn new(count: usize) -> TensorSlots {
        TensorSlots { slots: Arc::new(Semaphore::new(count)), waiting: Shares::new(WAITING, WAITING_EACH) }
    }

    /// A thread, once one is free. Dropped while it waits, it has taken nothing.
    /// One of the model's own places, if it has some, is taken first.
    pub(crate) async fn enter(
        &self,
        owner: Owner,
        deadline: Option<Instant>,
        instances: Option<Arc<Semaphore>>,
    ) -> Result<Entered, Fault> {
        let _waiting: Share = self.waiting.take(owner, 1).map_err(full)?;
        let longest = Instant::now() + LONGEST_WAIT;
        let until = deadline.map_or(longest, |deadline| deadline.min(longest));
        let entering = async {
            let instance = match instances {
                Some(instances) => Some(instances.acquire_owned().await?),
                None => None,
            };
            Ok::<_, AcquireError>(Entered {
                _slot: self.slots.clone().acquire_owned().await?,
                _instance: instance,
            })
        };
        match tokio::time::timeout_at(until.into(), entering).await {
            Ok(Ok(entered)) => Ok(entered),
            // The semaphore is never closed.
            Ok(Err(_)) | Err(_) if deadline == Some(until) => Err(expired()),
            Ok(Err(_)) | Err(_) => {
                let seconds = LONGEST_WAIT.as_secs();
                Err(Fault::overdue(format!("the request was not begun within {seconds} s"), 5))
            }
        }
    }
}

fn full(limit: LimitReached) -> Fault {
    match limit {
        LimitReached::PerOwner => Fault::busy(
            format!("{WAITING_EACH} requests of this client wait for models of tensors, its limit"),
            2,
        ),
        LimitReached::Total => {
            Fault::busy(format!("{WAITING} requests wait for models of tensors, the limit"), 2)
        }
    }
}

/// The fault of a request whose time is over.
pub(crate) fn expired() -> Fault {
    Fault::expired("the request's time limit passed before its outputs were computed")
}
