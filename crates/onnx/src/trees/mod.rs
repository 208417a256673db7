//! Tree ensembles, evaluated many rows at a time.
//!
//! [`forest`] is what a model says, checked; [`compile`] makes of each tree the form that it is evaluated in: [`masks`]
//! for trees of at most 64 leaves (every split is compared for 32 rows at once, and clears the leaves that they can no
//! longer reach: no branches, no dependent loads, vector code on every tier), [`walk`] for larger ones (16 rows walk
//! side by side, so that the latency of one hides behind the others). [`score`] adds up what the leaves hold, tree after
//! tree, whatever the number of rows or threads.

mod compile;
pub(crate) mod forest;
mod leq;
mod masks;
mod real;
mod score;
mod walk;

pub(crate) use compile::{Ensemble, Fold};
pub(crate) use real::Real;
pub(crate) use score::Scores;
