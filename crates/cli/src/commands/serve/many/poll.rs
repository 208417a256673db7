//! Looks at the folder of models now and then, and has the registry follow it.
//!
//! A change counts when two looks in a row find the same, so that files which are still being copied are left alone. A
//! generation that was refused is tried again when its files change.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use server::Server;
use service::{Check, ModelId, Registration, probe};
use tokio::time::{MissedTickBehavior, interval};

use super::repository::{Found, Scan, scan};
use crate::commands::serve::operations::LogFormat;

/// Makes a model of the folder ready to be registered.
pub(super) type Register = Box<dyn Fn(&Found) -> Registration + Send + Sync>;

/// The folder, and what of it is registered.
pub(super) struct Repository {
    pub(super) folder: PathBuf,
    pub(super) server: Server,
    pub(super) log: LogFormat,
    pub(super) register: Register,
    /// The models by the name of their file or folder.
    pub(super) known: HashMap<String, Known>,
}

/// A model that is registered, or whose files were refused.
pub(super) struct Known {
    /// None if it never could be registered.
    pub(super) id: Option<ModelId>,
    /// The digest of the files that were registered or refused last.
    pub(super) digest: u64,
    /// Whether it is registered with its problem only.
    pub(super) is_failed: bool,
}

/// The digests of what one look found, by name.
type Look = HashMap<String, u64>;

impl Repository {
    /// Follows the folder until it is aborted.
    pub(super) async fn follow(mut self, every: Duration) {
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = Look::default();
        loop {
            ticks.tick().await;
            let folder = self.folder.clone();
            match tokio::task::spawn_blocking(move || scan(&folder)).await {
                Ok(Ok(found)) => last = self.look(found, last).await,
                // A folder that is mounted anew is away for a moment: nothing is removed for it.
                Ok(Err(failure)) => tracing::warn!(error = failure.message, "the models cannot be looked at"),
                Err(error) => tracing::error!(%error, "a look at the models panicked"),
            }
        }
    }

    async fn look(&mut self, found: Scan, last: Look) -> Look {
        let models = found.models;
        let digests = models.iter().map(|model| (model.name.clone(), model.digest)).collect();
        let is_gone =
            |name: &&String| !models.iter().any(|model| model.name == **name) && !last.contains_key(*name);
        let gone: Vec<String> = self.known.keys().filter(is_gone).cloned().collect();
        for name in gone {
            self.remove(&name);
        }
        for model in models {
            if last.get(&model.name) == Some(&model.digest) {
                self.apply(&model).await;
            }
        }
        digests
    }

    fn remove(&mut self, name: &str) {
        if let Some(id) = self.known.remove(name).and_then(|known| known.id) {
            self.server.registry().remove(id);
            self.log.say(&format!("{name} is gone from the models, and no longer served"));
        }
    }

    /// Registers a model that is new or has changed.
    async fn apply(&mut self, model: &Found) {
        let name = &model.name;
        let known = self.known.get(name);
        if known.is_some_and(|known| known.digest == model.digest) {
            return;
        }
        let mut old = known.and_then(|known| known.id);
        if let (Some(failed), Some(true)) = (old, known.map(|known| known.is_failed)) {
            self.server.registry().remove(failed);
            old = None;
        }
        let is_failed = old.is_none() && model.problem.is_some();
        let registered = match (old, &model.problem) {
            (None, _) => self.server.registry().add((self.register)(model)),
            (Some(old), Some(why)) => {
                self.server.registry().reject(old, why);
                Err(why.clone())
            }
            (Some(old), None) => {
                let registration = (self.register)(model);
                self.server.registry().replace(old, registration, self.check(model)).await
            }
        };
        let (id, said) = match (registered, old) {
            (Ok(id), None) => (Some(id), format!("{name} is among the models now")),
            (Ok(id), Some(_)) => (Some(id), format!("{name} has changed; the new one is served")),
            (Err(why), None) => (None, format!("{name} is not served: {why}")),
            (Err(why), Some(old)) => {
                (Some(old), format!("{name} has changed; the one before stays, as the new one failed: {why}"))
            }
        };
        // Of one with a problem, whoever registers it has told that.
        if !is_failed {
            self.log.say(&said);
        }
        self.known.insert(name.clone(), Known { id, digest: model.digest, is_failed });
    }

    fn check(&self, model: &Found) -> Option<Check> {
        let probes = model.settings.probes.clone();
        if probes.is_empty() {
            return None;
        }
        let service = self.server.service().clone();
        Some(Box::new(move |id| Box::pin(async move { probe::check(&service, id, &probes).await })))
    }
}
