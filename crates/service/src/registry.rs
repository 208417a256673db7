//! The models of this machine: registered, loaded when they are asked for, unloaded when their memory is wanted.
//!
//! A model that is in use or loading is never unloaded. A load happens once, however many requests wait for it, and
//! blocks no other model. Memory is reserved before a load begins and free when the last of the model is gone. Who is
//! unloaded for whom is decided by [`residency::Table`], which knows neither threads nor clocks.

mod generations;
mod loader;
mod together;
mod unloading;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use events::UnloadReason;
use inference::EncoderFacts;
use tokio::sync::Notify;
use wire::Fault;
use wire::oip::{ModelConfig, Signature};

use crate::LoadedModel;
use crate::recorder::Recorder;
use loader::Never;
pub use loader::{Check, Checked, Loader, Registration};
pub use residency::ModelId;
use residency::{Answer, Standing};

/// What is told of a model.
pub type Facts = residency::Facts<LoadedModel>;
/// Where a model is between not loaded and in use.
pub type State = residency::State<LoadedModel>;
type Table = residency::Table<LoadedModel>;

/// The models, and who waits for them.
pub struct Registry {
    table: Mutex<Table>,
    loaders: Mutex<Vec<Arc<dyn Loader>>>,
    /// Of models that were loaded once, by index.
    abilities: Mutex<HashMap<usize, Abilities>>,
    /// Something changed: a load or an unload ended, or a model is no longer in use.
    changed: Notify,
    /// The table's time begins here.
    start: Instant,
    /// Held by the one request that has models loaded which it wants together.
    gathering: tokio::sync::Mutex<()>,
    /// The longest that a request waits for its model.
    longest_wait: Duration,
    recorder: Arc<Recorder>,
}

/// What a model can do, as it is or as it was when it was last loaded.
#[derive(Debug, Clone)]
pub(crate) struct Abilities {
    pub(crate) operations: Vec<&'static str>,
    pub(crate) context: Option<usize>,
    pub(crate) encoder: Option<Arc<EncoderFacts>>,
    pub(crate) signature: Option<Arc<Signature>>,
    pub(crate) config: Option<Arc<ModelConfig>>,
}

impl Abilities {
    fn of(model: &LoadedModel) -> Abilities {
        Abilities {
            operations: model.operations(),
            context: Some(model.context())
                .filter(|_| model.tensors().is_none() && model.pipeline().is_none()),
            encoder: model.encoding().map(|encoding| encoding.facts.clone()),
            signature: Some(model.signature()),
            config: model.config.clone(),
        }
    }
}

/// A model in use: it stays loaded until this is dropped.
pub struct Lease {
    registry: Arc<Registry>,
    index: usize,
    model: Arc<LoadedModel>,
    waited: Duration,
}

impl Lease {
    /// How long the model was waited for; zero if it was there.
    pub fn waited(&self) -> Duration {
        self.waited
    }
}

impl std::ops::Deref for Lease {
    type Target = LoadedModel;

    fn deref(&self) -> &LoadedModel {
        &self.model
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.registry.table().release(self.index, self.registry.now());
        self.registry.changed.notify_waiters();
    }
}

/// A request that waits for its model, until this is dropped: it may be served, refused, or have left.
struct Waiting<'a> {
    registry: &'a Registry,
    index: usize,
    /// When it asked for the model.
    since: Instant,
}

impl<'a> Waiting<'a> {
    fn begin(registry: &'a Registry, index: usize, since: Instant) -> Waiting<'a> {
        registry.table().wait(index, registry.now());
        Waiting { registry, index, since }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.registry.table().stop_waiting(self.index);
        self.registry.recorder.awaited(&self.registry.name(self.index), self.since.elapsed());
        self.registry.changed.notify_waiters();
    }
}

impl Registry {
    /// No models yet, which may take so many bytes together.
    pub(crate) fn new(limit_bytes: u64, longest_wait: Duration, recorder: Arc<Recorder>) -> Arc<Registry> {
        Arc::new(Registry {
            table: Mutex::new(Table::new(limit_bytes)),
            loaders: Mutex::default(),
            abilities: Mutex::default(),
            changed: Notify::new(),
            start: Instant::now(),
            gathering: tokio::sync::Mutex::default(),
            longest_wait,
            recorder,
        })
    }

