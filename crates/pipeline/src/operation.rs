//! What a step computes by itself.

use wire::oip::Tensor;

use crate::spec::Spec;

/// A computation on tensors that keeps no state.
pub trait Operation: std::fmt::Debug + Send + Sync {
    /// What is known of the outputs, given what is known of the inputs. There are as many inputs as the step was read with.
    ///
    /// # Errors
    /// In words: a datatype or shape that it does not take.
    fn check(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String>;

    /// Computes the outputs, under any names. `stop` is to be asked now and then in long computations.
    ///
    /// # Errors
    /// In words: inputs that it does not take.
    fn run(&self, inputs: &[&Tensor], stop: &(dyn Fn() -> bool + Sync)) -> Result<Vec<Tensor>, String>;
}
