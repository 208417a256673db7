use proptest::prelude::*;

use serde_json::{Value, json};

use super::{AnswerParser, AnswerParserOptions, AnswerPart, ReasoningFormat, ReasoningTags};
use crate::ToolCallStyle;

const THINK: ReasoningTags = ReasoningTags { open: "<think>", close: "</think>" };

fn reading(style: Option<ToolCallStyle>, begun: Option<bool>) -> AnswerParserOptions {
    AnswerParserOptions {
        thought: begun.map(|begun| ReasoningFormat { tags: THINK, begun }),
        style,
        tools: vec!["f".into(), "get_weather".into()],
        ..AnswerParserOptions::default()
    }
}

/// Content, reasoning and calls of an answer that comes in these pieces.
type Whole = (String, String, Vec<(String, String)>);

fn read<'a>(reading: &AnswerParserOptions, pieces: impl IntoIterator<Item = &'a str>) -> Whole {
    read_to(reading, pieces, false)
}

fn read_to<'a>(reading: &AnswerParserOptions, pieces: impl IntoIterator<Item = &'a str>, cut: bool) -> Whole {
    let mut parts = AnswerParser::new(reading);
    let mut all: Vec<AnswerPart> = pieces.into_iter().flat_map(|piece| parts.push(piece)).collect();
    all.extend(parts.finish(cut));
    let mut whole = Whole::default();
    for part in all {
        match part {
            AnswerPart::Content(text) => whole.0.push_str(&text),
            AnswerPart::Reasoning(text) => whole.1.push_str(&text),
            AnswerPart::Call { index, name } => {
                assert_eq!(index, whole.2.len());
                whole.2.push((name, String::new()));
            }
            AnswerPart::Arguments { index, text } => {
                assert_eq!(index + 1, whole.2.len());
                whole.2[index].1.push_str(&text);
            }
        }
    }
    assert_eq!(parts.calls(), whole.2.len());
    whole
}

#[track_caller]
fn is(style: ToolCallStyle, text: &str, content: &str, calls: &[(&str, &str)]) {
    let (said, thought, called) = read(&reading(Some(style), None), [text]);
    let called: Vec<(&str, &str)> = called.iter().map(|(n, a)| (n.as_str(), a.as_str())).collect();
    assert_eq!((said.as_str(), called.as_slice()), (content, calls), "{text}");
    assert_eq!(thought, "");
}

#[test]
fn thoughts_are_cut_off() {
    let is = |begun, text, content: &str, thought: &str| {
        let (said, thinks, _) = read(&reading(None, Some(begun)), [text]);
        assert_eq!((said.as_str(), thinks.as_str()), (content, thought), "{text}");
    };
    is(false, "<think>\nWell.\n</think>\n\nYes.", "Yes.", "Well.");
    is(true, "\nWell. </thin </think>Yes.\n", "Yes.\n", "Well. </thin");
    is(false, "\n <think></think>Yes.", "Yes.", "");
    is(false, "Yes. <think>no</think>", "Yes. <think>no</think>", "");
    is(false, " <thi", " <thi", "");
    is(true, "never done </thi", "", "never done </thi");
    is(true, "", "", "");
}

#[test]
fn hermes() {
    let is = |text, content, calls| is(ToolCallStyle::Hermes, text, content, calls);
    is(
        "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, \"}\"]}}\n</tool_call>",
        "",
        &[("f", "{\"a\": [1, \"}\"]}")],
    );
    is(
        "Let me see. \n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n<tool_call>{\"arguments\":{\"x\":1},\"name\":\"g\"}</tool_call>\n",
        "Let me see.",
        &[("f", "{}"), ("g", "{\"x\":1}")],
    );
    is("<tool_call>{\"name\":\"f\"}</tool_call> And?", " And?", &[("f", "{}")]);
    is(
        "<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": \\\"\\u00e9\\\\n\\\"}\"}</tool_call>",
        "",
        &[("f", "{\"a\": \"é\\n\"}")],
    );
    // Not closed, cut off, not a call.
    is(
        "<tool_call>{\"name\":\"f\",\"arguments\":{}}<tool_call>{\"name\":\"g\",\"arguments\":{\"a",
        "",
        &[("f", "{}"), ("g", "{\"a")],
    );
    is("<tool_call>{\"name\":\"f\"", "<tool_call>{\"name\":\"f\"", &[]);
    is("a <tool_call> b <tool_call>", "a <tool_call> b <tool_call>", &[]);
    is("I use <tool_", "I use <tool_", &[]);
}

