//! The service, as pipelines see it.

use std::sync::Arc;

use inference::{Output, Request};
use wire::Fault;

use crate::core::Core;
use crate::pipelines::{Models, Outcome};
use crate::preparation::Admitted;
use crate::registry::{Lease, Registry};
use crate::service::Service;

impl Models for Service {
    fn core(&self) -> &Core {
        Service::core(self)
    }

    fn registry(&self) -> &Arc<Registry> {
        Service::registry(self)
    }

    fn admit(&self) -> Outcome<'_, Admitted> {
        Box::pin(async {
            let place = self.core().steps.clone().acquire_owned().await;
            // The semaphore is never closed.
            let place = place.map_err(|_| Fault::internal("no place for a step"))?;
            Ok(Admitted::new(None, place, 0))
        })
    }

    fn ask(&self, model: Lease, request: Request) -> Outcome<'_, Output> {
        Box::pin(async move {
            let admitted = Models::admit(self).await?;
            self.answer_with(model, request, admitted).await
        })
    }
}
