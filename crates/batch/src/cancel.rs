//! A switch that stops a run.

use std::sync::Arc;
use tokio::sync::watch;

/// Stops a run when it is thrown; what was finished is kept. Clones are the same switch.
#[derive(Debug, Clone)]
pub struct Cancel(Arc<watch::Sender<bool>>);

impl Default for Cancel {
    fn default() -> Cancel {
        Cancel(Arc::new(watch::Sender::new(false)))
    }
}

impl Cancel {
    /// Throws the switch. Throwing it again does nothing.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }

    /// Whether it was thrown.
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is thrown.
    pub async fn cancelled(&self) {
        // The sender lives as long as this reference, so waiting ends only with the value.
        let _ = self.0.subscribe().wait_for(|thrown| *thrown).await;
    }
}