#[test]
fn llama() {
    let is = |text, content, calls| is(ToolCallStyle::Llama, text, content, calls);
    is("{\"name\": \"f\", \"parameters\": {\"a\": 1}}", "", &[("f", "{\"a\": 1}")]);
    is(
        "<|python_tag|>{\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}; {\"name\": \"f\", \"parameters\": {}}",
        "",
        &[("f", "{}"), ("f", "{}")],
    );
    is("{\"name\": \"Bob\", \"age\": 3}", "{\"name\": \"Bob\", \"age\": 3}", &[]);
    is("{\"a\": 1} is JSON", "{\"a\": 1} is JSON", &[]);
    is("<|python_tag|>print(1)", "<|python_tag|>print(1)", &[]);
    is("Hello {\"name\": \"f\", \"parameters\": {}}", "Hello {\"name\": \"f\", \"parameters\": {}}", &[]);
}

#[test]
fn mistral() {
    let is = |text, content, calls| is(ToolCallStyle::Mistral, text, content, calls);
    is(
        "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\", \"arguments\": {}}]",
        "",
        &[("f", "{\"a\": 1}"), ("g", "{}")],
    );
    is("Hm.[TOOL_CALLS]f[ARGS]{\"a\": {}}[TOOL_CALLS]g{}", "Hm.", &[("f", "{\"a\": {}}"), ("g", "{}")]);
    is("[TOOL_CALLS]f[CALL_ID]abc123def[ARGS]{\"a\": 1}", "", &[("f", "{\"a\": 1}")]);
    is("[TOOL_CALLS] is a mark", "[TOOL_CALLS] is a mark", &[]);
    is("[TOOL_CALLS][1]", "[TOOL_CALLS][1]", &[]);
    is("[TOOL_CALLS][]", "[TOOL_CALLS][]", &[]);
}

#[test]
fn phi() {
    let is = |text, content, calls| is(ToolCallStyle::Phi, text, content, calls);
    is(
        "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]<|/tool_call|>",
        "",
        &[("f", "{\"a\": 1}")],
    );
    is("functools[{\"name\": \"f\", \"arguments\": {}}]", "", &[("f", "{}")]);
    is("The functools module", "The functools module", &[]);
    is("<|tool_call|>[] Yes.", "<|tool_call|>[] Yes.", &[]);
}

#[test]
fn gemma() {
    let is = |text, content, calls| is(ToolCallStyle::Gemma, text, content, calls);
    is(
        "<start_function_call>call:f{location:<escape>To\"kyo <b><escape>,n:3,list:[1,{a:true}],o:{}}<end_function_call>",
        "",
        &[("f", "{\"location\":\"To\\\"kyo <b>\",\"n\":3,\"list\":[1,{\"a\":true}],\"o\":{}}")],
    );
    is("<start_function_call>call:f{}<end_function_call>", "", &[("f", "{}")]);
    is("<start_function_call>{\"name\":\"f\",\"arguments\":{}}<end_function_call>", "", &[("f", "{}")]);
    is("<start_function_call>what?", "<start_function_call>what?", &[]);
}

#[test]
fn one_call_is_the_first() {
    let reading = AnswerParserOptions { one_call: true, ..reading(Some(ToolCallStyle::Hermes), None) };
    let call = "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}}</tool_call>";
    let (_, _, calls) = read(&reading, [call, call]);
    assert_eq!(calls, [("f".to_owned(), "{\"a\":1}".to_owned())]);
}

