//! Requests of the server's own routes, without a connection: jobs and batch runs ask as clients do, and get the same bytes.

use std::sync::{Arc, Weak};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Response, header};
use inference::RequestContext;
use tokio::task::JoinSet;
use tower::ServiceExt;
use wire::Fault;

use crate::routes;
use crate::state::State;

/// Bytes of an answer that are kept.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// The routes of a server behind no layer: no keys, no limits of connections.
#[derive(Clone)]
pub(crate) struct InProcess {
    state: Weak<State>,
    router: Router,
}

/// A whole answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// Seconds after which a busy server is to be asked again.
    pub(crate) retry_after_s: Option<u64>,
}

impl InProcess {
    pub(crate) fn new(state: &Arc<State>) -> InProcess {
        InProcess { state: Arc::downgrade(state), router: routes::bare(state).with_state(state.clone()) }
    }

    /// The server, unless it is gone.
    pub(crate) fn state(&self) -> Result<Arc<State>, Fault> {
        self.state.upgrade().ok_or_else(|| Fault::unavailable("draining", "the server stops", 5))
    }

    /// Asks a route for a whole answer. Dropped, it cancels the request within a step.
    ///
    /// # Errors
    /// No route, a handler that panicked, an answer that is too large.
    pub(crate) async fn ask(
        &self,
        path: &str,
        body: Vec<u8>,
        context: Arc<RequestContext>,
        prepare: impl FnOnce(&mut Request),
    ) -> Result<Answer, Fault> {
        let mut request = Request::builder()
            .method("POST")
            .uri(path)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body))
            .map_err(|error| Fault::body(format!("{path} cannot be asked for: {error}")))?;
        request.extensions_mut().insert(context);
        prepare(&mut request);
        let mut task = JoinSet::new();
        // In a task of its own, a panic of the handler is an answer. Dropped, the set cancels it.
        task.spawn(self.router.clone().oneshot(request));
        let joined = task.join_next().await.transpose();
        let failed = || Fault::internal("the server failed on this request; its log has the reason");
        let Ok(response) = joined.map_err(|_| failed())?.ok_or_else(failed)?;
        read(response).await
    }
}

async fn read(response: Response<Body>) -> Result<Answer, Fault> {
    let status = response.status().as_u16();
    let retry_after = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after_s = retry_after.and_then(|text| text.parse().ok());
    let body = axum::body::to_bytes(response.into_body(), MAX_ANSWER_BYTES).await;
    let body = body.map_err(|error| {
        Fault::internal(format!("the answer has more than {MAX_ANSWER_BYTES} bytes, or broke: {error}"))
    })?;
    Ok(Answer { status, body: body.into(), retry_after_s })
}
