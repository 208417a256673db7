//! A model whose inputs and outputs are tensors.

use std::sync::Arc;

use tokio::sync::Semaphore;
use wire::Fault;
use wire::oip::{Signature, Tensor};

/// A model whose inputs and outputs are tensors, such as an ONNX graph.
pub trait TensorModel: Send + Sync {
    /// The tensors that it takes and gives, and what computes it. The same at each call.
    fn signature(&self) -> Arc<Signature>;

    /// Names of classes by index of the last dimension of an output; empty if there are none.
    fn labels(&self, _output: &str) -> Arc<[String]> {
        Arc::from([])
    }

    /// Places for the requests that it computes at once; none leaves that to the server.
    fn instances(&self) -> Option<Arc<Semaphore>> {
        None
    }

    /// Computes the outputs of these names, in this order; without names all. It blocks. The inputs are of the signature:
    /// their names, datatypes and fixed dimensions are. `stop` is to be asked between steps; once it is true, nobody gets
    /// to see what comes back.
    ///
    /// # Errors
    /// Inputs that do not fit together, or a computation that fails.
    fn infer(
        &self,
        inputs: Vec<Tensor>,
        outputs: &[String],
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Tensor>, Fault>;
}
