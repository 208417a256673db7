//! Pipelines: models and steps between them, as a graph of named tensors.
//!
//! A [`Definition`] is read from `pipeline.toml` or from the `ensemble_scheduling` of a `config.pbtxt`; its steps are then
//! in an order in which they can run, each tensor with one producer. A [`Plan`] is a definition whose tensors were checked
//! against the models that it names. The steps that are no models compute here, from tensors to tensors, without any
//! state: the folder `steps` has a file for each kind.
//!
//! Deliberately absent: models, threads, files, HTTP. Images and definitions are hostile: sizes are checked before
//! anything is taken by them, so that this crate can be fuzzed by itself.

mod definition;
mod ensemble;
mod files;
mod operation;
mod plan;
mod spec;
mod steps;
mod toml_file;
mod values;

pub use definition::{Definition, Node, Port, Work};
pub use files::Files;
pub use operation::Operation;
pub use plan::{Plan, Resolve};
pub use spec::Spec;
pub use toml_file::MAX_BYTES;
