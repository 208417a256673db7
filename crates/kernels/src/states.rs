//! Recurrent states: what a layer without attention keeps of a sequence, of one size whatever the sequence's length.
//!
//! A *state* is that of all recurrent layers of one sequence, after some number of its tokens: `[layers, floats]` of
//! `f32`. The pool holds states by number; which is whose, and which are snapshots to return to, the engine decides.

use cpu::Pages;

use crate::Error;

/// The number of a state that is not there: of a sequence of a model without recurrent layers.
pub const NO_STATE: u32 = u32::MAX;

/// The shape of a pool of recurrent states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateShape {
    /// States in the pool.
    pub states: usize,
    /// Values of a state, over all layers; 0 for a model without recurrent layers.
    pub floats: usize,
}

impl StateShape {
    /// Bytes of one state.
    pub fn state_bytes(&self) -> usize {
        self.floats * size_of::<f32>()
    }

    /// Bytes of all states.
    pub fn bytes(&self) -> u64 {
        (self.states as u64).saturating_mul(self.state_bytes() as u64)
    }
}

/// The recurrent states of all sequences, and snapshots of them: `[states, floats]`.
pub struct StatePool {
    shape: StateShape,
    pages: Pages,
}

impl StatePool {
    /// Reserves the pool; physical memory is taken as states are first written.
    ///
    /// # Errors
    /// Without memory.
    pub fn new(shape: StateShape) -> Result<StatePool, Error> {
        let memory = |source| Error::Memory { bytes: shape.bytes(), source };
        let len =
            usize::try_from(shape.bytes()).map_err(|_| memory(std::io::ErrorKind::OutOfMemory.into()))?;
        Ok(StatePool { shape, pages: Pages::new(len).map_err(memory)? })
    }

    /// The shape of the pool.
    pub fn shape(&self) -> StateShape {
        self.shape
    }

    /// Sets a state to that of a sequence without tokens.
    ///
    /// # Panics
    /// When the pool has no such state.
    pub fn clear(&mut self, state: u32) {
        let at = self.place(state);
        self.pages.as_f32_mut()[at].fill(0.0);
    }

    /// Copies a state onto another.
    ///
    /// # Panics
    /// When the pool has no such states.
    pub fn copy(&mut self, from: u32, to: u32) {
        let (from, to) = (self.place(from), self.place(to));
        self.pages.as_f32_mut().copy_within(from, to.start);
    }

    /// All states.
    pub(crate) fn values(&mut self) -> &mut [f32] {
        self.pages.as_f32_mut()
    }

    fn place(&self, state: u32) -> std::ops::Range<usize> {
        let (state, floats) = (state as usize, self.shape.floats);
        assert!(state < self.shape.states, "state {state} of {}", self.shape.states);
        state * floats..(state + 1) * floats
    }
}
