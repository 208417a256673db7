//! The OpenAPI 3.1 document of the API, for generating clients. Limits are those of [`crate::limits`].

mod encoders;
mod jobs;
mod oip;
mod ollama;
mod parts;

use serde_json::{Value, json};

use crate::limits;
use crate::routes::{ErrorFormat, ROUTES, ResponseMode, Route};
use parts::{count, extras, flag, joined, message, number, object, reference, shared, text};

/// The OpenAPI document of a server of this version.
pub fn document(version: &str) -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Gristmill",
            "version": version,
            "description": "LLM and encoder inference on CPUs with the OpenAI API. Unknown fields are ignored.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{}, {"key": []}],
        "paths": paths(),
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "schemas": all_schemas(),
        },
    })
}

fn all_schemas() -> Value {
    let of_others = [ollama::schemas(), encoders::schemas(), oip::schemas(), jobs::schemas()];
    of_others.into_iter().fold(schemas(), joined)
}

fn paths() -> Value {
    let mut paths = json!({});
    for route in ROUTES {
        if let Some(tag) = route.tag {
            paths[route.documented_path()][route.method.to_lowercase()] = operation(route, tag);
        }
    }
    paths
}

fn body(description: &str, schema: &str) -> Value {
    json!({"description": description, "content": {"application/json": {"schema": reference(schema)}}})
}

/// Status codes and descriptions of the error responses.
fn faults() -> Vec<(&'static str, &'static str)> {
    vec![
        ("400", "A field has an invalid or unsupported value."),
        ("401", "The API key is missing or unknown."),
        ("403", "The web page's origin is not allowed."),
        ("404", "The path, model or response does not exist."),
        ("405", "The path does not support this method."),
        ("408", "The body did not arrive in time, or the request's timeout passed."),
        ("413", "The body is too large."),
        ("415", "The body is not JSON, or its compression is not gzip or deflate."),
        ("421", "Host is not a loopback name, on a server without API keys."),
        ("429", "The queue is full or a rate limit is reached: see Retry-After."),
        ("431", "The request headers are too large."),
        ("500", "Internal server error."),
        ("503", "The model is loading, or the server is shutting down: see Retry-After."),
    ]
}

fn operation(route: &Route, tag: &str) -> Value {
    let error = match route.shape {
        ErrorFormat::OpenAi => "Error",
        ErrorFormat::Anthropic => "AnthropicError",
        ErrorFormat::Tgi => "TgiError",
        ErrorFormat::Ollama => "OllamaError",
        ErrorFormat::Tei => "TeiError",
        ErrorFormat::Cohere => "CohereError",
        ErrorFormat::Oip => "OipError",
        // Not part of the document.
        ErrorFormat::Grpc => "Object",
    };
    let status = if jobs::is_accepted(route) { "202" } else { "200" };
    let mut responses = json!({status: success(route)});
    for (status, description) in faults() {
        responses[status] = body(description, error);
    }
    if matches!(route.shape, ErrorFormat::Tgi | ErrorFormat::Tei) {
        responses["422"] = body("A field has an invalid or unsupported value.", error);
    }
    let mut operation = json!({
        "tags": [tag], "summary": route.summary, "operationId": route.id, "responses": responses,
    });
    if let Some(schema) = route.request {
        operation["requestBody"] = body("The request.", schema);
        operation["requestBody"]["required"] = true.into();
    }
    if route.path.contains('{') {
        let named = |name: &str| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}});
        let names = ["id", "version", "delivery"]
            .into_iter()
            .filter(|name| route.documented_path().contains(&format!("{{{name}}}")));
        operation["parameters"] = names.map(named).collect();
    }
    if route.answer == "ItemList" {
        add_page(&mut operation);
    }
    jobs::complete(route, &mut operation);
    operation
}

/// The description of a route's successful response.
fn success(route: &Route) -> Value {
    let mut said = body(route.answers, route.answer);
    if route.answer == "InferResponse" {
        said["content"]["application/octet-stream"] = json!({});
    }
    if let Some(media) = jobs::media(route) {
        said["content"] = json!({media: {}});
    }
    match route.sent {
        ResponseMode::Whole => {}
        ResponseMode::Either => {
            let description = format!("{} Sent as server-sent events if `stream` is true.", route.answers);
            said["description"] = description.into();
            said["content"]["text/event-stream"] = json!({});
        }
        ResponseMode::Streamed => said["content"]["text/event-stream"] = json!({}),
        ResponseMode::Lines => {
            let description = format!("{} Sent as lines of JSON unless `stream` is false.", route.answers);
            said["description"] = description.into();
            said["content"]["application/x-ndjson"] = json!({});
        }
    }
    said
}

