//! ONNX models: reads their files, checks their graphs, computes them.
//!
//! One crate, since one boundary holds all of it: bytes that anyone may have written go in, tensors come out, and nothing
//! else of the workspace knows what ONNX is. [`Session::load`] maps the file, counts what it would take in memory before it
//! decodes anything, checks the graph (names, cycles, shapes against bytes), and makes an operator of each node;
//! [`Session::run`] computes. Runs share a session, which is never written to.
//!
//! The operators of `ai.onnx.ml` (trees, linear and support-vector models, scalers, encoders) and those that
//! scikit-learn's exporters put around them are computed here; ONNX Runtime's results are the truth, where the standard is
//! vague too. An operator is a row of the table in `ops`, with a constructor in the file of its family. A graph that needs
//! other operators and none of `ai.onnx.ml` (networks of images, speech, text) is handed to the crate `rten` once it is
//! checked ([`Session::runtime`] says which); an operator that is missing there too is refused at load, by name.
//!
//! Deliberately absent: threads of its own (a caller passes a [`cpu::Pool`], and [`NeuralThreads`] for `rten`), graph
//! optimization, a cache of models, graphs of which a part runs here and a part in `rten`, and ONNX Runtime.

mod attributes;
mod element;
mod error;
mod file;
mod graph;
mod info;
mod neural;
mod neural_threads;
mod operator;
mod ops;
mod options;
mod proto;
mod scan;
mod session;
mod stored;
mod trees;
mod value;

pub use element::ElementType;
pub use error::{Error, NodeLabel};
pub use info::{Dim, ValueInfo, ValueType};
pub use neural_threads::NeuralThreads;
pub use options::{Options, RunOptions};
pub use session::{Runtime, Session};
pub use value::{Data, Keys, Map, ShapeMismatch, Tensor, Value};
