//! Answers that must have a form have it, whatever the model: random logits over a real vocabulary, many forms, and a
//! validator of our own that knows nothing of the grammar library.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use engine::fake::FakeModel;
use engine::{
    Constrain, Engine, Event, FinishReason, Handle, Limits, Params, Request, Speculation, Unwatched,
};
use serde_json::{Value, json};
use text::{
    AnswerConstraint, AnswerParser, AnswerParserOptions, AnswerPart, ConstraintCompiler, ReasoningFormat,
    ReasoningTags, RequiredToolCalls, Tokenizer, ToolCallStyle,
};

pub(crate) fn tokenizer() -> Arc<Tokenizer> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../text/tests/fixtures/tiny/byte-level.json");
    Arc::new(Tokenizer::open_path(&path).expect("the fixture"))
}

pub(crate) fn engine(tokenizer: &Arc<Tokenizer>, blocks: usize, speculation: Speculation) -> Handle {
    // A few logits more than tokens, as padded models have.
    let mut model = FakeModel::new(tokenizer.vocab_size() + 5, 1024, blocks, 16);
    model.habit = 0.6;
    let limits = Limits { speculation, max_queued: 512, ..Limits::default() };
    Engine::start_with(model, tokenizer.clone(), limits, Box::new(Unwatched)).expect("an engine")
}

fn request(constrain: &Arc<dyn Constrain>, seed: u64, max_tokens: usize) -> Request {
    let params =
        Params { seed: Some(seed), temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, ..Params::default() };
    Request {
        prompt: vec![5, 6, 7 + (seed % 50) as u32],
        max_tokens: Some(max_tokens),
        params,
        constrain: Some(constrain.clone()),
        ..Request::default()
    }
}

fn ask(handle: &Handle, requests: impl IntoIterator<Item = Request>) -> Vec<(String, FinishReason)> {
    let running: Vec<_> = requests
        .into_iter()
        .map(|request| {
            let (to, from) = channel();
            (handle.submit(request, Box::new(to)).expect("accepted"), from)
        })
        .collect();
    let read = |from: &std::sync::mpsc::Receiver<Event>| {
        let mut all = String::new();
        loop {
            match from.recv_timeout(Duration::from_secs(300)).expect("an answer") {
                Event::Prompt { .. } | Event::Resumed { .. } => panic!("nobody asked for it"),
                Event::Token { text, .. } => all.push_str(&text),
                Event::Done { text, reason, .. } => return (all + &text, reason),
                Event::Failed { error, .. } => panic!("{error}"),
            }
        }
    };
    running.iter().map(|(_ticket, from)| read(from)).collect()
}

pub(crate) fn guidance(tokenizer: &Arc<Tokenizer>, form: &AnswerConstraint) -> Arc<dyn Constrain> {
    let grammars = ConstraintCompiler::new(tokenizer.clone()).expect("grammars");
    Arc::new(grammars.guidance(Some(form), None, None).unwrap_or_else(|e| panic!("{form:?}: {e}")))
}

/// The keywords that the schemas below use, by the words of JSON Schema 2020-12.
fn valid(schema: &Value, value: &Value, root: &Value) -> bool {
    let Value::Object(rules) = schema else { return *schema == Value::Bool(true) };
    let kind = |name: &Value| match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.as_f64().is_some_and(|n| n.fract() == 0.0),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        other => panic!("type {other:?}"),
    };
    let all = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let number = |limit: &Value| limit.as_f64().expect("a number");
    let length = |text: &Value| text.as_str().map(|text| text.chars().count() as f64);
    rules.iter().all(|(name, rule)| match name.as_str() {
        "type" => rule.as_array().map_or_else(|| kind(rule), |kinds| kinds.iter().any(kind)),
        "enum" => all(rule).contains(value),
        "const" => value == rule,
        "minimum" => value.as_f64().is_none_or(|n| n >= number(rule)),
        "maximum" => value.as_f64().is_none_or(|n| n <= number(rule)),
        "minLength" => length(value).is_none_or(|n| n >= number(rule)),
        "maxLength" => length(value).is_none_or(|n| n <= number(rule)),
        "minItems" => value.as_array().is_none_or(|items| items.len() as f64 >= number(rule)),
        "maxItems" => value.as_array().is_none_or(|items| items.len() as f64 <= number(rule)),
        "items" => value.as_array().is_none_or(|items| items.iter().all(|item| valid(rule, item, root))),
        "required" => value.as_object().is_none_or(|fields| {
            all(rule).iter().all(|name| fields.contains_key(name.as_str().unwrap_or_default()))
        }),
        "properties" => value.as_object().is_none_or(|fields| {
            fields.iter().all(|(name, field)| rule.get(name).is_none_or(|rule| valid(rule, field, root)))
        }),
        "additionalProperties" => value.as_object().is_none_or(|fields| {
            let known = |name: &String| rules.get("properties").is_some_and(|p| p.get(name).is_some());
            fields.iter().all(|(name, field)| known(name) || valid(rule, field, root))
        }),
        "anyOf" => all(rule).iter().any(|rule| valid(rule, value, root)),
        "allOf" => all(rule).iter().all(|rule| valid(rule, value, root)),
        "pattern" => {
            let letters = |t: &str| {
                t.len() == 6
                    && t.bytes()
                        .enumerate()
                        .all(|(i, b)| if i < 3 { b.is_ascii_uppercase() } else { b.is_ascii_digit() })
            };
            assert_eq!(rule, "^[A-Z]{3}[0-9]{3}$");
            value.as_str().is_none_or(letters)
        }
        "$ref" => {
            let path = rule.as_str().expect("a path").trim_start_matches('#');
            valid(root.pointer(path).expect("a definition"), value, root)
        }
        "$defs" | "description" | "title" => true,
        other => panic!("keyword {other}"),
    })
}

