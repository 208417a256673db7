//! The service, as pipelines see it.

use std::sync::Arc;

use inference::{Output, Request, RequestContext};

use crate::core::Core;
use crate::pipelines::{Models, Outcome};
use crate::preparation::Admitted;
use crate::registry::{Lease, Registry};
use crate::service::{Service, Takes};

impl Models for Service {
    fn core(&self) -> &Core {
        Service::core(self)
    }

    fn registry(&self) -> &Arc<Registry> {
        Service::registry(self)
    }

    fn admit<'a>(&'a self, context: &'a Arc<RequestContext>) -> Outcome<'a, Admitted> {
        Box::pin(Service::admit(self, Takes::Texts, context, 0))
    }

    fn ask(&self, model: Lease, request: Request) -> Outcome<'_, Output> {
        Box::pin(async move {
            let admitted = Service::admit(self, Takes::Texts, &request.context, 0).await?;
            self.answer_with(model, request, admitted).await
        })
    }
}
