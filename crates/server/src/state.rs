//! What all routes share.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use events::Process;
use httpd::Edge;
use inference::{Capability, Inference};
use job_server::Jobs;
use service::Service;
use wire::Fault;

use crate::options::Options;
use crate::paths::Paths;

pub(crate) struct State {
    /// The HTTP side.
    pub(crate) edge: Arc<Edge>,
    /// The models.
    pub(crate) service: Arc<Service>,
    /// Looks up what the metrics tell of the process.
    pub(crate) process: OnceLock<Box<dyn Fn() -> Process + Send + Sync>>,
    /// Whether the page is served.
    pub(crate) page: bool,
    /// Silence after which a stream gets a comment.
    pub(crate) ping: Duration,
    /// Durable jobs, where they are on.
    kept_jobs: RwLock<Option<Arc<Jobs>>>,
}

impl State {
    pub(crate) fn new(options: Options) -> State {
        let Options { http, service, page, metrics_llamacpp, ping } = options;
        let service = Arc::new(Service::new(service));
        let metrics = service.metrics().clone();
        if metrics_llamacpp {
            metrics.offer_llamacpp();
        }
        let edge = Arc::new(Edge::new(http, metrics, Box::new(Paths { page })));
        State { edge, service, process: OnceLock::new(), page, ping, kept_jobs: RwLock::default() }
    }

    /// Durable jobs, where they are on.
    pub(crate) fn jobs(&self) -> Option<Arc<Jobs>> {
        self.kept_jobs.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes jobs from now on, or none any more: what runs them holds this state, which would never be dropped.
    pub(crate) fn set_jobs(&self, jobs: Option<Arc<Jobs>>) {
        *self.kept_jobs.write().unwrap_or_else(PoisonError::into_inner) = jobs;
    }

    /// What the model of this name can be asked; none is the default one.
    pub(crate) fn capability(&self, model: Option<&str>) -> Result<Capability, Fault> {
        let capability = self.service.capability(self.service.find(model)?);
        capability.ok_or_else(|| Fault::internal("a model that is found is not there"))
    }

    /// Whether the model of this name has this operation.
    pub(crate) fn can(&self, model: Option<&str>, operation: &str) -> Result<bool, Fault> {
        Ok(self.capability(model)?.operations.contains(&operation))
    }

    /// Whether no model is an encoder.
    pub(crate) fn only_generates(&self) -> bool {
        self.service.capabilities().iter().all(|capability| capability.operations.contains(&"generate"))
    }
}

impl httpd::Application for State {
    fn leave(&self) {
        self.service.leave();
    }

    fn drain(&self, deadline: Duration) {
        self.service.drain(deadline);
    }
}
