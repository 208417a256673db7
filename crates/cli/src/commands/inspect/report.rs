//! What `inspect` found, as `--json` prints it.

use serde::Serialize;

/// The whole report.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) path: String,
    pub(super) kind: String,
    pub(super) family: Option<&'static str>,
    pub(super) files: Vec<FilePart>,
    pub(super) file_bytes: u64,
    pub(super) parameters: u64,
    pub(super) metadata: serde_json::Map<String, serde_json::Value>,
    pub(super) tensors: Vec<TensorRow>,
    pub(super) formats: Vec<FormatRow>,
    /// Whether `run` and `serve` take it, as far as can be told without reading the weights' numbers.
    pub(super) runs: bool,
    /// Why it does not run.
    pub(super) cannot_run: Option<String>,
    pub(super) memory: Option<Memory>,
    /// Why there is no `memory`.
    pub(super) memory_unknown: Option<String>,
}

#[derive(Serialize)]
pub(super) struct FilePart {
    pub(super) path: String,
    pub(super) bytes: u64,
}

#[derive(Serialize)]
pub(super) struct TensorRow {
    pub(super) name: String,
    pub(super) format: &'static str,
    /// Outermost first: rows, columns.
    pub(super) shape: Vec<usize>,
    pub(super) parameters: u64,
    pub(super) bytes: u64,
}

/// All tensors of one format together.
#[derive(Serialize)]
pub(super) struct FormatRow {
    pub(super) format: &'static str,
    pub(super) tensors: u64,
    pub(super) parameters: u64,
    pub(super) bytes: u64,
}

/// What serving takes with one full context, keys and values in half precision.
#[derive(Serialize)]
pub(super) struct Memory {
    pub(super) context: usize,
    /// The longest context that the model was made for.
    pub(super) context_of_model: usize,
    pub(super) weights_bytes: u64,
    pub(super) kv_bytes: u64,
    pub(super) kv_bytes_per_token: u64,
    pub(super) scratch_bytes: u64,
    pub(super) total_bytes: u64,
}
