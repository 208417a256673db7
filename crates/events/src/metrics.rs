//! From events to numbers, and from these to text.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use prometheus_client::encoding::text as encoding;
use prometheus_client::registry::Registry;

use crate::budget::{BudgetMetrics, ModelBudget};
use crate::cost::{CostMetrics, HourlyPrice, MachineTime, TimeMetrics};
use crate::event::{Event, Gauges};
use crate::llamacpp::LlamaCpp;
use crate::machine::MachineMetrics;
use crate::model::{ModelCollector, ModelMetrics, Models};
use crate::process::{Process, ProcessMetrics};
use crate::shared::{Later, Price, Shared};
use crate::{Format, text};

/// All metrics of a server. Those of the machine exist from the start, those of a model from its registration on.
pub struct Metrics {
    shared: Arc<Shared>,
    machine_registry: Registry,
    models: Arc<Models>,
    model_registry: Registry,
    process: Later<ProcessMetrics>,
    time: Later<TimeMetrics>,
    cost: Later<CostMetrics>,
    budget: Later<BudgetMetrics>,
    /// One scrape at a time sets the gauges and writes them down.
    scrape: Mutex<()>,
}

/// What [`OnceLock::get_or_init`] is to call for metrics of the machine.
fn registered<M>(new: impl FnOnce(&mut Registry) -> M) -> (M, Registry) {
    let mut registry = Registry::default();
    (new(&mut registry), registry)
}

impl Metrics {
    /// The machine's metrics; `version` is the program's.
    pub fn new(version: &str) -> Metrics {
        let (machine, machine_registry) = registered(|r| MachineMetrics::new(r, version));
        let models = Arc::<Models>::default();
        let mut model_registry = Registry::default();
        model_registry.register_collector(Box::new(ModelCollector(models.clone())));
        Metrics {
            shared: Arc::new(Shared { machine, llamacpp: OnceLock::new(), price: OnceLock::new() }),
            machine_registry,
            models,
            model_registry,
            process: OnceLock::new(),
            time: OnceLock::new(),
            cost: OnceLock::new(),
            budget: OnceLock::new(),
            scrape: Mutex::new(()),
        }
    }

    /// The metrics of the model with this name, which becomes the label `model_name`. They are made at the first
    /// call, at zero and in the state [`Registered`](crate::ModelState::Registered); later calls give the same ones
    /// back, so that a model that is unloaded and loaded again goes on counting. Names beyond the first 1,024 share
    /// the metrics of `other`.
    pub fn model(&self, name: &str) -> Arc<ModelMetrics> {
        self.models.get(name, &self.shared)
    }

    /// Counts an event of the machine.
    pub fn record(&self, event: Event) {
        self.shared.machine.record(event);
    }

    /// Tells the models' numbers under llama-server's names too, from now on.
    pub fn offer_llamacpp(&self) {
        self.shared.llamacpp.get_or_init(|| registered(LlamaCpp::new));
    }

    /// What the operating system says now of the process; its metrics exist from the first call on.
    pub fn set_process(&self, process: &Process) {
        self.process.get_or_init(|| registered(ProcessMetrics::new)).0.set(process);
    }

    /// What is reserved now of the models' memory budget; its metrics exist from the first call on.
    pub fn set_budget(&self, memory: &ModelBudget) {
        self.budget.get_or_init(|| registered(BudgetMetrics::new)).0.set(memory);
    }

    /// Tells what the machine's time costs too, from now on. Once only; a second price changes nothing.
    pub fn add_price(&self, price: HourlyPrice<'_>) {
        self.cost.get_or_init(|| CostMetrics::new(price));
        self.shared.price.get_or_init(|| Price {
            per_second: price.amount / 3_600.0,
            currency: text::escape(price.currency).into_owned(),
        });
    }

    /// For what the machine's time went so far; its metrics exist from the first call on.
    pub fn set_time(&self, time: &MachineTime) {
        self.time.get_or_init(|| registered(TimeMetrics::new)).0.set(time);
        if let Some((cost, _)) = self.cost.get() {
            cost.set(time);
        }
    }

    /// Everything as text, with the figures of now of each model that has an engine, by name. A model that is not
    /// among them holds nothing. Each family is written once, the series of all models together, always in the same
    /// order.
    pub fn write(&self, engines: &[(&str, Gauges)], format: Format) -> String {
        let _one = self.scrape.lock().unwrap_or_else(PoisonError::into_inner);
        self.models.set(engines);
        if let Some((llamacpp, _)) = self.shared.llamacpp.get() {
            llamacpp.set(engines.iter().map(|(_, gauges)| gauges));
        }
        let mut out = String::with_capacity(32 << 10);
        self.encode(&mut out).expect("writing to a String does not fail");
        match format {
            Format::OpenMetrics => out,
            Format::Prometheus => text::to_prometheus(&out),
        }
    }

    fn encode(&self, out: &mut String) -> Result<(), fmt::Error> {
        fn of<M>(metrics: &Later<M>) -> Option<&Registry> {
            metrics.get().map(|(_, registry)| registry)
        }
        let later = [of(&self.process), of(&self.time), of(&self.cost), of(&self.budget)];
        let registries = [Some(&self.machine_registry)].into_iter().chain(later);
        let registries = registries.chain([Some(&self.model_registry), of(&self.shared.llamacpp)]);
        registries.flatten().try_for_each(|registry| encoding::encode_registry(out, registry))?;
        encoding::encode_eof(out)
    }
}
