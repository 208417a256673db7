//! What all requests share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use events::{Event, Gauges, HourlyPrice, MachineTime, Metrics, Process, Rejection};
use wire::Fault;

use crate::admission::Admission;
use crate::pulse::Pulse;
use crate::responses::Kept;
use crate::tls::Tls;
use crate::visit::Audit;
use crate::{Keys, Options, Served};

pub(crate) struct State {
    pub(crate) options: Options,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) admission: Arc<Admission>,
    /// Responses that can be asked for again.
    pub(crate) kept: Arc<Kept>,
    /// Memory of bodies.
    pub(crate) body_memory: crate::body::Memory,
    /// Memory of whole answers that wait for their readers.
    pub(crate) answer_memory: Arc<crate::shares::Shares>,
    /// Slots for parsing, rendering and tokenizing.
    pub(crate) preparation: crate::preparation::Preparation,
    /// Looks up what the metrics tell of the process.
    pub(crate) process: OnceLock<Box<dyn Fn() -> Process + Send + Sync>>,
    began: Instant,
    /// From there to the engine's start.
    loading: OnceLock<Duration>,
    phase: RwLock<Phase>,
    keys: RwLock<Arc<Keys>>,
    leaving: AtomicBool,
    tls: RwLock<Option<Tls>>,
    pub(crate) audit: OnceLock<Arc<dyn Audit>>,
    pub(crate) pulse: Arc<Pulse>,
    /// Randomness of request ids, drawn once.
    pub(crate) ids: Mutex<u64>,
}

enum Phase {
    Loading(String),
    Ready(Arc<Served>),
    Draining(Option<Arc<Served>>),
}

impl State {
    pub(crate) fn new(mut options: Options) -> State {
        let keys = std::mem::take(&mut options.keys);
        let body_memory =
            crate::body::Memory::new(options.body_memory_bytes, options.body_bytes, options.connections);
        let metrics = Arc::new(Metrics::new(env!("CARGO_PKG_VERSION")));
        if options.metrics_llamacpp {
            metrics.offer_llamacpp();
        }
        if let Some(price) = &options.price {
            let currency = price.currency.code();
            metrics.add_price(HourlyPrice { amount: price.per_hour, currency });
        }
        State {
            began: Instant::now(),
            loading: OnceLock::new(),
            metrics,
            admission: Arc::new(Admission::new(options.requests, options.parallel, options.longest_wait)),
            kept: Arc::default(),
            body_memory,
            answer_memory: crate::held::shares(options.answer_memory_bytes),
            preparation: crate::preparation::Preparation::default(),
            process: OnceLock::new(),
            phase: RwLock::new(Phase::Loading("starting".into())),
            keys: RwLock::new(Arc::new(keys)),
            leaving: AtomicBool::new(false),
            tls: RwLock::new(None),
            audit: OnceLock::new(),
            pulse: Arc::default(),
            ids: Mutex::new(0),
            options,
        }
    }

    /// The certificate of this moment; none speaks without TLS.
    pub(crate) fn tls(&self) -> Option<Tls> {
        self.tls.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_tls(&self, tls: Tls) {
        *self.tls.write().unwrap_or_else(PoisonError::into_inner) = Some(tls);
    }

    /// The keys of this moment.
    pub(crate) fn keys(&self) -> Arc<Keys> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_keys(&self, mut keys: Keys) -> bool {
        let mut now = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        if keys.is_empty() && !now.is_empty() {
            return false;
        }
        keys.inherit(&now);
        *now = Arc::new(keys);
        true
    }

    /// Whether the engine has work, and how many steps it made.
    pub(crate) fn engine_is_busy(&self) -> bool {
        self.gauges().is_some_and(|gauges| gauges.running + gauges.waiting > 0)
    }

    /// Whether there is a model whose engine has ended although nobody asked it to.
    pub(crate) fn engine_has_stopped(&self) -> bool {
        let phase = self.phase.read().unwrap_or_else(PoisonError::into_inner);
        matches!(&*phase, Phase::Ready(served) if !served.engine.is_open())
    }

    pub(crate) fn loading(&self, what: String) {
        let mut phase = self.phase.write().unwrap_or_else(PoisonError::into_inner);
        if let Phase::Loading(now) = &mut *phase {
            *now = what;
        }
    }

    pub(crate) fn ready(&self, served: Served, after: Duration) {
        let stats = served.engine.stats();
        self.metrics.add_model(
            served.name(),
            served.engine.context(),
            stats.kv_blocks_total,
            stats.kv_block_tokens,
        );
        let engine = stats.prompt_time + stats.completion_time + stats.idle_time;
        self.loading.get_or_init(|| self.began.elapsed().saturating_sub(engine));
        let mut phase = self.phase.write().unwrap_or_else(PoisonError::into_inner);
        if matches!(*phase, Phase::Loading(_)) {
            *phase = Phase::Ready(Arc::new(served));
            self.metrics.record(Event::Ready { after });
        }
    }

    /// From now on not ready, though requests are served.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::Release);
    }

