//! The configuration as clients are told it: what was given, and for the rest what applies.

use serde_json::{Map, Value, json};

use super::model::{ModelConfig, VersionPolicy};
use crate::oip::{Signature, TensorSpec};

/// The configuration of a model, as far as it applies. Without a `config.pbtxt`, shapes include the first dimension
/// (`max_batch_size` is 0).
pub fn model_config(name: &str, signature: &Signature, given: Option<&ModelConfig>) -> Value {
    let none = ModelConfig::default();
    let given = given.unwrap_or(&none);
    let input = |spec: &TensorSpec| {
        json!({"name": spec.name, "data_type": spec.datatype.config_name(), "format": "FORMAT_NONE",
            "dims": given.dims(spec), "is_shape_tensor": false, "allow_ragged_batch": false,
            "optional": spec.optional})
    };
    let output = |spec: &TensorSpec| {
        json!({"name": spec.name, "data_type": spec.datatype.config_name(), "dims": given.dims(spec),
            "label_filename": given.label_file(&spec.name), "is_shape_tensor": false})
    };
    let parameter = |(name, value): &(String, String)| (name.clone(), json!({"string_value": value}));
    let mut config = json!({
        "name": name,
        "platform": given.platform_or(&signature.platform),
        "backend": given.backend_or(&signature.platform),
        "version_policy": policy(given.versions.as_ref().unwrap_or(&VersionPolicy::default())),
        "max_batch_size": given.max_batch_size,
        "input": signature.inputs.iter().map(input).collect::<Vec<_>>(),
        "output": signature.outputs.iter().map(output).collect::<Vec<_>>(),
        "instance_group": [{"name": name, "kind": "KIND_CPU", "count": given.instances.unwrap_or(1),
            "gpus": [], "profile": []}],
        "default_model_filename": given.file.as_deref().unwrap_or_default(),
        "parameters": given.parameters.iter().map(parameter).collect::<Map<_, _>>(),
        "model_transaction_policy": {"decoupled": signature.decoupled},
    });
    if !given.steps.is_empty() {
        let map = |entries: &[(String, String)]| {
            entries
                .iter()
                .map(|(key, value)| (key.clone(), Value::from(value.as_str())))
                .collect::<Map<_, _>>()
        };
        let steps = given.steps.iter().map(|step| {
            json!({"model_name": step.model,
                "model_version": step.version.and_then(|version| i64::try_from(version).ok()).unwrap_or(-1),
                "input_map": map(&step.inputs), "output_map": map(&step.outputs)})
        });
        config["ensemble_scheduling"] = json!({"step": steps.collect::<Vec<_>>()});
    }
    config
}

fn policy(policy: &VersionPolicy) -> Value {
    match policy {
        VersionPolicy::Latest(count) => json!({"latest": {"num_versions": count}}),
        VersionPolicy::All => json!({"all": {}}),
        VersionPolicy::Specific(versions) => json!({"specific": {"versions": versions}}),
    }
}

impl ModelConfig {
    /// The dimensions of a tensor without that of the batch, where rows are counted.
    pub fn dims(&self, spec: &TensorSpec) -> Vec<i64> {
        spec.shape.iter().copied().skip(usize::from(self.max_batch_size > 0)).collect()
    }

    /// The file with the names of an output's classes; empty if there is none.
    pub fn label_file(&self, output: &str) -> &str {
        let found = self.outputs.iter().find(|tensor| tensor.name == output);
        found.and_then(|tensor| tensor.labels.as_deref()).unwrap_or_default()
    }

    /// The platform as it was given, or what computes the model.
    pub fn platform_or<'a>(&'a self, platform: &'a str) -> &'a str {
        if self.platform.is_empty() { platform } else { &self.platform }
    }

    /// The backend as it was given, or what computes the model.
    pub fn backend_or<'a>(&'a self, platform: &'a str) -> &'a str {
        match (self.backend.as_str(), platform) {
            ("", "onnxruntime_onnx") => "onnxruntime",
            ("", "ensemble") => "",
            ("", platform) => platform,
            (given, _) => given,
        }
    }
}
