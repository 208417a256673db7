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

use super::repository::{Found, Refused, Scan, scan};
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
}

/// What one look found.
#[derive(Default)]
struct Look {
    digests: HashMap<String, u64>,
    refused: Vec<Refused>,
}

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
        let Scan { models, refused } = found;
        let digests = models.iter().map(|model| (model.name.clone(), model.digest)).collect();
        let news = refused.iter().filter(|one| !last.refused.contains(one));
        news.for_each(|one| self.log.say(&one.to_string()));
        let gone = |name: &&String| {
            let is_refused = refused.iter().any(|one| one.name == **name);
            !models.iter().any(|model| model.name == **name)
                && !last.digests.contains_key(*name)
                && !is_refused
        };
        let gone: Vec<String> = self.known.keys().filter(gone).cloned().collect();
        for name in gone {
            self.remove(&name);
        }
        for model in models {
            if last.digests.get(&model.name) == Some(&model.digest) {
                self.apply(&model).await;
            }
        }
        Look { digests, refused }
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
        let old = known.and_then(|known| known.id);
        let registration = (self.register)(model);
        let registered = match old {
            None => self.server.registry().add(registration),
            Some(old) => self.server.registry().replace(old, registration, self.check(model)).await,
        };
        let (id, said) = match (registered, old) {
            (Ok(id), None) => (Some(id), format!("{name} is among the models now")),
            (Ok(id), Some(_)) => (Some(id), format!("{name} has changed; the new one is served")),
            (Err(why), None) => (None, format!("{name} is not served: {why}")),
            (Err(why), Some(old)) => {
                (Some(old), format!("{name} has changed; the one before stays, as the new one failed: {why}"))
            }
        };
        self.log.say(&said);
        self.known.insert(name.clone(), Known { id, digest: model.digest });
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