/// Adds the query parameters of a paginated list.
fn add_page(operation: &mut Value) {
    if let Some(parameters) = operation["parameters"].as_array_mut() {
        let query = |name: &str, schema: Value| json!({"name": name, "in": "query", "schema": schema});
        parameters.push(query("after", json!({"type": "string"})));
        parameters.push(query("limit", json!({"type": "integer", "minimum": 1, "maximum": 100})));
        parameters.push(query("order", json!({"enum": ["asc", "desc"]})));
    }
}

fn messages() -> Value {
    json!({"type": "array", "minItems": 1, "maxItems": limits::MESSAGES, "items": message()})
}

fn schemas() -> Value {
    let tool = object(
        json!({
            "type": {"const": "function"},
            "function": object(
                json!({"name": {"type": "string", "minLength": 1, "maxLength": limits::NAME_BYTES},
                    "description": {"type": "string"}, "parameters": {"type": "object"}}),
                json!({}), &["name"]),
        }),
        json!({}),
        &["type", "function"],
    );
    let chat = object(
        joined(shared(), extras()),
        json!({
            "messages": messages(),
            "max_completion_tokens": count(1, limits::TOKENS, "Most tokens of the answer."),
            "tools": {"type": ["array", "null"], "maxItems": limits::TOOLS, "items": tool, "description": "Functions that the model may call."},
            "logprobs": flag("Return log-probabilities of the generated tokens."),
            "top_logprobs": count(0, limits::LOGPROBS, "Number of alternatives of each token; logprobs must be true."),
            "continue_final_message": flag("Continue the last message, which must be the assistant's."),
            "add_generation_prompt": flag("Whether the prompt ends with the start of an assistant message; not with continue_final_message."),
            "reasoning_effort": text(limits::NAME_BYTES, "Reasoning effort, a variable of the chat template."),
            "chat_template_kwargs": {"type": ["object", "null"], "maxProperties": limits::TEMPLATE_ARGUMENTS},
        }),
        &["messages"],
    );
    let ids = json!({"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0, "maximum": u32::MAX}});
    let prompt = json!({"oneOf": [{"type": "string", "minLength": 1}, ids,
        {"type": "array", "minItems": 1, "maxItems": limits::PROMPTS, "items": {"type": "string", "minLength": 1}}]});
    let completion = object(
        joined(shared(), extras()),
        json!({"prompt": prompt, "echo": flag("Start the text with the prompt; with logprobs, including the prompt's log-probabilities."),
            "logprobs": count(0, limits::LOGPROBS, "Number of alternatives of each token."),
            "max_tokens": count(0, limits::TOKENS, "Most tokens of the answer; 0 is allowed with echo only."),
            "best_of": count(1, limits::N, "Answers computed for each prompt, of which the n most likely are sent; at least n; not streamed.")}),
        &["prompt"],
    );
    let turn = object(
        json!({"role": {"enum": ["user", "assistant"]}, "content": {"type": "string"}}),
        json!({}),
        &["role", "content"],
    );
    let turns = json!({"type": "array", "minItems": 1, "maxItems": limits::MESSAGES, "items": turn});
    let counted = json!({"model": {"type": ["string", "null"]}, "messages": turns, "system": {"type": ["string", "null"]}});
    let asked = json!({
        "max_tokens": {"type": "integer", "minimum": 1, "maximum": limits::TOKENS},
        "temperature": number(0.0, 2.0, "Sampling temperature; 0 is greedy."),
        "stream": flag("Send the answer as server-sent events."),
        "stop_sequences": {"type": ["array", "null"], "maxItems": limits::STOPS,
            "items": {"type": "string", "minLength": 1, "maxLength": limits::STOP_BYTES}},
    });
    let response = json!({
        "model": {"type": ["string", "null"]},
        "input": {"type": "string"},
        "instructions": {"type": ["string", "null"]},
        "max_output_tokens": count(1, limits::TOKENS, "Most tokens of the answer."),
        "temperature": number(0.0, 2.0, "Sampling temperature; 0 is greedy."),
        "stream": flag("Send the answer as server-sent events."),
        "store": flag("Whether the response is stored for later retrieval."),
    });
    json!({
        "ChatRequest": chat,
        "CompletionRequest": completion,
        "ResponsesRequest": object(response, json!({}), &["input"]),
        "MessagesRequest": object(counted.clone(), asked, &["messages", "max_tokens"]),
        "CountRequest": object(counted, json!({}), &["messages"]),
        "TokenizeRequest": object(json!({"prompt": {"type": "string"}, "add_special_tokens": flag("Add the model's special tokens (BOS, EOS) around the text."),
            "return_token_strs": flag("Return the text of each token.")}), json!({}), &["prompt"]),
        "DetokenizeRequest": object(json!({"tokens": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": u32::MAX}}}),
            json!({}), &["tokens"]),
        "GenerateRequest": generate(),
        "LlamaRequest": llama(),
        "LlamaInfillRequest": llama_infill(),
        "Generated": {"type": "object", "properties": {"generated_text": {"type": "string"}, "text": {}}},
        "GeneratedList": {"oneOf": [{"type": "array"}, reference("Generated")]},
        "LlamaCompletion": {"oneOf": [{"type": "object"}, {"type": "array", "items": {"type": "object"}}]},
        "Slots": {"type": "array", "items": object(json!({"id": {"type": "integer"}, "n_ctx": {"type": "integer"},
            "is_processing": {"type": "boolean"}}), json!({}), &["id", "n_ctx", "is_processing"])},
        "TokenizerInfo": object(json!({"tokenizer_class": {"type": "string"}}), json!({}), &["tokenizer_class"]),
        "TgiError": object(json!({"error": {"type": "string"}, "error_type": {"type": "string"}}), json!({}),
            &["error", "error_type"]),
        "ChatCompletion": answer("chat.completion", &["id", "object", "created", "model", "choices", "usage"]),
        "Completion": answer("text_completion", &["id", "object", "created", "model", "choices", "usage"]),
        "Response": answer("response", &["id", "object", "created_at", "status", "model", "output"]),
        "Message": {"type": "object", "required": ["id", "type", "role", "model", "content", "stop_reason", "usage"],
            "properties": {"type": {"const": "message"}, "role": {"const": "assistant"}, "content": {"type": "array"}}},
        "Count": object(json!({"input_tokens": {"type": "integer", "minimum": 0}}), json!({}), &["input_tokens"]),
        "ItemList": object(json!({"object": {"const": "list"}, "data": {"type": "array"}, "has_more": {"type": "boolean"}}),
            json!({}), &["object", "data", "first_id", "last_id", "has_more"]),
        "Deleted": object(json!({"id": {"type": "string"}, "deleted": {"const": true}}), json!({}), &["id", "deleted"]),
        "Model": object(json!({"id": {"type": "string"}, "object": {"const": "model"}, "created": {"type": "integer"},
            "max_model_len": {"type": "integer"}, "pinned": {"type": "boolean"}, "memory_bytes": {"type": "integer"},
            "state": {"enum": ["registered", "loading", "ready", "draining", "failed"]}}), json!({}), &["id", "object", "created", "state"]),
        "ModelList": object(json!({"object": {"const": "list"}, "data": {"type": "array", "items": reference("Model")}}), json!({}), &["object", "data"]),
        "Tokens": object(json!({"count": {"type": "integer"}, "max_model_len": {"type": "integer"},
            "tokens": {"type": "array", "items": {"type": "integer"}}}), json!({}), &["count", "tokens"]),
        "Text": object(json!({"prompt": {"type": "string"}}), json!({}), &["prompt"]),
        "Version": object(json!({"version": {"type": "string"}}), json!({}), &["version"]),
        "Node": node(),
        "Object": {"type": "object"},
        "Error": object(json!({"error": object(json!({"message": {"type": "string"}, "type": {"type": "string"},
            "param": {"type": ["string", "null"]}, "code": {"type": ["string", "null"]}}), json!({}),
            &["message", "type", "param", "code"])}), json!({}), &["error"]),
        "AnthropicError": object(json!({"type": {"const": "error"}, "error": object(json!({"type": {"type": "string"},
            "message": {"type": "string"}}), json!({}), &["type", "message"])}), json!({}), &["type", "error"]),
    })
}

/// The schema of a node's record.
fn node() -> Value {
    let count = json!({"type": "integer", "minimum": 0});
    let load = object(
        json!({"running": count, "waiting": count, "backlog_tokens": count}),
        json!({}),
        &["running", "waiting", "backlog_tokens"],
    );
    let step = object(json!({"rows": count, "ms": {"type": "number"}}), json!({}), &["rows", "ms"]);
    let cache =
        json!({"bytes": count, "capacity_bytes": count, "queried_tokens": count, "hit_tokens": count});
    let model = json!({
        "names": {"type": "array", "minItems": 1, "items": {"type": "string"}},
        "state": {"enum": ["registered", "loading", "ready", "draining", "failed"]},
        "operations": {"type": "array", "items": {"type": "string"}},
        "fingerprint": {"type": "string"}, "context": count, "load": load, "output_tokens": count,
        "unbounded": count, "slots": count, "prompt_tokens_per_s": {"type": "number"},
        "step_times": {"type": "array", "maxItems": crate::node::STEP_TIMES, "items": step},
        "prefix_cache": object(cache, json!({}), &["bytes", "capacity_bytes", "queried_tokens", "hit_tokens"]),
    });
    object(
        json!({
            "id": {"type": "string"}, "sequence": count, "version": {"type": "string"}, "tier": {"type": "string"},
            "uptime_s": count, "state": {"enum": ["starting", "ready", "draining"]}, "load": load,
            "models": {"type": "array", "items": object(model, json!({}), &["names", "state", "operations", "load"])},
        }),
        json!({}),
        &["id", "sequence", "version", "tier", "uptime_s", "state", "load", "models"],
    )
}

/// The schema of a text-generation-inference request.
fn generate() -> Value {
    let parameters = json!({
        "max_new_tokens": count(1, limits::TOKENS, "Most tokens of the answer."),
        "do_sample": flag("Sample instead of greedy decoding."),
        "temperature": number(0.0, 2.0, "Sampling temperature; 0 is greedy."),
        "top_p": number(0.0, 1.0, "Nucleus sampling: cumulative probability of the tokens kept."),
        "top_k": count(-1, limits::TOKENS, "Number of most likely tokens kept; -1 and 0 keep all."),
        "repetition_penalty": number(0.01, 100.0, "Divides positive and multiplies negative logits of repeated tokens."),
        "details": flag("Return details of the answer: finish reason, tokens, log-probabilities."),
        "decoder_input_details": flag("Include the prompt's tokens in the details; not streamed."),
        "return_full_text": flag("Start the text with the prompt."),
        "truncate": count(1, limits::TOKENS, "Truncate the prompt to this many last tokens."),
        "top_n_tokens": count(0, limits::LOGPROBS, "Number of alternatives of each token."),
        "best_of": count(1, limits::N, "Answers computed, of which the most likely is sent; not streamed."),
    });
    object(
        json!({"inputs": {"type": "string", "minLength": 1},
            "parameters": {"type": ["object", "null"], "properties": parameters}, "stream": flag("Send the answer as server-sent events.")}),
        json!({}),
        &["inputs"],
    )
}

/// The schema of a llama.cpp completion request.
fn llama() -> Value {
    object(
        joined(shared(), extras_of_llama()),
        json!({"prompt": {"type": "string", "minLength": 1}}),
        &["prompt"],
    )
}

fn llama_infill() -> Value {
    let text = json!({"type": "string"});
    let fields = json!({
        "input_prefix": text, "input_suffix": text, "prompt": text,
        "input_extra": {"type": "array", "items": {"type": "object", "properties": {"filename": text, "text": text}}},
    });
    object(joined(shared(), extras_of_llama()), fields, &[])
}

fn extras_of_llama() -> Value {
    json!({
        "n_predict": {"oneOf": [{"type": "null"}, {"const": -1}, {"type": "integer", "minimum": 1, "maximum": limits::TOKENS}],
            "description": "Most tokens of the answer; -1 is no limit."},
        "n_probs": count(0, limits::LOGPROBS, "Number of alternatives of each token; 0 returns no probabilities."),
        "return_tokens": flag("Return the token ids of the answer."),
        "cache_prompt": flag("Ignored: the prefix cache is always used."),
    })
}

/// The schema of a response with this `object` and these required fields.
fn answer(kind: &str, required: &[&str]) -> Value {
    json!({"type": "object", "properties": {"id": {"type": "string"}, "object": {"const": kind}}, "required": required})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every name that is referred to is there, and every schema is used.
    #[test]
    fn references_lead_somewhere() {
        let document = document("1");
        let text = document.to_string();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for name in schemas.keys() {
            assert!(text.contains(&format!("#/components/schemas/{name}\"")), "{name} is used nowhere");
        }
        let references =
            text.split("#/components/schemas/").skip(1).map(|rest| rest.split('"').next().unwrap());
        for name in references {
            assert!(schemas.contains_key(name), "{name} is not there");
        }
    }

    #[test]
    fn operations_have_names_of_their_own() {
        let document = document("1");
        let paths = document["paths"].as_object().unwrap();
        let operations = paths.values().flat_map(|path| path.as_object().unwrap().values());
        let mut ids: Vec<&str> = operations.map(|o| o["operationId"].as_str().unwrap()).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all);
    }
}
