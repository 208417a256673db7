//! `POST /completion` and `/completions`: llama.cpp's completion API.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::chat::Stream;
use crate::completion::{self, CompletionRequest, Infill, Prompt};
use crate::error::Fault;
use crate::fields::Fields;
use crate::numbers::Exact;
use crate::request_fields::{self, Route};
use crate::{Handling, Ids, Sampling, guided, json, limits, numbers, sampling};

/// Upper bound of the names in `response_fields`.
const MAX_RESPONSE_FIELDS: usize = 64;
/// Upper bound of the texts in `input_extra`.
const MAX_EXTRA: usize = 256;
/// The fields that only `/infill` has, and those that it reads otherwise.
const INFILL_FIELDS: [&str; 4] = ["input_prefix", "input_suffix", "input_extra", "prompt"];

/// A validated request.
#[derive(Debug, Clone, PartialEq)]
pub struct LlamaRequest {
    /// The equivalent completion request, with `n_probs` as `logprobs`.
    pub completion: CompletionRequest,
    /// Whether a whole response has the token ids of the answer; stream events always do.
    pub return_tokens: bool,
    /// Names of the response's fields to send; empty is all. `a/b` is the field `b` of the object `a`.
    pub response_fields: Vec<String>,
    /// Whether the prompt was a list, so that the response is one.
    pub listed: bool,
}

impl LlamaRequest {
    /// Parses a body. Never panics.
    ///
    /// # Errors
    /// Invalid JSON, or a field with an invalid or unsupported value.
    pub fn parse(body: &[u8]) -> Result<LlamaRequest, Fault> {
        LlamaRequest::read(&json::read(body)?, &numbers::exact(body))
    }

    /// Parses a body of `POST /infill`: `input_prefix`, `input_suffix`, `input_extra`, and `prompt`, which follows the
    /// prefix; the rest is as in `/completion`. Never panics.
    ///
    /// # Errors
    /// As [`parse`](LlamaRequest::parse).
    pub fn parse_infill(body: &[u8]) -> Result<LlamaRequest, Fault> {
        let mut value = json::read(body)?;
        let infill = infill(&Fields::body(&value)?)?;
        if let Some(fields) = value.as_object_mut() {
            for name in INFILL_FIELDS {
                fields.remove(name);
            }
            fields.insert("prompt".into(), Value::String(String::new()));
        }
        let mut request = LlamaRequest::read(&value, &numbers::exact(body))?;
        request.completion.prompts = vec![Prompt::Infill(infill)];
        Ok(request)
    }

    fn read(value: &Value, exact: &[Exact]) -> Result<LlamaRequest, Fault> {
        let body = Fields::body(value)?;
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
            resume: None,
            logprobs: logprobs_wanted(&body)?,
            prompt_logprobs: None,
            guided: guided::read(&body, exact)?,
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

/// The text with a gap.
fn infill(body: &Fields<'_>) -> Result<Infill, Fault> {
    let text = |name| body.text(name, usize::MAX).map(Option::unwrap_or_default);
    let (prefix, prompt) = (text("input_prefix")?, text("prompt")?);
    let extra = body.list("input_extra", MAX_EXTRA)?.unwrap_or_default();
    let extra = extra.iter().enumerate().map(|(i, entry)| {
        let name = format!("input_extra[{i}]");
        let Some(entry) = entry.as_object() else {
            return Err(crate::fields::wrong(&name, entry, "an object with text and filename"));
        };
        let field = |key: &str, default: &str| match entry.get(key) {
            None | Some(Value::Null) => Ok(default.to_owned()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => Err(crate::fields::wrong(&format!("{name}.{key}"), other, "a string")),
        };
        Ok((field("filename", "tmp")?, field("text", "")?))
    });
    let extra = extra.collect::<Result<Vec<_>, _>>()?;
    Ok(Infill { prefix: format!("{prefix}{prompt}"), suffix: text("input_suffix")?.to_owned(), extra })
}

/// The number of alternatives of each token (`n_probs` or `logprobs`); 0 is no probabilities at all.
fn logprobs_wanted(body: &Fields<'_>) -> Result<Option<usize>, Fault> {
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
    let entries = body.list(name, MAX_RESPONSE_FIELDS)?.unwrap_or_default();
    let text = |(i, entry)| {
        crate::fields::text(&format!("{name}[{i}]"), entry, limits::NAME_BYTES).map(str::to_owned)
    };
    entries.iter().enumerate().map(text).collect()
}

/// The requested fields of `answer`. `a/b` is the field `b` of the object `a`, returned as `b`. Missing fields are
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

/// llama.cpp's `stop_type` for a finish reason: `limit`, `word` or `eos`.
pub fn stop_type(finish_reason: &str, word: bool) -> &'static str {
    match finish_reason {
        "length" => "limit",
        _ if word => "word",
        _ => "eos",
    }
}

/// An event of a streamed answer.
#[derive(Debug, Clone, Serialize)]
pub struct Piece<'a> {
    /// Index of the answer, from 0.
    pub index: usize,
    /// New text.
    pub content: &'a str,
    /// New token ids.
    pub tokens: &'a [u32],
    /// Always false; the last event is an [`Answer`].
    pub stop: bool,
    /// Always -1: slots cannot be chosen.
    pub id_slot: i32,
    /// Number of answer tokens so far.
    pub tokens_predicted: usize,
    /// Number of prompt tokens.
    pub tokens_evaluated: usize,
    /// Log-probabilities of the new tokens, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_probabilities: Option<Vec<Probability>>,
}

/// A token with its log-probability.
#[derive(Debug, Clone, Serialize)]
pub struct Probability {
    /// Token id.
    pub id: u32,
    /// Text of the token; an incomplete character is U+FFFD.
    pub token: String,
    /// Bytes of the token's text.
    pub bytes: Vec<u8>,
    /// Natural logarithm of the token's probability.
    pub logprob: f32,
    /// The most likely tokens; absent in an alternative.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_logprobs: Option<Vec<Probability>>,
}

/// Wall-clock times and token rates of an answer.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Timings {
    /// Prompt tokens found in the prefix cache.
    pub cache_n: usize,
    /// Prompt tokens computed.
    pub prompt_n: usize,
    /// Milliseconds to the first token, including the time in the queue.
    pub prompt_ms: f64,
    /// Milliseconds for each computed prompt token.
    pub prompt_per_token_ms: f64,
    /// Computed prompt tokens a second.
    pub prompt_per_second: f64,
    /// Tokens of the answer.
    pub predicted_n: usize,
    /// Milliseconds from the first token to the end.
    pub predicted_ms: f64,
    /// Milliseconds for each token of the answer.
    pub predicted_per_token_ms: f64,
    /// Tokens of the answer a second.
    pub predicted_per_second: f64,
}

