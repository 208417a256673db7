//! Whole answers of Ollama's API, and what they have in common with the lines of a stream.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use inference::Generation;
use wire::Fault;
use wire::ollama::{self, Answer, Called, Metrics, Said};

use crate::answer;

/// What an answer is to look like.
pub(super) struct Wanted {
    /// Whether the answer is a message of `/api/chat`.
    pub(super) chat: bool,
    /// The model's name, as the request has it.
    pub(super) model: Option<String>,
    pub(super) streamed: bool,
    /// Log-probabilities, with so many alternatives.
    pub(super) logprobs: Option<usize>,
    /// When the request began.
    pub(super) began: Instant,
    /// How long the model was waited for.
    pub(super) loading: Duration,
}

/// The whole answer.
pub(super) async fn whole(mut generation: Generation, wanted: &Wanted) -> Result<Response, Fault> {
    let (mut choices, _) = answer::gather(&mut generation).await?;
    let mut gathered = choices.pop().ok_or_else(|| Fault::internal("a generation without an answer"))?;
    let positions: Vec<_> = match wanted.logprobs {
        Some(most) => {
            let texts = gathered.scored.iter().filter(|(ends, _)| !ends);
            texts.map(|(_, score)| score.position(most, false)).collect()
        }
        None => Vec::new(),
    };
    let metrics = metrics(&generation, wanted, gathered.began);
    let reason = ollama::done_reason(gathered.end.reason);
    gathered.scored.clear();
    let said = gathered.said();
    let (content, thinking) = (said.content.unwrap_or_default(), said.reasoning_content.unwrap_or_default());
    let said = if wanted.chat {
        let call = |(index, call): (usize, wire::chat::ToolCall)| {
            let (id, name) = (call.id.unwrap_or_default(), call.function.name.unwrap_or_default());
            Called::complete(index, &id, &name, &call.function.arguments)
        };
        Said::chat(content, thinking, said.tool_calls.into_iter().enumerate().filter_map(call).collect())
    } else {
        Said::Text { response: content, thinking }
    };
    let name = wanted.model.as_deref().unwrap_or(&generation.model);
    let logprobs = ollama::logprobs(&positions);
    Ok(json(&Answer {
        model: name,
        created_at: now(),
        said,
        done: true,
        done_reason: Some(reason),
        logprobs,
        metrics: Some(metrics),
    }))
}

/// The answer of a request that had nothing to be answered.
pub(super) fn loaded(wanted: &Wanted, model: &str, reason: &'static str) -> Response {
    let said = if wanted.chat {
        Said::chat(String::new(), String::new(), Vec::new())
    } else {
        Said::Text { response: String::new(), thinking: String::new() }
    };
    let metrics = Metrics {
        total_duration: Metrics::nanoseconds(wanted.began.elapsed()),
        load_duration: Metrics::nanoseconds(wanted.loading),
        ..Metrics::default()
    };
    json(&Answer {
        model: wanted.model.as_deref().unwrap_or(model),
        created_at: now(),
        said,
        done: true,
        done_reason: Some(reason),
        logprobs: None,
        metrics: Some(metrics),
    })
}

/// Counts and times of an answer that ends now; `first` is when its first token came.
pub(super) fn metrics(generation: &Generation, wanted: &Wanted, first: Option<Instant>) -> Metrics {
    let (usage, now) = (generation.usage(), Instant::now());
    let first = first.unwrap_or(now);
    let time = |from: Instant, to: Instant| Metrics::nanoseconds(to.saturating_duration_since(from));
    Metrics {
        total_duration: time(wanted.began, now),
        load_duration: Metrics::nanoseconds(wanted.loading),
        prompt_eval_count: usage.prompt_tokens,
        prompt_eval_duration: time(wanted.began + wanted.loading, first),
        eval_count: usage.completion_tokens,
        eval_duration: time(first, now),
    }
}

/// The time, as this API writes it.
pub(super) fn now() -> String {
    ollama::rfc3339(since_1970())
}

/// The time since 1970.
pub(super) fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A whole answer of this API.
pub(super) fn json<T: serde::Serialize>(answer: &T) -> Response {
    let json = serde_json::to_string(answer).expect("answers have string keys, which serialize");
    (StatusCode::OK, [(header::CONTENT_TYPE, "application/json; charset=utf-8")], json).into_response()
}
