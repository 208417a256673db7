//! A configuration against the model that it is for.

use std::sync::Arc;

use super::model::{ConfigTensor, ModelConfig};
use crate::error::{Fault, quote};
use crate::oip::{Signature, Tensor, TensorSpec, show_shape};

/// Names by which a configuration says what computes an ONNX model, and what this server's own models.
const ONNX: [&str; 2] = ["onnxruntime_onnx", "onnxruntime"];
const OWN: [&str; 1] = ["gristmill"];

/// What a configuration makes of a model's tensors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The tensors that requests see.
    pub signature: Arc<Signature>,
    /// Most rows of a request; 0 if nothing is said of rows.
    pub max_batch_size: usize,
}

impl ModelConfig {
    /// Checks the configuration against the tensors that the model has.
    ///
    /// # Errors
    /// In words: another platform, tensor, datatype, dimension or number of rows than the model's.
    pub fn check(&self, model: &Signature) -> Result<Checked, String> {
        self.check_platform(&model.platform)?;
        if self.decoupled && !model.decoupled {
            return Err(
                "model_transaction_policy.decoupled is true; the model gives one answer to a request".into(),
            );
        }
        let inputs = self.tensors("input", &self.inputs, &model.inputs)?;
        let left_out =
            |spec: &&TensorSpec| !spec.optional && !inputs.iter().any(|input| input.name == spec.name);
        if let Some(spec) = model.inputs.iter().find(left_out) {
            return Err(format!(
                "the model's input {} is not among those of the configuration",
                quote(&spec.name)
            ));
        }
        let outputs = self.tensors("output", &self.outputs, &model.outputs)?;
        let (platform, decoupled) = (model.platform.clone(), model.decoupled);
        let signature = Arc::new(Signature { inputs, outputs, platform, decoupled });
        Ok(Checked { signature, max_batch_size: self.max_batch_size })
    }

    fn check_platform(&self, platform: &str) -> Result<(), String> {
        let known: &[&str] = match platform {
            "onnxruntime_onnx" => &ONNX,
            "ensemble" => &["ensemble"],
            _ => &OWN,
        };
        for (what, said) in [("platform", &self.platform), ("backend", &self.backend)] {
            if !said.is_empty() && !known.contains(&said.as_str()) {
                let known = known.join(" or ");
                return Err(format!("{what} is {}; of this model it must be {known}", quote(said)));
            }
        }
        Ok(())
    }

    /// The tensors that requests see, of those that the model has.
    fn tensors(
        &self,
        what: &str,
        said: &[ConfigTensor],
        model: &[TensorSpec],
    ) -> Result<Vec<TensorSpec>, String> {
        if said.is_empty() {
            model.iter().try_for_each(|spec| self.check_rows(what, spec))?;
            return Ok(model.to_vec());
        }
        let names = || model.iter().map(|spec| spec.name.as_str()).collect::<Vec<_>>().join(", ");
        let one = |tensor: &ConfigTensor| {
            let found = model.iter().find(|spec| spec.name == tensor.name);
            let Some(spec) = found else {
                return Err(format!(
                    "{} is not an {what} of the model; its {what}s are: {}",
                    quote(&tensor.name),
                    names()
                ));
            };
            self.tensor(what, tensor, spec)
        };
        said.iter().map(one).collect()
    }

    fn tensor(&self, what: &str, tensor: &ConfigTensor, spec: &TensorSpec) -> Result<TensorSpec, String> {
        let name = quote(&tensor.name);
        if tensor.datatype != spec.datatype {
            let (said, is) = (tensor.datatype.config_name(), spec.datatype.config_name());
            return Err(format!("the {what} {name} has data_type {said}; that of the model is {is}"));
        }
        self.check_rows(what, spec)?;
        let shape = self.shape(tensor);
        let same_rank = shape.len() == spec.shape.len() || spec.shape == [-1] && what == "output";
        let fits = |(said, is): (&i64, &i64)| *is == -1 || said == is;
        if !same_rank || !shape.iter().zip(&spec.shape).all(fits) {
            let rows = if self.max_batch_size > 0 { " with that of the batch" } else { "" };
            let (said, is) = (show_shape(&shape), show_shape(&spec.shape));
            return Err(format!("the {what} {name} has the dims {said}{rows}; those of the model are {is}"));
        }
        let optional = tensor.optional || spec.optional;
        if tensor.optional && !spec.optional {
            return Err(format!("the {what} {name} is optional; the model needs it"));
        }
        Ok(TensorSpec { name: tensor.name.clone(), datatype: tensor.datatype, shape, optional })
    }

    /// The dimensions of a tensor, with that of the batch.
    pub fn shape(&self, tensor: &ConfigTensor) -> Vec<i64> {
        let rows = (self.max_batch_size > 0).then_some(-1);
        rows.into_iter().chain(tensor.dims.iter().copied()).collect()
    }

    /// A batch needs a first dimension of any length.
    fn check_rows(&self, what: &str, spec: &TensorSpec) -> Result<(), String> {
        if self.max_batch_size == 0 || spec.shape.first() == Some(&-1) {
            return Ok(());
        }
        Err(format!(
            "max_batch_size is {}; the first dimension of the model's {what} {} is fixed: {}",
            self.max_batch_size,
            quote(&spec.name),
            show_shape(&spec.shape)
        ))
    }
}

impl Checked {
    /// Checks the rows of a request's inputs.
    ///
    /// # Errors
    /// More rows than the configuration allows, or inputs of different numbers of rows.
    pub fn check_rows(&self, inputs: &[Tensor]) -> Result<(), Fault> {
        if self.max_batch_size == 0 {
            return Ok(());
        }
        let rows = |tensor: &Tensor| tensor.shape.first().copied().unwrap_or(0);
        let Some(first) = inputs.first() else { return Ok(()) };
        if let Some(other) = inputs.iter().find(|input| rows(input) != rows(first)) {
            let message =
                format!("the input {} must have as many rows as {}", other.described(), first.described());
            return Err(Fault::field(other.name.clone(), message));
        }
        if (1..=self.max_batch_size).contains(&rows(first)) {
            return Ok(());
        }
        let most = self.max_batch_size;
        let message =
            format!("the input {} has {} rows; it must have 1 to {most}", first.described(), rows(first));
        Err(Fault::field(first.name.clone(), message))
    }
}
