//! What is refused, warned of and configured in requests; errors of providers and their classes.

use serde_json::{Value, json};
use translation::{
    Dialect, ErrorClass, RequestOptions, StreamError, classify, classify_stream, error, request,
};

fn translated(
    from: Dialect,
    to: Dialect,
    body: &Value,
    options: &RequestOptions<'_>,
) -> (Value, Vec<String>) {
    let out = request(from, to, body.to_string().as_bytes(), options).unwrap();
    (serde_json::from_slice(&out.body).unwrap(), out.warnings)
}

fn chat(more: Value) -> Value {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "x"}]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[test]
fn what_cannot_be_said_is_refused_by_name() {
    for (to, more, param) in [
        (Dialect::Anthropic, json!({"n": 2}), "n"),
        (Dialect::Anthropic, json!({"logprobs": true}), "logprobs"),
        (Dialect::Anthropic, json!({"response_format": {"type": "json_object"}}), "response_format"),
        (Dialect::OpenAiResponses, json!({"n": 2}), "n"),
        (Dialect::OpenAiResponses, json!({"stop": "x"}), "stop"),
        (Dialect::Gemini, json!({"logit_bias": {"5": 1}}), "logit_bias"),
        (Dialect::Gemini, json!({"seed": 5_000_000_000_u64}), "seed"),
        (Dialect::Gemini, json!({"tools": [{"type": "custom"}]}), "tools[0].type"),
        (
            Dialect::Gemini,
            json!({"messages": [{"role": "user", "content": [{"type": "video"}]}]}),
            "messages[0].content[0].type",
        ),
        (Dialect::Gemini, json!({"messages": []}), "messages"),
        (Dialect::Gemini, json!({"messages": [{"role": "user", "content": 5}]}), "messages[0].content"),
        (Dialect::Gemini, json!({"temperature": "hot"}), "temperature"),
    ] {
        let fault =
            request(Dialect::OpenAiChat, to, chat(more).to_string().as_bytes(), &RequestOptions::default())
                .unwrap_err();
        assert_eq!((fault.status, fault.param.as_deref()), (400, Some(param)), "{fault}");
        assert!(fault.message.contains(param.rsplit('.').next().unwrap()), "{fault}");
    }
    for (from, body, param) in [
        (
            Dialect::OpenAiResponses,
            json!({"input": "x", "previous_response_id": "r"}),
            "previous_response_id",
        ),
        (Dialect::OpenAiResponses, json!({"input": "x", "tools": [{"type": "web_search"}]}), "tools[0].type"),
        (
            Dialect::Anthropic,
            json!({"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "bash_20250124"}]}),
            "tools[0].type",
        ),
        (
            Dialect::Gemini,
            json!({"contents": [{"parts": [{"text": "x"}]}], "tools": [{"googleSearch": {}}]}),
            "tools[0].googleSearch",
        ),
        (
            Dialect::Gemini,
            json!({"contents": [{"parts": [{"text": "x"}]}], "cachedContent": "c"}),
            "cachedContent",
        ),
    ] {
        let fault =
            request(from, Dialect::OpenAiChat, body.to_string().as_bytes(), &RequestOptions::default())
                .unwrap_err();
        assert_eq!(fault.param.as_deref(), Some(param), "{fault}");
    }
}

#[test]
fn what_is_left_out_is_warned_of_or_refused_as_configured() {
    let body = chat(json!({"seed": 1, "temperature": 1.5, "unknown_field": 1, "frequency_penalty": 0.5}));
    let (out, warnings) =
        translated(Dialect::OpenAiChat, Dialect::Anthropic, &body, &RequestOptions::default());
    assert_eq!((&out["temperature"], &out["max_tokens"]), (&json!(1.0), &json!(4096)));
    for words in ["unknown_field", "seed", "frequency_penalty", "temperature 1.5", "max_tokens"] {
        assert!(warnings.iter().any(|warning| warning.contains(words)), "{words}: {warnings:?}");
    }
    let options = RequestOptions {
        drop: &["temperature"],
        model: Some("up"),
        default_max_tokens: 7,
        ..RequestOptions::default()
    };
    let (out, warnings) = translated(Dialect::OpenAiChat, Dialect::Anthropic, &body, &options);
    assert_eq!(
        (&out["temperature"], &out["model"], &out["max_tokens"]),
        (&Value::Null, &json!("up"), &json!(7))
    );
    assert!(warnings.contains(&"temperature is left out, as configured".to_owned()));
    let strict = RequestOptions { strict: true, ..RequestOptions::default() };
    let fault =
        request(Dialect::OpenAiChat, Dialect::Anthropic, body.to_string().as_bytes(), &strict).unwrap_err();
    assert!(fault.message.contains("cannot be translated exactly"), "{fault}");
}

#[test]
fn equal_dialects_keep_their_bytes() {
    let body = br#"{ "model":"a", "unknown" : 1.50 , "messages":[]}"#;
    let options = RequestOptions { model: Some("b"), ..RequestOptions::default() };
    let out = request(Dialect::OpenAiChat, Dialect::OpenAiChat, body, &options).unwrap();
    assert_eq!(String::from_utf8(out.body).unwrap(), r#"{ "model":"b", "unknown" : 1.50 , "messages":[]}"#);
}

#[test]
fn signatures_go_to_their_provider_and_back() {
    let body = json!({"contents": [
        {"role": "user", "parts": [{"text": "x"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "AAEC"}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "y"}}}]}]});
    // A client of the chat dialect got the call from Gemini, with the signature in its id.
    let answer = json!({"candidates": [{"content": body["contents"][1], "finishReason": "STOP"}]});
    for client in [Dialect::OpenAiChat, Dialect::OpenAiResponses, Dialect::Anthropic] {
        let options = translation::AnswerOptions::default();
        let got =
            translation::answer(Dialect::Gemini, client, answer.to_string().as_bytes(), &options).unwrap();
        let got: Value = serde_json::from_slice(&got.body).unwrap();
        let id = match client {
            Dialect::OpenAiChat => &got["choices"][0]["message"]["tool_calls"][0]["id"],
            Dialect::OpenAiResponses => &got["output"][0]["call_id"],
            _ => &got["content"][0]["id"],
        };
        let next = match client {
            Dialect::OpenAiChat => {
                json!({"messages": [{"role": "user", "content": "x"}, got["choices"][0]["message"],
                {"role": "tool", "tool_call_id": id, "content": "y"}]})
            }
            Dialect::OpenAiResponses => json!({"input": [{"role": "user", "content": "x"}, got["output"][0],
                {"type": "function_call_output", "call_id": id, "output": "y"}]}),
            _ => json!({"max_tokens": 1, "messages": [{"role": "user", "content": "x"},
                {"role": "assistant", "content": got["content"]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "y"}]}]}),
        };
        let (back, _) = translated(client, Dialect::Gemini, &next, &RequestOptions::default());
        let call = &back["contents"][1]["parts"][0];
        assert_eq!(call["thoughtSignature"], "AAEC", "{client}: {back}");
        assert_eq!(back["contents"][2]["parts"][0]["functionResponse"]["id"], call["functionCall"]["id"]);
    }
}

