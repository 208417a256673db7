//! The metrics of models, by name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::encoder::EncoderMetrics;
use crate::engine::EngineMetrics;
use crate::event::{Gauges, LoadEvent, ModelEvent, ModelState};
use crate::family::{ModelFamilies, ModelLabels};
use crate::inference::{InferenceCounts, InferenceSample, InferenceSums};
use crate::load::LoadMetrics;
use crate::requests::RequestMetrics;
use crate::shared::Shared;
use crate::steps::StepMetrics;
use crate::text;

/// Names that have metrics of their own; labels must not grow without bound.
const MOST_MODELS: usize = 1_024;
/// The label of all models beyond them, together.
const OTHER: &str = "other";

/// What bounds a model's engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineShape {
    /// Tokens of the context.
    pub context: usize,
    /// KV blocks there are.
    pub kv_blocks: usize,
    /// Tokens of a KV block.
    pub kv_block_tokens: usize,
}

/// The metrics of one model, from its registration on, through all of its loads. Counting takes no lock and allocates
/// nothing.
pub struct ModelMetrics {
    labels: ModelLabels,
    /// Whether several models are counted here.
    shared_by_many: bool,
    load: LoadMetrics,
    load_families: ModelFamilies,
    /// From the first engine on.
    serving: OnceLock<Serving>,
    /// That of the last engine.
    shape: Mutex<Option<EngineShape>>,
    inferences: InferenceSums,
    shared: Arc<Shared>,
}

struct Serving {
    engine: EngineMetrics,
    requests: RequestMetrics,
    steps: StepMetrics,
    encoder: EncoderMetrics,
    families: ModelFamilies,
}

impl Serving {
    fn new(context: usize) -> Serving {
        let mut families = ModelFamilies::default();
        Serving {
            engine: EngineMetrics::new(&mut families),
            requests: RequestMetrics::new(&mut families, context),
            steps: StepMetrics::new(&mut families),
            encoder: EncoderMetrics::new(&mut families, context),
            families,
        }
    }
}

impl ModelMetrics {
    fn new(name: &str, shared: Arc<Shared>) -> ModelMetrics {
        let mut load_families = ModelFamilies::default();
        ModelMetrics {
            labels: [("model_name", text::escape(name).into_owned()), ("engine", "0".into())],
            shared_by_many: name == OTHER,
            load: LoadMetrics::new(&mut load_families),
            load_families,
            serving: OnceLock::new(),
            shape: Mutex::new(None),
            inferences: InferenceSums::default(),
            shared,
        }
    }

    /// An engine was started for the model: from the first one on, the model's events are counted, and what a later
    /// one counts itself is added to what the earlier ones did. The buckets of token counts are bounded by the first
    /// context for good, as a histogram whose buckets change cannot be read.
    pub fn engine_started(&self, shape: EngineShape) {
        let serving = self.serving.get_or_init(|| Serving::new(shape.context));
        if !self.shared_by_many {
            serving.engine.begin();
        }
        *self.shape.lock().unwrap_or_else(PoisonError::into_inner) = Some(shape);
    }

    /// The model's engine ended, with these figures: its totals are counted, and it holds nothing any more.
    pub fn engine_ended(&self, last: &Gauges) {
        if let Some(serving) = self.serving.get() {
            serving.engine.set(last);
            serving.engine.clear();
        }
    }

    /// Counts what the model did; before its first engine only the machine's part of it.
    pub fn record(&self, event: ModelEvent) {
        if let ModelEvent::Rejected(reason) = event {
            self.shared.machine.rejected(reason);
        }
        let Some(Serving { requests, steps, encoder, .. }) = self.serving.get() else { return };
        match event {
            ModelEvent::Rejected(reason) => requests.rejected(reason),
            ModelEvent::SlowReader => requests.slow_reader(),
            ModelEvent::FirstToken { after } => requests.first_token(after),
            ModelEvent::NextToken { after } => requests.next_token(after),
            ModelEvent::Step { rows, decoded, weight_bytes, mixed, took } => {
                steps.step(rows, decoded, weight_bytes, mixed, took);
            }
            ModelEvent::DeviceTurn { waited, computed } => steps.turn(waited, computed),
            ModelEvent::Verified { proposed, accepted } => steps.verified(proposed, accepted),
            ModelEvent::Finished { .. } => requests.finished(&event),
            ModelEvent::GroupFinished { n, longest_tokens } => requests.group_finished(n, longest_tokens),
            ModelEvent::EncodeStep { texts, tokens, took } => encoder.step(texts, tokens, took),
            ModelEvent::EncodeFinished { ending, texts, tokens, total, queued } => {
                encoder.finished(ending, texts, tokens, total, queued);
            }
        }
        if let Some((llamacpp, _)) = self.shared.llamacpp.get() {
            llamacpp.record(&event);
        }
    }

    /// Counts an inference request that ended.
    pub fn record_inference(&self, sample: &InferenceSample) {
        self.inferences.record(sample);
    }

    /// The inference requests since the start.
    pub fn inferences(&self) -> InferenceCounts {
        self.inferences.counts()
    }

    /// Counts what happened to the model as a whole, and puts it into the state that follows.
    pub fn record_load(&self, event: LoadEvent) {
        self.load.record(event);
    }

    /// The state that the last event put the model into.
    pub fn state(&self) -> ModelState {
        self.load.state()
    }

