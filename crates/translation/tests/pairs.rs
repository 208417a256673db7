//! Answers and streams of each provider in every dialect: any cut of the bytes gives the same output, a stream that is cut is
//! an error, and hostile bytes never panic.

use proptest::prelude::*;
use serde_json::{Value, json};
use translation::{
    AnswerOptions, Dialect, Ending, FinishReason, Framing, RequestOptions, Scanner, ScannerOptions,
    StreamTranslator, TokenUsage,
};

struct Record {
    dialect: Dialect,
    name: String,
    stream: bool,
    body: String,
}

fn records() -> Vec<Record> {
    let list: Value = serde_json::from_str(include_str!("fixtures/sdk_answers.json")).unwrap();
    let text = |record: &Value, name: &str| record[name].as_str().unwrap().to_owned();
    let record = |record: &Value| Record {
        dialect: text(record, "dialect").parse().unwrap(),
        name: text(record, "name"),
        stream: record["stream"].as_bool().unwrap(),
        body: text(record, "body"),
    };
    list.as_array().unwrap().iter().map(record).collect()
}

fn options() -> AnswerOptions<'static> {
    AnswerOptions { id: "id", created_s: 1, include_usage: true, ..AnswerOptions::default() }
}

fn streamed(from: Dialect, to: Dialect, pieces: &[&[u8]]) -> (Ending, String) {
    let mut translator = StreamTranslator::new(from, to, options());
    let mut out = Vec::new();
    for piece in pieces {
        translator.feed(piece, &mut out).unwrap();
    }
    let ending = translator.finish(&mut out);
    (ending, String::from_utf8(out).unwrap())
}

fn scanned(
    dialect: Dialect,
    framing: Framing,
    body: &str,
) -> (Ending, Option<TokenUsage>, String, Option<FinishReason>, bool) {
    let options = ScannerOptions { collect_bytes: 1 << 16, ..ScannerOptions::default() };
    let mut scanner = Scanner::new(dialect, framing, options);
    scanner.feed(body.as_bytes()).unwrap();
    let ending = scanner.end();
    let state = scanner.state();
    assert_eq!(state.malformed, 0, "{body}");
    // Dialects tell stop sequences and refusals apart, or not.
    let finish = state.finish_reason().map(|reason| match reason {
        FinishReason::Refusal => FinishReason::ContentFilter,
        other => other,
    });
    (ending, state.usage, state.text.clone(), finish, state.tool_calls)
}

#[test]
fn translations_say_what_the_answer_says() {
    let mut pairs = 0;
    for record in records() {
        let from = record.dialect;
        let framing = if record.stream { Framing::Events } else { Framing::Json };
        let said = scanned(from, framing, &record.body);
        assert_eq!(said.0, Ending::Complete, "{from} {}", record.name);
        for to in Dialect::ALL {
            let out = if record.stream {
                let (ending, out) = streamed(from, to, &[record.body.as_bytes()]);
                assert_eq!(ending, Ending::Complete);
                out
            } else {
                let answer = translation::answer(from, to, record.body.as_bytes(), &options()).unwrap();
                String::from_utf8(answer.body).unwrap()
            };
            let mut found = scanned(to, framing, &out);
            let mut expected = said.clone();
            // Gemini counts no tokens that are written to a cache.
            for usage in [&mut found.1, &mut expected.1].into_iter().flatten() {
                usage.cache_write = 0;
                usage.reasoning = if from == Dialect::Anthropic { 0 } else { usage.reasoning };
            }
            assert_eq!(found, expected, "{from} to {to}: {}\n{out}", record.name);
            pairs += 1;
        }
    }
    assert!(pairs >= 100, "{pairs}");
}

#[test]
fn a_cut_stream_ends_with_the_client_s_error() {
    for record in records().iter().filter(|record| record.stream) {
        let from = record.dialect;
        let body = record.body.as_bytes();
        for to in Dialect::ALL {
            for cut in (0..body.len() * 2 / 3).step_by(97) {
                let (ending, out) = streamed(from, to, &[&body[..cut]]);
                if ending == Ending::Complete {
                    // Its choices have ended; only usage and marker are missing.
                    assert!(
                        scanned(from, Framing::Events, &record.body[..record.body.floor_char_boundary(cut)])
                            .3
                            .is_some()
                    );
                    continue;
                }
                assert_eq!(ending, Ending::Cut, "{from} to {to} {} at {cut}: {out}", record.name);
                let mut scanner = Scanner::new(to, Framing::Events, ScannerOptions::default());
                scanner.feed(out.as_bytes()).unwrap();
                assert_eq!(scanner.end(), Ending::Error, "{out}");
                let message = &scanner.state().error.as_ref().unwrap().message;
                assert!(message.contains("ended before the answer was complete"), "{message}");
            }
        }
    }
}

#[test]
fn an_error_within_a_stream_keeps_its_message() {
    let record =
        records().into_iter().find(|record| record.stream && record.dialect == Dialect::Anthropic).unwrap();
    let half = record.body.match_indices("\n\n").nth(3).unwrap().0 + 2;
    let error = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Too busy\"}}\n\n";
    let body = format!("{}{error}{}", &record.body[..half], &record.body[half..]);
    for to in Dialect::ALL {
        let (ending, out) = streamed(Dialect::Anthropic, to, &[body.as_bytes()]);
        assert_eq!(ending, Ending::Error);
        assert!(out.trim_end().lines().last().unwrap().contains("Too busy"), "{out}");
        assert_eq!(out.matches("Too busy").count(), if to == Dialect::OpenAiResponses { 2 } else { 1 });
    }
}

