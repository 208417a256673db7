//! Requests and answers through every other dialect and back: what both can say stays.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::Dialect;
use crate::neutral::*;
use crate::requests::RequestOptions;
use crate::translate::{read_request, write_request};

/// JSON without white space, other text as it is.
fn compact(text: &str) -> String {
    let value = serde_json::from_str::<Value>(text).ok().filter(Value::is_object);
    value.map_or_else(|| text.to_owned(), |value| value.to_string())
}

/// The request with turns of one role joined: dialects cut them differently.
fn joined(mut request: NeutralRequest) -> NeutralRequest {
    let mut turns: Vec<Turn> = Vec::new();
    for turn in request.turns {
        match turns.last_mut() {
            Some(last) if last.role == turn.role => last.parts.extend(turn.parts),
            _ => turns.push(turn),
        }
    }
    // Results stand before what the user says with them; names of tools are in one dialect only.
    for turn in &mut turns {
        turn.parts.sort_by_key(|part| !matches!(part, Part::ToolResult(_)) && turn.role == Role::User);
        for part in &mut turn.parts {
            match part {
                Part::ToolResult(result) => {
                    result.name = None;
                    for part in &mut result.content {
                        if let Part::Text(text) = part {
                            *text = compact(text);
                        }
                    }
                }
                Part::ToolCall(call) => call.arguments = compact(&call.arguments),
                Part::Media(media) => media.detail = media.detail.take().filter(|detail| detail != "auto"),
                _ => {}
            }
        }
    }
    request.system = vec![request.system.join("\n\n")];
    request.turns = turns;
    // Chat clients that did not ask for usage are served by `include_usage` of the answer.
    request.include_usage = false;
    request
}

/// Leaves out what a dialect cannot say, as its writer does.
fn as_said_by(mut request: NeutralRequest, dialect: Dialect) -> NeutralRequest {
    let foreign = |part: &Part| match part {
        Part::Thought(thought) => {
            thought.signature.as_ref().is_none_or(|signature| signature.origin != dialect)
        }
        _ => false,
    };
    for turn in &mut request.turns {
        turn.parts.retain(|part| !foreign(part));
        for part in &mut turn.parts {
            match part {
                Part::ToolCall(call) if dialect != Dialect::Gemini => call.signature = None,
                Part::ToolResult(result) if !matches!(dialect, Dialect::Anthropic | Dialect::Gemini) => {
                    result.is_error = false;
                }
                Part::Media(media) => {
                    if !matches!(dialect, Dialect::OpenAiChat | Dialect::OpenAiResponses) {
                        media.detail = None;
                    }
                    if dialect == Dialect::Gemini {
                        media.filename = None;
                    }
                    // Gemini's is guessed from the URL.
                    if let Source::Url { media_type, .. } = &mut media.source {
                        *media_type = None;
                    }
                }
                _ => {}
            }
        }
    }
    match dialect {
        Dialect::OpenAiChat => request.top_k = None,
        Dialect::OpenAiResponses => {
            (request.seed, request.top_k) = (None, None);
            (request.frequency_penalty, request.presence_penalty) = (None, None);
        }
        Dialect::Anthropic => {
            (request.seed, request.verbosity, request.metadata) = (None, None, None);
            (request.frequency_penalty, request.presence_penalty) = (None, None);
        }
        Dialect::Gemini => {
            (request.user, request.verbosity) = (None, None);
            request.parallel_tool_calls = None;
            request.model.clear();
            request.stream = false;
        }
    }
    request
}

/// What is compared of thoughts' settings, schemas' names and tiers: dialects have different words for them.
fn without_words(mut request: NeutralRequest) -> NeutralRequest {
    request.reasoning = None;
    request.service_tier = None;
    request.max_tokens = None;
    for tool in &mut request.tools {
        tool.strict = None;
    }
    if let Some(Format::Schema { name, description, strict, .. }) = &mut request.format {
        (*name, *description, *strict) = (None, None, None);
    }
    // Calls are parallel everywhere unless told otherwise.
    if request.tool_choice.is_none() || request.parallel_tool_calls == Some(true) {
        request.parallel_tool_calls = None;
    }
    if request.tool_choice == Some(ToolChoice::Auto) {
        request.tool_choice = None;
        request.parallel_tool_calls = None;
    }
    request
}

fn through(request: &NeutralRequest, dialect: Dialect) -> Result<NeutralRequest, wire::Fault> {
    let mut warnings = Warnings::default();
    let body = write_request(dialect, request, &RequestOptions::default(), &mut warnings)?;
    read_request(dialect, &body, &mut warnings)
}

/// What the dialects refuse of the recorded requests, by name.
fn refused(name: &str, to: Dialect) -> bool {
    match to {
        Dialect::Anthropic => matches!(name, "choices" | "logprobs" | "json"),
        Dialect::OpenAiResponses => matches!(name, "choices") || name == "stop",
        Dialect::OpenAiChat | Dialect::Gemini => false,
    }
}

