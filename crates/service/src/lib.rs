//! The contract of [`inference`] kept by the models of this machine.
//!
//! A request's way: admission (a permit that frees itself) → a slot for its text → the model → template and tokenizer, off
//! the async threads → the engine → a bounded channel → the events of the contract. A dropped future or output cancels the
//! request in the engine; what the work holds lives as long as the work.
//!
//! Deliberately absent: HTTP, sockets, files, the environment, dialects of APIs.

mod admission;
mod call_ids;
mod configured;
mod core;
mod encode;
mod encoding;
pub mod fake;
mod generation;
mod likelihood;
mod model;
mod model_details;
mod model_text;
mod node;
mod onnx_model;
mod options;
mod outbox;
mod parts;
mod pipelines;
mod plan;
mod prefill_last;
mod preparation;
pub mod probe;
mod recorder;
mod registry;
mod response_store;
mod service;
mod shape;
mod signature;
mod tensor_model;
mod tensor_slots;
mod tensors;
mod versions;
mod watchdog;

pub use configured::{ConfiguredModel, OutputLabels};
pub use encode::{
    Activation, ClassifierHead, DenseHead, EncoderHeads, EncoderPrompts, ShortVectors, TokenVectors,
};
pub use encoding::{EncoderText, Encoding};
pub use engine::encoder::EncodeWatch;
pub use engine::{MirostatVersion, Params, Watch};
pub use model::{Generating, Guided, LoadedModel, TextPipeline, Wanted, unix_seconds};
pub use model_details::ModelDetails;
pub use model_text::ModelText;
pub use onnx_model::{OnnxModel, onnx_bytes};
pub use options::{Options, Price};
pub use pipelines::{Pipeline, part_name, part_names};
pub use plan::{params, whole_ms};
pub use preparation::{Admitted, PREPARATIONS, Stop};
pub use registry::{Check, Checked, Facts, Lease, Loader, ModelId, Registration, Registry, State};
pub use response_store::{Conversation, ResponseInput, ResponseStore, ResponseText};
pub use service::{Service, Takes, watch};
pub use tensor_model::TensorModel;
pub use tensor_slots::TENSOR_THREADS;
pub use versions::ModelVersion;
pub use watchdog::Watchdog;