#[test]
fn said_badly_a_call_cut_before_its_name_is_no_content() {
    for (style, text) in [
        (ToolCallStyle::Hermes, "Well.\n<tool_call>\n{\"na"),
        (ToolCallStyle::Mistral, "Well.[TOOL_CALLS]"),
        (ToolCallStyle::Mistral, "Well.[TOOL_CALLS][{\"na"),
        (ToolCallStyle::Llama, "Well.<|python_tag|>{\"na"),
        (ToolCallStyle::Phi, "Well.<|tool_call|>[{"),
        (ToolCallStyle::Gemma, "Well.<start_function_call>call:"),
    ] {
        let (said, _, calls) = read_to(&reading(Some(style), None), [text], true);
        assert_eq!((said.as_str(), calls.len()), ("Well.", 0), "{text}");
        let (said, ..) = read(&reading(Some(style), None), [text]);
        assert_eq!(said, text, "an answer that ended so said so");
    }
    // Where a call must come, nothing is content: the beginning of its mark, or of a call that has none.
    for (style, text) in [
        (ToolCallStyle::Hermes, "<tool_"),
        (ToolCallStyle::Hermes, "<tool_call>\n{"),
        (ToolCallStyle::Llama, "{\"name\": \"f"),
    ] {
        let reading = AnswerParserOptions { must_call: true, ..reading(Some(style), None) };
        assert_eq!(read_to(&reading, [text], true), Whole::default(), "{text}");
    }
}

/// Reads answers of a model that was told of two tools.
fn bare(text: &str) -> Whole {
    let schema = |names: &[&str], required: &[&str]| {
        let properties: serde_json::Map<String, Value> =
            names.iter().map(|name| (name.to_string(), json!({"type": "string"}))).collect();
        json!({"type": "object", "properties": properties, "required": required})
    };
    let tools = [
        ("f".to_owned(), schema(&["a", "b"], &["a"])),
        ("get_weather".to_owned(), json!({"type": "object", "properties": {}})),
    ];
    let reading = AnswerParserOptions {
        json_calls: Some(tools.into()),
        ..reading(Some(ToolCallStyle::Hermes), Some(false))
    };
    let whole = read(&reading, [text]);
    let letters: Vec<String> = text.chars().map(String::from).collect();
    assert_eq!(read(&reading, letters.iter().map(String::as_str)), whole);
    whole
}

#[test]
fn fault_13_a_call_in_bare_or_fenced_json_is_a_call() {
    let one = |text: &str, arguments: &str| {
        let (said, _, calls) = bare(text);
        assert_eq!((said.as_str(), calls), ("", vec![("f".to_owned(), arguments.to_owned())]), "{text}");
    };
    one("{\"name\": \"f\", \"arguments\": {\"a\": \"1\"}}", "{\"a\":\"1\"}");
    one("\n```json\n{\"name\": \"f\", \"parameters\": {\"a\": \"{`\"}}\n```\n", "{\"a\":\"{`\"}");
    one("```\n{\"function\": {\"name\": \"f\", \"arguments\": \"{\\\"a\\\": \\\"1\\\"}\"}}", "{\"a\":\"1\"}");
    one("{\"tool\": \"f\", \"tool_input\": {\"a\": \"1\"}}", "{\"a\":\"1\"}");
    one(
        "{\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": {\"a\": \"1\"}}}",
        "{\"a\":\"1\"}",
    );
    one("{\"f\": {\"a\": \"1\", \"b\": \"2\"}}", "{\"a\":\"1\",\"b\":\"2\"}");
    one("<think>Hm.</think>\n{\"name\": \"f\", \"arguments\": {\"a\": \"1\"}}", "{\"a\":\"1\"}");
    one("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\":\"1\"}}</tool_call>", "{\"a\":\"1\"}");
    for several in [
        "[{\"name\": \"f\", \"arguments\": {\"a\": \"1\"}}, {\"name\": \"get_weather\"}]",
        "{\"name\": \"f\", \"arguments\": {\"a\": \"1\"}}\n{\"name\": \"get_weather\", \"arguments\": {}}",
        "```json\n{\"name\": \"f\", \"arguments\": {\"a\": \"1\"}}\n```\n```json\n{\"name\": \"get_weather\"}\n```",
        "{\"tool_calls\": [{\"name\": \"f\", \"arguments\": {\"a\": \"1\"}}, {\"name\": \"get_weather\"}]}",
    ] {
        let names: Vec<String> = bare(several).2.into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["f", "get_weather"], "{several}");
    }
}

