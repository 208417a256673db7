//! The API as an OpenAPI 3.1 document, for clients that are made from it. Bounds are those of [`crate::limits`].

mod ollama;
mod parts;

use serde_json::{Value, json};

use crate::limits;
use crate::routes::{ROUTES, Route, Sent, Shape};
use parts::{count, extras, flag, joined, message, number, object, reference, shared, text};

/// The document, for a server of this version.
pub fn document(version: &str) -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Gristmill",
            "version": version,
            "description": "Language models on CPUs, with the OpenAI API. Fields that are not listed and not known are ignored.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{}, {"key": []}],
        "paths": paths(),
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "schemas": joined(schemas(), ollama::schemas()),
        },
    })
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

/// Every answer that is not one, in OpenAI's shape.
fn faults() -> Vec<(&'static str, &'static str)> {
    vec![
        ("400", "A field has a wrong value, or asks for what is not built here."),
        ("401", "No key, or one that is not known."),
        ("403", "A page of an origin that may not use the server."),
        ("404", "No such path, model or response."),
        ("405", "The path does not answer this method."),
        ("408", "The body was late, or the request's own time is over."),
        ("413", "The body is too large."),
        ("415", "The body is not JSON, or compressed in another way than gzip or deflate."),
        ("421", "Host is not a loopback name, on a server without a key."),
        ("429", "No room now: see Retry-After."),
        ("431", "The head is too large."),
        ("500", "The server's own fault."),
        ("503", "The model is loading, or the server is on its way out: see Retry-After."),
    ]
}

