//! `Prefer: respond-async` (RFC 7240): a request of any endpoint becomes a job.

use std::time::Duration;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use jobs::{Job, JobStatus};

use wire::Fault;

use super::submit::{Wanted, accepted, add_place, check, submit};
use super::wait;
use crate::faces::ask::{Caller, idempotency, of_body};
use crate::faces::fault::{answer, of_store_for};
use crate::shared::Jobs;

/// What a client prefers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Preference {
    respond_async: bool,
    /// Seconds that it waits for a whole answer.
    wait: Option<u64>,
}

impl Preference {
    fn of(headers: &HeaderMap) -> Preference {
        let mut found = Preference::default();
        let values = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
        for preference in values.flat_map(|value| value.split(',')) {
            // Parameters of a preference say nothing here.
            let preference = preference.split(';').next().unwrap_or_default().trim();
            let (name, value) = preference.split_once('=').unwrap_or((preference, ""));
            let value = value.trim().trim_matches('"');
            match name.trim().to_ascii_lowercase().as_str() {
                "respond-async" => found.respond_async = true,
                "wait" if found.wait.is_none() => found.wait = value.parse().ok(),
                _ => {}
            }
        }
        found
    }

    /// What is said to have been heeded.
    fn applied(self) -> HeaderValue {
        match self.wait {
            Some(wait) => {
                HeaderValue::from_str(&format!("respond-async, wait={}", wait.min(wait::MOST_WAIT_S)))
            }
            None => Ok(HeaderValue::from_static("respond-async")),
        }
        .unwrap_or_else(|_| HeaderValue::from_static("respond-async"))
    }
}

/// Whether a request is to become a job.
pub fn prefers_async(headers: &HeaderMap) -> bool {
    Preference::of(headers).respond_async
}

/// Answers a request that is to become a job: 202 with the job, or its answer if it comes in the time that the client waits.
pub async fn respond_async(jobs: &Jobs, head: Parts, body: Vec<u8>) -> Response {
    answer(respond(jobs, &head, body).await)
}

async fn respond(jobs: &Jobs, head: &Parts, body: Vec<u8>) -> Result<Response, Fault> {
    let preference = Preference::of(&head.headers);
    let caller = Caller::of(jobs, &head.extensions);
    let endpoint = head.uri.path();
    let key = idempotency(jobs, &caller, &head.headers, &format!("POST {endpoint}"), of_body(&body))?;
    let checked = check(jobs, endpoint, body, &caller.key).await?;
    let submitted = submit(jobs, &caller, endpoint, checked, Wanted::default(), key).await?;
    let most = Duration::from_secs(preference.wait.unwrap_or(0).min(wait::MOST_WAIT_S));
    let id = &submitted.job.id;
    let job = match most.is_zero() {
        true => submitted.job.clone(),
        false => wait::end(jobs, id, None, most).await.map_err(|error| of_store_for(error, id))?,
    };
    let mut response = match job.status.is_terminal() && !most.is_zero() {
        true => ended(jobs, &job, submitted.replayed).await?,
        false => accepted(jobs, &submitted).await,
    };
    response.headers_mut().insert("preference-applied", preference.applied());
    Ok(response)
}

/// The answer of a job that has ended, as its endpoint would have given it.
async fn ended(jobs: &Jobs, job: &Job, replayed: bool) -> Result<Response, Fault> {
    let body = jobs.store.result(&job.id).await.map_err(|error| of_store_for(error, &job.id))?;
    let mut response = match (job.status, body.is_empty()) {
        (JobStatus::Succeeded | JobStatus::Failed, false) => {
            let status = job.status_code.and_then(|status| StatusCode::from_u16(status).ok());
            let mut response = Response::new(Body::from(body));
            *response.status_mut() = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
        _ => httpd::respond(&why(job)),
    };
    add_place(jobs, job, replayed, &mut response);
    Ok(response)
}

/// Why a job has no answer.
fn why(job: &Job) -> Fault {
    let message = match (job.status, &job.error) {
        (_, Some(error)) => error.message.clone(),
        (JobStatus::Cancelled, None) => "the job was cancelled".to_owned(),
        _ => "the job has no answer".to_owned(),
    };
    let mut fault = Fault::internal(message);
    match job.status {
        JobStatus::Cancelled => (fault.status, fault.code) = (409, Some("job_cancelled")),
        JobStatus::Expired => (fault.status, fault.code) = (408, Some("job_expired")),
        _ => fault.status = job.status_code.filter(|status| *status >= 400).unwrap_or(500),
    }
    fault
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&'static str]) -> Preference {
        let name = header::HeaderName::from_static("prefer");
        Preference::of(&values.iter().map(|value| (name.clone(), HeaderValue::from_static(value))).collect())
    }

    #[test]
    fn preferences_are_read() {
        assert_eq!(of(&["respond-async"]), Preference { respond_async: true, wait: None });
        assert_eq!(of(&["Respond-Async, wait=10"]), Preference { respond_async: true, wait: Some(10) });
        assert_eq!(
            of(&["wait = \"5\"", "respond-async; x=1"]),
            Preference { respond_async: true, wait: Some(5) }
        );
        assert_eq!(of(&["return=minimal"]), Preference::default());
        assert_eq!(of(&["respond-asynchronously"]), Preference::default());
        assert_eq!(of(&["respond-async, wait=x"]), Preference { respond_async: true, wait: None });
        assert_eq!(of(&["respond-async, wait=9999"]).applied(), "respond-async, wait=60");
    }
}
