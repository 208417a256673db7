//! Models that come, are replaced, and go while others answer.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use residency::{ModelId, Standing};
use wire::Fault;

use super::loader::{Check, Registration};
use super::{Registry, find};

impl Registry {
    /// Adds a model; it is loaded when it is asked for. The first one is the default.
    ///
    /// # Errors
    /// In words: no name, or one that another model has.
    pub fn add(&self, registration: Registration) -> Result<ModelId, String> {
        self.insert(registration, Standing::Listed, None)
    }

    /// Adds a model, or one that is to replace `old`, which may have its names.
    fn insert(
        &self,
        registration: Registration,
        standing: Standing,
        old: Option<usize>,
    ) -> Result<ModelId, String> {
        let Registration { names, pinned, keep_alive, loader } = registration;
        if names.is_empty() {
            return Err("a model needs a name".into());
        }
        let mut loaders = self.loaders.lock().unwrap_or_else(PoisonError::into_inner);
        let mut table = self.table();
        let taken = |name: &&String| find(&table, name).is_some_and(|place| Some(place) != old);
        if let Some(name) = names.iter().find(taken) {
            return Err(format!("two models are called {name}"));
        }
        self.recorder.registered(&names[0]);
        let place = table.add(names, pinned, keep_alive, self.now());
        table.entry_mut(place).standing = standing;
        if let Some(why) = loader.problem() {
            table.loaded(place, Err(why), self.now());
        }
        match loaders.get_mut(place) {
            Some(free) => *free = loader,
            None => loaders.push(loader),
        }
        let id = table.id(place);
        drop(table);
        self.abilities.lock().unwrap_or_else(PoisonError::into_inner).remove(&place);
        Ok(id)
    }

    /// Replaces a model by another generation of it: that is loaded beside the old one and checked, and then answers in its
    /// place; the old one finishes what it has. If it cannot be loaded or does not pass, the old one stays. A model that is
    /// not loaded is replaced at once if there is nothing to check.
    ///
    /// # Errors
    /// In words, why the old one stays; the model's facts tell it too.
    pub async fn replace(
        self: &Arc<Self>,
        old: ModelId,
        registration: Registration,
        check: Option<Check>,
    ) -> Result<ModelId, String> {
        let gone = || "it was removed meanwhile".to_owned();
        let (place, is_loaded) = {
            let table = self.table();
            let place = table.place(old).ok_or_else(gone)?;
            (place, table.entry(place).state.model().is_some())
        };
        let new = self.insert(registration, Standing::Candidate, Some(place))?;
        let passed = if is_loaded || check.is_some() { self.passes(new, check).await } else { Ok(()) };
        let outcome = {
            let mut table = self.table();
            let outcome = passed.and_then(|()| table.replace(old, new.place).then_some(()).ok_or_else(gone));
            if outcome.is_err() {
                table.retire(new.place);
            }
            outcome
        };
        if let Err(why) = &outcome {
            self.reject(old, why);
        }
        self.let_go();
        outcome.map(|()| new)
    }

    /// Tells of a model why another generation of it is not served; the model stays.
    pub fn reject(&self, id: ModelId, why: &str) {
        let mut table = self.table();
        if let Some(place) = table.place(id) {
            table.entry_mut(place).rejected = Some(why.to_owned());
        }
    }

    /// Loads a candidate and checks it.
    async fn passes(self: &Arc<Self>, candidate: ModelId, check: Option<Check>) -> Result<(), String> {
        // It stays loaded until the check has ended.
        let lease =
            self.acquire_generation(candidate, Instant::now()).await.map_err(|fault| fault.message)?;
        let _lease = lease.ok_or("it was removed meanwhile")?;
        let Some(check) = check else { return Ok(()) };
        check(candidate).await
    }

    /// Removes a model: requests find it no more, and it is unloaded when nobody uses it.
    pub fn remove(self: &Arc<Self>, id: ModelId) {
        {
            let mut table = self.table();
            if let Some(place) = table.place(id) {
                table.retire(place);
            }
        }
        self.let_go();
    }

    /// Has a model stay loaded whatever else is asked for, or no longer.
    ///
    /// # Errors
    /// It is the server's only one, which stays.
    pub fn pin(&self, id: ModelId, pinned: bool) -> Result<(), Fault> {
        self.can_change(id)?;
        let mut table = self.table();
        if let Some(place) = table.place(id) {
            table.entry_mut(place).pinned = pinned;
        }
        drop(table);
        // What may go now may be what others wait for.
        self.changed.notify_waiters();
        Ok(())
    }

    /// Whether a model can be unloaded and loaded again.
    pub(super) fn can_change(&self, id: ModelId) -> Result<(), Fault> {
        if self.loader(id.place).can_load() {
            return Ok(());
        }
        let message = format!("the model {} is the server's only one and stays loaded", self.name(id.place));
        Err(Fault::unsupported("model", message))
    }
}
