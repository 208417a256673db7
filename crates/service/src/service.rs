//! The contract kept by this machine: what its models can be asked, how much is let in, and what becomes of it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::Poll;
use std::time::{Duration, Instant};

use events::{Event, Format, HourlyPrice, InferenceCounts, Metrics, ModelBudget, Rejection};
use inference::{
    Capability, Inference, Load, Operation, Output, Request, RequestContext, Submitted, Tokenize, Tokens,
};
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, interval};
use wire::Fault;

use crate::admission::Admission;
use crate::core::Core;
use crate::model::LoadedModel;
use crate::options::Options;
use crate::outbox::{EncoderSteps, Steps};
use crate::plan::{rendered, tokens};
use crate::preparation::{Admitted, NoSlot, Preparation, Work};
use crate::recorder::Recorder;
use crate::registry::{Abilities, Facts, Lease, ModelId, Registry};
use crate::response_store::ResponseStore;
use crate::tensor_slots::{PIPELINES, TensorSlots};
use crate::watchdog::{self, Watchdog};
use crate::{encode, generation, likelihood, pipelines, tensors};

/// Bytes of rendered text that are charged as one token, as they are not tokenized.
const BYTES_A_TOKEN: usize = 4;

/// The models of this machine, behind one admission control.
pub struct Service {
    core: Core,
    watchdog: Arc<Watchdog>,
    preparation: Preparation,
    responses: Arc<ResponseStore>,
    recorder: Arc<Recorder>,
    registry: Arc<Registry>,
    /// What is being done before the first request is taken; none from then on.
    starting: RwLock<Option<String>>,
    draining: AtomicBool,
    leaving: AtomicBool,
    /// See [`wire::node::NodeRecord::id`].
    id: String,
    /// Records of this node so far.
    records: AtomicU64,
}

/// What a request takes of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// A place for at least one answer.
    Answers,
    /// Only the work of reading and tokenizing it.
    Texts,
}

impl Service {
    /// A service that has no model yet.
    pub fn new(options: Options) -> Service {
        let metrics = Arc::new(Metrics::new(env!("CARGO_PKG_VERSION")));
        if let Some(price) = &options.price {
            let currency = price.currency.code();
            metrics.add_price(HourlyPrice { amount: price.per_hour, currency });
        }
        let recorder = Recorder::new(metrics.clone());
        Service {
            responses: Arc::default(),
            preparation: Preparation::default(),
            registry: Registry::new(options.model_bytes, options.longest_load, recorder.clone()),
            recorder,
            starting: RwLock::new(Some("starting".into())),
            draining: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            id: random_id(),
            records: AtomicU64::new(0),
            watchdog: Arc::default(),
            core: Core {
                metrics,
                admission: Arc::new(Admission::new(options.requests, options.parallel, options.longest_wait)),
                tensors: TensorSlots::default(),
                pipelines: TensorSlots::new(PIPELINES),
                steps: Arc::new(Semaphore::new(PIPELINES)),
                options,
            },
        }
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    pub(crate) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Identity of this process: 32 hexadecimal digits, other ones after each start.
    pub fn node_id(&self) -> &str {
        &self.id
    }

    pub(crate) fn next_record(&self) -> u64 {
        self.records.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether the first request is not taken yet.
    pub(crate) fn is_starting(&self) -> bool {
        self.starting.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Whether no request should come any more.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire) || self.draining.load(Ordering::Acquire)
    }

    /// Bounds of the service.
    pub fn options(&self) -> &Options {
        &self.core.options
    }

    /// Where its events are counted.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.core.metrics
    }

    /// Responses that can be asked for again.
    pub fn responses(&self) -> &Arc<ResponseStore> {
        &self.responses
    }

    /// Tells how long the engine has made no step although it has work, once that is too long.
    pub fn watchdog(&self) -> &Watchdog {
        &self.watchdog
    }

    /// What the engine of the model with this name is to be started with, so that its steps are counted;
    /// `weight_bytes` tells how many bytes of weights a step of so many rows reads.
    pub fn watch(&self, model: &str, weight_bytes: &dyn Fn(usize) -> u64) -> Box<dyn engine::Watch> {
        Box::new(Steps::new(self.core.metrics.model(model), self.watchdog.clone(), weight_bytes))
    }

