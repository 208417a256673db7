//! The jobs that this process runs now, for those who watch them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::executor::Watch;

/// The jobs that this process runs now.
#[derive(Debug, Default)]
pub struct Live {
    jobs: Mutex<HashMap<String, Arc<Watch>>>,
    renew: Notify,
}

impl Live {
    /// What is seen of a job that runs here.
    pub fn watch(&self, id: &str) -> Option<Arc<Watch>> {
        self.lock().get(id).cloned()
    }

    /// How many jobs run here.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Has the leases renewed at once, so that workers learn of what was cancelled.
    pub fn look(&self) {
        self.renew.notify_one();
    }

    /// Waits until somebody has called [`Live::look`].
    pub(crate) async fn looked(&self) {
        self.renew.notified().await;
    }

    pub(crate) fn begin(&self, id: &str, watch: Arc<Watch>) {
        self.lock().insert(id.to_owned(), watch);
    }

    pub(crate) fn end(&self, id: &str) {
        self.lock().remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Watch>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
