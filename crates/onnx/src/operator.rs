//! What an operator is: made once from its attributes, run many times.

use crate::attributes::Attributes;
use crate::error::Problem;
use crate::options::RunOptions;
use crate::value::{Tensor, Value};

/// An operator, ready to run.
pub(crate) trait Operator: Send + Sync {
    /// The outputs, in order; a run may give fewer than the node lists only if the rest are optional.
    fn run(&self, inputs: &Inputs, run: &RunOptions) -> Result<Vec<Value>, Problem>;

    /// Bytes of memory that it holds.
    fn bytes(&self) -> usize {
        0
    }
}

/// An operator with nothing to hold but a function.
pub(crate) struct Plain<F>(pub F);

impl<F> Operator for Plain<F>
where
    F: Fn(&Inputs, &RunOptions) -> Result<Value, Problem> + Send + Sync,
{
    fn run(&self, inputs: &Inputs, run: &RunOptions) -> Result<Vec<Value>, Problem> {
        Ok(vec![self.0(inputs, run)?])
    }
}

/// Wraps a function as an operator.
pub(crate) fn plain<F>(f: F) -> Made
where
    F: Fn(&Inputs, &RunOptions) -> Result<Value, Problem> + Send + Sync + 'static,
{
    Ok(Box::new(Plain(f)))
}

/// An operator, or why there is none.
pub(crate) type Made = Result<Box<dyn Operator>, Problem>;

/// What an operator is made from.
pub(crate) struct Maker<'a> {
    /// The constants of the node.
    pub attributes: Attributes<'a>,
    /// The version of the operator's domain.
    pub version: i64,
    /// Number of outputs that the node lists.
    pub outputs: usize,
}

/// Makes an operator.
pub(crate) type Make = fn(&mut Maker) -> Made;

/// The inputs of a run.
pub(crate) struct Inputs<'a>(pub &'a [Option<&'a Value>]);

impl<'a> Inputs<'a> {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Input `i`, which must be there.
    pub(crate) fn value(&self, i: usize) -> Result<&'a Value, Problem> {
        match self.0.get(i) {
            Some(Some(value)) => Ok(value),
            _ => Err(Problem::Said(format!("input {i} is missing"))),
        }
    }

    /// Input `i`, which must be a tensor.
    pub(crate) fn tensor(&self, i: usize) -> Result<&'a Tensor, Problem> {
        match self.value(i)? {
            Value::Tensor(tensor) => Ok(tensor),
            Value::Map(_) | Value::Maps(_) => Err(Problem::Said(format!("input {i} is a map, not a tensor"))),
        }
    }

    /// Input `i`, a tensor that may be left out.
    pub(crate) fn optional(&self, i: usize) -> Result<Option<&'a Tensor>, Problem> {
        match self.0.get(i) {
            Some(Some(_)) => self.tensor(i).map(Some),
            _ => Ok(None),
        }
    }

    /// All inputs, which must be tensors.
    pub(crate) fn tensors(&self) -> Result<Vec<&'a Tensor>, Problem> {
        (0..self.len()).map(|i| self.tensor(i)).collect()
    }
}
