//! The configuration of a model, as Triton's `config.pbtxt` has it (`ModelConfig` of `model_config.proto`).
//!
//! Fields that would change answers and are not supported are refused by name and line. Fields that only say how
//! Triton's backends schedule and measure are left out; so are those that nobody knows, which are told.

mod check;
mod error;
mod model;
mod read;
mod show;
mod text;

pub use check::Checked;
pub use error::ConfigError;
pub use model::{ConfigTensor, EnsembleStep, ModelConfig, VersionPolicy};
pub use show::model_config;
pub use text::MAX_BYTES as CONFIG_BYTES;