    /// Adds a model that is loaded and stays so.
    pub(crate) fn add_loaded(&self, model: LoadedModel) {
        let mut loaders = self.loaders.lock().unwrap_or_else(PoisonError::into_inner);
        let mut table = self.table();
        let now = self.now();
        let index = table.add(model.names.clone(), true, None, now);
        self.recorder.loaded_before(index, &model);
        self.learn(index, &model);
        table.loaded(index, Ok(Arc::new(model)), now);
        loaders.push(Arc::new(Never));
    }

    /// The name of a model whose engine takes no requests although the model is ready.
    pub(crate) fn stopped(&self) -> Option<String> {
        // A model leaves the state "ready" before its engine is closed, so both are looked up under the lock.
        let table = self.table();
        let ready = table.entries().iter().filter_map(|entry| Some((&entry.names, entry.state.model()?)));
        ready.filter(|(_, model)| !model.is_open()).map(|(names, _)| names[0].clone()).next()
    }

    /// Which model is called so; none is the default one.
    pub fn find(&self, name: Option<&str>) -> Option<ModelId> {
        let table = self.table();
        let place = match name {
            None => table.first(),
            Some(name) => find(&table, name),
        };
        place.map(|place| table.id(place))
    }

    /// The name of the only model; none if there are several, or none.
    pub(crate) fn only(&self) -> Option<String> {
        let table = self.table();
        let mut listed = table.listed();
        let (_, first) = listed.next()?;
        listed.next().is_none().then(|| first.names[0].clone())
    }

    /// What is known of all models, in the order in which they were added.
    pub fn facts(&self) -> Vec<Facts> {
        let (table, now) = (self.table(), self.now());
        table.in_order().into_iter().map(|place| table.facts(place, now)).collect()
    }

    /// What is known of a model; none if it was removed.
    pub fn facts_of(&self, id: ModelId) -> Option<Facts> {
        let table = self.table();
        table.place(id).map(|place| table.facts(place, self.now()))
    }

    /// What a model can do, as far as that is known.
    pub(crate) fn abilities(&self, id: ModelId) -> Abilities {
        let index = id.place;
        let known = self.abilities.lock().unwrap_or_else(PoisonError::into_inner).get(&index).cloned();
        known.unwrap_or_else(|| {
            let operations = self.loader(index).operations();
            Abilities { operations, context: None, encoder: None, signature: None, config: None }
        })
    }

    /// The version of a model.
    pub fn version(&self, id: ModelId) -> Arc<str> {
        self.loader(id.place).version()
    }

    fn learn(&self, index: usize, model: &LoadedModel) {
        let mut abilities = self.abilities.lock().unwrap_or_else(PoisonError::into_inner);
        abilities.insert(index, Abilities::of(model));
    }

    /// Bytes that are reserved for models, and bytes that they may take together.
    pub fn memory(&self) -> (u64, u64) {
        let table = self.table();
        (table.reserved(), table.limit())
    }

    /// The model, loaded first if it is not. If it is replaced while it is waited for, the one that has its name now.
    ///
    /// # Errors
    /// A model that cannot be loaded, or not in time, or that was removed.
    pub async fn acquire(self: &Arc<Self>, id: ModelId) -> Result<Lease, Fault> {
        let asked = Instant::now();
        let name = self.facts_of(id).map(|facts| facts.names[0].clone());
        let mut id = id;
        loop {
            if let Some(lease) = self.acquire_generation(id, asked).await? {
                return Ok(lease);
            }
            let next = name.as_deref().and_then(|name| self.find(Some(name)));
            id = next.filter(|next| *next != id).ok_or_else(|| removed(name.as_deref()))?;
        }
    }

