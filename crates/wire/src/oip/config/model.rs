//! The types of a configuration.

use super::error::ConfigError;
use crate::oip::Datatype;

/// Which of a model's versions are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionPolicy {
    /// So many of the highest.
    Latest(usize),
    /// All that there are.
    All,
    /// These.
    Specific(Vec<u64>),
}

impl Default for VersionPolicy {
    fn default() -> VersionPolicy {
        VersionPolicy::Latest(1)
    }
}

impl VersionPolicy {
    /// The versions of these that are served, the highest first.
    pub fn chosen(&self, versions: &[u64]) -> Vec<u64> {
        let mut chosen = versions.to_vec();
        chosen.sort_unstable_by(|a, b| b.cmp(a));
        chosen.dedup();
        match self {
            VersionPolicy::All => {}
            VersionPolicy::Latest(count) => chosen.truncate(*count),
            VersionPolicy::Specific(wanted) => chosen.retain(|version| wanted.contains(version)),
        }
        chosen
    }
}

/// An input or output, as the configuration says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigTensor {
    /// The name.
    pub name: String,
    /// The datatype.
    pub datatype: Datatype,
    /// The length of each dimension, −1 for any, without that of the batch.
    pub dims: Vec<i64>,
    /// The file with the names of classes, a line each, relative to the model's folder.
    pub labels: Option<String>,
    /// Whether a request may leave it out.
    pub optional: bool,
}

/// A step of an ensemble: a model, and which of the ensemble's tensors are its inputs and outputs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnsembleStep {
    /// The name of the model.
    pub model: String,
    /// The version; none is the server's choice.
    pub version: Option<u64>,
    /// The model's inputs, each with the ensemble's tensor.
    pub inputs: Vec<(String, String)>,
    /// The model's outputs, each with the ensemble's tensor.
    pub outputs: Vec<(String, String)>,
    /// The line that the step begins in.
    pub line: usize,
}

/// The configuration of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelConfig {
    /// The name of the model; empty if it is not said.
    pub name: String,
    /// What computes it, such as `onnxruntime_onnx` or `ensemble`; empty if it is not said.
    pub platform: String,
    /// What computes it, such as `onnxruntime`; empty if it is not said.
    pub backend: String,
    /// Most rows of a request; 0 if the first dimension is part of every shape.
    pub max_batch_size: usize,
    /// The inputs; empty are those of the model.
    pub inputs: Vec<ConfigTensor>,
    /// The outputs that are told and given; empty are those of the model.
    pub outputs: Vec<ConfigTensor>,
    /// The versions that are served.
    pub versions: Option<VersionPolicy>,
    /// The name of the model's file in the folder of its version.
    pub file: Option<String>,
    /// Requests that the model computes at once: the counts of all instance groups.
    pub instances: Option<usize>,
    /// Whether a request may have several answers.
    pub decoupled: bool,
    /// The steps of an ensemble.
    pub steps: Vec<EnsembleStep>,
    /// Parameters for the backend, kept and told.
    pub parameters: Vec<(String, String)>,
    /// Names of fields that were left out because they change nothing here.
    pub ignored: Vec<String>,
    /// Names of fields that nobody knows.
    pub unknown: Vec<String>,
}

impl ModelConfig {
    /// Whether it is an ensemble of other models.
    pub fn is_ensemble(&self) -> bool {
        self.platform == "ensemble" || !self.steps.is_empty()
    }

    /// Checks that no two tensors have one name, and that an ensemble is one in both places.
    pub(super) fn check_names(&self) -> Result<(), ConfigError> {
        for (what, tensors) in [("input", &self.inputs), ("output", &self.outputs)] {
            for (at, tensor) in tensors.iter().enumerate() {
                if tensors[..at].iter().any(|other| other.name == tensor.name) {
                    let name = crate::error::quote(&tensor.name);
                    return Err(ConfigError::at(1, format!("two {what}s are called {name}")));
                }
            }
        }
        let is_said = self.platform == "ensemble";
        if !self.platform.is_empty() && is_said == self.steps.is_empty() {
            let message = "an ensemble has the platform \"ensemble\" and ensemble_scheduling";
            return Err(ConfigError::at(1, message));
        }
        Ok(())
    }
}