    /// The engine's figures of now; without any, it holds nothing.
    pub(crate) fn set(&self, gauges: Option<&Gauges>) {
        if let Some(Serving { engine, .. }) = self.serving.get() {
            gauges.map_or_else(|| engine.clear(), |gauges| engine.set(gauges));
        }
    }
}

/// Models by name, in the order in which they are written.
#[derive(Default)]
pub(crate) struct Models(RwLock<BTreeMap<String, Arc<ModelMetrics>>>);

impl Models {
    /// The metrics of a model, made at the first call for its name.
    pub(crate) fn get(&self, name: &str, shared: &Arc<Shared>) -> Arc<ModelMetrics> {
        if let Some(found) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            return found.clone();
        }
        let mut models = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let name = if models.len() < MOST_MODELS || models.contains_key(name) { name } else { OTHER };
        let new = || Arc::new(ModelMetrics::new(name, shared.clone()));
        models.entry(name.to_owned()).or_insert_with(new).clone()
    }

    /// Sets each model's figures: those given for its name, else none. Figures for [`OTHER`] are sums.
    pub(crate) fn set(&self, gauges: &[(&str, Gauges)]) {
        let models = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut sums: BTreeMap<&str, Gauges> = BTreeMap::new();
        for (name, gauges) in gauges {
            let name = if models.contains_key(*name) { name } else { OTHER };
            sums.entry(name).or_default().add(gauges);
        }
        models.iter().for_each(|(name, model)| model.set(sums.get(name.as_str())));
    }
}

/// Writes each family once, with the series of all models.
pub(crate) struct ModelCollector(pub(crate) Arc<Models>);

impl fmt::Debug for ModelCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelCollector").finish_non_exhaustive()
    }
}

impl Collector for ModelCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let models = self.0.0.read().unwrap_or_else(PoisonError::into_inner);
        let models: Vec<&ModelMetrics> = models.values().map(|model| &**model).collect();
        encode_states(&models, &mut encoder)?;
        let loads = models.iter().map(|model| (&model.load_families, &model.labels));
        encode_families(&loads.collect::<Vec<_>>(), &mut encoder)?;
        encode_cache_shapes(&models, &mut encoder)?;
        encode_costs(&models, &mut encoder)?;
        let serving = models.iter().filter_map(|model| Some((&model.serving.get()?.families, &model.labels)));
        encode_families(&serving.collect::<Vec<_>>(), &mut encoder)
    }
}

/// The families of models, which are the same ones for all.
fn encode_families(
    models: &[(&ModelFamilies, &ModelLabels)],
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    let Some((first, _)) = models.first() else { return Ok(()) };
    (0..first.len()).try_for_each(|family| {
        let (name, help, kind) = first.describe(family);
        let mut encoder = encoder.encode_descriptor(name, &sentence(help), None, kind)?;
        models.iter().try_for_each(|(families, labels)| families.encode(family, labels, &mut encoder))
    })
}

fn encode_states(models: &[&ModelMetrics], encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    if models.is_empty() {
        return Ok(());
    }
    let help = sentence("1 for the state that the model is in");
    let mut encoder = encoder.encode_descriptor("gristmill_model_state", &help, None, MetricType::Gauge)?;
    models.iter().try_for_each(|model| {
        let is = model.state();
        ModelState::ALL.into_iter().try_for_each(|state| {
            let labels = (model.labels.as_slice(), [("state", state.name())]);
            ConstGauge::new(i64::from(state == is)).encode(encoder.encode_family(&labels)?)
        })
    })
}

fn encode_cache_shapes(
    models: &[&ModelMetrics],
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    let shape = |model: &ModelMetrics| *model.shape.lock().unwrap_or_else(PoisonError::into_inner);
    let shapes: Vec<_> = models.iter().filter_map(|model| Some((&model.labels, shape(model)?))).collect();
    if shapes.is_empty() {
        return Ok(());
    }
    let help = sentence("The KV cache's shape, as labels");
    let mut encoder = encoder.encode_descriptor("vllm:cache_config_info", &help, None, MetricType::Gauge)?;
    shapes.iter().try_for_each(|(labels, EngineShape { kv_blocks, kv_block_tokens, .. })| {
        let of = [("block_size", kv_block_tokens.to_string()), ("num_gpu_blocks", kv_blocks.to_string())];
        ConstGauge::new(1_i64).encode(encoder.encode_family(&(labels.as_slice(), of))?)
    })
}

/// What each model's share of the machine's time cost, where the price is known.
fn encode_costs(models: &[&ModelMetrics], encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    let mut serving = models.iter().filter_map(|model| Some((*model, model.serving.get()?))).peekable();
    let Some(price) = serving.peek().and_then(|(model, _)| model.shared.price.get()) else { return Ok(()) };
    let help = sentence("What the model's share of the machine's time cost, by what it went for");
    let mut encoder = encoder.encode_descriptor("gristmill_model_cost", &help, None, MetricType::Counter)?;
    serving.try_for_each(|(model, serving)| {
        serving.engine.machine_seconds().into_iter().try_for_each(|(kind, seconds)| {
            let labels = [("currency", price.currency.as_str()), ("kind", kind)];
            let labels = (model.labels.as_slice(), labels);
            ConstCounter::new(seconds * price.per_second).encode(encoder.encode_family(&labels)?)
        })
    })
}

/// A description as `prometheus-client` ends those of its registry.
fn sentence(help: &str) -> String {
    format!("{help}.")
}