    /// This model and no later generation of it; none if it was removed or replaced.
    async fn acquire_generation(
        self: &Arc<Self>,
        id: ModelId,
        asked: Instant,
    ) -> Result<Option<Lease>, Fault> {
        let index = id.place;
        let end = tokio::time::Instant::from(asked) + self.longest_wait;
        self.learn_parts(id).await?;
        let Some(bytes) = self.need_bytes(id).await? else { return Ok(None) };
        let mut waiting = None;
        let mut waited = Duration::ZERO;
        loop {
            let mut wake = end;
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on no change is missed.
            changed.as_mut().enable();
            match self.ask(id, bytes) {
                Answer::Use(model) => {
                    return Ok(Some(Lease { registry: self.clone(), index, model, waited }));
                }
                Answer::Load => self.begin_load(index),
                Answer::Unload(going) => self.begin_unload(going, UnloadReason::Memory),
                Answer::Wait(until) => wake = until.map_or(end, |until| end.min((self.start + until).into())),
                Answer::Failed(why) => return Err(self.failed(index, &why)),
                Answer::Gone => return Ok(None),
                Answer::TooLarge { bytes, limit, pinned } => {
                    let message = format!(
                        "the model {} takes {bytes} bytes; models may take {limit} together, {pinned} of them pinned",
                        self.name(index)
                    );
                    return Err(Fault::unavailable("model_too_large", message, 60));
                }
            }
            waiting.get_or_insert_with(|| Waiting::begin(self, index, asked));
            let timed_out = tokio::time::timeout_at(wake, changed).await.is_err();
            if timed_out && tokio::time::Instant::now() >= end {
                return Err(self.late(index));
            }
            waited = asked.elapsed();
        }
    }

    fn ask(&self, id: ModelId, bytes: u64) -> Answer<LoadedModel> {
        let mut table = self.table();
        match table.place(id) {
            Some(place) => table.ask(place, bytes, self.now()),
            None => Answer::Gone,
        }
    }

    /// What the model takes; asking its loader may read the head of a file. None if it was removed or replaced.
    async fn need_bytes(&self, id: ModelId) -> Result<Option<u64>, Fault> {
        let Some(facts) = self.facts_of(id) else { return Ok(None) };
        if let (State::Ready(_), Some(bytes)) = (&facts.state, facts.bytes) {
            return Ok(Some(bytes));
        }
        let loader = self.loader(id.place);
        let need = tokio::task::spawn_blocking(move || loader.need_bytes()).await;
        match need {
            Ok(Ok(bytes)) => Ok(Some(bytes)),
            Ok(Err(why)) => {
                self.cannot_plan(id, &why);
                Err(load_fault(&facts.names[0], &why))
            }
            Err(error) => Err(Fault::internal(format!("a loader did not end: {error}"))),
        }
    }

    /// Marks a model as failed whose loader cannot say what it takes.
    fn cannot_plan(&self, id: ModelId, why: &str) {
        let mut table = self.table();
        let Some(place) = table.place(id) else { return };
        if matches!(table.entry(place).state, State::Registered | State::Failed(_)) {
            table.loaded(place, Err(why.to_owned()), self.now());
        }
    }

    /// Loads on a thread that may block. It goes on whoever waits for it.
    fn begin_load(self: &Arc<Self>, index: usize) {
        let registry = self.clone();
        tokio::task::spawn_blocking(move || registry.run_load(index));
    }

