//! Why and how models are unloaded.

use std::sync::Arc;
use std::time::{Duration, Instant};

use events::UnloadReason;
use residency::{ModelId, Standing};
use wire::Fault;

use super::{Registry, State};
use crate::LoadedModel;

/// How long an engine may take to end that has nothing to do.
const UNLOAD: Duration = Duration::from_secs(30);
/// How long others may hold a model that is unloaded.
const LINGER: Duration = Duration::from_secs(5);

/// Drops a model when nobody else has it, so that its memory is free afterwards: a request that has just ended, or a list of
/// the models, may hold it for a moment longer than the table counts.
fn last_of(model: Arc<LoadedModel>) {
    let end = Instant::now() + LINGER;
    while Arc::strong_count(&model) > 1 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Registry {
    /// Ends the engines of models that nobody uses, on a thread that may block.
    pub(super) fn begin_unload(
        self: &Arc<Self>,
        going: Vec<(usize, Arc<LoadedModel>)>,
        reason: UnloadReason,
    ) {
        let registry = self.clone();
        if reason != UnloadReason::Replaced {
            going.iter().for_each(|(_, model)| registry.recorder.draining(model.name()));
        }
        tokio::task::spawn_blocking(move || {
            for (index, model) in going {
                model.drain(UNLOAD);
                registry.recorder.unloaded(index, model.name(), reason);
                last_of(model);
                registry.table().unloaded(index);
                registry.changed.notify_waiters();
            }
        });
    }

    /// Keeps a model so long after its last request, for ever without a time, until it is unloaded or asked to be kept
    /// otherwise; its memory may be wanted before. Gives back whether it does: a pinned model stays.
    pub fn keep(&self, id: ModelId, keep_alive: Option<Duration>) -> bool {
        let mut table = self.table();
        table.place(id).is_some_and(|place| table.keep(place, keep_alive))
    }

    /// Unloads a model that is not in use.
    ///
    /// # Errors
    /// It is in use or loading, or could not be loaded again.
    pub fn unload(self: &Arc<Self>, id: ModelId) -> Result<(), Fault> {
        self.can_change(id)?;
        let mut table = self.table();
        let Some(index) = table.place(id) else { return Ok(()) };
        let facts = table.facts(index, self.now());
        let busy = facts.uses > 0 || matches!(facts.state, State::Loading(_));
        if busy {
            let state = if facts.uses > 0 { "in use" } else { "loading" };
            let message =
                format!("the model {} is {state}; it can be unloaded when it is not", facts.names[0]);
            return Err(Fault::busy(message, 5));
        }
        let going = table.drain(index);
        drop(table);
        let going = going.map(|model| (index, model)).into_iter().collect();
        self.begin_unload(going, UnloadReason::Request);
        Ok(())
    }

    /// Unloads those that nobody has asked for as long as they are kept. To be called now and then.
    pub fn expire(self: &Arc<Self>) {
        let (kept, retired) = {
            let mut table = self.table();
            let going = table.expire(self.now());
            going
                .into_iter()
                .partition::<Vec<_>, _>(|(place, _)| table.entry(*place).standing != Standing::Retired)
        };
        let has_successor = |model: &LoadedModel| self.find(Some(model.name())).is_some();
        let (replaced, removed): (Vec<_>, Vec<_>) =
            retired.into_iter().partition(|(_, model)| has_successor(model));
        for (going, reason) in [
            (kept, UnloadReason::KeepAlive),
            (replaced, UnloadReason::Replaced),
            (removed, UnloadReason::Removed),
        ] {
            if !going.is_empty() {
                self.begin_unload(going, reason);
            }
        }
    }

    /// Unloads models that were removed or replaced, and has requests that wait for them look for their names again.
    pub(super) fn let_go(self: &Arc<Self>) {
        self.expire();
        self.changed.notify_waiters();
    }

    /// Loads nothing any more, and has the models finish what they have within the deadline. It blocks for as long.
    pub fn drain(&self, deadline: Duration) {
        let end = Instant::now() + deadline;
        let models = self.table().close();
        self.changed.notify_waiters();
        // None of them takes more from now on, whoever is drained first.
        for model in &models {
            self.recorder.draining(model.name());
            model.close();
        }
        for model in models {
            model.drain(end.saturating_duration_since(Instant::now()));
        }
    }
}