impl Timings {
    /// The timings of these counts and milliseconds.
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
    /// Index of the answer, from 0.
    pub index: usize,
    /// Text of the answer; empty in the last event of a stream.
    pub content: String,
    /// Token ids of the answer, if requested.
    pub tokens: Vec<u32>,
    /// Always -1: slots cannot be chosen.
    pub id_slot: i32,
    /// Always true.
    pub stop: bool,
    /// Name of the answering model.
    pub model: &'a str,
    /// Number of answer tokens.
    pub tokens_predicted: usize,
    /// Number of prompt tokens.
    pub tokens_evaluated: usize,
    /// The sampling parameters.
    pub generation_settings: Value,
    /// Text of the prompt.
    pub prompt: &'a str,
    /// Whether the text has a newline.
    pub has_new_line: bool,
    /// Always false: prompts are never truncated.
    pub truncated: bool,
    /// Why the answer ended: `eos`, `limit` or `word`.
    pub stop_type: &'static str,
    /// The stop string that matched.
    pub stopping_word: &'a str,
    /// Prompt tokens found in the prefix cache.
    pub tokens_cached: usize,
    /// Times and token rates.
    pub timings: Timings,
    /// Log-probabilities of the answer's tokens, if requested; not in a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_probabilities: Option<Vec<Probability>>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
    fn what_is_to_be_filled_in_is_read() {
        let parse = |body: Value| LlamaRequest::parse_infill(body.to_string().as_bytes());
        let request = parse(json!({
            "input_prefix": "a", "input_suffix": "b", "prompt": "c", "n_predict": 8,
            "input_extra": [{"filename": "f", "text": "t"}, {"text": "u"}],
        }));
        let request = request.unwrap();
        let extra = vec![("f".to_owned(), "t".to_owned()), ("tmp".to_owned(), "u".to_owned())];
        let infill = Infill { prefix: "ac".into(), suffix: "b".into(), extra };
        assert_eq!(request.completion.prompts, [Prompt::Infill(infill)]);
        assert_eq!(request.completion.max_tokens, Some(8));
        let at = |body: Value| parse(body).unwrap_err().param.unwrap();
        assert_eq!(at(json!({"input_prefix": 1})), "input_prefix");
        assert_eq!(at(json!({"input_extra": [1]})), "input_extra[0]");
        assert_eq!(at(json!({"input_extra": [{"text": 1}]})), "input_extra[0].text");
        assert!(parse(json!({})).is_ok());
    }

    #[test]
    fn fields_are_selected_by_path() {
        let answer = json!({"content": "x", "stop": true, "timings": {"prompt_n": 3}});
        let wanted = ["content", "timings/prompt_n", "nothing/here"].map(str::to_owned);
        assert_eq!(selected(answer, &wanted), json!({"content": "x", "prompt_n": 3}));
    }
}
