//! The record of this node for a gateway: its models, how busy they are, and how fast.

use std::sync::Arc;

use engine::{MemoryUse, Speed, Stats};
use wire::limits::NAME_BYTES;
use wire::node::{
    MODELS, ModelRecord, NAMES, NodeLoad, NodeRecord, NodeState, PrefixCacheRecord, STEP_TIMES, StepTime,
};

use crate::LoadedModel;
use crate::encoding::Encoding;
use crate::model::Generating;
use crate::recorder::{encoder_load, engine_load};
use crate::registry::Facts;
use crate::service::Service;

impl Service {
    /// The load of all models. It waits for nothing that takes time.
    pub fn node_load(&self) -> NodeLoad {
        self.recorder().load()
    }

    /// The record of this node, with the next number.
    pub fn node_record(&self) -> NodeRecord {
        let state = match (self.is_starting(), self.is_leaving()) {
            (_, true) => NodeState::Draining,
            (true, false) => NodeState::Starting,
            (false, false) => NodeState::Ready,
        };
        let facts = self.registry().facts().into_iter().take(MODELS);
        let models = facts.map(|facts| self.model_record(facts)).filter(|model| !model.names.is_empty());
        NodeRecord {
            id: self.node_id().to_owned(),
            sequence: self.next_record(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            tier: self.options().tier.clone(),
            uptime_s: self.recorder().uptime().as_secs(),
            state,
            load: self.node_load(),
            models: models.collect(),
        }
    }

    /// What texts of a loaded model depend on beside the request; none if that is not known or it is not loaded.
    pub fn fingerprint(&self, model: Option<&str>) -> Option<Arc<str>> {
        let facts = self.registry().facts_of(self.find(model).ok()?)?;
        facts.state.model()?.fingerprint.clone()
    }

    fn model_record(&self, facts: Facts) -> ModelRecord {
        let (state, loaded) = (facts.state.name().to_owned(), facts.state.model().cloned());
        let capability = self.capability_with(facts);
        let mut record = ModelRecord {
            names: told(capability.names),
            state,
            operations: capability.operations.into_iter().map(str::to_owned).collect(),
            context: capability.context.map(|tokens| tokens as u64),
            ..ModelRecord::default()
        };
        if let Some(model) = loaded {
            describe(&mut record, &model);
        }
        record
    }
}

impl LoadedModel {
    /// The same, with what its text depends on.
    #[must_use]
    pub fn with_fingerprint(mut self, fingerprint: impl Into<Arc<str>>) -> LoadedModel {
        self.fingerprint = Some(fingerprint.into());
        self
    }
}

/// Names that a record can have.
fn told(names: Vec<String>) -> Vec<String> {
    let fits = |name: &String| (1..=NAME_BYTES).contains(&name.len()) && !name.chars().any(char::is_control);
    names.into_iter().filter(fits).take(NAMES).collect()
}

/// Adds what is known of a loaded model.
fn describe(record: &mut ModelRecord, model: &LoadedModel) {
    record.fingerprint = model.fingerprint.as_deref().map(str::to_owned);
    if let Some(encoding) = model.encoding() {
        describe_encoder(record, encoding);
    }
    if let Some(generating) = model.generating() {
        describe_generator(record, generating);
    }
}

fn describe_encoder(record: &mut ModelRecord, encoding: &Encoding) {
    let stats = encoding.engine.stats();
    record.load = encoder_load(&stats);
    record.prompt_tokens_per_s = rate(stats.tokens, stats.machine_time.as_secs_f64());
    let fingerprint = encoding.facts.fingerprint.to_string();
    record.fingerprint.get_or_insert(fingerprint);
    record.fingerprint.take_if(|text| text.is_empty());
}

fn describe_generator(record: &mut ModelRecord, generating: &Generating) {
    let engine = &generating.engine;
    let (stats, Speed { steps, prompt_tokens_per_s }) = (engine.stats(), engine.speed());
    record.load = record.load.plus(engine_load(&stats));
    record.output_tokens = stats.output_tokens as u64;
    record.unbounded = stats.unbounded as u64;
    record.slots = engine.slots() as u64;
    record.prompt_tokens_per_s = prompt_tokens_per_s.map(|rate| three_digits(f64::from(rate)));
    let times = steps.into_iter().take(STEP_TIMES);
    let times =
        times.map(|(rows, took)| StepTime { rows: rows as u64, ms: three_digits(took.as_secs_f64() * 1e3) });
    record.step_times = times.collect();
    record.prefix_cache = Some(prefix_cache(&stats, engine.memory()));
}

fn prefix_cache(stats: &Stats, memory: MemoryUse) -> PrefixCacheRecord {
    let block_bytes = memory.kv_cache / (stats.kv_blocks_total as u64).max(1);
    PrefixCacheRecord {
        bytes: block_bytes * stats.kv_blocks_cached as u64,
        capacity_bytes: memory.kv_cache,
        queried_tokens: stats.prompt_tokens,
        hit_tokens: stats.cached_tokens,
    }
}

fn rate(count: u64, seconds: f64) -> Option<f64> {
    (count > 0 && seconds > 0.0).then(|| three_digits(count as f64 / seconds))
}

/// A measured number without digits that are chance.
fn three_digits(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}