#[test]
fn fault_13_what_is_no_call_stays_content() {
    for text in [
        "",
        "Hello.",
        "{\"name\": \"g\", \"arguments\": {}}",
        "{\"name\": \"f\", \"arguments\": {}}",
        "{\"name\": \"f\", \"arguments\": {\"a\": \"1\", \"c\": \"2\"}}",
        "{\"name\": \"f\", \"arguments\": [1]}",
        "{\"city\": \"f\"}",
        "{\"name\": \"f\", \"arguments\": {\"a\": \"1\"}} I did it.",
        "I call it: {\"name\": \"f\", \"arguments\": {\"a\": \"1\"}}",
        "```json\n{\"name\": \"f\", \"arguments\": {\"a\": \"1\"}}\n```\nDone.",
        "{\"name\": \"f\", \"arguments\": {\"a\": ",
        "```rust\nfn f() {}\n```",
        "[1, 2]",
        "``",
        "{",
    ] {
        let (said, _, calls) = bare(text);
        assert_eq!((said.as_str(), calls.len()), (text, 0), "{text}");
    }
}

#[test]
fn styles_have_names() {
    for (name, style) in ToolCallStyle::ALL {
        assert_eq!(ToolCallStyle::named(name), Some(style));
        assert_eq!(style.name(), name);
    }
}

/// Text made of what matters to the readers.
fn texts() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "<think>",
        "</think>",
        "<tool_call>",
        "</tool_call>",
        "[TOOL_CALLS]",
        "[ARGS]",
        "<|python_tag|>",
        "<|tool_call|>",
        "functools",
        "<|/tool_call|>",
        "<start_function_call>",
        "call:",
        "<end_function_call>",
        "<escape>",
        "<|tool_call>",
        "<|\"|>",
        "<tool_call|>",
        "<function=f>",
        "<parameter=a>",
        "</parameter>",
        "</function>",
        "<arg_key>",
        "</arg_key><arg_value>",
        "</arg_value>",
        "<|tool_call_start|>",
        "[f(a='1', b=[True])]",
        "<|tool_call_end|>",
        "<|tool_call_begin|>",
        "{",
        "}",
        "[",
        "]",
        "\"",
        ":",
        ",",
        ";",
        "\\",
        "\\u12",
        "f",
        "name",
        "\"name\"",
        "\"arguments\"",
        "{\"name\": \"f\", \"arguments\": {\"a\": 1}}",
        "{\"name\": \"f\", \"parameters\": {\"b\": \"é\\ud83d\\ude00\"}}",
        " ",
        "\n",
        "1",
        "é",
        "<",
        "null",
        "call:f{a:",
        "\u{1F600}",
    ]);
    prop::collection::vec(words, 0..24).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn pieces_do_not_matter(
        text in prop_oneof![4 => texts(), 1 => any::<String>()],
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        style in prop::option::of(prop::sample::select(ToolCallStyle::ALL.map(|(_, style)| style).to_vec())),
        begun in prop::option::of(any::<bool>()),
    ) {
        let reading = reading(style, begun);
        let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| ends[cut.index(ends.len())]).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]);
        let whole = read(&reading, [text.as_str()]);
        prop_assert_eq!(&read(&reading, pieces), &whole);
        if whole.1.is_empty() && whole.2.is_empty() && begun != Some(true) {
            // Where nothing is told but content, nothing but space and tags is lost.
            let dropped = ["<think>", "</think>", "<response>", "</response>", "<|/tool_call|>"];
            let bare = |text: &str| {
                let text = dropped.iter().fold(text.to_owned(), |text, tag| text.replace(tag, ""));
                text.split_whitespace().collect::<String>()
            };
            prop_assert_eq!(bare(&whole.0), bare(&text));
        }
    }
}