    /// As [`Service::watch`], for the encoder of the model with this name.
    pub fn watch_encoder(&self, model: &str) -> Box<dyn engine::encoder::EncodeWatch> {
        Box::new(EncoderSteps::new(self.core.metrics.model(model), self.watchdog.clone()))
    }

    /// Whether the engine has work.
    fn engine_is_busy(&self) -> bool {
        self.recorder.gauges().iter().any(|(_, gauges)| gauges.running + gauges.waiting > 0)
    }

    /// The names of the models whose engines have work, joined.
    pub fn busy_models(&self) -> String {
        let engines = self.recorder.gauges().into_iter();
        let busy = engines.filter(|(_, gauges)| gauges.running + gauges.waiting > 0);
        busy.map(|(name, _)| name).collect::<Vec<_>>().join(", ")
    }

    /// Whether all engines are as they should be.
    ///
    /// # Errors
    /// One has ended although nobody asked it to.
    pub fn engines_run(&self) -> Result<(), Fault> {
        let Some(name) = self.registry.stopped() else { return Ok(()) };
        // Looked up last: a drain that began meanwhile has closed them.
        if self.draining.load(Ordering::Acquire) {
            return Ok(());
        }
        let message = format!("the engine of the model {name} has stopped; the server must be restarted");
        Err(Fault::unavailable("engine_stopped", message, 60))
    }

    /// The models.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// What is said before the first request is taken.
    pub fn loading(&self, what: String) {
        let mut starting = self.starting.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(now) = &mut *starting {
            *now = what;
        }
    }

    /// Takes requests from now on, for this model, which stays loaded, among others; `after` is the time since the start
    /// of the process.
    pub fn ready(&self, model: LoadedModel, after: Duration) {
        self.registry.add_loaded(model);
        self.open(after);
    }

    /// Takes requests from now on, for the models of the registry.
    pub fn open(&self, after: Duration) {
        let starting = self.starting.write().unwrap_or_else(PoisonError::into_inner).take();
        if starting.is_some() && !self.draining.load(Ordering::Acquire) {
            self.core.metrics.record(Event::Ready { after });
        }
    }

    /// From now on not ready, though requests are served.
    pub fn leave(&self) {
        self.leaving.store(true, Ordering::Release);
    }

    /// Whether to send requests here.
    ///
    /// # Errors
    /// Why not.
    pub fn is_ready(&self) -> Result<(), Fault> {
        self.is_open()?;
        if self.leaving.load(Ordering::Acquire) {
            return Err(Fault::unavailable("draining", "the server is about to shut down", 5));
        }
        Ok(())
    }

    /// Takes no more requests, and has the engines finish what they have within the deadline. It blocks for as long.
    pub fn drain(&self, deadline: Duration) {
        self.draining.store(true, Ordering::Release);
        self.core.metrics.record(Event::Draining);
        self.registry.drain(deadline);
    }

    /// Whether requests are taken.
    ///
    /// # Errors
    /// Why not.
    pub fn is_open(&self) -> Result<(), Fault> {
        if self.draining.load(Ordering::Acquire) {
            return Err(Fault::unavailable("draining", "the server is shutting down", 5));
        }
        if let Some(what) = &*self.starting.read().unwrap_or_else(PoisonError::into_inner) {
            return Err(Fault::unavailable("model_loading", format!("the model is loading: {what}"), 2));
        }
        self.engines_run()
    }

    /// As [`Service::is_open`], counting a refusal.
    ///
    /// # Errors
    /// Why no requests are taken.
    pub fn open_or_reject(&self) -> Result<(), Fault> {
        self.is_open().inspect_err(|fault| {
            let reason =
                if fault.code == Some("model_loading") { Rejection::Loading } else { Rejection::Draining };
            self.core.metrics.record(Event::Rejected(reason));
        })
    }

    /// Which model is called so; none is the default one.
    ///
    /// # Errors
    /// There is no such model.
    pub fn find(&self, name: Option<&str>) -> Result<ModelId, Fault> {
        let found = self.registry.find(name);
        // For clients that send a name of their own and cannot be told another.
        let found = found.or_else(|| self.registry.find(None).filter(|_| self.core.options.any_model_name));
        found.ok_or_else(|| {
            let names: Vec<String> =
                self.registry.facts().into_iter().flat_map(|facts| facts.names).collect();
            Fault::no_model(name.unwrap_or("default"), &names)
        })
    }