    /// Loads a model that is marked as loading.
    fn run_load(&self, index: usize) {
        let (loader, began) = (self.loader(index), Instant::now());
        let (names, bytes, standing) = {
            let table = self.table();
            let facts = table.facts(index, self.now());
            (facts.names, facts.bytes.unwrap_or_default(), table.entry(index).standing)
        };
        // Until it takes over, the metrics' state is that of the model which answers.
        let beside = standing == Standing::Candidate;
        if !beside {
            self.recorder.load_began(&names[0], bytes);
        }
        let progress = |what: String| self.table().progress(index, what);
        let load = std::panic::AssertUnwindSafe(|| loader.load(&progress));
        let mut outcome = std::panic::catch_unwind(load)
            .unwrap_or_else(|_| Err("its loader panicked; the log has the reason".into()));
        match &mut outcome {
            Ok(model) => {
                // Answers, records and metrics name it as it was registered.
                model.names.clone_from(&names);
                model.version = loader.version();
                self.recorder.loaded(index, model, began.elapsed());
                self.learn(index, model);
            }
            Err(why) => {
                if !beside {
                    self.recorder.load_failed(&names[0]);
                }
                tracing::error!(model = names[0], error = why, "a model could not be loaded");
            }
        }
        self.table().loaded(index, outcome.map(Arc::new), self.now());
        self.changed.notify_waiters();
    }

    /// Loads a model on this thread, before there are requests. Nothing is unloaded for it.
    ///
    /// # Errors
    /// It cannot be loaded, or there is no room.
    pub fn load_now(&self, id: ModelId) -> Result<(), Fault> {
        let index = id.place;
        let bytes = self.loader(index).need_bytes().map_err(|why| self.failed(index, &why))?;
        match self.ask(id, bytes) {
            Answer::Use(_) => {
                self.table().release(index, self.now());
                return Ok(());
            }
            Answer::Load => self.run_load(index),
            Answer::Failed(why) => return Err(self.failed(index, &why)),
            Answer::Gone => return Err(removed(None)),
            Answer::Wait(_) | Answer::Unload(_) | Answer::TooLarge { .. } => {
                return Err(self.failed(index, "there is no room for it"));
            }
        }
        match self.table().facts(index, self.now()).state {
            State::Failed(why) => Err(self.failed(index, &why)),
            _ => Ok(()),
        }
    }

    /// The fault of the model in a place that cannot be loaded.
    fn failed(&self, index: usize, why: &str) -> Fault {
        load_fault(&self.name(index), why)
    }

    /// The fault of a model that was not ready in time.
    fn late(&self, index: usize) -> Fault {
        let facts = self.table().facts(index, self.now());
        let seconds = self.longest_wait.as_secs();
        let state = match facts.state {
            State::Loading(what) => format!("it is loading: {what}"),
            _ => "its memory is in use by other models".to_owned(),
        };
        let message = format!("the model {} was not ready within {seconds} s; {state}", facts.names[0]);
        Fault::unavailable("model_loading", message, 5)
    }

    /// The time as the table counts it.
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn name(&self, index: usize) -> String {
        self.table().entry(index).names[0].clone()
    }

    fn loader(&self, index: usize) -> Arc<dyn Loader> {
        self.loaders.lock().unwrap_or_else(PoisonError::into_inner)[index].clone()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The fault of a model that cannot be loaded.
fn load_fault(name: &str, why: &str) -> Fault {
    Fault::unavailable("model_load_failed", format!("the model {name} cannot be loaded: {why}"), 10)
}

/// The fault of a request for a model that was removed while it was waited for.
fn removed(name: Option<&str>) -> Fault {
    let name = name.unwrap_or("that was asked for");
    Fault::unavailable("model_removed", format!("the model {name} was removed or replaced; ask again"), 1)
}

/// Case and Ollama's `:latest` make no difference.
fn find(table: &Table, name: &str) -> Option<usize> {
    let same = |known: &String| plain(known).eq_ignore_ascii_case(plain(name));
    table.listed().find(|(_, entry)| entry.names.iter().any(same)).map(|(place, _)| place)
}

/// A name without Ollama's tag for "no tag".
pub(crate) fn plain(name: &str) -> &str {
    let (head, tag) = name.split_at_checked(name.len().saturating_sub(":latest".len())).unwrap_or((name, ""));
    if tag.eq_ignore_ascii_case(":latest") && !head.is_empty() { head } else { name }
}
