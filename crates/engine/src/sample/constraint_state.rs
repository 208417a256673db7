//! Holds a sequence to the tokens that its constraint allows.
//!
//! The mask of allowed tokens is computed on a thread of its own, while the model computes their logits; the
//! choice waits for it if it is not there yet. Only the sequence's own tokens matter, so what is chosen does not depend
//! on when that thread ran.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use super::vocab_ops::apply_mask;
use crate::{Constraint, Error};

/// A constraint after `prepare`, with its outcome.
type Prepared = (Box<dyn Constraint>, Result<(), String>);

/// A constraint to prepare, and the channel that returns it.
type Job = (Box<dyn Constraint>, SyncSender<Prepared>);

/// A sequence's constraint, which is here or with the worker.
pub(crate) struct ConstraintState {
    here: Option<Prepared>,
    back: SyncSender<Prepared>,
    arrives: Receiver<Prepared>,
    /// Forced tokens that were not chosen yet, next first.
    forced: Vec<u32>,
}

/// The thread that computes masks; started when there is something for it to do.
#[derive(Default)]
pub(crate) struct MaskWorker {
    jobs: Option<Sender<Job>>,
    /// Whether speculation is on: constraints then predict the tokens that they force.
    pub(crate) predicts: bool,
}

impl ConstraintState {
    /// The state of a new sequence, whose first mask is computed here.
    pub(crate) fn new(mut constraint: Box<dyn Constraint>) -> ConstraintState {
        let outcome = constraint.prepare();
        let (back, arrives) = sync_channel(1);
        ConstraintState { here: Some((constraint, outcome)), back, arrives, forced: Vec::new() }
    }

    /// Masks the tokens that must not come next; returns whether there are such.
    pub(super) fn apply_mask(&mut self, logits: &mut [f32]) -> Result<bool, Error> {
        let (constraint, outcome) = self.arrived()?;
        outcome.clone().map_err(Error::Constraint)?;
        let Some(allowed) = constraint.allowed() else { return Ok(false) };
        // Logits beyond the vocabulary are padding.
        apply_mask(allowed, logits);
        Ok(true)
    }

    /// Records the token that was chosen; returns whether nothing can follow it. If something can, the worker begins
    /// with the next mask.
    pub(crate) fn accept(
        &mut self,
        id: u32,
        bytes: &[u8],
        mask_worker: &mut MaskWorker,
    ) -> Result<bool, Error> {
        let over = self.arrived()?.0.accept(id, bytes).map_err(Error::Constraint)?;
        if !over && let Some((mut constraint, _)) = self.here.take() {
            if mask_worker.predicts {
                self.predict(id, constraint.as_mut());
            }
            self.here = mask_worker.prepare(constraint, &self.back);
        }
        Ok(over)
    }

    /// Records a token that was chosen elsewhere; returns whether nothing can follow it. The next mask is computed here.
    ///
    /// # Errors
    /// In words: the constraint does not allow the token.
    pub(crate) fn replay(&mut self, id: u32, bytes: &[u8]) -> Result<bool, String> {
        let (constraint, outcome) = self.arrived().map_err(|error| error.to_string())?;
        outcome.clone()?;
        let is_set =
            |words: &[u32]| words.get(id as usize / 32).is_some_and(|word| word >> (id % 32) & 1 == 1);
        if !constraint.allowed().is_none_or(is_set) {
            return Err("it may not come here".into());
        }
        let over = constraint.accept(id, bytes)?;
        if !over {
            *outcome = constraint.prepare();
        }
        Ok(over)
    }

    /// Tokens that the constraint forces, next first; none without speculation.
    pub(crate) fn forced_tokens(&self) -> &[u32] {
        &self.forced
    }

    /// Predicts before the constraint goes to the worker: the tokens are wanted before the next step, not after it.
    fn predict(&mut self, id: u32, constraint: &mut dyn Constraint) {
        if self.forced.first() == Some(&id) {
            self.forced.remove(0);
        } else {
            self.forced.clear();
        }
        if self.forced.is_empty() {
            constraint.forced_tokens(&mut self.forced);
        }
    }

    fn arrived(&mut self) -> Result<&mut Prepared, Error> {
        if self.here.is_none() {
            self.here = self.arrives.recv().ok();
        }
        let lost = || Error::Constraint("the thread that works out the next tokens is gone".into());
        self.here.as_mut().ok_or_else(lost)
    }
}

impl MaskWorker {
    /// Has a constraint prepared by the worker; here and now if the system refuses a thread.
    fn prepare(&mut self, constraint: Box<dyn Constraint>, back: &SyncSender<Prepared>) -> Option<Prepared> {
        if self.jobs.is_none() {
            let (jobs, todo) = channel::<Job>();
            let work = move || {
                for (mut constraint, back) in todo {
                    let outcome = constraint.prepare();
                    // A sequence that is gone needs no answer.
                    let _ = back.try_send((constraint, outcome));
                }
            };
            self.jobs = cpu::thread::spawn("constraints", work).ok().map(|_| jobs);
        }
        let job = (constraint, back.clone());
        let undone = match &self.jobs {
            // At most one job a running sequence is in the channel.
            Some(jobs) => jobs.send(job).err().map(|refused| refused.0),
            None => Some(job),
        };
        undone.map(|(mut constraint, _)| {
            self.jobs = None;
            let outcome = constraint.prepare();
            (constraint, outcome)
        })
    }
}
