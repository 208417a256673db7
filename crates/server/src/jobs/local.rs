//! Jobs run by this machine: each is a request of the server's own routes, without a connection.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use axum::extract::Request;
use axum::http::HeaderValue;
use inference::RequestContext;
use job_server::{Begun, Checked, Executor, MeanTime, Ran, Work};
use jobs::Class;
use serde_json::{Value, json};
use wire::Fault;

use super::check::{self, ENDPOINTS};
use crate::in_process::InProcess;
use crate::state::State;

/// The executor of one machine.
pub(crate) struct Local {
    server: InProcess,
    mean: MeanTime,
}

impl Local {
    /// An executor that asks the routes of a server.
    pub(crate) fn new(server: InProcess) -> Local {
        Local { server, mean: MeanTime::default() }
    }
}

impl Executor for Local {
    fn endpoints(&self) -> Vec<&'static str> {
        ENDPOINTS.iter().map(|endpoint| endpoint.path).collect()
    }

    fn check(&self, endpoint: &str, body: &[u8], _key: &str) -> Result<Checked, Fault> {
        let state = self.server.state()?;
        state.service.is_open()?;
        let random = u64::from_str_radix(&httpd::new_id(&state.edge)[..16], 16).unwrap_or_default();
        check::check(&state, endpoint, body, random)
    }

    fn run<'a>(&'a self, work: Work) -> Pin<Box<dyn Future<Output = Ran> + Send + 'a>> {
        Box::pin(async move {
            let began = Instant::now();
            let again = work.resume.is_some().then(|| Work { resume: None, ..work.clone() });
            let mut ran = self.attempt(work).await;
            // Not every answer can be continued (mirostat, scores): it begins anew then.
            if let (400, Some(again)) = (ran.status, again) {
                ran = self.attempt(again).await;
            }
            if ran.status == 200 {
                self.mean.count(began.elapsed());
            }
            ran
        })
    }

    fn is_ready(&self) -> bool {
        self.server.state().is_ok_and(|state| state.service.is_open().is_ok())
    }

    fn parallel(&self) -> usize {
        self.server.state().map_or(1, |state| state.service.options().parallel.max(1))
    }

    fn stuck(&self) -> Option<Duration> {
        let silent = self.server.state().ok()?.service.watchdog().silent();
        Some(silent).filter(|silent| !silent.is_zero())
    }

    fn fingerprint(&self, model: &str) -> Option<String> {
        let named = Some(model).filter(|model| !model.is_empty());
        self.server.state().ok()?.service.fingerprint(named).map(|fingerprint| fingerprint.to_string())
    }

    fn expected_seconds(&self, queued_jobs: u64, _output_limit: Option<u64>) -> Option<f64> {
        self.mean.expected_seconds(queued_jobs, self.parallel())
    }
}

impl Local {
    async fn attempt(&self, work: Work) -> Ran {
        self.answer(work).await.unwrap_or_else(Ran::from)
    }

    /// Whether this machine goes on with an answer as it was begun, once its model is loaded.
    async fn continues(&self, state: &State, model: &str, begun: &Begun) -> Result<bool, Fault> {
        if begun.tokens.is_empty() {
            return Ok(false);
        }
        let lease = state.service.model(Some(model).filter(|model| !model.is_empty())).await?;
        Ok(lease.fingerprint.as_deref() == Some(begun.fingerprint.as_str()))
    }

    async fn answer(&self, work: Work) -> Result<Ran, Fault> {
        let state = self.server.state()?;
        let Work { job, body, resume, watch } = work;
        let endpoint = check::endpoint(&job.endpoint);
        let mut fields = check::object(&body)?;
        check::refuse_stream(&fields)?;
        if endpoint.is_some_and(|endpoint| endpoint.prioritized) && !fields.contains_key("priority") {
            fields.insert("priority".to_owned(), class(job.class).into());
        }
        if let Some(begun) = resume.filter(|_| endpoint.is_some_and(|endpoint| endpoint.resumes))
            && self.continues(&state, &job.model, &begun).await?
        {
            fields.insert("resume".to_owned(), json!({"token_ids": begun.tokens}));
        }
        let body = Value::Object(fields).to_string().into_bytes();
        let (audit, id, path) = (state.edge.audit(), job.id.clone(), endpoint.map(|endpoint| endpoint.path));
        let context = RequestContext::new(audit, id.clone(), "POST", path, None, None);
        if !job.key.is_empty() {
            context.identify(state.edge.client_named(&job.key), &job.key);
        }
        context.listen(watch);
        let is_response = job.face == jobs::Face::Response;
        let prepare = |request: &mut Request| {
            if let Ok(id) = HeaderValue::from_str(&id) {
                request.headers_mut().insert(httpd::REQUEST_ID, id);
            }
            if is_response {
                request.extensions_mut().insert(ResponseId(id));
            }
        };
        let answer = self.server.ask(&job.endpoint, body, context.clone(), prepare).await?;
        context.record_status(answer.status);
        Ok(answer.into())
    }
}

/// The id that a response of the Responses API must have, as its client has it already.
#[derive(Clone)]
pub(crate) struct ResponseId(pub(crate) String);

fn class(class: Class) -> &'static str {
    match class {
        Class::Interactive => "interactive",
        Class::Default => "default",
        Class::Batch => "batch",
    }
}
