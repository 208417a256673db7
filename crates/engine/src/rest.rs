//! When batch work rests: while somebody waits for the engine's other work.

/// Steps for other work between two that batch work takes part in, so that it never stops for good: less than one gap
/// between the tokens of an answer in twenty is longer for it.
const REST_STEPS: u32 = 32;

/// Whether batch work takes part in a step.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    on: bool,
    /// Steps since it last took part.
    steps: u32,
    /// Work that somebody waits for found no slot or no memory: what batch work holds is free sooner if it goes on.
    crowded: bool,
}

impl Rest {
    /// Decides for the next step. `awaited`: whether there is work that somebody waits for.
    pub(crate) fn begin_step(&mut self, awaited: bool) {
        self.on = awaited && !self.crowded && self.steps < REST_STEPS;
        self.steps = if self.on { self.steps + 1 } else { 0 };
    }

    /// Whether batch work gets no rows in this step.
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// Lets batch work take part in this step after all; whether it had not.
    pub(crate) fn end(&mut self) -> bool {
        self.steps = 0;
        std::mem::replace(&mut self.on, false)
    }

    /// Says whether there was no room for work that somebody waits for.
    pub(crate) fn set_crowded(&mut self, crowded: bool) {
        self.crowded = crowded;
    }
}