fn operation(route: &Route, tag: &str) -> Value {
    let error = match route.shape {
        Shape::OpenAi => "Error",
        Shape::Anthropic => "AnthropicError",
        Shape::Tgi => "TgiError",
        Shape::Ollama => "OllamaError",
    };
    let mut responses = json!({"200": success(route)});
    for (status, description) in faults() {
        responses[status] = body(description, error);
    }
    if route.shape == Shape::Tgi {
        responses["422"] = body("A field has a wrong value, or asks for what is not built here.", error);
    }
    let mut operation = json!({
        "tags": [tag], "summary": route.summary, "operationId": route.id, "responses": responses,
    });
    if let Some(schema) = route.request {
        operation["requestBody"] = body("The request.", schema);
        operation["requestBody"]["required"] = true.into();
    }
    if route.path.contains('{') {
        operation["parameters"] = json!([
            {"name": "id", "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}},
        ]);
    }
    if route.answer == "ItemList" {
        add_page(&mut operation);
    }
    operation
}

/// What a route answers, whole or as events.
fn success(route: &Route) -> Value {
    let mut said = body(route.answers, route.answer);
    match route.sent {
        Sent::Whole => {}
        Sent::Either => {
            let description = format!("{} As server-sent events if `stream` is true.", route.answers);
            said["description"] = description.into();
            said["content"]["text/event-stream"] = json!({});
        }
        Sent::Streamed => said["content"]["text/event-stream"] = json!({}),
        Sent::Lines => {
            let description = format!("{} As lines of JSON unless `stream` is false.", route.answers);
            said["description"] = description.into();
            said["content"]["application/x-ndjson"] = json!({});
        }
    }
    said
}

/// Adds what asks for a part of a list.
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
            "logprobs": flag("Log-probabilities of the chosen tokens."),
            "top_logprobs": count(0, limits::LOGPROBS, "Alternatives; logprobs must be true."),
            "continue_final_message": flag("The answer goes on where the last message, the assistant's, ends."),
            "add_generation_prompt": flag("Whether the template begins an answer; not with continue_final_message."),
            "reasoning_effort": text(limits::NAME_BYTES, "Handed to the template."),
            "chat_template_kwargs": {"type": ["object", "null"], "maxProperties": limits::TEMPLATE_ARGUMENTS},
        }),
        &["messages"],
    );
    let ids = json!({"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0, "maximum": u32::MAX}});
    let prompt = json!({"oneOf": [{"type": "string", "minLength": 1}, ids,
        {"type": "array", "minItems": 1, "maxItems": limits::PROMPTS, "items": {"type": "string", "minLength": 1}}]});
    let completion = object(
        joined(shared(), extras()),
        json!({"prompt": prompt, "echo": flag("The text begins with the prompt; with logprobs its tokens have theirs too."),
            "logprobs": count(0, limits::LOGPROBS, "Alternatives."),
            "max_tokens": count(0, limits::TOKENS, "Most tokens of the answer; 0, with echo only, is none."),
            "best_of": count(1, limits::N, "Answers computed for each prompt, of which the n likeliest are sent; at least n, not streamed.")}),
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
        "temperature": number(0.0, 2.0, "0 is greedy."),
        "stream": flag("As server-sent events."),
        "stop_sequences": {"type": ["array", "null"], "maxItems": limits::STOPS,
            "items": {"type": "string", "minLength": 1, "maxLength": limits::STOP_BYTES}},
    });
    let response = json!({
        "model": {"type": ["string", "null"]},
        "input": {"type": "string"},
        "instructions": {"type": ["string", "null"]},
        "max_output_tokens": count(1, limits::TOKENS, "Most tokens of the answer."),
        "temperature": number(0.0, 2.0, "0 is greedy."),
        "stream": flag("As server-sent events."),
        "store": flag("Whether it can be asked for later."),
    });
    json!({
        "ChatRequest": chat,
        "CompletionRequest": completion,
        "ResponsesRequest": object(response, json!({}), &["input"]),
        "MessagesRequest": object(counted.clone(), asked, &["messages", "max_tokens"]),
        "CountRequest": object(counted, json!({}), &["messages"]),
        "TokenizeRequest": object(json!({"prompt": {"type": "string"}, "add_special_tokens": flag("With the tokens around a text."),
            "return_token_strs": flag("With the tokens' texts.")}), json!({}), &["prompt"]),
        "DetokenizeRequest": object(json!({"tokens": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": u32::MAX}}}),
            json!({}), &["tokens"]),
        "GenerateRequest": generate(),
        "LlamaRequest": llama(),
        "Generated": {"type": "object", "properties": {"generated_text": {"type": "string"}, "text": {}}},
        "GeneratedList": {"oneOf": [{"type": "array", "items": reference("Generated")}, reference("Generated")]},
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
        "Object": {"type": "object"},
        "Error": object(json!({"error": object(json!({"message": {"type": "string"}, "type": {"type": "string"},
            "param": {"type": ["string", "null"]}, "code": {"type": ["string", "null"]}}), json!({}),
            &["message", "type", "param", "code"])}), json!({}), &["error"]),
        "AnthropicError": object(json!({"type": {"const": "error"}, "error": object(json!({"type": {"type": "string"},
            "message": {"type": "string"}}), json!({}), &["type", "message"])}), json!({}), &["type", "error"]),
    })
}

/// A text to continue, in the form of text-generation-inference.
fn generate() -> Value {
    let parameters = json!({
        "max_new_tokens": count(1, limits::TOKENS, "Most tokens of the answer."),
        "do_sample": flag("Sample rather than take the likeliest."),
        "temperature": number(0.0, 2.0, "0 is greedy."),
        "top_p": number(0.0, 1.0, "Nucleus."),
        "top_k": count(-1, limits::TOKENS, "-1 and 0 keep all."),
        "repetition_penalty": number(0.01, 100.0, "Divides or multiplies logits of tokens seen."),
        "details": flag("The answer says how it came about."),
        "decoder_input_details": flag("And says so of the prompt's tokens; not streamed."),
        "return_full_text": flag("The text begins with the prompt."),
        "truncate": count(1, limits::TOKENS, "Only so many last tokens of the prompt count."),
        "top_n_tokens": count(0, limits::LOGPROBS, "Alternatives of each token."),
        "best_of": count(1, limits::N, "Answers of which the likeliest is sent; not streamed."),
    });
    object(
        json!({"inputs": {"type": "string", "minLength": 1},
            "parameters": {"type": ["object", "null"], "properties": parameters}, "stream": flag("As server-sent events.")}),
        json!({}),
        &["inputs"],
    )
}

/// A text to continue, in the form of llama.cpp.
fn llama() -> Value {
    object(
        joined(shared(), extras_of_llama()),
        json!({"prompt": {"type": "string", "minLength": 1}}),
        &["prompt"],
    )
}

fn extras_of_llama() -> Value {
    json!({
        "n_predict": {"oneOf": [{"type": "null"}, {"const": -1}, {"type": "integer", "minimum": 1, "maximum": limits::TOKENS}],
            "description": "Most tokens of the answer; -1 is as many as fit."},
        "n_probs": count(0, limits::LOGPROBS, "Alternatives of each token; 0 tells none."),
        "return_tokens": flag("The answer has the ids of its tokens."),
        "cache_prompt": flag("Ignored: beginnings are remembered anyway."),
    })
}

/// An answer of this `object`, with these fields at least.
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