#[test]
fn errors_have_classes() {
    for (status, body, class) in [
        (
            429,
            json!({"error": {"message": "Rate limit", "type": "requests", "code": "rate_limit_exceeded"}}),
            ErrorClass::RateLimited,
        ),
        (
            429,
            json!({"error": {"message": "You exceeded", "type": "insufficient_quota", "code": "insufficient_quota"}}),
            ErrorClass::Billing,
        ),
        (
            400,
            json!({"error": {"message": "long", "type": "invalid_request_error", "code": "context_length_exceeded"}}),
            ErrorClass::ContextLength,
        ),
        (400, json!({"error": {"message": "filtered", "code": "content_filter"}}), ErrorClass::ContentFilter),
        (401, json!({"error": {"message": "no", "code": "invalid_api_key"}}), ErrorClass::Auth),
        (404, json!({"error": {"message": "no", "code": "model_not_found"}}), ErrorClass::NotFound),
        (
            400,
            json!({"error": {"message": "n is 0", "type": "invalid_request_error", "param": "n"}}),
            ErrorClass::BadRequest,
        ),
        (
            529,
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
            ErrorClass::Overloaded,
        ),
        (
            400,
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens"}}),
            ErrorClass::ContextLength,
        ),
        (
            400,
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": "Your credit balance is too low"}}),
            ErrorClass::Billing,
        ),
    ] {
        assert_eq!(classify(status, body.to_string().as_bytes()), class, "{status} {body}");
    }
}