    /// Whether to send requests here.
    pub(crate) fn is_ready(&self) -> Result<(), Fault> {
        self.served()?;
        if self.leaving.load(Ordering::Acquire) {
            return Err(Fault::unavailable("draining", "the server is about to shut down", 5));
        }
        Ok(())
    }

    /// No more requests; gives back the model that was served.
    pub(crate) fn drain(&self) -> Option<Arc<Served>> {
        let mut phase = self.phase.write().unwrap_or_else(PoisonError::into_inner);
        let served = match &*phase {
            Phase::Ready(served) => Some(served.clone()),
            Phase::Draining(served) => served.clone(),
            Phase::Loading(_) => None,
        };
        *phase = Phase::Draining(served.clone());
        self.metrics.record(Event::Draining);
        served
    }

    /// The model, or why there is none.
    pub(crate) fn served(&self) -> Result<Arc<Served>, Fault> {
        let phase = self.phase.read().unwrap_or_else(PoisonError::into_inner);
        match &*phase {
            Phase::Ready(served) if served.engine.is_open() => Ok(served.clone()),
            Phase::Ready(_) => Err(Fault::unavailable(
                "engine_stopped",
                "the engine has stopped; the server must be restarted",
                60,
            )),
            Phase::Loading(what) => {
                Err(Fault::unavailable("model_loading", format!("the model is loading: {what}"), 2))
            }
            Phase::Draining(_) => Err(Fault::unavailable("draining", "the server is shutting down", 5)),
        }
    }

    /// As [`State::served`], counting a refusal.
    pub(crate) fn served_or_reject(&self) -> Result<Arc<Served>, Fault> {
        self.served().inspect_err(|fault| {
            let reason =
                if fault.code == Some("model_loading") { Rejection::Loading } else { Rejection::Draining };
            self.metrics.record(Event::Rejected(reason));
        })
    }

    /// For what the time since the start went.
    pub(crate) fn machine_time(&self) -> MachineTime {
        let phase = self.phase.read().unwrap_or_else(PoisonError::into_inner);
        let (Phase::Ready(served) | Phase::Draining(Some(served))) = &*phase else {
            return MachineTime { idle: self.began.elapsed(), ..MachineTime::default() };
        };
        let stats = served.engine.stats();
        let loading = self.loading.get().copied().unwrap_or_default();
        let (prompt, output) = (stats.prompt_time, stats.completion_time);
        MachineTime { prompt, output, idle: loading + stats.idle_time }
    }

    pub(crate) fn gauges(&self) -> Option<Gauges> {
        let phase = self.phase.read().unwrap_or_else(PoisonError::into_inner);
        let (Phase::Ready(served) | Phase::Draining(Some(served))) = &*phase else { return None };
        let stats = served.engine.stats();
        Some(Gauges {
            running: stats.running,
            waiting: stats.waiting,
            waiting_tokens: stats.waiting_tokens,
            kv_blocks_used: stats.kv_blocks_used,
            kv_blocks_cached: stats.kv_blocks_remembered,
            kv_blocks_total: stats.kv_blocks_total,
            preemptions: stats.preemptions,
            prefix_queries: stats.prompt_tokens,
            prefix_hits: stats.cached_tokens,
            prefill_rows: stats.prefill_rows,
        })
    }
}

impl State {
    /// A place for one answer.
    pub(crate) fn enter(&self) -> Result<crate::admission::Permit, Fault> {
        self.admission.enter().inspect_err(|fault| self.count_refusal(fault))
    }

    /// The fault of a request that is turned away, counted.
    pub(crate) fn refused(&self, reason: Rejection, fault: Fault) -> Fault {
        self.metrics.record(Event::Rejected(reason));
        fault
    }

    pub(crate) fn count_refusal(&self, fault: &Fault) {
        if fault.status == 429 {
            let late = fault.code == Some("wait_too_long");
            let reason = if late { Rejection::QueuedTime } else { Rejection::QueuedRequests };
            self.metrics.record(Event::Rejected(reason));
        }
    }
}
