//! A model's loads: how many, how long, and in which state it is.

use std::sync::atomic::{AtomicUsize, Ordering};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use crate::buckets;
use crate::event::{LoadEvent, ModelState, UnloadReason};
use crate::family::ModelFamilies;
use crate::histogram::Histogram;

/// Ends of a load, as labels.
const OUTCOMES: [&str; 2] = ["success", "failure"];

pub(crate) struct LoadMetrics {
    /// Index into [`ModelState::ALL`]; one number, so that no scrape finds a model in two states.
    state: AtomicUsize,
    /// As [`OUTCOMES`].
    loads: [Counter; OUTCOMES.len()],
    /// As [`UnloadReason::ALL`].
    unloads: [Counter; UnloadReason::ALL.len()],
    duration: Histogram,
    wait: Histogram,
    reserved: Gauge,
}

impl LoadMetrics {
    pub(crate) fn new(f: &mut ModelFamilies) -> LoadMetrics {
        let seconds = |f: &mut ModelFamilies, name, help| f.add(name, help, Histogram::new(&buckets::LOAD_S));
        LoadMetrics {
            state: AtomicUsize::new(0),
            loads: f.add_by("gristmill_model_loads", "Loads of the model, by outcome", "outcome", OUTCOMES),
            unloads: f.add_by(
                "gristmill_model_unloads",
                "Times the model was unloaded, by reason",
                "reason",
                UnloadReason::ALL.map(UnloadReason::name),
            ),
            duration: seconds(
                f,
                "gristmill_model_load_duration_seconds",
                "Seconds that a load took which succeeded",
            ),
            wait: seconds(f, "gristmill_model_load_wait_seconds", "Seconds that a request waited for a load"),
            reserved: f.add(
                "gristmill_model_memory_reserved_bytes",
                "Memory reserved for the model from its load on; 0 when it is not loaded",
                Gauge::default(),
            ),
        }
    }

    pub(crate) fn record(&self, event: LoadEvent) {
        match event {
            LoadEvent::Began { bytes } => {
                self.reserved.set(i64::try_from(bytes).unwrap_or(i64::MAX));
                self.enter(ModelState::Loading);
            }
            LoadEvent::Loaded { took } => {
                self.loads[0].inc();
                self.duration.observe(took.as_secs_f64());
                self.enter(ModelState::Ready);
            }
            LoadEvent::Failed => {
                self.loads[1].inc();
                self.reserved.set(0);
                self.enter(ModelState::Failed);
            }
            LoadEvent::Awaited { waited } => self.wait.observe(waited.as_secs_f64()),
            LoadEvent::Draining => self.enter(ModelState::Draining),
            LoadEvent::Unloaded(reason) => {
                let counters = UnloadReason::ALL.into_iter().zip(&self.unloads);
                counters.filter(|(of, _)| *of == reason).for_each(|(_, counter)| _ = counter.inc());
                // The metrics are those of the generation that answers.
                if reason != UnloadReason::Replaced {
                    self.reserved.set(0);
                    self.enter(ModelState::Registered);
                }
            }
        }
    }

    pub(crate) fn state(&self) -> ModelState {
        ModelState::ALL[self.state.load(Ordering::Relaxed)]
    }

    fn enter(&self, state: ModelState) {
        self.state.store(state as usize, Ordering::Relaxed);
    }
}
