//! `POST /completion` and `/completions`: llama.cpp's own form of a completion.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::chat::Stream;
use crate::completion::{self, CompletionRequest};
use crate::error::Fault;
use crate::fields::Fields;
use crate::request_fields::{self, Route};
use crate::{Handling, Ids, Sampling, guided, json, limits, numbers, sampling};

/// Names in `response_fields`.
const FIELDS: usize = 64;

/// A request, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct LlamaRequest {
    /// What is continued, and how. `logprobs` is `n_probs`.
    pub completion: CompletionRequest,
    /// Whether the whole answer has the ids of its tokens; events always have.
    pub return_tokens: bool,
    /// Fields of the answer that are wanted; empty is all. A name with slashes leads into objects.
    pub response_fields: Vec<String>,
    /// Whether the prompt was a list, so that the answer is one.
    pub listed: bool,
}

impl LlamaRequest {
    /// Reads a body. Never panics, whatever the bytes.
    ///
    /// # Errors
    /// When a field has a wrong value or asks for what is not built here.
    pub fn parse(body: &[u8]) -> Result<LlamaRequest, Fault> {
        let exact = numbers::exact(body);
        let value = json::read(body)?;
        let body = Fields::body(&value)?;
        let warnings = request_fields::check(&body, Route::LlamaCompletion)?;
        let n = sampling::answers(&body)?;
        let stream = Stream { on: body.boolean("stream")?.unwrap_or(false), usage: false };
        let prompts = completion::prompts(&body)?;
        let listed =
            body.get("prompt").and_then(Value::as_array).is_some_and(|l| !l.iter().all(Value::is_number));
        let completion = CompletionRequest {
            model: body.text("model", usize::MAX)?.map(str::to_owned),
            prompts,
            add_special_tokens: true,
            max_tokens: sampling::max_tokens(&body, 1)?,
            n,
            best_of: n,
            echo: false,
            sampling: Sampling::read(&body)?,
            handling: Handling::read(&body)?,
            ids: Ids::default(),
            logprobs: probabilities(&body)?,
            prompt_logprobs: None,
            guided: guided::read(&body, &exact)?,
            stream,
            warnings,
        };
        completion.check()?;
        Ok(LlamaRequest {
            completion,
            return_tokens: body.boolean("return_tokens")?.unwrap_or(false),
            response_fields: response_fields(&body)?,
            listed,
        })
    }
}

/// Alternatives a token; 0 is none, and no probabilities at all.
fn probabilities(body: &Fields<'_>) -> Result<Option<usize>, Fault> {
    for name in ["n_probs", "logprobs"] {
        match body.get(name) {
            Some(Value::Bool(false)) | None => {}
            _ => return Ok(body.count(name, 0..=limits::LOGPROBS)?.filter(|n| *n > 0)),
        }
    }
    Ok(None)
}

fn response_fields(body: &Fields<'_>) -> Result<Vec<String>, Fault> {
    let name = "response_fields";
    let entries = body.list(name, FIELDS)?.unwrap_or_default();
    let text = |(i, entry)| {
        crate::fields::text(&format!("{name}[{i}]"), entry, limits::NAME_BYTES).map(str::to_owned)
    };
    entries.iter().enumerate().map(text).collect()
}

/// The fields of `answer` that are wanted: `a/b` is what `a` has under `b`, and is then called `b`. What is not there is
/// left out.
pub fn selected(answer: Value, wanted: &[String]) -> Value {
    if wanted.is_empty() {
        return answer;
    }
    let mut out = Map::new();
    for path in wanted {
        let value = path.split('/').try_fold(&answer, |value, name| value.get(name));
        let name = path.rsplit('/').next().unwrap_or_default();
        if let Some(value) = value {
            out.insert(name.to_owned(), value.clone());
        }
    }
    Value::Object(out)
}

/// Why an answer ended, in llama.cpp's words.
pub fn stop_type(finish_reason: &str, word: bool) -> &'static str {
    match finish_reason {
        "length" => "limit",
        _ if word => "word",
        _ => "eos",
    }
}

/// A piece of a streamed answer.
#[derive(Debug, Clone, Serialize)]
pub struct Piece<'a> {
    /// Which answer, from 0.
    pub index: usize,
    /// What is new in it.
    pub content: &'a str,
    /// The tokens that came.
    pub tokens: &'a [u32],
    /// Always false: the last event is a whole answer.
    pub stop: bool,
    /// Always -1: there are no slots to choose from.
    pub id_slot: i32,
    /// Tokens of the answer so far.
    pub tokens_predicted: usize,
    /// Tokens of the prompt.
    pub tokens_evaluated: usize,
    /// If asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_probabilities: Option<Vec<Probability>>,
}

