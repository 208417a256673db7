//! Endings, usage and errors of streams and whole answers, in any cut.

use proptest::prelude::*;
use serde_json::{Value, json};
use translation::{
    Dialect, Ending, FinishReason, Framing, Scanner, ScannerOptions, ScannerState, TokenUsage,
};

fn events(dialect: Dialect, data: &[Value]) -> String {
    data.iter()
        .map(|data| match dialect {
            Dialect::Anthropic | Dialect::OpenAiResponses => {
                format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())
            }
            Dialect::OpenAiChat | Dialect::Gemini => format!("data: {data}\n\n"),
        })
        .collect()
}

fn options() -> ScannerOptions {
    ScannerOptions { collect_bytes: 1000, ..ScannerOptions::default() }
}

fn scan(dialect: Dialect, framing: Framing, bytes: &[u8]) -> (Ending, ScannerState) {
    let mut scanner = Scanner::new(dialect, framing, options());
    scanner.feed(bytes).unwrap();
    (scanner.end(), scanner.state().clone())
}

fn chunk(delta: Value, finish: Option<&str>) -> Value {
    json!({"id": "c1", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": null})
}

/// A stream of each dialect with the text "Hello", 10 tokens of which 4 are cached, 7 tokens of answer.
fn stream(dialect: Dialect) -> Vec<Value> {
    match dialect {
        Dialect::OpenAiChat => vec![
            chunk(json!({"role": "assistant", "content": ""}), None),
            chunk(json!({"content": "Hel"}), None),
            chunk(json!({"content": "lo"}), None),
            chunk(json!({}), Some("stop")),
            json!({"id": "c1", "model": "m", "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 7,
                "total_tokens": 17, "prompt_tokens_details": {"cached_tokens": 4}}}),
        ],
        Dialect::OpenAiResponses => vec![
            json!({"type": "response.created", "response": {"id": "c1", "model": "m", "status": "in_progress", "error": null}}),
            json!({"type": "response.output_text.delta", "delta": "Hel"}),
            json!({"type": "response.output_text.delta", "delta": "lo"}),
            json!({"type": "response.completed", "response": {"id": "c1", "status": "completed", "error": null,
                "incomplete_details": null, "usage": {"input_tokens": 10, "output_tokens": 7,
                "input_tokens_details": {"cached_tokens": 4}}}}),
        ],
        Dialect::Anthropic => vec![
            json!({"type": "message_start", "message": {"id": "c1", "model": "m", "usage": {"input_tokens": 6,
                "cache_read_input_tokens": 4, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "lo"}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}}),
            json!({"type": "message_stop"}),
        ],
        Dialect::Gemini => vec![
            json!({"responseId": "c1", "modelVersion": "m", "candidates": [{"content": {"parts": [{"text": "Hel"}]}}]}),
            json!({"candidates": [{"content": {"parts": [{"text": "lo"}]}, "finishReason": "STOP", "index": 0}],
                "usageMetadata": {"promptTokenCount": 10, "cachedContentTokenCount": 4, "candidatesTokenCount": 7}}),
        ],
    }
}

fn usage() -> TokenUsage {
    TokenUsage { input: 10, cached: 4, cache_write: 0, output: 7, reasoning: 0 }
}

fn check(state: &ScannerState) {
    assert_eq!((state.id.as_deref(), state.model.as_deref()), (Some("c1"), Some("m")));
    assert_eq!((state.text.as_str(), state.usage), ("Hello", Some(usage())));
    assert_eq!((state.finish_reason(), state.malformed), (Some(FinishReason::Stop), 0));
}

#[test]
fn streams_of_every_dialect_are_read() {
    for dialect in Dialect::ALL {
        let text = events(dialect, &stream(dialect));
        let (ending, state) = scan(dialect, Framing::Events, text.as_bytes());
        assert_eq!((ending, state.content_events), (Ending::Complete, 2), "{dialect}");
        check(&state);
    }
}

#[test]
fn a_cut_stream_is_never_complete() {
    for dialect in Dialect::ALL {
        let data = stream(dialect);
        // The event that ends the answer: afterwards, only usage or a marker is missing.
        let ends = match dialect {
            Dialect::OpenAiChat => 4,
            Dialect::Anthropic => 6,
            Dialect::OpenAiResponses | Dialect::Gemini => data.len(),
        };
        let whole = events(dialect, &data[..ends]);
        for cut in 0..whole.len() {
            let (ending, state) = scan(dialect, Framing::Events, &whole.as_bytes()[..cut]);
            // The line's end may be missing, nothing else.
            let complete = whole[cut..].trim().is_empty();
            assert_eq!(ending == Ending::Complete, complete, "{dialect} at {cut}: {ending:?} {state:?}");
        }
    }
}

#[test]
fn answers_of_every_dialect_are_read_byte_by_byte() {
    let text = |dialect| match dialect {
        Dialect::OpenAiChat => {
            json!({"id": "c1", "model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message":
            {"content": "Hello"}}, {"message": {"content": "other"}, "finish_reason": "length"}], "usage": {"prompt_tokens": 10,
            "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 4}}})
        }
        Dialect::OpenAiResponses => {
            json!({"id": "c1", "model": "m", "status": "completed", "error": null, "output": [
            {"type": "message", "content": [{"type": "output_text", "text": "Hello"}]}], "usage": {"input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 7}})
        }
        Dialect::Anthropic => {
            json!({"id": "c1", "model": "m", "content": [{"type": "text", "text": "Hello"}],
            "stop_reason": "end_turn", "usage": {"input_tokens": 6, "cache_read_input_tokens": 4, "output_tokens": 7}})
        }
        Dialect::Gemini => {
            json!({"responseId": "c1", "modelVersion": "m", "candidates": [{"content": {"parts": [{"text":
            "Hello"}]}, "finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 10, "cachedContentTokenCount": 4,
            "candidatesTokenCount": 7}})
        }
    };
    for dialect in Dialect::ALL {
        let text = format!(" {:#} \n", text(dialect));
        let (ending, state) = scan(dialect, Framing::Json, text.as_bytes());
        assert_eq!(ending, Ending::Complete, "{dialect}");
        check(&state);
        let mut scanner = Scanner::new(dialect, Framing::Json, options());
        for (at, byte) in text.bytes().enumerate() {
            let rest = &text[at..];
            let open = rest.trim() != "";
            assert_eq!(scanner.clone().end(), if open { Ending::Cut } else { Ending::Complete });
            scanner.feed(&[byte]).unwrap();
        }
        scanner.end();
        assert_eq!(*scanner.state(), state, "{dialect}");
    }
}

#[test]
fn errors_within_answers_are_seen() {
    let error = json!({"message": "too busy", "type": "overloaded_error", "code": "x"});
    for (dialect, event) in [
        (Dialect::OpenAiChat, json!({"error": error})),
        (Dialect::OpenAiResponses, json!({"type": "error", "code": "x", "message": "too busy"})),
        (Dialect::OpenAiResponses, json!({"type": "response.failed", "response": {"error": error}})),
        (Dialect::Anthropic, json!({"type": "error", "error": error})),
        (Dialect::Gemini, json!({"error": {"code": 503, "message": "too busy", "status": "UNAVAILABLE"}})),
    ] {
        let mut data = stream(dialect)[..2].to_vec();
        data.push(event);
        let (ending, state) = scan(dialect, Framing::Events, events(dialect, &data).as_bytes());
        assert_eq!((ending, state.error.unwrap().message.as_str()), (Ending::Error, "too busy"), "{dialect}");
    }
    let (ending, state) = scan(Dialect::OpenAiChat, Framing::Json, b"{\"error\": \"no model\"}");
    assert_eq!((ending, state.error.unwrap().message.as_str()), (Ending::Error, "no model"));
    let (ending, state) = scan(Dialect::OpenAiChat, Framing::Json, b"<html>oops</html>");
    assert_eq!(
        (ending, state.error.unwrap().message.as_str()),
        (Ending::Error, "the upstream's answer is not JSON")
    );
}

#[test]
fn a_malformed_event_is_counted_and_does_not_fail_the_stream() {
    let mut text = events(Dialect::OpenAiChat, &stream(Dialect::OpenAiChat)[..2]);
    text.push_str("data: {not json\n\n: comment\n\nnonsense\n\n");
    text.push_str(&events(Dialect::OpenAiChat, &stream(Dialect::OpenAiChat)[2..]));
    text.push_str("data: [DONE]\n\n");
    let (ending, state) = scan(Dialect::OpenAiChat, Framing::Events, text.as_bytes());
    assert_eq!((ending, state.malformed, state.text.as_str()), (Ending::Complete, 2, "Hello"));
}

#[test]
fn every_choice_must_end() {
    let choice = |index: u32, finish: Option<&str>| json!({"choices": [{"index": index, "delta": {"content": "x"}, "finish_reason": finish}]});
    let data = [choice(0, None), choice(1, None), choice(0, Some("stop"))];
    assert_eq!(
        scan(Dialect::OpenAiChat, Framing::Events, events(Dialect::OpenAiChat, &data).as_bytes()).0,
        Ending::Cut
    );
    let data = [&data[..], &[choice(1, Some("length"))]].concat();
    assert_eq!(
        scan(Dialect::OpenAiChat, Framing::Events, events(Dialect::OpenAiChat, &data).as_bytes()).0,
        Ending::Complete
    );
}

#[test]
fn filters_take_out_what_the_client_did_not_ask_for() {
    let mut data = stream(Dialect::OpenAiChat);
    let kept = events(Dialect::OpenAiChat, &data[..4]) + "data: [DONE]\n\n";
    for chunk in &mut data[..4] {
        chunk["prompt_token_ids"] = json!([1, 2]);
        chunk["choices"][0]["token_ids"] = json!([7]);
    }
    let text = events(Dialect::OpenAiChat, &data) + "data: [DONE]\n\n";
    let options = ScannerOptions {
        strip_usage: true,
        drop_fields: vec!["token_ids", "prompt_token_ids"],
        collect_bytes: 1000,
        ..ScannerOptions::default()
    };
    let mut scanner = Scanner::new(Dialect::OpenAiChat, Framing::Events, options);
    let mut out = Vec::new();
    for piece in text.as_bytes().chunks(7) {
        scanner.filter(piece, &mut out).unwrap();
    }
    assert_eq!(scanner.finish(&mut out), Ending::Complete);
    assert_eq!(String::from_utf8(out).unwrap(), kept);
    check(scanner.state());
    assert_eq!(scanner.state().token_ids, [7, 7, 7, 7]);
}

#[test]
fn lines_over_the_limit_are_refused_and_long_answers_take_no_memory() {
    let mut scanner = Scanner::new(Dialect::Anthropic, Framing::Events, ScannerOptions::default());
    let piece = vec![b'x'; 64 << 10];
    let taken = (0..1 << 14).take_while(|_| scanner.feed(&piece).is_ok()).count();
    assert_eq!(taken, 16);
    let mut scanner = Scanner::new(Dialect::OpenAiChat, Framing::Json, ScannerOptions::default());
    scanner.feed(b"{\"data\": [").unwrap();
    for _ in 0..2000 {
        scanner.feed(b"{\"embedding\": [0.25, -1e-3, 4], \"error\": {\"choices\": 1}},").unwrap();
    }
    scanner.feed(b"{}], \"usage\": {\"prompt_tokens\": 3, \"x\": \"").unwrap();
    scanner.feed(b"y\"}, \"id\": \"").unwrap();
    for _ in 0..40 {
        scanner.feed(&piece).unwrap();
    }
    scanner.feed(b"\"}").unwrap();
    assert_eq!(scanner.end(), Ending::Complete);
    assert_eq!((scanner.state().usage.unwrap().input, &scanner.state().id), (3, &None));
    assert!(format!("{scanner:?}").len() < 2_000);
}

proptest! {
    #[test]
    fn any_cut_gives_the_same_state(which in 0_usize..4, cuts in proptest::collection::vec(0_usize..1200, 0..8)) {
        let dialect = Dialect::ALL[which];
        let text = events(dialect, &stream(dialect));
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let mut scanner = Scanner::new(dialect, Framing::Events, options());
        let mut out = Vec::new();
        for pair in cuts.windows(2) {
            scanner.filter(&text.as_bytes()[pair[0]..pair[1]], &mut out).unwrap();
        }
        prop_assert_eq!(scanner.finish(&mut out), Ending::Complete);
        prop_assert_eq!(String::from_utf8(out).unwrap(), text.clone());
        prop_assert_eq!(scanner.state(), &scan(dialect, Framing::Events, text.as_bytes()).1);
    }

    #[test]
    fn hostile_bytes_never_panic(which in 0_usize..4, json in any::<bool>(), bytes in "(data: |event: |\n|\\{|\\}|\\[|\\]|\"|,|:|choices|usage|error|delta|type|null|1|\\\\|content|\\PC){0,60}") {
        let framing = if json { Framing::Json } else { Framing::Events };
        let mut scanner = Scanner::new(Dialect::ALL[which], framing, options());
        scanner.feed(bytes.as_bytes()).unwrap();
        scanner.end();
    }
}
