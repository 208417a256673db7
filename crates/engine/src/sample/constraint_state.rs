//! Keeps a sequence to the tokens that its constraint allows.
//!
//! Which tokens may come next is worked out on a thread beside the model's, while the model computes their logits; the
//! choice waits for it if it is not there yet. Only the sequence's own tokens matter, so what is chosen does not depend
//! on when that thread ran.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use super::wide::hold_to;
use crate::{Constraint, Error};

/// A constraint that has prepared, or could not.
type Prepared = (Box<dyn Constraint>, Result<(), String>);

/// A constraint to prepare, and the way back.
type Job = (Box<dyn Constraint>, SyncSender<Prepared>);

/// A sequence's constraint, here or on its way.
pub(crate) struct ConstraintState {
    here: Option<Prepared>,
    back: SyncSender<Prepared>,
    arrives: Receiver<Prepared>,
    /// What the constraint foresaw and has not come yet, next first.
    foreseen: Vec<u32>,
}

/// The thread beside the model's; made when there is something for it to do.
#[derive(Default)]
pub(crate) struct MaskWorker {
    jobs: Option<Sender<Job>>,
    /// AcceptanceEstimate are made: constraints are asked what they foresee.
    pub(crate) foresees: bool,
}

impl ConstraintState {
    /// For a sequence that begins: its first tokens are worked out here.
    pub(crate) fn new(mut constraint: Box<dyn Constraint>) -> ConstraintState {
        let outcome = constraint.prepare();
        let (back, arrives) = sync_channel(1);
        ConstraintState { here: Some((constraint, outcome)), back, arrives, foreseen: Vec::new() }
    }

    /// Takes every token away that must not come next; returns whether there are such.
    pub(super) fn hold(&mut self, logits: &mut [f32]) -> Result<bool, Error> {
        let (constraint, outcome) = self.arrived()?;
        outcome.clone().map_err(Error::Constraint)?;
        let Some(allowed) = constraint.allowed() else { return Ok(false) };
        // Logits beyond the vocabulary are padding.
        hold_to(allowed, logits);
        Ok(true)
    }

    /// Takes note of the token that was chosen; returns whether nothing can follow it. If something can, what that is
    /// begins to be worked out.
    pub(crate) fn accept(
        &mut self,
        id: u32,
        bytes: &[u8],
        mask_worker: &mut MaskWorker,
    ) -> Result<bool, Error> {
        let over = self.arrived()?.0.accept(id, bytes).map_err(Error::Constraint)?;
        if !over && let Some((mut constraint, _)) = self.here.take() {
            if mask_worker.foresees {
                self.foresee(id, constraint.as_mut());
            }
            self.here = mask_worker.prepare(constraint, &self.back);
        }
        Ok(over)
    }

    /// Tokens that the form leaves no choice about, next first; none unless they are asked for.
    pub(crate) fn foreseen(&self) -> &[u32] {
        &self.foreseen
    }

    /// Before the constraint goes to the thread beside: what it foresees is wanted before the next step, not after it.
    fn foresee(&mut self, id: u32, constraint: &mut dyn Constraint) {
        if self.foreseen.first() == Some(&id) {
            self.foreseen.remove(0);
        } else {
            self.foreseen.clear();
        }
        if self.foreseen.is_empty() {
            constraint.foresee(&mut self.foreseen);
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
    /// Has a constraint prepared; here and now if there is no thread to be had.
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