/// A token and how likely it was.
#[derive(Debug, Clone, Serialize)]
pub struct Probability {
    /// Its id.
    pub id: u32,
    /// Its text; part of a character is U+FFFD.
    pub token: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// ln p.
    pub logprob: f32,
    /// The likeliest tokens; absent in those themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_logprobs: Option<Vec<Probability>>,
}

/// How long an answer took by the clock, milliseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Timings {
    /// Prompt tokens that were remembered.
    pub cache_n: usize,
    /// Prompt tokens that were computed.
    pub prompt_n: usize,
    /// To the first token, the time in the queue included.
    pub prompt_ms: f64,
    /// That, for each token.
    pub prompt_per_token_ms: f64,
    /// The inverse, a second.
    pub prompt_per_second: f64,
    /// Tokens of the answer.
    pub predicted_n: usize,
    /// From the first token to the end.
    pub predicted_ms: f64,
    /// That, for each token.
    pub predicted_per_token_ms: f64,
    /// The inverse, a second.
    pub predicted_per_second: f64,
}

impl Timings {
    /// Of these counts and times.
    pub fn new(cached: usize, prompt: usize, prompt_ms: f64, predicted: usize, predicted_ms: f64) -> Timings {
        let each = |ms: f64, n: usize| ms / n.max(1) as f64;
        let rate = |ms: f64, n: usize| if ms > 0.0 { n as f64 * 1e3 / ms } else { 0.0 };
        Timings {
            cache_n: cached,
            prompt_n: prompt,
            prompt_ms,
            prompt_per_token_ms: each(prompt_ms, prompt),
            prompt_per_second: rate(prompt_ms, prompt),
            predicted_n: predicted,
            predicted_ms,
            predicted_per_token_ms: each(predicted_ms, predicted),
            predicted_per_second: rate(predicted_ms, predicted),
        }
    }
}

/// A whole answer, and the last event of a streamed one.
#[derive(Debug, Clone, Serialize)]
pub struct Answer<'a> {
    /// Which answer, from 0.
    pub index: usize,
    /// The text; empty in the last event of a stream.
    pub content: String,
    /// Its tokens, if asked for.
    pub tokens: Vec<u32>,
    /// Always -1.
    pub id_slot: i32,
    /// Always true.
    pub stop: bool,
    /// The model's name.
    pub model: &'a str,
    /// Tokens of the answer.
    pub tokens_predicted: usize,
    /// Tokens of the prompt.
    pub tokens_evaluated: usize,
    /// How tokens were chosen.
    pub generation_settings: Value,
    /// The prompt as text.
    pub prompt: &'a str,
    /// Whether the text has a line end.
    pub has_new_line: bool,
    /// Always false: prompts are never cut.
    pub truncated: bool,
    /// `eos`, `limit` or `word`.
    pub stop_type: &'static str,
    /// The stop string that was met.
    pub stopping_word: &'a str,
    /// Prompt tokens that were remembered.
    pub tokens_cached: usize,
    /// How long it took.
    pub timings: Timings,
    /// If asked for, and not streamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_probabilities: Option<Vec<Probability>>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::completion::Prompt;

    fn parse(body: Value) -> Result<LlamaRequest, Fault> {
        LlamaRequest::parse(body.to_string().as_bytes())
    }

    #[test]
    fn fault_12_a_completion_of_llama_cpp_is_read() {
        let request =
            parse(json!({"prompt": "a", "n_predict": 8, "n_probs": 2, "cache_prompt": true})).unwrap();
        assert_eq!(
            (request.completion.max_tokens, request.completion.logprobs, request.listed),
            (Some(8), Some(2), false)
        );
        let request = parse(json!({"prompt": ["a", [1, 2]], "n_predict": -1, "n_probs": 0})).unwrap();
        assert_eq!(
            (request.completion.max_tokens, request.completion.logprobs, request.listed),
            (None, None, true)
        );
        assert_eq!(request.completion.prompts[1], Prompt::Tokens(vec![1, 2]));
        assert!(!parse(json!({"prompt": [1, 2]})).unwrap().listed);
        let at = |body: Value| parse(body).unwrap_err().param.unwrap();
        assert_eq!(at(json!({"n_predict": 8})), "prompt");
        assert_eq!(at(json!({"prompt": "a", "n_indent": 2})), "n_indent");
        assert_eq!(at(json!({"prompt": "a", "input_suffix": "x"})), "input_suffix");
        assert_eq!(at(json!({"prompt": "a", "n_predict": 8, "max_tokens": 9})), "n_predict");
        assert_eq!(at(json!({"prompt": "a", "messages": [{"role": "user"}]})), "messages");
    }

    #[test]
    fn fields_are_selected_by_path() {
        let answer = json!({"content": "x", "stop": true, "timings": {"prompt_n": 3}});
        let wanted = ["content", "timings/prompt_n", "nothing/here"].map(str::to_owned);
        assert_eq!(selected(answer, &wanted), json!({"content": "x", "prompt_n": 3}));
    }
}
