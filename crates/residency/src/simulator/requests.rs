//! Requests of the simulation: what the registry does for each around the table.

use super::{
    Answer, Asker, Happens, LIMIT, LONGEST_WAIT, ModelId, NAMES, Outcome, Request, Stage, Standing, Version,
    World,
};

impl World {
    pub(super) fn arrives(&mut self) {
        let name = self.below(NAMES);
        if let Some(id) = self.find(name) {
            self.request(Asker::Client(name), id);
        }
        self.arrivals_left -= 1;
        if self.arrivals_left > 0 {
            let pause = if self.happens(5) { 20_000 } else { 500 };
            let after = self.below(pause) as u64;
            self.schedule(after, Happens::Arrives);
        }
    }

    pub(super) fn request(&mut self, asker: Asker, id: ModelId) {
        self.requests.push(Request { asker, id, asked: self.now, stage: Stage::Asks, wake: None });
        self.open += 1;
        self.ask(self.requests.len() - 1);
    }

    /// What the registry's `acquire` does between two waits.
    pub(super) fn ask(&mut self, at: usize) {
        let Request { id, stage, asker, asked, wake } = self.requests[at];
        if !matches!(stage, Stage::Asks | Stage::Waits) {
            return;
        }
        let answer = match self.table.place(id) {
            Some(place) => self.table.ask(place, self.placed[&place].bytes, self.now),
            None => Answer::Gone,
        };
        match answer {
            Answer::Use(model) => return self.uses(at, *model),
            Answer::Load => self.begin_load(id.place),
            Answer::Unload(going) => self.begin_unload(going, false),
            Answer::Wait(until) => {
                let until = until.unwrap_or(asked + LONGEST_WAIT);
                if wake != Some(until) {
                    self.requests[at].wake = Some(until);
                    self.schedule_at(until, Happens::Wakes(at));
                }
            }
            Answer::Failed(_) => return self.ends(at, Outcome::Failed),
            Answer::TooLarge { bytes, pinned, .. } => {
                assert!(bytes + pinned > LIMIT);
                return self.ends(at, Outcome::TooLarge);
            }
            Answer::Gone => return self.follow(at, asker),
        }
        if self.now >= asked + LONGEST_WAIT {
            return self.ends(at, Outcome::Late);
        }
        if stage == Stage::Asks {
            self.requests[at].stage = Stage::Waits;
            self.waiting.push(at);
            self.table.wait(id.place, self.now);
        }
    }

    /// The model of a request was removed or replaced: its name may find another.
    pub(super) fn follow(&mut self, at: usize, asker: Asker) {
        let next = match asker {
            Asker::Client(name) => self.find(name).filter(|next| *next != self.requests[at].id),
            Asker::Candidate(_) => None,
        };
        let Some(next) = next else { return self.ends(at, Outcome::Removed) };
        self.no_longer_waits(at);
        let request = &mut self.requests[at];
        (request.id, request.stage) = (next, Stage::Asks);
        self.ask(at);
    }

    pub(super) fn no_longer_waits(&mut self, at: usize) {
        if self.requests[at].stage == Stage::Waits {
            self.table.stop_waiting(self.requests[at].id.place);
            self.requests[at].stage = Stage::Asks;
            self.waiting.retain(|waiting| *waiting != at);
        }
    }

    pub(super) fn uses(&mut self, at: usize, model: Version) {
        self.no_longer_waits(at);
        let Request { id, asker, .. } = self.requests[at];
        assert_eq!(model.generation, self.placed[&id.place].generation, "another model answers");
        assert!(self.held.contains_key(&id.place), "a model without memory answers");
        self.requests[at].stage = Stage::Uses;
        match asker {
            Asker::Client(name) => {
                assert_eq!(model.name, name, "a model of another name answers");
                let standing = self.table.entries[id.place].standing;
                assert_ne!(standing, Standing::Candidate, "a model that is not checked yet answers");
                let takes = 1 + self.below(800) as u64;
                self.schedule(takes, Happens::Answered(at));
            }
            Asker::Candidate(_) => {
                let takes = if model.passes.is_some() { self.below(500) as u64 } else { 0 };
                self.schedule(takes, Happens::Probed(at));
            }
        }
        self.changed();
    }

    pub(super) fn answered(&mut self, at: usize) {
        self.table.release(self.requests[at].id.place, self.now);
        self.ends(at, Outcome::Answered);
    }

    /// The request gets its answer, or is told why there is none.
    pub(super) fn ends(&mut self, at: usize, outcome: Outcome) {
        self.no_longer_waits(at);
        self.requests[at].stage = Stage::Done(outcome);
        self.open -= 1;
        match self.requests[at].asker {
            Asker::Client(_) => *self.outcomes.entry(outcome).or_default() += 1,
            Asker::Candidate(old) => {
                if outcome != Outcome::Answered {
                    self.replaced(at, old, false);
                }
            }
        }
        self.changed();
    }
}