pub(crate) fn schemas() -> Vec<Value> {
    let text = json!({"type": "string", "maxLength": 8});
    vec![
        json!({"type": "object"}),
        json!({"type": "boolean"}),
        json!({"type": ["integer", "null"], "minimum": -5, "maximum": 40}),
        json!({"enum": ["red", "grün", 3, null, {"a": [1]}]}),
        json!({"const": {"x": "\"quoted\"\n"}}),
        json!({"type": "string", "pattern": "^[A-Z]{3}[0-9]{3}$"}),
        json!({"type": "string", "minLength": 3, "maxLength": 5}),
        json!({"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}, "minItems": 2, "maxItems": 4}),
        json!({"type": "object", "properties": {"name": text, "age": {"type": "integer", "minimum": 0, "maximum": 150},
               "tags": {"type": "array", "items": text, "maxItems": 3}},
               "required": ["name", "age"], "additionalProperties": false}),
        json!({"anyOf": [{"type": "object", "properties": {"kind": {"const": "a"}, "n": {"type": "number"}},
                          "required": ["kind", "n"], "additionalProperties": false},
                         {"type": "object", "properties": {"kind": {"const": "b"}, "t": text},
                          "required": ["kind", "t"], "additionalProperties": false}]}),
        json!({"$defs": {"tree": {"type": "object", "properties": {"value": {"type": "boolean"},
               "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 2}},
               "required": ["value"], "additionalProperties": false}}, "$ref": "#/$defs/tree"}),
        json!({"allOf": [{"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]},
                         {"type": "object", "properties": {"b": {"type": "boolean"}}, "required": ["b"]}],
               "additionalProperties": true}),
    ]
}

#[test]
fn json_is_valid_whatever_the_model_says() {
    let tokenizer = tokenizer();
    let handle = engine(&tokenizer, 64 * 16, Speculation::OFF);
    for schema in schemas() {
        let constrain = guidance(&tokenizer, &AnswerConstraint::json(schema.clone()));
        let answers = ask(&handle, (0..24).map(|seed| request(&constrain, seed, 600)));
        let mut whole = 0;
        for (text, reason) in &answers {
            if *reason == FinishReason::Stop {
                whole += 1;
                let value: Value = match serde_json::from_str(text) {
                    Ok(value) => value,
                    // 5e481 is JSON, and more than this reader's numbers hold.
                    Err(error) if error.to_string().contains("number out of range") => continue,
                    Err(error) => panic!("{schema}: {text:?}: {error}"),
                };
                assert!(valid(&schema, &value, &schema), "{schema}: {text}");
            } else {
                assert_eq!(*reason, FinishReason::Length);
            }
        }
        assert!(whole > 0, "{schema}: no answer came to its end: {answers:?}");
    }
}

#[test]
fn other_forms_hold_too() {
    let tokenizer = tokenizer();
    let handle = engine(&tokenizer, 64 * 16, Speculation::OFF);
    let words = ["yes".to_owned(), "no".to_owned(), "\"perhaps\"\n".to_owned()];
    let choice = guidance(&tokenizer, &AnswerConstraint::Choice(words.to_vec()));
    let regex = guidance(&tokenizer, &AnswerConstraint::Regex(r"[ab]{2,4}/\d+-x".into()));
    let lark = guidance(
        &tokenizer,
        &AnswerConstraint::Lark("start: \"<\" inner \">\"\ninner: /[a-c]/ inner /[d-f]/ | \"-\"".into()),
    );
    for seed in 0..40 {
        let answers = ask(&handle, [&choice, &regex, &lark].map(|c| request(c, seed, 400)));
        let [(word, _), (number, ended), (nested, closed)] = answers.as_slice() else {
            panic!("{answers:?}")
        };
        assert!(words.contains(word), "{word:?}");
        if *ended == FinishReason::Stop {
            let (letters, rest) = number.split_once('/').expect("a slash");
            assert!(
                (2..=4).contains(&letters.len()) && letters.bytes().all(|b| b"ab".contains(&b)),
                "{number}"
            );
            let digits = rest.strip_suffix("-x").expect("the end");
            assert!(!digits.is_empty() && digits.chars().all(char::is_numeric), "{number}");
        }
        if *closed == FinishReason::Stop {
            let inner = nested.strip_prefix('<').and_then(|t| t.strip_suffix('>')).expect("brackets");
            let (before, after) = inner.split_once('-').expect("the middle");
            assert_eq!(before.len(), after.len(), "{nested}");
        }
    }
}

/// The format of reasoning of models whose calls are messages on channels of their own.
fn on_channels(style: &str) -> Option<ReasoningFormat> {
    let sign = match style {
        "harmony" => "<|channel|>analysis<|message|>",
        "solar" => "assistant<|think|>",
        "muse" => " to=self<|message|>",
        _ => return None,
    };
    let tags = ReasoningTags::of_template(sign).expect("a sign");
    Some(ReasoningFormat { tags, begun: false })
}

#[test]
fn calls_that_must_come_are_read_as_calls() {
    let tokenizer = tokenizer();
    let handle = engine(&tokenizer, 64 * 16, Speculation::OFF);
    let schema = json!({"type": "object", "properties": {"city": {"type": "string", "maxLength": 6}},
                        "required": ["city"], "additionalProperties": false});
    for (name, style) in ToolCallStyle::ALL {
        let tools = vec![
            ("get_weather".to_owned(), schema.clone().into()),
            ("now".to_owned(), json!({"type": "object", "additionalProperties": false}).into()),
        ];
        for several in [false, true] {
            let form =
                AnswerConstraint::ToolCalls(RequiredToolCalls { style, tools: tools.clone(), several });
            let constrain = guidance(&tokenizer, &form);
            let answers = ask(&handle, (0..12).map(|seed| request(&constrain, seed, 900)));
            let mut seen = 0;
            for (text, reason) in answers.iter().filter(|(_, reason)| *reason == FinishReason::Stop) {
                let reading = AnswerParserOptions {
                    style: Some(style),
                    thought: on_channels(name),
                    tools: vec!["get_weather".into(), "now".into()],
                    schemas: tools
                        .iter()
                        .map(|(name, schema)| (name.clone(), schema.value.clone()))
                        .collect(),
                    ..AnswerParserOptions::default()
                };
                let mut parts = AnswerParser::new(&reading);
                let mut all = parts.push(text);
                all.extend(parts.finish(false));
                let mut calls: Vec<(String, String)> = Vec::new();
                for part in all {
                    match part {
                        AnswerPart::Call { name, .. } => calls.push((name, String::new())),
                        AnswerPart::Arguments { index, text } => calls[index].1.push_str(&text),
                        other => panic!("{name}: {text:?}: {other:?} {reason:?}"),
                    }
                }
                assert!(!calls.is_empty() && (several || calls.len() == 1), "{name}: {text}");
                for (tool, arguments) in calls {
                    let value: Value = serde_json::from_str(&arguments).expect("JSON");
                    let rules =
                        &tools.iter().find(|(known, _)| *known == tool).expect("a tool there is").1.value;
                    assert!(valid(rules, &value, rules), "{name}: {text}");
                }
                seen += 1;
            }
            assert!(seen > 0, "{name}: no answer came to its end");
        }
    }
}

#[test]
fn alone_together_preempted_and_beside_guesses_the_same() {
    let tokenizer = tokenizer();
    let constrain = guidance(&tokenizer, &AnswerConstraint::json(schemas().swap_remove(8)));
    let requests = |constrained: bool| {
        let constrain = constrain.clone();
        (0..12).map(move |seed| {
            let request = request(&constrain, seed, 200);
            // Free ones among them must not change either.
            if constrained && seed % 3 > 0 { request } else { Request { constrain: None, ..request } }
        })
    };
    let roomy = engine(&tokenizer, 64 * 16, Speculation::OFF);
    let alone: Vec<_> = requests(true).flat_map(|request| ask(&roomy, [request])).collect();
    assert_eq!(ask(&roomy, requests(true)), alone);
    let tight = engine(&tokenizer, 66, Speculation::OFF);
    assert_eq!(ask(&tight, requests(true)), alone);
    for (lookup, tokens) in [(true, 4), (false, 4), (true, 16)] {
        let guessing = engine(&tokenizer, 64 * 16, Speculation { lookup, tokens, always: true });
        assert_eq!(ask(&guessing, requests(true)), alone);
        let counters = guessing.stats();
        assert!(counters.proposed_tokens > 0, "nothing was guessed");
    }
}

/// A call's frame is foreseen: its tokens come several at a time, though the model would never have said them.
#[test]
fn what_the_form_foresees_takes_fewer_steps_and_is_the_same() {
    let tokenizer = tokenizer();
    let tools = vec![(
        "get_weather_of_a_place".to_owned(),
        json!({"type": "object", "additionalProperties": false}).into(),
    )];
    let constrain = guidance(
        &tokenizer,
        &AnswerConstraint::ToolCalls(RequiredToolCalls {
            style: ToolCallStyle::Hermes,
            tools,
            several: false,
        }),
    );
    let seeds = 0..12;
    let requests = || seeds.clone().map(|seed| request(&constrain, seed, 200));
    let plain = engine(&tokenizer, 64 * 16, Speculation::OFF);
    let want = ask(&plain, requests());
    let foreseeing = engine(&tokenizer, 64 * 16, Speculation { lookup: false, tokens: 16, always: true });
    assert_eq!(ask(&foreseeing, requests()), want);
    let stats = foreseeing.stats();
    assert!(stats.accepted_tokens > 0, "of {} none", stats.proposed_tokens);
}

#[test]
fn a_thought_ends_in_time_and_the_form_follows() {
    let tokenizer = tokenizer();
    let handle = engine(&tokenizer, 64 * 16, Speculation::OFF);
    let tags = ReasoningTags { open: "<think>", close: "</think>" };
    let grammars = ConstraintCompiler::new(tokenizer.clone()).expect("grammars");
    let form = AnswerConstraint::json(json!({"type": "boolean"}));
    for begun in [true, false] {
        let thought = ReasoningFormat { tags, begun };
        let guided = grammars.guidance(Some(&form), Some(&thought), Some(10)).expect("guidance");
        let guided: Arc<dyn Constrain> = Arc::new(guided);
        let reading = AnswerParserOptions { thought: Some(thought), ..AnswerParserOptions::default() };
        for (text, reason) in ask(&handle, (0..20).map(|seed| request(&guided, seed, 100))) {
            let mut parts = AnswerParser::new(&reading);
            let mut all = parts.push(&text);
            all.extend(parts.finish(false));
            let said: String = all
                .iter()
                .filter_map(|p| if let AnswerPart::Content(t) = p { Some(t.as_str()) } else { None })
                .collect();
            assert_eq!(reason, FinishReason::Stop);
            assert!(said == "true" || said == "false", "{text:?}");
            assert!(!begun || text.contains("</think>"), "{text:?}");
        }
    }
    // Without a form the thought is cut all the same, and the answer goes on.
    let thought = ReasoningFormat { tags, begun: true };
    let free: Arc<dyn Constrain> =
        Arc::new(grammars.guidance(None, Some(&thought), Some(3)).expect("guidance"));
    let mut cut = 0;
    for (text, _) in ask(&handle, (0..20).map(|seed| request(&free, seed, 60))) {
        cut += usize::from(text.contains("</think>"));
    }
    assert!(cut > 10, "most go on past three tokens, and then the tag comes: {cut}");
}

#[test]
fn what_cannot_be_held_is_refused_with_the_reason() {
    let grammars = ConstraintCompiler::new(tokenizer()).expect("grammars");
    let refused = |form: AnswerConstraint| match grammars.guidance(Some(&form), None, None) {
        Ok(_) => panic!("{form:?} is taken"),
        Err(message) => message,
    };
    for (form, word) in [
        (AnswerConstraint::json(json!({"type": "object", "not": {"patternProperties": {"a": true}}})), "not"),
        (AnswerConstraint::json(json!({"$ref": "#/$defs/missing"})), "missing"),
        (AnswerConstraint::json(json!({"type": "integer", "minimum": 5, "maximum": 4})), "minimum"),
        (AnswerConstraint::json(json!({"type": "spoon"})), "spoon"),
        (AnswerConstraint::json(json!(7)), "object"),
        (AnswerConstraint::Regex("(".into()), "("),
        (AnswerConstraint::Regex("(?=a)b".into()), "no text"),
        (AnswerConstraint::Lark("start: missing".into()), "missing"),
        (AnswerConstraint::grammar("root ::= missing".into()), "GBNF, line 1: the rule missing"),
        (AnswerConstraint::Lark(String::new()), "start"),
        (AnswerConstraint::Choice(Vec::new()), "nothing"),
    ] {
        let message = refused(form.clone());
        assert!(message.contains(word) && message.len() < 1_000, "{form:?}: {message}");
    }
}