#[test]
fn a_schema_sent_as_a_tool_comes_back_as_text() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
    let body =
        json!({"model": "m", "messages": [{"role": "user", "content": "x"}], "response_format": format});
    let request = RequestOptions { schema_as_tool: true, ..RequestOptions::default() };
    let sent =
        translation::request(Dialect::OpenAiChat, Dialect::Anthropic, body.to_string().as_bytes(), &request)
            .unwrap();
    let sent: Value = serde_json::from_slice(&sent.body).unwrap();
    assert_eq!(sent["tool_choice"], json!({"type": "tool", "name": RequestOptions::SCHEMA_TOOL}));
    assert_eq!(sent["tools"][0]["input_schema"], schema);
    let options = AnswerOptions { schema_tool: Some(RequestOptions::SCHEMA_TOOL), ..options() };
    let answer = json!({"content": [{"type": "tool_use", "id": "t", "name": RequestOptions::SCHEMA_TOOL, "input": {"a": 1}}],
        "stop_reason": "tool_use"});
    let got =
        translation::answer(Dialect::Anthropic, Dialect::OpenAiChat, answer.to_string().as_bytes(), &options)
            .unwrap();
    let got: Value = serde_json::from_slice(&got.body).unwrap();
    assert_eq!(got["choices"][0]["message"]["content"], "{\"a\":1}");
    assert_eq!(got["choices"][0]["finish_reason"], "stop");
    let events = [
        json!({"type": "content_block_start", "content_block": {"type": "tool_use", "id": "t", "name": RequestOptions::SCHEMA_TOOL}}),
        json!({"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "{\"a\":1}"}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
        json!({"type": "message_stop"}),
    ];
    let mut translator = StreamTranslator::new(Dialect::Anthropic, Dialect::OpenAiChat, options);
    let mut out = Vec::new();
    for event in events {
        translator.feed(format!("data: {event}\n\n").as_bytes(), &mut out).unwrap();
    }
    assert_eq!(translator.finish(&mut out), Ending::Complete);
    let (_, _, text, finish, calls) =
        scanned(Dialect::OpenAiChat, Framing::Events, std::str::from_utf8(&out).unwrap());
    assert_eq!((text.as_str(), finish, calls), ("{\"a\":1}", Some(FinishReason::Stop), false));
}

#[test]
fn choices_of_a_stream_stay_apart() {
    let chunk = |index: u32, delta: Value, finish: Option<&str>| {
        format!(
            "data: {}\n\n",
            json!({"choices": [{"index": index, "delta": delta, "finish_reason": finish}]})
        )
    };
    let body = [
        chunk(0, json!({"content": "a"}), None),
        chunk(1, json!({"content": "b"}), None),
        chunk(1, json!({}), Some("length")),
        chunk(0, json!({}), Some("stop")),
    ];
    let (ending, out) = streamed(Dialect::OpenAiChat, Dialect::Gemini, &[body.concat().as_bytes()]);
    assert_eq!(ending, Ending::Complete);
    let (back, chat) = streamed(Dialect::Gemini, Dialect::OpenAiChat, &[out.as_bytes()]);
    assert_eq!(back, Ending::Complete);
    for (text, index) in [("\"a\"", 0), ("\"b\"", 1)] {
        let line = chat.lines().find(|line| line.contains(&format!("\"content\":{text}"))).unwrap();
        assert!(line.contains(&format!("\"index\":{index}")), "{line}");
    }
    // One choice of two has not ended.
    assert_eq!(
        streamed(Dialect::OpenAiChat, Dialect::Gemini, &[body[..3].concat().as_bytes()]).0,
        Ending::Cut
    );
}

#[test]
fn endless_streams_and_events_are_refused() {
    let mut translator = StreamTranslator::new(Dialect::OpenAiChat, Dialect::Anthropic, options());
    let mut out = Vec::new();
    let piece = vec![b'x'; 1 << 18];
    let taken = (0..100).take_while(|_| translator.feed(&piece, &mut out).is_ok()).count();
    assert_eq!(taken, 4);
    let mut translator = StreamTranslator::new(Dialect::OpenAiChat, Dialect::OpenAiResponses, options());
    let text = "x".repeat(900_000);
    let chunk = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
    let taken = (0..100).take_while(|_| translator.feed(chunk.as_bytes(), &mut Vec::new()).is_ok()).count();
    assert!((60..80).contains(&taken), "{taken}");
    assert_eq!(translator.finish(&mut out), Ending::Cut);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn any_cut_of_the_bytes_gives_the_same_stream(
        which in any::<prop::sample::Index>(),
        to in 0_usize..4,
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let streams: Vec<Record> = records().into_iter().filter(|record| record.stream).collect();
        let record = which.get(&streams);
        let (body, to) = (record.body.as_bytes(), Dialect::ALL[to]);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len())).collect();
        cuts.extend([0, body.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &body[pair[0]..pair[1]]).collect();
        prop_assert_eq!(streamed(record.dialect, to, &pieces), streamed(record.dialect, to, &[body]));
    }

    #[test]
    fn damaged_answers_and_streams_never_panic(
        which in any::<prop::sample::Index>(),
        to in 0_usize..4,
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let records = records();
        let record = which.get(&records);
        let mut body = record.body.clone().into_bytes();
        for (at, byte) in &damage {
            let at = at.index(body.len());
            body[at] = *byte;
        }
        let to = Dialect::ALL[to];
        if record.stream {
            streamed(record.dialect, to, &[&body]);
        } else {
            let _ = translation::answer(record.dialect, to, &body, &options());
        }
        let _ = translation::request(record.dialect, to, &body, &RequestOptions::default());
        translation::error(to, 400, &body);
        translation::classify(429, &body);
    }
}
