//! What every request of the service needs: bounds, counts, admission control.

use std::sync::Arc;

use events::{Event, Metrics, Rejection};
use wire::Fault;

use crate::admission::Admission;
use crate::options::Options;

pub(crate) struct Core {
    pub(crate) options: Options,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) admission: Arc<Admission>,
}

impl Core {
    /// The fault of a request that is turned away, counted.
    pub(crate) fn refused(&self, reason: Rejection, fault: Fault) -> Fault {
        self.metrics.record(Event::Rejected(reason));
        fault
    }
}
