//! What all requests of a gateway share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use events::GatewayMetrics;
use httpd::Edge;
use ledger::audit::AuditLog;
use routing::retry::RetryBudget;

use crate::admin::state::State;
use crate::budget::Budgets;
use crate::coalesced::Cache;
use crate::hashing::hash;
use crate::nodes::Nodes;
use crate::receipt::Ended;
use crate::secret::Secrets;
use crate::snapshot::Snapshot;

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) edge: Arc<Edge>,
    pub(crate) metrics: Arc<GatewayMetrics>,
    pub(crate) snapshot: ArcSwap<Snapshot>,
    pub(crate) budgets: Budgets,
    pub(crate) nodes: Nodes,
    pub(crate) cache: Arc<Cache>,
    pub(crate) retries: Retries,
    /// Second attempts beside slow ones, as a share of requests.
    pub(crate) hedges: Retries,
    pub(crate) secrets: Secrets,
    pub(crate) audit: ArcSwapOption<AuditLog>,
    /// What the admin API keeps.
    pub(crate) admin: State,
    pub(crate) began: Instant,
    pub(crate) draining: AtomicBool,
    pub(crate) seed: AtomicU64,
    /// Durable jobs, where they are on.
    pub(crate) jobs: ArcSwapOption<job_server::Jobs>,
}

/// The retry budget of the whole gateway.
pub(crate) struct Retries(pub(crate) Mutex<RetryBudget>);

impl Retries {
    /// Whether another attempt may be made now.
    pub(crate) fn take(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Retries that are left.
    pub(crate) fn left(&self) -> f64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).left()
    }

    /// Counts a request, of which a share may be tried again.
    pub(crate) fn requested(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).request();
    }
}

impl Shared {
    /// Time since the start.
    pub(crate) fn uptime(&self) -> Duration {
        self.began.elapsed()
    }

    /// A pause of between half and one and a half times as long, but never shorter than asked by an upstream.
    pub(crate) fn jittered(&self, pause: Duration) -> Duration {
        let random = hash(&self.seed.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        let share = (random >> 11) as f64 / (1_u64 << 53) as f64;
        pause.mul_f64(1.0 + 0.25 * share)
    }

    /// Keeps what there is to keep of an ended request.
    pub(crate) fn record(&self, ended: &Ended<'_>) {
        if !self.budgets.record(ended) {
            self.metrics.record_lost();
        }
        if let Some(audit) = self.audit.load().as_ref()
            && !audit.try_append(ended.entry())
        {
            self.metrics.record_lost();
        }
    }

    /// Whether the gateway is about to stop.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }
}