#[test]
fn requests_of_the_official_clients_come_back_from_every_dialect() {
    let recorded: Value = serde_json::from_str(include_str!("../tests/fixtures/sdk_requests.json")).unwrap();
    let mut compared = 0;
    for record in recorded.as_array().unwrap() {
        let (name, body) = (record["name"].as_str().unwrap(), &record["body"]);
        let from: Dialect = record["dialect"].as_str().unwrap().parse().unwrap();
        let mut warnings = Warnings::default();
        let request =
            read_request(from, body, &mut warnings).unwrap_or_else(|fault| panic!("{from} {name}: {fault}"));
        for to in Dialect::ALL {
            let back = match through(&request, to) {
                Ok(back) => back,
                Err(fault) => {
                    let stops = to == Dialect::OpenAiResponses && !request.stop.is_empty();
                    assert!(refused(name, to) || stops, "{from} to {to}, {name}: {fault}");
                    assert!(fault.param.is_some(), "{fault}");
                    continue;
                }
            };
            assert!(!refused(name, to), "{from} to {to}, {name} is not refused");
            let said = as_said_by(joined(request.clone()), to);
            let said = without_words(joined(said));
            let mut back = without_words(joined(as_said_by(back, to)));
            if to == Dialect::Gemini {
                back.model.clone_from(&said.model);
            }
            assert_eq!(back, said, "{from} to {to}, {name}");
            compared += 1;
        }
    }
    assert!(compared > 120, "{compared}");
}

fn text() -> impl Strategy<Value = String> {
    "[a-zA-Zäöß \\\\\"{}\n😀]{1,12}"
}

fn user_part() -> impl Strategy<Value = Part> {
    let image = |source| Part::Media(Media { kind: MediaKind::Image, source, detail: None, filename: None });
    prop_oneof![
        3 => text().prop_map(Part::Text),
        1 => "[a-zA-Z0-9]{4}".prop_map(move |data| image(Source::Data { media_type: "image/png".into(), data })),
        1 => "[a-z]{1,5}".prop_map(move |name| image(Source::Url { url: format!("https://x.example/{name}.png"), media_type: Some("image/png".into()) })),
    ]
}

/// A user's question, calls of tools, their results, and an answer.
fn conversation() -> impl Strategy<Value = Vec<Turn>> {
    let question = proptest::collection::vec(user_part(), 1..4);
    let calls = proptest::collection::vec(("[a-z]{3}", text(), any::<bool>()), 0..3);
    let round = (question, calls, proptest::option::of(text())).prop_map(|(question, calls, answer)| {
        let mut turns = vec![Turn { role: Role::User, parts: question }];
        let call = |(at, (name, text, _)): (usize, &(String, String, bool))| {
            Part::ToolCall(ToolCall {
                id: format!("call_{name}_{at}"),
                name: name.clone(),
                arguments: json!({"text": text}).to_string(),
                signature: None,
            })
        };
        let result = |(at, (name, text, failed)): (usize, &(String, String, bool))| {
            Part::ToolResult(ToolResult {
                id: format!("call_{name}_{at}"),
                name: None,
                content: vec![Part::Text(format!("it is {text}"))],
                is_error: *failed,
            })
        };
        if !calls.is_empty() {
            turns.push(Turn { role: Role::Assistant, parts: calls.iter().enumerate().map(call).collect() });
            turns.push(Turn { role: Role::User, parts: calls.iter().enumerate().map(result).collect() });
        }
        let answer = answer.unwrap_or_else(|| "yes".to_owned());
        turns.push(Turn { role: Role::Assistant, parts: vec![Part::Text(answer)] });
        turns
    });
    proptest::collection::vec(round, 1..4).prop_map(|rounds| rounds.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn conversations_come_back_from_two_dialects(
        turns in conversation(),
        system in proptest::option::of(text()),
        temperature in proptest::option::of(0.0..1.0_f64),
        stop in proptest::collection::vec("[a-z]{1,4}", 0..3),
        first in 0_usize..4,
        second in 0_usize..4,
    ) {
        let (first, second) = (Dialect::ALL[first], Dialect::ALL[second]);
        let stop = if [first, second].contains(&Dialect::OpenAiResponses) { Vec::new() } else { stop };
        let request = NeutralRequest {
            model: "m".into(),
            system: system.into_iter().collect(),
            turns,
            temperature,
            stop,
            max_tokens: Some(9),
            ..NeutralRequest::default()
        };
        let mut back = through(&request, first).and_then(|back| through(&back, second)).unwrap();
        back.model = "m".into();
        let mut said = as_said_by(as_said_by(joined(request), first), second);
        said.model = "m".into();
        prop_assert_eq!(joined(as_said_by(as_said_by(back, first), second)).turns, joined(said.clone()).turns);
        prop_assert_eq!(said.max_tokens, Some(9));
    }
}