    /// What a model can be asked; none if it was removed.
    pub fn capability(&self, id: ModelId) -> Option<Capability> {
        self.registry.facts_of(id).map(|facts| self.capability_with(facts))
    }

    pub(crate) fn capability_with(&self, facts: Facts) -> Capability {
        let Abilities { operations, context, encoder, signature, config } = self.registry.abilities(facts.id);
        Capability { names: facts.names, context, operations, encoder, signature, config }
    }

    /// The model of this name, loaded first if it is not; the default one without a name.
    ///
    /// # Errors
    /// There is no such model, or it cannot be loaded in time.
    pub async fn model(&self, name: Option<&str>) -> Result<Lease, Fault> {
        self.open_or_reject()?;
        let index = self.find(name)?;
        self.registry.acquire(index).await.inspect_err(|fault| {
            if fault.code == Some("model_loading") {
                self.core.metrics.record(Event::Rejected(Rejection::Loading));
            }
        })
    }

    /// The inference requests of the model with this name, the first of its names.
    pub fn inferences(&self, model: &str) -> InferenceCounts {
        self.core.metrics.model(model).inferences()
    }

    /// All metrics, as text.
    pub fn write_metrics(&self, format: Format) -> String {
        let (reserved_bytes, budget_bytes) = self.registry.memory();
        if budget_bytes < u64::MAX {
            self.core.metrics.set_budget(&ModelBudget { budget_bytes, reserved_bytes });
        }
        self.recorder.write(format)
    }

    fn no_slot(&self, none: NoSlot) -> Fault {
        self.core.refused(Rejection::Preparation, none.fault())
    }

    /// Lets a request in whose body has so many bytes, after it has waited for a slot to be read in.
    ///
    /// # Errors
    /// As many requests as are allowed are in work or wait.
    pub async fn admit(
        &self,
        takes: Takes,
        context: &Arc<RequestContext>,
        size: usize,
    ) -> Result<Admitted, Fault> {
        let permit = match takes {
            Takes::Answers => {
                // Which model is asked for is not read yet.
                let count = |fault: &Fault| self.core.count_full(fault, self.registry.only().as_deref());
                Some(self.core.admission.enter().inspect_err(count)?)
            }
            Takes::Texts => None,
        };
        let slot = self.preparation.enter(context.owner(), size).await.map_err(|none| self.no_slot(none))?;
        Ok(Admitted::new(permit, slot, size))
    }

    /// Answers a request that was let in.
    ///
    /// # Errors
    /// A model that is not there, a request that it cannot honour, or one too many.
    pub async fn answer(&self, request: Request, mut admitted: Admitted) -> Result<Output, Fault> {
        let model = self.model_of(&request, &mut admitted).await?;
        self.answer_with(model, request, admitted).await
    }

    /// The model of a request. While that is loaded, the request's slot is free for those whose models are there.
    async fn model_of(&self, request: &Request, admitted: &mut Admitted) -> Result<Lease, Fault> {
        let mut model = std::pin::pin!(self.model(request.operation.model()));
        let at_once = std::future::poll_fn(|task| Poll::Ready(model.as_mut().poll(task))).await;
        if let Poll::Ready(model) = at_once {
            return model;
        }
        let owner = request.context.owner();
        let aside = self.preparation.step_aside(owner, admitted).map_err(|none| self.no_slot(none))?;
        let model = model.await?;
        if aside.is_some() {
            let slot = self.preparation.enter(owner, admitted.bytes()).await;
            admitted.resume(slot.map_err(|none| self.no_slot(none))?);
        }
        Ok(model)
    }

