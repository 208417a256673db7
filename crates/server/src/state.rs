//! What all routes share.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use events::Process;
use httpd::Edge;
use service::Service;

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
        State { edge, service, process: OnceLock::new(), page, ping }
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
