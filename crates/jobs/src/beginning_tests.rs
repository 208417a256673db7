#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use super::*;

fn text(body: &str) -> String {
    String::from_utf8(beginning(body.as_bytes())).unwrap().replace('\u{1e}', "|")
}

#[test]
fn messages_are_in_order_behind_what_templates_put_first() {
    let chat = r#"{"messages":[{"role":"system","content":"Be short."},{"role":"user","content":[
        {"type":"text","text":"Hi"},{"type":"image_url","image_url":{"url":"u"}}]}],"tools":[{"a":1}],"model":"m","n":2}"#;
    let image = r#"{"type":"image_url","image_url":{"url":"u"}}"#;
    assert_eq!(text(chat), format!(r#"m|[{{"a":1}}]|system|Be short.|user|Hi|{image}|"#));
    let anthropic = r#"{"system":"S","messages":[{"content":"Hi","role":"user"}]}"#;
    assert_eq!(text(anthropic), "S|user|Hi|");
    let calls = r#"{"messages":[{"role":"assistant","content":null,"tool_calls":[1]}]}"#;
    assert_eq!(text(calls), "assistant|null|[1]|");
}

#[test]
fn other_endpoints_have_prompts_and_inputs() {
    assert_eq!(text(r#"{"prompt":"Once"}"#), "Once|");
    assert_eq!(text(r#"{"prompt":["a","b"]}"#), "a|b|");
    assert_eq!(text(r#"{"prompt":[1,2]}"#), "1|2|");
    assert_eq!(text(r#"{"instructions":"I","input":[{"role":"user","content":"q"}]}"#), "I|user|q|");
    assert_eq!(text(r#"{"input":"q"}"#), "q|");
    assert_eq!(text(r#"{"query":"q","documents":["d",{"text":"e"}]}"#), "q|d|e|");
}

#[test]
fn requests_that_differ_at_the_end_begin_alike() {
    let request = |question: &str| {
        let system = "s".repeat(500);
        beginning(
            format!(r#"{{"messages":[{{"role":"system","content":"{system}"}},{{"role":"user","content":"{question}"}}]}}"#)
                .as_bytes(),
        )
    };
    let (a, b) = (request("one"), request("two"));
    assert!(a.iter().zip(&b).take_while(|(a, b)| a == b).count() > 500);
    assert_ne!(a, b);
}

#[test]
fn what_is_no_request_has_no_beginning() {
    assert_eq!(text("{"), "");
    assert_eq!(text("[1]"), "");
    assert_eq!(text("{}"), "");
}

#[test]
fn abuse_a_beginning_is_bounded() {
    let body = format!(r#"{{"prompt":"{}"}}"#, "x".repeat(3 << 20));
    assert_eq!(beginning(body.as_bytes()).len(), MAX_BEGINNING);
    let many = format!(r#"{{"prompt":[{}1]}}"#, "1,".repeat(2 << 20));
    assert_eq!(beginning(many.as_bytes()).len(), MAX_BEGINNING);
}
