//! Building blocks shared by the schemas of several endpoints.

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

/// The fields shared by chat and completion requests.
pub(super) fn shared() -> Value {
    let stop = json!({"type": "string", "minLength": 1, "maxLength": limits::STOP_BYTES});
    json!({
        "model": {"type": ["string", "null"], "description": "Name of a served model; may be omitted."},
        "max_tokens": count(1, limits::TOKENS, "Most tokens of the answer."),
        "n": count(1, limits::N, "Number of answers."),
        "temperature": number(0.0, 2.0, "Sampling temperature; 0 is greedy."),
        "top_p": number(0.0, 1.0, "Nucleus sampling: cumulative probability of the tokens kept."),
        "top_k": count(-1, limits::TOKENS, "Number of most likely tokens kept; -1 and 0 keep all."),
        "min_p": number(0.0, 1.0, "Least probability relative to that of the most likely token."),
        "typical_p": number(0.0, 1.0, "Locally typical sampling: cumulative probability of the tokens kept."),
        "repetition_penalty": number(0.01, 100.0, "Divides positive and multiplies negative logits of repeated tokens."),
        "repeat_last_n": count(-1, limits::TOKENS, "Number of last tokens that penalties consider; -1 is all."),
        "frequency_penalty": number(-2.0, 2.0, "Subtracted from a token's logit for each occurrence."),
        "presence_penalty": number(-2.0, 2.0, "Subtracted from the logit of each token that occurred."),
        "dry_multiplier": number(0.0, 100.0, "DRY: strength of the penalty; 0 is off."),
        "dry_base": number(1.0, 100.0, "DRY: base of the penalty's exponential growth with the length of the repetition."),
        "dry_allowed_length": count(0, limits::TOKENS, "DRY: longest repetition without a penalty."),
        "xtc_probability": number(0.0, 1.0, "XTC: probability that the filter is applied."),
        "xtc_threshold": number(0.0, 1.0, "XTC: least probability of a token that can be excluded."),
        "logit_bias": {"type": ["object", "null"], "maxProperties": limits::LOGIT_BIAS,
            "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100},
            "propertyNames": {"pattern": "^[0-9]{1,6}$"}, "description": "Added to logits, by token id."},
        "seed": {"type": ["integer", "null"], "minimum": i64::MIN, "maximum": i64::MAX, "description": "Seed of the sampler; -1 is a random one."},
        "stop": {"oneOf": [{"type": "null"}, stop, {"type": "array", "items": stop, "maxItems": limits::STOPS}],
            "description": "Texts before which the answer ends."},
        "stop_token_ids": {"type": ["array", "null"], "maxItems": limits::STOP_IDS,
            "items": {"type": "integer", "minimum": 0, "maximum": u32::MAX}, "description": "Tokens at which the answer ends."},
        "ignore_eos": flag("Continue past end-of-text tokens."),
        "stream": flag("Send the answer as server-sent events."),
        "priority": {"oneOf": [{"type": "null"}, {"type": "integer", "minimum": i64::MIN, "maximum": i64::MAX},
            {"enum": ["interactive", "default", "batch"]}], "description": "Scheduling priority."},
        "timeout": number(0.001, f64::from(limits::TIMEOUT_S), "Seconds after which the request fails."),
        "include_cost": flag("Return the request's cost in usage, if the server's price is configured."),
        "cache_salt": text(limits::NAME_BYTES, "Share prefix-cache entries only between requests with the same salt."),
    })
}

/// The fields of vLLM and llama.cpp shared by chat and completion requests.
pub(super) fn extras() -> Value {
    json!({
        "top_n_sigma": number(-1.0, 100.0, "Greatest distance below the best logit, in standard deviations; 0 or less is off."),
        "dynatemp_range": number(0.0, 100.0, "Dynamic temperature: range around temperature, by entropy; 0 is off."),
        "dynatemp_exponent": number(0.01, 100.0, "Dynamic temperature: exponent of the normalized entropy."),
        "mirostat": count(0, 2, "Mirostat's version; 0 is off."),
        "mirostat_tau": number(0.0, 100.0, "Mirostat: target surprise, in bits."),
        "mirostat_eta": number(0.0, 10.0, "Mirostat: learning rate."),
        "allowed_token_ids": {"type": ["array", "null"], "minItems": 1, "maxItems": limits::ALLOWED_IDS,
            "items": {"type": "integer", "minimum": 0, "maximum": u32::MAX}, "description": "The only tokens that may be generated."},
        "bad_words": {"type": ["array", "null"], "maxItems": limits::BAD_WORDS,
            "items": {"type": "string", "minLength": 1, "maxLength": limits::BAD_WORD_BYTES}, "description": "Texts that are never generated."},
        "prompt_logprobs": count(0, limits::LOGPROBS, "Return log-probabilities of the prompt, with this many alternatives; not streamed."),
        "min_tokens": count(0, limits::TOKENS, "Least tokens of the answer; at most max_tokens."),
        "include_stop_str_in_output": flag("Include the stop string that matched in the text."),
        "return_token_ids": flag("Return the token ids of prompt and answer; in a stream, one event a token."),
        "resume": {"type": ["object", "null"], "required": ["token_ids"],
            "properties": {"token_ids": {"type": "array", "maxItems": limits::RESUMED_TOKENS,
                "items": {"type": "integer", "minimum": 0, "maximum": u32::MAX}}},
            "description": "Continue an answer after these tokens of it, which another node generated with the same seed."},
        "return_tokens_as_token_ids": flag("Log-probabilities name tokens as token_id:N."),
        "truncate_prompt_tokens": {"oneOf": [{"type": "null"}, {"const": -1}, {"type": "integer", "minimum": 1, "maximum": limits::TOKENS}],
            "description": "Truncate the prompt to this many last tokens; -1: to what fits into the context."},
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
