//! What the schemas of several endpoints are made of.

use serde_json::{Value, json};

use crate::limits;

pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

pub(super) fn number(low: f64, high: f64, description: &str) -> Value {
    json!({"type": ["number", "null"], "minimum": low, "maximum": high, "description": description})
}

pub(super) fn count(low: i64, high: i64, description: &str) -> Value {
    json!({"type": ["integer", "null"], "minimum": low, "maximum": high, "description": description})
}

pub(super) fn flag(description: &str) -> Value {
    json!({"type": ["boolean", "null"], "description": description})
}

pub(super) fn text(most: usize, description: &str) -> Value {
    json!({"type": ["string", "null"], "maxLength": most, "description": description})
}

/// The fields that chat and plain completions share.
pub(super) fn shared() -> Value {
    let stop = json!({"type": "string", "minLength": 1, "maxLength": limits::STOP_BYTES});
    json!({
        "model": {"type": ["string", "null"], "description": "A served name; may be left out."},
        "max_tokens": count(1, limits::TOKENS, "Most tokens of the answer."),
        "n": count(1, limits::N, "Answers wanted."),
        "temperature": number(0.0, 2.0, "0 is greedy."),
        "top_p": number(0.0, 1.0, "Nucleus."),
        "top_k": count(-1, limits::TOKENS, "-1 and 0 keep all."),
        "min_p": number(0.0, 1.0, "Least probability relative to the likeliest."),
        "typical_p": number(0.0, 1.0, "Locally typical mass."),
        "repetition_penalty": number(0.01, 100.0, "Divides or multiplies logits of tokens seen."),
        "repeat_last_n": count(-1, limits::TOKENS, "Tokens that penalties look back at; -1 is all."),
        "frequency_penalty": number(-2.0, 2.0, "For each time a token was seen."),
        "presence_penalty": number(-2.0, 2.0, "Once a token was seen."),
        "dry_multiplier": number(0.0, 100.0, "DRY: 0 is off."),
        "dry_base": number(1.0, 100.0, "DRY: growth with the length of the repeat."),
        "dry_allowed_length": count(0, limits::TOKENS, "DRY: longest repeat that costs nothing."),
        "xtc_probability": number(0.0, 1.0, "XTC: chance that it acts."),
        "xtc_threshold": number(0.0, 1.0, "XTC: least probability of a top choice."),
        "logit_bias": {"type": ["object", "null"], "maxProperties": limits::LOGIT_BIAS,
            "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100},
            "propertyNames": {"pattern": "^[0-9]{1,6}$"}, "description": "Added to logits, by token id."},
        "seed": {"type": ["integer", "null"], "minimum": i64::MIN, "maximum": i64::MAX, "description": "-1 is a new one."},
        "stop": {"oneOf": [{"type": "null"}, stop, {"type": "array", "items": stop, "maxItems": limits::STOPS}],
            "description": "The answer ends before any of these."},
        "stop_token_ids": {"type": ["array", "null"], "maxItems": limits::STOP_IDS,
            "items": {"type": "integer", "minimum": 0, "maximum": u32::MAX}, "description": "The answer ends at any of these."},
        "ignore_eos": flag("Go on past the model's own end."),
        "stream": flag("As server-sent events."),
        "priority": {"oneOf": [{"type": "null"}, {"type": "integer", "minimum": i64::MIN, "maximum": i64::MAX},
            {"enum": ["interactive", "default", "batch"]}], "description": "How urgent it is."},
        "timeout": number(0.001, f64::from(limits::TIMEOUT_S), "Seconds after which the request fails."),
        "include_cost": flag("Say in usage what it cost, if the server knows its price."),
        "cache_salt": text(limits::NAME_BYTES, "Kept beginnings are shared only with requests of the same salt."),
    })
}

/// vLLM's and llama.cpp's of these.
pub(super) fn extras() -> Value {
    json!({
        "top_n_sigma": number(-1.0, 100.0, "Most standard deviations below the best logit; 0 or less is off."),
        "dynatemp_range": number(0.0, 100.0, "How far the temperature follows the entropy; 0 is off."),
        "dynatemp_exponent": number(0.01, 100.0, "How it follows."),
        "mirostat": count(0, 2, "Mirostat's version; 0 is off."),
        "mirostat_tau": number(0.0, 100.0, "Mirostat: bits of surprise that are aimed at."),
        "mirostat_eta": number(0.0, 10.0, "Mirostat: how fast its cut follows."),
        "allowed_token_ids": {"type": ["array", "null"], "minItems": 1, "maxItems": limits::ALLOWED_IDS,
            "items": {"type": "integer", "minimum": 0, "maximum": u32::MAX}, "description": "Only these tokens may come."},
        "bad_words": {"type": ["array", "null"], "maxItems": limits::BAD_WORDS,
            "items": {"type": "string", "minLength": 1, "maxLength": limits::BAD_WORD_BYTES}, "description": "Never completed."},
        "prompt_logprobs": count(0, limits::LOGPROBS, "Log-probabilities of the prompt's tokens, with so many alternatives; not streamed."),
        "min_tokens": count(0, limits::TOKENS, "Nothing ends the answer before so many tokens; at most max_tokens."),
        "include_stop_str_in_output": flag("The stop that is met is part of the text."),
        "return_token_ids": flag("The answer has the ids of prompt and answer."),
        "return_tokens_as_token_ids": flag("Log-probabilities name tokens as token_id:N."),
        "truncate_prompt_tokens": {"oneOf": [{"type": "null"}, {"const": -1}, {"type": "integer", "minimum": 1, "maximum": limits::TOKENS}],
            "description": "Only so many last tokens of the prompt count; -1: what the context has room for."},
    })
}

pub(super) fn joined(mut properties: Value, more: Value) -> Value {
    if let (Some(all), Value::Object(more)) = (properties.as_object_mut(), more) {
        all.extend(more);
    }
    properties
}

pub(super) fn object(properties: Value, more: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": joined(properties, more), "required": required})
}

pub(super) fn message() -> Value {
    let part =
        object(json!({"type": {"const": "text"}, "text": {"type": "string"}}), json!({}), &["type", "text"]);
    object(
        json!({
            "role": {"enum": ["system", "developer", "user", "assistant", "tool", "function"]},
            "content": {"oneOf": [{"type": "string"}, {"type": "array", "items": part, "maxItems": limits::PARTS}]},
        }),
        json!({}),
        &["role", "content"],
    )
}
