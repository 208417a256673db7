#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use super::*;

const CHAT: &str = "/v1/chat/completions";

fn parsed(text: &str) -> Result<Line, FileError> {
    parse_line(7, text.as_bytes(), Some(CHAT))
}

/// The code and the field of a bad line's error.
fn fault(text: &str) -> (String, Option<String>) {
    let error = parsed(text).unwrap_err();
    assert_eq!(error.line, Some(7));
    assert!(error.message.contains("line 7") || error.message.contains("Line 7"), "{}", error.message);
    (error.code, error.param)
}

fn code(text: &str) -> String {
    fault(text).0
}

#[test]
fn a_line_keeps_the_bytes_of_its_body() {
    let body =
        r#"{ "model":"m",  "temperature":1.0e0, "big":123456789012345678901234567890, "messages":[] }"#;
    let line =
        parsed(&format!(r#"{{"custom_id":"a","method":"POST","url":"{CHAT}","body":{body},"other":[1]}}"#))
            .unwrap();
    assert_eq!(line.body, body.as_bytes());
    assert_eq!((line.number, line.custom_id.as_str(), line.model.as_deref()), (7, "a", Some("m")));
    assert_eq!((line.method.as_str(), line.url.as_str(), line.fault), ("POST", CHAT, None));
}

#[test]
fn what_is_no_request_is_an_error_of_the_file() {
    assert_eq!(code("{"), "invalid_json_line");
    assert_eq!(code("null"), "invalid_json_line");
    assert_eq!(code("[]"), "invalid_json_line");
    assert_eq!(code("{} {}"), "invalid_json_line");
    let twice = r#"{"custom_id":"a","custom_id":"b","method":"POST","url":"/v1/chat/completions","body":{}}"#;
    assert_eq!(code(twice), "invalid_json_line");
    assert_eq!(parse_line(1, b"{\"custom_id\":\"\xFF\"}", None).unwrap_err().code, "invalid_json_line");
}

#[test]
fn each_field_is_needed() {
    let missing = |text, param: &str| {
        assert_eq!(fault(text), ("missing_required_parameter".to_owned(), Some(param.to_owned())));
    };
    missing(r#"{"method":"POST","url":"/v1/chat/completions","body":{}}"#, "custom_id");
    missing(r#"{"custom_id":null,"method":"POST","url":"/v1/chat/completions","body":{}}"#, "custom_id");
    missing(r#"{"custom_id":"a","url":"/v1/chat/completions","body":{}}"#, "method");
    missing(r#"{"custom_id":"a","method":"POST","body":{}}"#, "url");
    missing(r#"{"custom_id":"a","method":"POST","url":"/v1/chat/completions"}"#, "body");
}

#[test]
fn fields_are_checked() {
    let line = |id: &str, method: &str, url: &str, body: &str| {
        code(&format!(r#"{{"custom_id":{id},"method":{method},"url":{url},"body":{body}}}"#))
    };
    let chat = format!("{CHAT:?}");
    assert_eq!(line("\"\"", "\"POST\"", &chat, "{}"), "invalid_custom_id");
    assert_eq!(line(&format!("\"{}\"", "a".repeat(513)), "\"POST\"", &chat, "{}"), "invalid_custom_id");
    assert_eq!(line("1", "\"POST\"", &chat, "{}"), "invalid_json_line");
    assert_eq!(line("\"a\"", "\"GET\"", &chat, "{}"), "invalid_method");
    assert_eq!(line("\"a\"", "\"post\"", &chat, "{}"), "invalid_method");
    assert_eq!(line("\"a\"", "\"POST\"", "\"/v1/embeddings\"", "{}"), "url_mismatch");
    assert_eq!(line("\"a\"", "\"POST\"", &chat, "[]"), "invalid_request");
    assert_eq!(line("\"a\"", "\"POST\"", &chat, "\"{}\""), "invalid_request");
    assert_eq!(line("\"a\"", "\"POST\"", &chat, "{\"model\":3}"), "invalid_request");
}

#[test]
fn a_line_may_ask_any_endpoint_where_none_is_given() {
    let text = br#"{"custom_id":"a","method":"POST","url":"/v1/embeddings","body":{}}"#;
    assert_eq!(parse_line(1, text, None).unwrap().url, "/v1/embeddings");
}

/// ray #57140: one bad row ended the whole batch.
#[test]
fn fault_a_stream_is_an_error_of_the_line_only() {
    let line = |stream: &str| {
        let text = format!(
            r#"{{"custom_id":"a","method":"POST","url":"{CHAT}","body":{{"model":null,"stream":{stream}}}}}"#
        );
        parsed(&text).unwrap().fault.map(|fault| fault.code)
    };
    assert_eq!(line("true").as_deref(), Some("stream_not_supported"));
    assert_eq!(line("false"), None);
    assert_eq!(line("null"), None);
}

#[test]
fn abuse_messages_show_little_of_the_line() {
    let long = "x".repeat(100_000);
    let text = format!(r#"{{"custom_id":"a","method":"{long}\n\u001b[31m","url":"/","body":{{}}}}"#);
    let message = parsed(&text).unwrap_err().message;
    assert!(message.len() < 200, "{message}");
    assert_eq!(quoted("a\n\u{1b}\""), r#""a\n\u{1b}\"""#);
    // Characters are not cut.
    assert!(quoted(&"é".repeat(65)).ends_with("é\"…"));
}

#[test]
fn abuse_deep_json_is_no_crash() {
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let text = format!(r#"{{"custom_id":{deep},"method":"POST","url":"{CHAT}","body":{{}}}}"#);
    assert_eq!(code(&text), "invalid_json_line");
    // In a body it is the endpoint that looks at it.
    let text = format!(r#"{{"custom_id":"a","method":"POST","url":"{CHAT}","body":{{"x":{deep}}}}}"#);
    assert!(parsed(&text).is_ok());
}
