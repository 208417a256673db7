//! The folder of the simulation, whose models come, change and go, and what someone does by hand.

use std::time::Duration;

use super::{Asker, ModelId, NAMES, Outcome, Request, Stage, Standing, State, World};

impl World {
    /// A look at the folder: a model that is new, changed or gone, now and then.
    pub(super) fn poll(&mut self) {
        let name = self.below(NAMES);
        if !self.happens(15) {
            return;
        }
        let goes = self.happens(20);
        match self.folder[name] {
            // The candidate ends first, whatever becomes of it.
            _ if self.replacing[name] && !goes => {}
            None if self.replacing[name] => {}
            None => {
                let version = self.version(name);
                self.folder[name] = Some(self.add(version, Standing::Listed));
            }
            Some(id) if goes => {
                self.remove(id);
                self.folder[name] = None;
            }
            Some(old) => {
                let version = self.version(name);
                let place = self.table.place(old).expect("nobody else removes models");
                let is_loaded = self.table.entries[place].state.model().is_some();
                let candidate = self.add(version, Standing::Candidate);
                self.replacing[name] = true;
                if is_loaded || version.passes.is_some() {
                    self.request(Asker::Candidate(old), candidate);
                } else {
                    assert!(self.table.replace(old, candidate.place));
                    (self.folder[name], self.replacing[name]) = (Some(candidate), false);
                    self.let_go();
                }
            }
        }
    }

    pub(super) fn remove(&mut self, id: ModelId) {
        let place = self.table.place(id).expect("nobody else removes models");
        self.table.retire(place);
        self.let_go();
    }

    pub(super) fn probed(&mut self, at: usize) {
        let Request { id, asker, .. } = self.requests[at];
        let Asker::Candidate(old) = asker else { panic!("only candidates are probed") };
        self.table.release(id.place, self.now);
        let passes = self.placed[&id.place].passes != Some(false);
        self.replaced(at, old, passes);
        self.requests[at].stage = Stage::Done(Outcome::Answered);
        self.open -= 1;
        self.changed();
    }

    /// A candidate takes the place of the old one, or goes.
    pub(super) fn replaced(&mut self, at: usize, old: ModelId, passes: bool) {
        let id = self.requests[at].id;
        let name = self.placed[&id.place].name;
        self.replacing[name] = false;
        let is_there = self.folder[name] == Some(old);
        if passes {
            let replaces = self.table.replace(old, id.place);
            assert_eq!(replaces, is_there, "a candidate takes the place of a model that was removed");
        }
        if passes && is_there {
            self.folder[name] = Some(id);
        } else {
            self.table.retire(id.place);
        }
        self.let_go();
    }

    pub(super) fn expire(&mut self) {
        let going = self.table.expire(self.now);
        self.begin_unload(going, false);
    }

    /// Unloads models that were removed or replaced, and tells everyone who waits, as the registry does.
    fn let_go(&mut self) {
        self.expire();
        self.changed();
    }

    /// Someone loads, unloads, pins or keeps a model.
    pub(super) fn by_hand(&mut self) {
        let name = self.below(NAMES);
        let Some(id) = self.find(name) else { return };
        match self.below(5) {
            0 => self.request(Asker::Client(name), id),
            1 => {
                let busy = matches!(self.table.entries[id.place].state, State::Loading(_));
                if self.table.entries[id.place].uses == 0 && !busy {
                    let going = self.table.drain(id.place);
                    self.begin_unload(going.map(|model| (id.place, model)).into_iter().collect(), true);
                }
            }
            2 => {
                self.table.keep(id.place, Some(Duration::from_millis(500)));
            }
            3 => {
                let pinned = self.table.entries.iter().filter(|entry| entry.pinned).count();
                self.table.entries[id.place].pinned = pinned == 0;
                self.changed();
            }
            _ => {
                self.table.entries.iter_mut().for_each(|entry| entry.pinned = false);
                self.changed();
            }
        }
    }
}
