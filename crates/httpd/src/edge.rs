//! What all connections and requests share on the HTTP side.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use axum::http::Method;
use axum::response::Response;
use events::{Event, Metrics, Rejection};
use inference::{Audit, Client, Shares};
use wire::Fault;

use crate::auth::Keys;
use crate::body_memory::Memory;
use crate::options::Options;
use crate::tls::Tls;

/// What the layers must know of the routes behind them.
pub trait Site: Send + Sync {
    /// The label under which the metrics count a path: one of a fixed set. None for paths that are not counted.
    fn label(&self, path: &str) -> Option<&'static str>;

    /// Whether anybody may ask for this, with or without a key.
    fn is_open(&self, method: &Method, path: &str) -> bool;

    /// A fault in the shape that the API at this path has.
    fn fault(&self, path: &str, fault: &Fault) -> Response;
}

/// The state of the HTTP side of a server.
pub struct Edge {
    /// Bounds and secrets.
    pub options: Options,
    /// Where requests are counted.
    pub metrics: Arc<Metrics>,
    pub(crate) site: Box<dyn Site>,
    pub(crate) body_memory: Memory,
    pub(crate) answer_memory: Arc<Shares>,
    keys: RwLock<Arc<Keys>>,
    tls: RwLock<Option<Tls>>,
    pub(crate) audit: OnceLock<Arc<dyn Audit>>,
    ids: AtomicU64,
}

impl Edge {
    /// The state for serving `site` within the bounds of `options`.
    pub fn new(mut options: Options, metrics: Arc<Metrics>, site: Box<dyn Site>) -> Edge {
        let keys = std::mem::take(&mut options.keys);
        Edge {
            body_memory: Memory::new(options.body_memory_bytes, options.body_bytes, options.connections),
            // One client may have half of it.
            answer_memory: Shares::new(options.answer_memory_bytes, options.answer_memory_bytes / 2),
            keys: RwLock::new(Arc::new(keys)),
            tls: RwLock::new(None),
            audit: OnceLock::new(),
            ids: AtomicU64::new(0),
            options,
            metrics,
            site,
        }
    }

    /// The certificate of this moment; none speaks without TLS.
    pub(crate) fn tls(&self) -> Option<Tls> {
        self.tls.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Speaks TLS with this certificate on every connection that opens from now on.
    pub fn set_tls(&self, tls: Tls) {
        *self.tls.write().unwrap_or_else(PoisonError::into_inner) = Some(tls);
    }

    /// The keys of this moment.
    pub(crate) fn keys(&self) -> Arc<Keys> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The client whose key has this name; the one of nobody if there is none.
    pub fn client_named(&self, name: &str) -> Client {
        self.keys().client_named(name)
    }

    /// Takes other keys from now on. What the keys in both have used of their limits stays used. Gives back whether it
    /// did: a server that has keys is not left without any, which would let everybody in.
    pub fn set_keys(&self, mut keys: Keys) -> bool {
        let mut now = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        if keys.is_empty() && !now.is_empty() {
            return false;
        }
        keys.inherit(&now);
        *now = Arc::new(keys);
        true
    }

    /// Who hears of every request when it is over. The first one stays.
    pub fn set_audit(&self, audit: Arc<dyn Audit>) {
        // A second one is refused, as documented.
        let _ = self.audit.set(audit);
    }

    /// The fault of a request that is turned away, counted.
    pub fn refused(&self, reason: Rejection, fault: Fault) -> Fault {
        self.metrics.record(Event::Rejected(reason));
        fault
    }

    /// Who hears of every request when it is over.
    pub fn audit(&self) -> Option<Arc<dyn Audit>> {
        self.audit.get().cloned()
    }

    /// The number of the next id.
    pub(crate) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }
}
