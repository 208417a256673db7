//! A server asked in its own process, by commands that serve nobody else.

use std::sync::Arc;

use inference::RequestContext;
use job_server::in_process::Answer;

use crate::in_process::InProcess;
use crate::state::State;

/// Asks the routes of a server without a connection.
#[derive(Clone)]
pub struct Asker {
    /// Keeps the server.
    state: Arc<State>,
    routes: InProcess,
}

impl Asker {
    pub(crate) fn new(state: &Arc<State>, routes: InProcess) -> Asker {
        Asker { state: state.clone(), routes }
    }

    /// Posts a JSON body to a path. Dropped, the request is cancelled within a step.
    pub async fn ask(&self, path: &str, body: Vec<u8>) -> Answer {
        let id = httpd::new_id(&self.state.edge);
        let context = RequestContext::new(self.state.edge.audit(), id, "POST", None, None, None);
        let answer = self.routes.ask(path, body, context, |_| {}).await;
        answer.unwrap_or_else(|fault| Answer {
            status: fault.status,
            body: fault.json().into_bytes(),
            retry_after_s: fault.retry_after_s.map(u64::from),
        })
    }

    /// What texts of the default model depend on beside the request.
    pub fn fingerprint(&self) -> Option<String> {
        self.state.service.fingerprint(None).map(|fingerprint| fingerprint.to_string())
    }
}