    /// As [`Service::answer`], by this model, whichever the request names.
    ///
    /// # Errors
    /// As [`Service::answer`].
    pub(crate) async fn answer_with(
        &self,
        model: Lease,
        request: Request,
        admitted: Admitted,
    ) -> Result<Output, Fault> {
        let Request { operation, context, time_limit } = request;
        context.add_model_wait(model.waited());
        match operation {
            Operation::Generate(generate) => {
                let generation =
                    generation::answer(&self.core, model, generate, context, time_limit, admitted).await;
                generation.map(Output::Generation)
            }
            Operation::Infer(infer) if model.pipeline().is_some() => {
                let Some(pipeline) = model.pipeline().cloned() else { return Err(model.unable("infer")) };
                let deadline = time_limit.and_then(|limit| Instant::now().checked_add(limit));
                pipelines::answer(self, model, pipeline, infer, context, deadline, admitted).await
            }
            Operation::Infer(infer) => {
                tensors::answer(&self.core, model, infer, context, time_limit, admitted).await
            }
            Operation::Tokenize(operation) => {
                // The model is in use until the work has ended.
                let work = move |_: &mut Admitted, stop| match model.generating() {
                    Some(generating) => tokenize(&Work::new(generating.clone(), stop, context), operation),
                    None => encode::tokenize(&model, &stop, &context, operation),
                };
                self.counted(admitted.run(work).await).map(|(_, output)| output)
            }
            other if model.encodes(&other) => {
                encode::answer(&self.core, model, other, context, time_limit, admitted).await
            }
            other => likelihood::answer(&self.core, model, other, context, time_limit, admitted).await,
        }
    }

    /// Counts refusals for the size of what a body holds.
    pub fn counted<T>(&self, outcome: Result<T, Fault>) -> Result<T, Fault> {
        self.core.counted(outcome)
    }
}

/// 128 bits of the operating system's randomness, by the way the standard library seeds its hash tables.
fn random_id() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let number = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", number(), number())
}

/// Watches the engine until it is aborted.
pub async fn watch(service: Arc<Service>) {
    let mut ticks = interval(watchdog::TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut seen = 0;
    loop {
        ticks.tick().await;
        service.registry().expire();
        service.watchdog.tick(service.engine_is_busy(), &mut seen);
    }
}

fn tokenize(work: &Work, operation: Tokenize) -> Result<Output, Fault> {
    let most = work.most_counted();
    let ids = match operation {
        Tokenize::Encode { text, wrapped, .. } => work.encode("prompt", &text, wrapped, most)?,
        Tokenize::Chat(chat) => tokens(work, &rendered(work, &chat)?, most)?,
        Tokenize::Render(chat) => {
            let prompt = rendered(work, &chat)?.text;
            work.charge(prompt.len().div_ceil(BYTES_A_TOKEN));
            return Ok(Output::Text(prompt));
        }
        Tokenize::Decode { ids, .. } => return decode(work, &ids),
        Tokenize::Chunk { .. } => {
            return Err(Fault::unsupported("model", "the model is not one to cut texts with"));
        }
    };
    let bytes = ids.iter().map(|id| work.text.bytes(*id)).collect();
    Ok(Output::Tokens(Tokens { ids, bytes, context: work.engine.context() }))
}

fn decode(work: &Work, ids: &[u32]) -> Result<Output, Fault> {
    work.charge(ids.len());
    let bytes: usize = ids.iter().map(|id| work.text.bytes(*id).len()).sum();
    let most = wire::limits::DETOKENIZED_BYTES;
    if bytes > most {
        let message = format!("tokens make {bytes} bytes of text; the limit is {most}");
        return Err(Fault::field("tokens", message));
    }
    Ok(Output::Text(work.text.decode(ids)))
}

impl Inference for Service {
    fn submit<'a>(&'a self, request: Request) -> Submitted<'a> {
        Box::pin(async move {
            let takes = match request.operation {
                Operation::Generate(_) => Takes::Answers,
                _ => Takes::Texts,
            };
            let admitted = self.admit(takes, &request.context, 0).await?;
            self.answer(request, admitted).await
        })
    }

    fn capabilities(&self) -> Vec<Capability> {
        self.registry.facts().into_iter().map(|facts| self.capability_with(facts)).collect()
    }

    fn load(&self) -> Load {
        self.recorder.gauges().iter().fold(Load::default(), |sum, (_, gauges)| Load {
            running: sum.running + gauges.running,
            waiting: sum.waiting + gauges.waiting,
            waiting_tokens: sum.waiting_tokens + gauges.waiting_tokens,
        })
    }
}
