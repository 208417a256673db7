//! Schemas of Ollama's API.

use serde_json::{Value, json};

use super::parts::{count, extras, flag, joined, message, number, object, reference, shared, text};
use crate::limits;

/// The schemas, by name.
pub(super) fn schemas() -> Value {
    json!({
        "OllamaChatRequest": object(common(), json!({
            "messages": {"type": ["array", "null"], "maxItems": limits::MESSAGES, "items": message(),
                "description": "Messages of the conversation; without any, the model is only loaded."},
            "tools": {"type": ["array", "null"], "maxItems": limits::TOOLS, "items": {"type": "object"},
                "description": "Functions that the model may call."},
        }), &[]),
        "OllamaGenerateRequest": object(common(), json!({
            "prompt": {"type": ["string", "null"], "description": "Text to answer or continue; without it, the model is only loaded."},
            "system": {"type": ["string", "null"], "description": "A system message before the prompt."},
            "raw": flag("Continue the prompt without a chat template."),
        }), &[]),
        "OllamaShowRequest": object(json!({"model": {"type": "string", "minLength": 1}}), json!({}), &["model"]),
        "OllamaAnswer": object(json!({"model": {"type": "string"}, "created_at": {"type": "string"},
            "message": {"type": "object"}, "response": {"type": "string"}, "done": {"type": "boolean"},
            "done_reason": {"enum": ["stop", "length", "load", "unload"]}}), json!({}),
            &["model", "created_at", "done"]),
        "OllamaModels": object(json!({"models": {"type": "array", "items": object(json!({"name": {"type": "string"},
            "model": {"type": "string"}, "size": {"type": "integer"}, "digest": {"type": "string"},
            "details": {"type": "object"}}), json!({}), &["name", "model", "size", "digest", "details"])}}),
            json!({}), &["models"]),
        "OllamaShow": object(json!({"details": {"type": "object"}, "model_info": {"type": "object"},
            "capabilities": {"type": "array", "items": {"type": "string"}}}), json!({}),
            &["details", "model_info", "capabilities"]),
        "OllamaOptions": options(),
        "OllamaError": object(json!({"error": {"type": "string"}}), json!({}), &["error"]),
    })
}

/// The fields shared by `/api/chat` and `/api/generate`.
fn common() -> Value {
    let duration = json!({"oneOf": [{"type": "null"}, {"type": "number"}, {"type": "string"}],
        "description": "How long the model stays loaded: seconds, or a duration such as 5m."});
    json!({
        "model": {"type": ["string", "null"], "description": "Name of a served model; may be omitted."},
        "stream": {"type": ["boolean", "null"], "description": "Send the answer as lines of JSON; true by default."},
        "format": {"oneOf": [{"type": "null"}, {"enum": ["", "json"]}, {"type": "object"}],
            "description": "Constraint on the answer: any JSON object, or a JSON schema."},
        "options": {"oneOf": [{"type": "null"}, reference("OllamaOptions")]},
        "think": {"oneOf": [{"type": "null"}, {"type": "boolean"}, {"enum": ["low", "medium", "high", "max"]}],
            "description": "Whether the model reasons first, or the reasoning effort."},
        "keep_alive": duration,
        "logprobs": flag("Return log-probabilities of the generated tokens."),
        "top_logprobs": count(0, limits::LOGPROBS, "Number of alternatives of each token; logprobs must be true."),
        "timeout": number(0.001, f64::from(limits::TIMEOUT_S), "Seconds after which the request fails."),
        "cache_salt": text(limits::NAME_BYTES, "Share prefix-cache entries only between requests with the same salt."),
    })
}

/// The object `options`: sampling parameters, also under the names of the other APIs.
fn options() -> Value {
    let of_request =
        ["model", "max_tokens", "n", "stream", "priority", "timeout", "include_cost", "cache_salt"];
    let of_ids =
        ["prompt_logprobs", "return_token_ids", "return_tokens_as_token_ids", "truncate_prompt_tokens"];
    let mut properties = joined(shared(), extras());
    if let Some(all) = properties.as_object_mut() {
        all.retain(|name, _| !of_request.contains(&name.as_str()) && !of_ids.contains(&name.as_str()));
    }
    let more = json!({
        "num_predict": count(-2, limits::TOKENS, "Most tokens of the answer; 0, -1 and -2 are no limit."),
        "num_ctx": count(0, limits::TOKENS, "Context length that the client expects, in tokens."),
    });
    object(properties, more, &[])
}