#[test]
fn errors_of_other_shapes_have_classes() {
    for (status, body, class) in [
        (500, json!({"type": "error", "error": {"type": "api_error", "message": "x"}}), ErrorClass::Server),
        (
            429,
            json!({"error": {"code": 429, "message": "x", "status": "RESOURCE_EXHAUSTED"}}),
            ErrorClass::RateLimited,
        ),
        (
            429,
            json!({"error": {"code": 429, "message": "x", "status": "RESOURCE_EXHAUSTED", "details": [{"violations": [
            {"quotaId": "GenerateRequestsPerDayPerProject"}]}]}}),
            ErrorClass::Billing,
        ),
        (
            400,
            json!({"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT", "details": [
            {"reason": "API_KEY_INVALID"}]}}),
            ErrorClass::Auth,
        ),
        (
            503,
            json!({"error": {"code": 503, "message": "x", "status": "UNAVAILABLE"}}),
            ErrorClass::Overloaded,
        ),
        (
            400,
            json!([{"error": {"code": 400, "message": "The input token count (5) exceeds", "status": "INVALID_ARGUMENT"}}]),
            ErrorClass::ContextLength,
        ),
        (502, json!("<html>"), ErrorClass::Server),
        (504, json!(null), ErrorClass::Server),
        (402, json!({}), ErrorClass::Billing),
        (422, json!({"detail": "x"}), ErrorClass::BadRequest),
    ] {
        assert_eq!(classify(status, body.to_string().as_bytes()), class, "{status} {body}");
    }
    let stream = StreamError { message: "x".into(), code: Some("overloaded_error".into()), status: None };
    assert_eq!(classify_stream(&stream), ErrorClass::Overloaded);
}

#[test]
fn errors_keep_message_and_code_in_the_client_s_shape() {
    let body = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}).to_string();
    let of = |to: Dialect, status: u16, body: &str| {
        let (status, body) = error(to, status, body.as_bytes());
        (status, serde_json::from_slice::<Value>(&body).unwrap())
    };
    let (status, chat) = of(Dialect::OpenAiChat, 529, &body);
    assert_eq!(
        (status, &chat["error"]["message"], &chat["error"]["code"]),
        (503, &json!("Busy"), &json!("overloaded_error"))
    );
    let (status, gemini) = of(Dialect::Gemini, 529, &body);
    assert_eq!(
        (status, &gemini["error"]["status"], &gemini["error"]["code"]),
        (503, &json!("UNAVAILABLE"), &json!(503))
    );
    let (status, back) = of(Dialect::Anthropic, 503, &gemini.to_string());
    assert_eq!((status, &back["error"]["type"]), (529, &json!("overloaded_error")));
    let (_, param) =
        of(Dialect::OpenAiResponses, 400, r#"{"error":{"message":"bad n","param":"n","code":"x"}}"#);
    assert_eq!((&param["error"]["param"], &param["error"]["code"]), (&json!("n"), &json!("x")));
    let (status, page) = of(Dialect::Anthropic, 502, "<html><body>Bad gateway</body></html>");
    assert_eq!((status, &page["error"]["message"]), (502, &json!("the upstream answered with status 502")));
}
