//! The server's own routes, without a connection.

use std::sync::{Arc, Weak};

use axum::Router;
use axum::extract::Request;
use inference::RequestContext;
use job_server::in_process::{Answer, ask};
use wire::Fault;

use crate::state::State;

/// The routes of a server behind no layer: no keys, no limits of connections.
#[derive(Clone)]
pub(crate) struct InProcess {
    state: Weak<State>,
    router: Router,
}

impl InProcess {
    /// The routes of `router`.
    pub(crate) fn new(state: &Arc<State>, router: Router) -> InProcess {
        InProcess { state: Arc::downgrade(state), router }
    }

    /// The server, unless it is gone.
    pub(crate) fn state(&self) -> Result<Arc<State>, Fault> {
        self.state.upgrade().ok_or_else(|| Fault::unavailable("draining", "the server stops", 5))
    }

    /// Asks a route for a whole answer. Dropped, it cancels the request within a step.
    ///
    /// # Errors
    /// Those of [`ask`].
    pub(crate) async fn ask(
        &self,
        path: &str,
        body: Vec<u8>,
        context: Arc<RequestContext>,
        prepare: impl FnOnce(&mut Request),
    ) -> Result<Answer, Fault> {
        ask(self.router.clone(), path, body, context, prepare).await
    }
}
