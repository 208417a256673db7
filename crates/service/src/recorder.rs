//! What becomes of models and of their engines, told to the metrics.
//!
//! An engine counts since its load, the metrics since the start. So an engine's last figures are taken when it ends, and
//! no look at the metrics may fall between two of its steps: all of it happens under one lock.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use engine::encoder::{EncoderHandle, EncoderStats};
use engine::{MemoryUse, Stats};
use events::{
    EngineShape, Format, Gauges, LoadEvent, MachineTime, Metrics, ModelMemory, ModelMetrics, UnloadReason,
};

use wire::node::NodeLoad;

use crate::LoadedModel;

/// The metrics of models, and the engines that they are read from.
pub(crate) struct Recorder {
    metrics: Arc<Metrics>,
    began: Instant,
    /// From there to the engine's start, of a model that was loaded before there were requests and stays.
    loading: OnceLock<Duration>,
    engines: Mutex<Engines>,
    /// The engines that run, for whoever must not wait while the metrics are written.
    live: RwLock<Arc<[ModelEngines]>>,
}

#[derive(Default)]
struct Engines {
    running: Vec<Counted>,
    /// The machine's time that engines which have ended used for prompts and for answers.
    past: (Duration, Duration),
}

struct Counted {
    /// Where the model is in the registry; two generations of one name may be there.
    place: usize,
    name: String,
    metrics: Arc<ModelMetrics>,
    engines: ModelEngines,
}

/// The engines of one model.
#[derive(Clone)]
struct ModelEngines {
    generating: Option<engine::Handle>,
    encoding: Option<EncoderHandle>,
}

impl ModelEngines {
    fn of(model: &LoadedModel) -> ModelEngines {
        ModelEngines {
            generating: model.generating().map(|generating| generating.engine.clone()),
            encoding: model.encoding().map(|encoding| encoding.engine.clone()),
        }
    }

    /// The time without work, and the time since the start that was not spent waiting for the device.
    fn idle_and_all(&self) -> (Duration, Duration) {
        match (&self.generating, &self.encoding) {
            (Some(engine), _) => {
                let stats = engine.stats();
                (stats.idle_time, stats.prompt_time + stats.completion_time + stats.idle_time)
            }
            (None, Some(encoder)) => {
                let stats = encoder.stats();
                (stats.idle_time, stats.machine_time + stats.idle_time)
            }
            (None, None) => Default::default(),
        }
    }

    fn load(&self) -> NodeLoad {
        let generating = self.generating.as_ref().map(|engine| engine_load(&engine.stats()));
        let encoding = self.encoding.as_ref().map(|encoder| encoder_load(&encoder.stats()));
        generating.unwrap_or_default().plus(encoding.unwrap_or_default())
    }

    fn gauges(&self) -> Gauges {
        let mut gauges = self.generating.as_ref().map(of_engine).unwrap_or_default();
        if let Some(encoder) = &self.encoding {
            let stats = encoder.stats();
            gauges.running += stats.running;
            gauges.waiting += stats.waiting;
            gauges.waiting_tokens += stats.waiting_tokens;
            gauges.prompt_time += stats.machine_time;
            // Both engines of a model have one account.
            gauges.memory = memory(encoder.memory());
        }
        gauges
    }
}

impl Recorder {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Arc<Recorder> {
        let (began, loading) = (Instant::now(), OnceLock::new());
        let live = RwLock::new(Arc::from([]));
        Arc::new(Recorder { metrics, began, loading, engines: Mutex::default(), live })
    }

    /// Time since the start.
    pub(crate) fn uptime(&self) -> Duration {
        self.began.elapsed()
    }

