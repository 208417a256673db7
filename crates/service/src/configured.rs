//! A model of tensors with a configuration: which of its tensors requests see, how many rows, the names of classes.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Semaphore;
use wire::Fault;
use wire::oip::{Checked, ModelConfig, Signature, Tensor};

use crate::tensor_model::TensorModel;

/// The names of an output's classes by index, by the output's name.
pub type OutputLabels = HashMap<String, Arc<[String]>>;

/// A model of tensors as its configuration has it.
pub struct ConfiguredModel {
    model: Arc<dyn TensorModel>,
    checked: Checked,
    labels: OutputLabels,
    instances: Option<Arc<Semaphore>>,
}

impl ConfiguredModel {
    /// Checks a configuration against a model.
    ///
    /// # Errors
    /// In words, where the configuration contradicts the model.
    pub fn new(
        model: Arc<dyn TensorModel>,
        config: &ModelConfig,
        labels: OutputLabels,
    ) -> Result<ConfiguredModel, String> {
        let checked = config.check(&model.signature())?;
        let instances = config.instances.map(|count| Arc::new(Semaphore::new(count)));
        Ok(ConfiguredModel { model, checked, labels, instances })
    }
}

impl TensorModel for ConfiguredModel {
    fn signature(&self) -> Arc<Signature> {
        self.checked.signature.clone()
    }

    fn labels(&self, output: &str) -> Arc<[String]> {
        self.labels.get(output).cloned().unwrap_or_else(|| self.model.labels(output))
    }

    fn instances(&self) -> Option<Arc<Semaphore>> {
        self.instances.clone().or_else(|| self.model.instances())
    }

    fn infer(
        &self,
        inputs: Vec<Tensor>,
        outputs: &[String],
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Tensor>, Fault> {
        self.checked.check_rows(&inputs)?;
        if !outputs.is_empty() {
            return self.model.infer(inputs, outputs, stop);
        }
        let all: Vec<String> = self.checked.signature.outputs.iter().map(|spec| spec.name.clone()).collect();
        self.model.infer(inputs, &all, stop)
    }
}
