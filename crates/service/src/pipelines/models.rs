//! What a pipeline needs of the service: its models, and the places that requests take.

use std::pin::Pin;
use std::sync::Arc;

use inference::{Output, Request};
use wire::Fault;

use crate::core::Core;
use crate::preparation::Admitted;
use crate::registry::{Lease, Registry};

/// An outcome that is waited for.
pub(crate) type Outcome<'a, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 'a>>;

/// The service, as a pipeline sees it.
pub(crate) trait Models: Send + Sync {
    /// Bounds and counts.
    fn core(&self) -> &Core;

    /// The models.
    fn registry(&self) -> &Arc<Registry>;

    /// A place for a step to compute on texts in.
    fn admit(&self) -> Outcome<'_, Admitted>;

    /// Asks a model that is in use.
    fn ask(&self, model: Lease, request: Request) -> Outcome<'_, Output>;
}
