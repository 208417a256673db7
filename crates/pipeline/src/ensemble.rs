//! Triton's ensembles as pipelines.

use wire::oip::{ConfigTensor, ModelConfig};

use crate::definition::{Definition, Node, Port, Work};
use crate::spec::Spec;

impl Definition {
    /// The pipeline of a configuration with `ensemble_scheduling`.
    ///
    /// # Errors
    /// In words, as of a pipeline that was written in TOML.
    pub fn of_ensemble(config: &ModelConfig) -> Result<Definition, String> {
        let port = |tensor: &ConfigTensor| Port {
            name: tensor.name.clone(),
            spec: Spec::new(tensor.datatype, config.shape(tensor)),
        };
        if config.inputs.is_empty() || config.outputs.is_empty() {
            return Err("an ensemble needs its inputs and outputs".into());
        }
        let step = |step: &wire::oip::EnsembleStep| {
            let (inputs, taken) = step.inputs.iter().cloned().unzip();
            let (outputs, made): (Vec<String>, Vec<String>) = step.outputs.iter().cloned().unzip();
            Node {
                name: format!("{} of line {}", step.model, step.line),
                inputs: taken,
                outputs: made,
                work: Work::Model { model: step.model.clone(), version: step.version, inputs, outputs },
            }
        };
        let definition = Definition {
            inputs: config.inputs.iter().map(port).collect(),
            outputs: config.outputs.iter().map(port).collect(),
            steps: config.steps.iter().map(step).collect(),
            max_batch_size: config.max_batch_size,
        };
        definition.ordered()
    }
}