    /// The load of all engines.
    pub(crate) fn load(&self) -> NodeLoad {
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner).clone();
        live.iter().fold(NodeLoad::default(), |sum, engines| sum.plus(engines.load()))
    }

    /// Tells which engines run now.
    fn publish(&self, engines: &Engines) {
        let live = engines.running.iter().map(|counted| counted.engines.clone()).collect();
        *self.live.write().unwrap_or_else(PoisonError::into_inner) = live;
    }

    /// There is a model of this name from now on.
    pub(crate) fn registered(&self, model: &str) {
        self.metrics.model(model);
    }

    /// The model's load begins, for which so many bytes are reserved.
    pub(crate) fn load_began(&self, model: &str, bytes: u64) {
        self.metrics.model(model).record_load(LoadEvent::Began { bytes });
    }

    pub(crate) fn load_failed(&self, model: &str) {
        self.metrics.model(model).record_load(LoadEvent::Failed);
    }

    /// The model's load took so long. From now on what its engine does is counted.
    pub(crate) fn loaded(&self, place: usize, model: &LoadedModel, took: Duration) {
        let metrics = self.metrics.model(model.name());
        let stats = model.generating().map(|generating| generating.engine.stats()).unwrap_or_default();
        let mut engines = self.engines();
        metrics.engine_started(EngineShape {
            context: model.context(),
            kv_blocks: stats.kv_blocks_total,
            kv_block_tokens: stats.kv_block_tokens,
        });
        metrics.record_load(LoadEvent::Loaded { took });
        let (name, of) = (model.name().to_owned(), ModelEngines::of(model));
        let counted = Counted { place, name, metrics, engines: of };
        engines.running.push(counted);
        self.publish(&engines);
    }

    /// As [`Recorder::loaded`], for a model that was loaded before there were requests and stays.
    pub(crate) fn loaded_before(&self, place: usize, model: &LoadedModel) {
        let (_, engine) = ModelEngines::of(model).idle_and_all();
        let took = *self.loading.get_or_init(|| self.began.elapsed().saturating_sub(engine));
        self.loaded(place, model, took);
    }

    /// A request has waited so long for the model's load, whatever came of it.
    pub(crate) fn awaited(&self, model: &str, waited: Duration) {
        self.metrics.model(model).record_load(LoadEvent::Awaited { waited });
    }

    /// The model takes no more requests.
    pub(crate) fn draining(&self, model: &str) {
        self.metrics.model(model).record_load(LoadEvent::Draining);
    }

    /// The model's engine has ended.
    pub(crate) fn unloaded(&self, place: usize, model: &str, reason: UnloadReason) {
        let mut engines = self.engines();
        if let Some(at) = engines.running.iter().position(|counted| counted.place == place) {
            let Counted { metrics, engines: ended, .. } = engines.running.swap_remove(at);
            let gauges = ended.gauges();
            metrics.engine_ended(&gauges);
            engines.past.0 += gauges.prompt_time;
            engines.past.1 += gauges.output_time;
            self.publish(&engines);
        }
        self.metrics.model(model).record_load(LoadEvent::Unloaded(reason));
    }

    /// What each engine holds now, by the name of its model.
    pub(crate) fn gauges(&self) -> Vec<(String, Gauges)> {
        let engines = self.engines();
        engines.running.iter().map(|counted| (counted.name.clone(), counted.engines.gauges())).collect()
    }

    /// All metrics, as text.
    pub(crate) fn write(&self, format: Format) -> String {
        let engines = self.engines();
        let gauges: Vec<(&str, Gauges)> =
            engines.running.iter().map(|counted| (&*counted.name, counted.engines.gauges())).collect();
        self.metrics.set_time(&self.machine_time(&engines));
        self.metrics.write(&gauges, format)
    }

    /// For what the time since the start went.
    fn machine_time(&self, engines: &Engines) -> MachineTime {
        let (mut prompt, mut output) = engines.past;
        let mut last_idle = Duration::ZERO;
        for counted in &engines.running {
            let gauges = counted.engines.gauges();
            prompt += gauges.prompt_time;
            output += gauges.output_time;
            last_idle = counted.engines.idle_and_all().0;
        }
        let one =
            |counted: &Counted| counted.engines.generating.is_none() || counted.engines.encoding.is_none();
        let is_alone = engines.running.len() == 1
            && engines.running.iter().all(one)
            && engines.past == Default::default();
        let idle = match self.loading.get() {
            // Exact: a step that is under way is not idle time.
            Some(loading) if is_alone => *loading + last_idle,
            _ => self.began.elapsed().saturating_sub(prompt + output),
        };
        MachineTime { prompt, output, idle }
    }

    fn engines(&self) -> MutexGuard<'_, Engines> {
        self.engines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn engine_load(stats: &Stats) -> NodeLoad {
    NodeLoad {
        running: stats.running as u64,
        waiting: stats.waiting as u64,
        backlog_tokens: stats.backlog_tokens as u64,
    }
}

pub(crate) fn encoder_load(stats: &EncoderStats) -> NodeLoad {
    NodeLoad {
        running: stats.running as u64,
        waiting: stats.waiting as u64,
        backlog_tokens: stats.waiting_tokens as u64,
    }
}

fn of_engine(engine: &engine::Handle) -> Gauges {
    let stats = engine.stats();
    Gauges {
        running: stats.running,
        waiting: stats.waiting,
        waiting_tokens: stats.waiting_tokens,
        kv_blocks_used: stats.kv_blocks_used,
        kv_blocks_cached: stats.kv_blocks_cached,
        kv_blocks_total: stats.kv_blocks_total,
        state_snapshots: stats.state_snapshots,
        state_restores: stats.state_restores,
        state_restored_tokens: stats.restored_tokens,
        state_replayed_tokens: stats.replayed_tokens,
        warmed_tokens: stats.warmed_tokens,
        preemptions: stats.preemptions,
        prefix_queries: stats.prompt_tokens,
        prefix_hits: stats.cached_tokens,
        prefill_rows: stats.prefill_rows,
        prompt_time: stats.prompt_time,
        output_time: stats.completion_time,
        memory: memory(engine.memory()),
    }
}

fn memory(used: MemoryUse) -> ModelMemory {
    ModelMemory {
        weights_bytes: used.weights,
        kv_cache_bytes: used.kv_cache,
        state_bytes: used.state,
        scratch_bytes: used.scratch,
        caches_bytes: used.cache,
    }
}
