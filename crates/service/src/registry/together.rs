//! The parts of a pipeline: models that are in use together, or not at all.

use std::sync::Arc;
use std::time::{Duration, Instant};

use events::UnloadReason;
use residency::{Answer, ModelId, Together};
use wire::Fault;
use wire::oip::Signature;

use super::{Lease, Registry, find};

impl Lease {
    /// The same model, in use once more.
    pub(crate) fn another(&self) -> Lease {
        self.registry.table().use_again(self.index);
        let (registry, model) = (self.registry.clone(), self.model.clone());
        Lease { registry, index: self.index, model, waited: Duration::ZERO }
    }
}

/// A request that waits for several models, until this is dropped.
struct Gathering<'a> {
    registry: &'a Registry,
    places: Vec<usize>,
    since: Duration,
}

impl<'a> Gathering<'a> {
    fn begin(registry: &'a Registry, wanted: &[(usize, u64)]) -> Gathering<'a> {
        let places: Vec<usize> = wanted.iter().map(|(place, _)| *place).collect();
        let since = registry.now();
        registry.table().gather(&places, since);
        Gathering { registry, places, since }
    }
}

impl Drop for Gathering<'_> {
    fn drop(&mut self) {
        self.registry.table().stop_gathering(&self.places, self.since);
        let waited = self.registry.now().saturating_sub(self.since);
        for place in &self.places {
            self.registry.recorder.awaited(&self.registry.name(*place), waited);
        }
        self.registry.changed.notify_waiters();
    }
}

impl Registry {
    /// The models of these names, all in use at once, loaded first where they are not. None is held while others are
    /// waited for, so that two pipelines never wait for one another.
    ///
    /// # Errors
    /// There is no such model, one cannot be loaded or not in time, or they do not fit into memory together.
    pub(crate) async fn acquire_all(self: &Arc<Self>, names: &[String]) -> Result<Vec<Lease>, Fault> {
        let asked = Instant::now();
        let end = tokio::time::Instant::from(asked) + self.longest_wait;
        let mut ids = Vec::with_capacity(names.len());
        for name in names {
            let missing = || {
                let message = format!("there is no model {name}, which is part of the pipeline");
                Fault::unavailable("model_load_failed", message, 10)
            };
            ids.push(self.find(Some(name)).ok_or_else(missing)?);
        }
        let mut wanted = Vec::with_capacity(ids.len());
        for id in &ids {
            wanted.push((id.place, self.need_bytes(*id).await?.ok_or_else(replaced)?));
        }
        self.check_room(names, &wanted)?;
        let mut gathering = None;
        let mut turn = None;
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on no change is missed.
            changed.as_mut().enable();
            // Those that want models together have them loaded one after the other, in the order in which they came.
            if turn.is_none() && !self.table().are_usable(&wanted) {
                let Ok(held) = tokio::time::timeout_at(end, self.gathering.lock()).await else {
                    return Err(self.late(wanted[0].0));
                };
                turn = Some(held);
                continue;
            }
            let answers = match self.take_all(&ids, &wanted)? {
                Together::Use(models) => {
                    let waited = if gathering.is_none() { Duration::ZERO } else { asked.elapsed() };
                    let lease = |(model, (index, _)): (_, &(usize, u64))| Lease {
                        registry: self.clone(),
                        index: *index,
                        model,
                        waited,
                    };
                    return Ok(models.into_iter().zip(&wanted).map(lease).collect());
                }
                Together::Not(answers) => answers,
            };
            gathering.get_or_insert_with(|| Gathering::begin(self, &wanted));
            let mut wake = end;
            let mut late = wanted[0].0;
            for (index, answer) in answers {
                late = index;
                match answer {
                    // Another request took its place since; nothing is taken while others wait.
                    Answer::Use(_) => self.table().release(index, self.now()),
                    Answer::Load => self.begin_load(index),
                    Answer::Unload(going) => self.begin_unload(going, UnloadReason::Memory),
                    Answer::Wait(until) => {
                        wake = until.map_or(wake, |until| wake.min((self.start + until).into()))
                    }
                    Answer::Failed(why) => return Err(self.failed(index, &why)),
                    Answer::Gone => return Err(replaced()),
                    Answer::TooLarge { .. } => return Err(self.failed(index, "there is no room for it")),
                }
            }
            let timed_out = tokio::time::timeout_at(wake, changed).await.is_err();
            if timed_out && tokio::time::Instant::now() >= end {
                return Err(self.late(late));
            }
        }
    }

    fn take_all(
        &self,
        ids: &[ModelId],
        wanted: &[(usize, u64)],
    ) -> Result<Together<crate::LoadedModel>, Fault> {
        let mut table = self.table();
        let gone = ids.iter().find(|id| table.place(**id).is_none());
        match gone {
            None => Ok(table.take_all(wanted, self.now())),
            Some(_) => Err(replaced()),
        }
    }

    /// Checks that models fit into memory together.
    fn check_room(&self, names: &[String], wanted: &[(usize, u64)]) -> Result<(), Fault> {
        let places: Vec<usize> = wanted.iter().map(|(place, _)| *place).collect();
        let bytes = wanted.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        let (limit, pinned) = {
            let table = self.table();
            (table.limit(), table.pinned_beside(&places))
        };
        if bytes <= limit.saturating_sub(pinned) {
            return Ok(());
        }
        let message = format!(
            "the models {} take {bytes} bytes together; models may take {limit}, {pinned} of them pinned",
            names.join(", ")
        );
        Err(Fault::unavailable("model_too_large", message, 60))
    }

    /// The tensors of a model that is to be part of a pipeline, as they are known from its last load.
    ///
    /// # Errors
    /// In words: there is no such model, it is a pipeline itself, or it was not loaded yet.
    pub fn part(&self, name: &str) -> Result<Arc<Signature>, String> {
        let id = self.find(Some(name)).ok_or_else(|| format!("there is no model {name}"))?;
        if !self.loader(id.place).parts().is_empty() {
            return Err(format!("{name} is a pipeline; a step of a pipeline is no pipeline"));
        }
        self.abilities(id).signature.ok_or_else(|| format!("the model {name} was not loaded yet"))
    }

    /// Loads those models of a pipeline once whose tensors are not known yet: its loader asks for them.
    pub(super) async fn learn_parts(self: &Arc<Self>, id: ModelId) -> Result<(), Fault> {
        let parts = self.loader(id.place).parts();
        for part in parts {
            let found = find(&self.table(), &part);
            let Some(place) = found else { continue };
            let part = { self.table().id(place) };
            let is_known = self.abilities(part).signature.is_some();
            if is_known || !self.loader(place).parts().is_empty() {
                continue;
            }
            let loaded = Box::pin(self.acquire(part)).await;
            loaded.map_err(|fault| {
                let message = format!("the pipeline {}: {}", self.name(id.place), fault.message);
                Fault { message, ..fault }
            })?;
        }
        Ok(())
    }
}

/// The fault of a pipeline one of whose models went while it was waited for.
fn replaced() -> Fault {
    let message = "a model of the pipeline was removed or replaced meanwhile; ask again";
    Fault::unavailable("model_load_failed", message, 1)
}

#[cfg(test)]
mod tests;
