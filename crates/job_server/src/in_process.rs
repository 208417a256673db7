//! Requests of this process's own routes, without a connection: a job asks as a client does, and gets the same bytes.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Response, header};
use inference::RequestContext;
use jobs::Usage;
use serde::Deserialize;
use tokio::task::JoinSet;
use tower::ServiceExt;
use wire::Fault;

use crate::executor::Ran;

/// Bytes of an answer that are kept.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Its body.
    pub body: Vec<u8>,
    /// Seconds after which whoever is busy is to be asked again.
    pub retry_after_s: Option<u64>,
}

/// Posts a JSON body to a route, and reads the whole answer. `prepare` sees the request before it is sent. Dropped, the
/// request is cancelled.
///
/// # Errors
/// No path, a handler that panicked, an answer that is too large.
pub async fn ask(
    router: Router,
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
    task.spawn(router.oneshot(request));
    let joined = task.join_next().await.transpose();
    let failed = || Fault::internal("the server failed on this request; its log has the reason");
    let Ok(response) = joined.map_err(|_| failed())?.ok_or_else(failed)?;
    read(response).await
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

impl From<Answer> for Ran {
    fn from(answer: Answer) -> Ran {
        let Answer { status, body, retry_after_s } = answer;
        let told: Told = serde_json::from_slice(&body).unwrap_or_default();
        let told = told.usage.unwrap_or_default();
        // Millionths of any sum that a request can cost fit.
        #[expect(clippy::cast_possible_truncation, reason = "a sum of money in millionths")]
        let cost_micros = told.cost.as_ref().map(|cost| (cost.total * 1e6).round() as i64);
        let (usage, retry_after) = (told.usage(), retry_after_s.map(Duration::from_secs));
        Ran { status, body, usage, cost_micros, retry_after }
    }
}

impl From<Fault> for Ran {
    fn from(fault: Fault) -> Ran {
        let retry_after = fault.retry_after_s.map(|seconds| Duration::from_secs(seconds.into()));
        let (status, body) = (fault.status, fault.json().into_bytes());
        Ran { status, body, usage: Usage::default(), cost_micros: None, retry_after }
    }
}

/// What an answer tells of its usage, in the words of all APIs.
#[derive(Default, Deserialize)]
struct Told {
    #[serde(default)]
    usage: Option<ToldUsage>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ToldUsage {
    #[serde(alias = "input_tokens")]
    prompt_tokens: u64,
    #[serde(alias = "output_tokens")]
    completion_tokens: u64,
    #[serde(alias = "input_tokens_details")]
    prompt_tokens_details: Option<Cached>,
    cache_read_input_tokens: u64,
    #[serde(alias = "output_tokens_details")]
    completion_tokens_details: Option<Reasoned>,
    cost: Option<Cost>,
}

#[derive(Deserialize)]
struct Cost {
    total: f64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Cached {
    cached_tokens: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Reasoned {
    reasoning_tokens: u64,
}

impl ToldUsage {
    /// Anthropic counts cached tokens beside the input, the others in it.
    fn usage(&self) -> Usage {
        let cached = self.prompt_tokens_details.as_ref().map_or(0, |details| details.cached_tokens);
        let reasoning = self.completion_tokens_details.as_ref().map_or(0, |details| details.reasoning_tokens);
        Usage {
            input_tokens: self.prompt_tokens + self.cache_read_input_tokens,
            cached_tokens: cached + self.cache_read_input_tokens,
            output_tokens: self.completion_tokens,
            reasoning_tokens: reasoning,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_read_in_every_apis_words() {
        let of = |body: &str| Ran::from(Answer { status: 200, body: body.into(), retry_after_s: None });
        let usage = |input_tokens, cached_tokens, output_tokens, reasoning_tokens| Usage {
            input_tokens,
            cached_tokens,
            output_tokens,
            reasoning_tokens,
        };
        let openai = r#"{"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13,
            "prompt_tokens_details":{"cached_tokens":3},"completion_tokens_details":{"reasoning_tokens":2},
            "cost":{"total":0.25}}}"#;
        assert_eq!((of(openai).usage, of(openai).cost_micros), (usage(9, 3, 4, 2), Some(250_000)));
        let responses =
            r#"{"usage":{"input_tokens":9,"output_tokens":4,"input_tokens_details":{"cached_tokens":3}}}"#;
        assert_eq!(of(responses).usage, usage(9, 3, 4, 0));
        let anthropic = r#"{"usage":{"input_tokens":6,"output_tokens":4,"cache_read_input_tokens":3}}"#;
        assert_eq!(of(anthropic).usage, usage(9, 3, 4, 0));
        assert_eq!(of("[1]").usage, Usage::default());
    }
}
