//! Answers with reasoning and tool calls, in the words of each model's own chat template (`tools/fixtures/answers.py`), and
//! answers of models that do not keep to them: they come back as reasoning, content and calls, whole and in pieces.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use text::{AnswerParser, AnswerParserOptions, AnswerPart, ReasoningFormat, ReasoningTags, ToolCallStyle};

use crate::support;

/// An answer of the fixture.
#[derive(Deserialize)]
pub(crate) struct Scripted {
    pub(crate) template: String,
    pub(crate) style: String,
    /// A text by which the reasoning of the template is found.
    pub(crate) reasoning_sign: Option<String>,
    /// The end of the prompt.
    pub(crate) prompt: String,
    pub(crate) answer: String,
    pub(crate) content: String,
    pub(crate) reasoning: String,
    pub(crate) calls: Vec<(String, Value)>,
}

/// What an answer was read as; the arguments of calls are JSON text.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Read {
    pub(crate) content: String,
    pub(crate) reasoning: String,
    pub(crate) calls: Vec<(String, String)>,
}

fn read<'a>(options: &AnswerParserOptions, pieces: impl IntoIterator<Item = &'a str>) -> Read {
    let mut parser = AnswerParser::new(options);
    let mut parts: Vec<AnswerPart> = pieces.into_iter().flat_map(|piece| parser.push(piece)).collect();
    parts.extend(parser.finish(false));
    let mut read = Read::default();
    for part in parts {
        match part {
            AnswerPart::Content(text) => read.content.push_str(&text),
            AnswerPart::Reasoning(text) => read.reasoning.push_str(&text),
            AnswerPart::Call { name, .. } => read.calls.push((name, String::new())),
            AnswerPart::Arguments { index, text } => read.calls[index].1.push_str(&text),
        }
    }
    read
}

/// Reads an answer whole and by letters.
pub(crate) fn both(options: &AnswerParserOptions, answer: &str) -> Read {
    let whole = read(options, [answer]);
    let letters: Vec<String> = answer.chars().map(String::from).collect();
    assert_eq!(read(options, letters.iter().map(String::as_str)), whole, "{answer}");
    whole
}

pub(crate) fn options(style: &str, tags: Option<ReasoningTags>, prompt: &str) -> AnswerParserOptions {
    let parameters = json!({"type": "object", "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        "limit": {"type": ["number", "null"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "options": {"type": "object"},
        "on": {"type": "boolean"},
        "any": {},
    }});
    let empty = json!({"type": "object", "properties": {}});
    let schemas: Arc<[(String, Value)]> =
        [("get_weather".to_owned(), parameters), ("now".to_owned(), empty)].into();
    AnswerParserOptions {
        thought: tags.map(|tags| ReasoningFormat { tags, begun: tags.opened_by(prompt) }),
        style: Some(ToolCallStyle::named(style).expect("a style")),
        tools: vec!["get_weather".into(), "now".into()],
        schemas,
        ..AnswerParserOptions::default()
    }
}

pub(crate) fn tags(sign: &str) -> ReasoningTags {
    ReasoningTags::of_template(sign).unwrap_or_else(|| panic!("{sign} is a sign"))
}

pub(crate) fn scripted() -> Vec<Scripted> {
    let text = std::fs::read_to_string(support::fixtures().join("answers.jsonl")).expect("is committed");
    text.lines().map(|line| serde_json::from_str(line).expect("an answer")).collect()
}

#[test]
fn what_templates_write_is_read() {
    let mut wrong = Vec::new();
    for Scripted { template, style, reasoning_sign, prompt, answer, content, reasoning, calls } in scripted()
    {
        let options = options(&style, reasoning_sign.as_deref().map(tags), &prompt);
        let got = both(&options, &answer);
        let made = got.calls.iter().map(|(name, arguments)| {
            (
                name.clone(),
                serde_json::from_str::<Value>(arguments).unwrap_or_else(|_| arguments.as_str().into()),
            )
        });
        if made.collect::<Vec<_>>() != calls
            || got.content.trim_start() != content
            || got.reasoning != reasoning
        {
            wrong.push(format!("{template}: {prompt:?}\n  {answer:?}\n  {got:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} answers:\n{}", wrong.len(), wrong.join("\n"));
}

/// The style and the tags that a template shows.
fn check_signs(template: &str, source: &str, wrong: &mut Vec<String>) {
    let all = scripted();
    let Some(known) = all.iter().find(|known| known.template == template) else { return };
    let style = ToolCallStyle::of_template(source).map_or("hermes", ToolCallStyle::name);
    let shown = ReasoningTags::of_template(source);
    let tags = known.reasoning_sign.as_deref().map(tags);
    if style != known.style || (tags.is_some() && shown != tags) {
        wrong.push(format!("{template}: {style}, {shown:?}"));
    }
}

#[test]
fn committed_templates_show_their_style() {
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(support::fixtures().join("templates")).expect("committed") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "jinja") {
            let source = std::fs::read_to_string(&path).expect("a template");
            check_signs(&path.file_stem().unwrap_or_default().to_string_lossy(), &source, &mut wrong);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
#[ignore = "needs tools/fixtures/fetch_vocabularies.py"]
fn all_templates_show_their_style() {
    let mut names: Vec<String> = scripted().into_iter().map(|known| known.template).collect();
    names.dedup();
    assert!(names.len() >= 50, "{} templates", names.len());
    let mut wrong = Vec::new();
    for name in names {
        let path = support::vocabularies().join(format!("templates/{name}.jinja"));
        check_signs(&name, &std::fs::read_to_string(path).expect("fetched"), &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[track_caller]
fn is(style: &str, sign: Option<&str>, prompt: &str, answer: &str, want: (&str, &str, &[(&str, &str)])) {
    let got = both(&options(style, sign.map(tags), prompt), answer);
    let calls: Vec<(&str, &str)> = got.calls.iter().map(|(n, a)| (n.as_str(), a.as_str())).collect();
    assert_eq!((got.reasoning.as_str(), got.content.as_str(), calls.as_slice()), want, "{answer}");
}

const HARMONY: Option<&str> = Some("<|channel|>analysis<|message|>");

#[test]
fn harmony_in_all_its_spellings() {
    let is = |answer, want| is("harmony", HARMONY, "<|start|>assistant", answer, want);
    let call: &[(&str, &str)] = &[("now", "{\"a\": 1}")];
    is("<|channel|>final<|message|>Hello.", ("", "Hello.", &[]));
    is("<|channel|>commentary<|message|>Hello.", ("", "Hello.", &[]));
    is(
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hello.<|return|>",
        ("Hm.", "Hello.", &[]),
    );
    is("<|channel|>analysis<|message|>Hm", ("Hm", "", &[]));
    is(" to=functions.now<|channel|>analysis<|message|>{\"a\": 1}", ("", "", call));
    is("<|channel|>analysis to=functions.now<|message|>{\"a\": 1}", ("", "", call));
    is(" to=functions.now<|channel|>analysis <|constrain|>json<|message|>{\"a\": 1}", ("", "", call));
    is(
        "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{\"a\": 1}<|call|>",
        ("", "", call),
    );
    is(
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant to=functions.now<|channel|>commentary json<|message|>{\"a\": 1}",
        ("Hm.", "", call),
    );
    is(
        "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.now <|constrain|>json<|message|>{\"a\": 1}",
        ("", "I look.", call),
    );
    is(
        "<|channel|>analysis<|message|>1<|end|><|channel|>analysis<|message|>2<|end|><|channel|>final<|message|>3",
        ("1\n2", "3", &[]),
    );
    is(
        "<|channel|>commentary to=assistant<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=assistant<|channel|>final<|message|>Hello.",
        ("Hm.", "Hello.", &[]),
    );
    is("<|channel|>final <|constrain|>json<|message|>{\"a\": 1}", ("", "{\"a\": 1}", &[]));
    // No messages at all, and a message that the prompt began.
    is("Hello.", ("", "Hello.", &[]));
    is("<|channel|>fin", ("", "", &[]));
}

#[test]
fn harmony_that_the_prompt_began() {
    let begun = "<|start|>assistant<|channel|>analysis<|message|>";
    is(
        "harmony",
        HARMONY,
        begun,
        "Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes",
        ("Hm.", "Yes", &[]),
    );
    // Without tools a call is no call.
    let options =
        AnswerParserOptions { style: None, ..options("harmony", HARMONY.map(tags), "<|start|>assistant") };
    let got = both(&options, "<|channel|>commentary to=functions.now<|message|>{}");
    assert!(got.calls.is_empty() && got.content.is_empty(), "{got:?}");
}

#[test]
fn gemma_4_and_its_values() {
    let is = |answer, want| is("gemma4", Some("<|channel>thought"), "<|turn>model\n", answer, want);
    is("<|channel>thought\nHm.\n<channel|>Hello.", ("Hm.", "Hello.", &[]));
    is("<|channel>thought<channel|>Hello.", ("", "Hello.", &[]));
    is("<|channel>thought\n<channel|>Hello.<channel|>", ("", "Hello.", &[]));
    is("<|channel>thought\n<channel|>Hello.<|channel>thought\n<channel|><channel|>", ("", "Hello.", &[]));
    is(
        "<|tool_call>call:get_weather{city:<|\"|>San Francisco<|\"|>,days:-7,limit:1.5e10,on:true,any:null}<tool_call|>",
        (
            "",
            "",
            &[(
                "get_weather",
                "{\"city\":\"San Francisco\",\"days\":-7,\"limit\":1.5e10,\"on\":true,\"any\":null}",
            )],
        ),
    );
    is(
        "Well.<|tool_call>call:get_weather{tags:[<|\"|>a<|\"|>,<|\"|>b<|\"|>],options:{<|\"|>k<|\"|>:{n:3}}}<tool_call|><|tool_call>call:now{}<tool_call|>",
        (
            "",
            "Well.",
            &[("get_weather", "{\"tags\":[\"a\",\"b\"],\"options\":{\"k\":{\"n\":3}}}"), ("now", "{}")],
        ),
    );
}

#[test]
fn qwen_and_its_values() {
    let think = Some("<think>");
    let one = |answer: &str, arguments: &str| {
        is(
            "qwen",
            think,
            "assistant\n<think>\n\n</think>\n\n",
            answer,
            ("", "", &[("get_weather", arguments)]),
        );
    };
    one(
        "<tool_call>\n<function=get_weather>\n<parameter=city>\n    print(\"1\")\n\nx\n\n</parameter>\n<parameter=days>\n1\n</parameter>\n</function>\n</tool_call>",
        "{\"city\": \"    print(\\\"1\\\")\\n\\nx\\n\", \"days\": 1}",
    );
    one(
        "<tool_call>\n<function=get_weather>\n<parameter=city>\n12\n</parameter>\n<parameter=limit>\nnull\n</parameter>\n<parameter=on>\nTrue\n</parameter>\n<parameter=any>\ntwo words\n</parameter>\n<parameter=tags>\n[\"a\", \"</b>\"]\n</parameter>\n</function>\n</tool_call>",
        "{\"city\": \"12\", \"limit\": null, \"on\": true, \"any\": \"two words\", \"tags\": [\"a\", \"</b>\"]}",
    );
    // The outer tag is missing, the end is.
    one(
        "<function=get_weather>\n<parameter=days>\n1\n</parameter>\n</function>\n</tool_call>",
        "{\"days\": 1}",
    );
    one("<tool_call>\n<function=get_weather>\n</function>", "{}");
    // JSON, as constrained answers have it.
    one(
        "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"days\": 1}}\n</tool_call>",
        "{\"days\": 1}",
    );
    // A call ends reasoning; the opening tag is said again.
    let call = "<tool_call>\n<function=now>\n</function>\n</tool_call>";
    let begun = "assistant\n<think>\n";
    is("qwen", think, begun, &format!("Hm.\n{call}"), ("Hm.", "", &[("now", "{}")]));
    is("qwen", think, begun, &format!("<think>\nHm.</think>\n{call}"), ("Hm.", "", &[("now", "{}")]));
    is(
        "qwen",
        think,
        begun,
        &format!("</think>\n\n{call}\n{call}"),
        ("", "", &[("now", "{}"), ("now", "{}")]),
    );
    is("qwen", None, "", "Write <function> or <tool_call> b", ("", "Write <function> or <tool_call> b", &[]));
}

#[test]
fn lfm_and_its_values() {
    let is = |answer, want| is("lfm", Some("<think>"), "assistant\n", answer, want);
    is(
        "<|tool_call_start|>[get_weather(city='it\\'s \"x\"', days=-2, on=True, limit=None, tags=['a', \"b\"], options={'k': (1, 2)}), now()]<|tool_call_end|>",
        (
            "",
            "",
            &[
                (
                    "get_weather",
                    "{\"city\": \"it's \\\"x\\\"\", \"days\": -2, \"on\": true, \"limit\": null, \"tags\": [\"a\", \"b\"], \"options\": {\"k\": [1, 2]}}",
                ),
                ("now", "{}"),
            ],
        ),
    );
    is(
        "<think>Hm.</think>Well.<|tool_call_start|>[now()]<|tool_call_end|>",
        ("Hm.", "Well.", &[("now", "{}")]),
    );
    is(
        "<think>a <|tool_call_start|>[now()]<|tool_call_end|> b</think>c",
        ("a <|tool_call_start|>[now()]<|tool_call_end|> b", "c", &[]),
    );
    is(
        "<|tool_call_start|>[get_weather(city='\\u00e9\\u12', on=true)]<|tool_call_end|>",
        ("", "", &[("get_weather", "{\"city\": \"é\\\\u12\", \"on\": true}")]),
    );
    is(
        "<|tool_call_start|>[{\"name\": \"now\", \"arguments\": {}}]<|tool_call_end|>",
        ("", "", &[("now", "{}")]),
    );
    is("<|tool_call_start|>what", ("", "<|tool_call_start|>what", &[]));
}

#[test]
fn content_may_have_tags_of_its_own() {
    let is = |answer, want| is("hermes", Some("<think>"), "", answer, want);
    is("<think>Hm.</think>\n<response>\nYes <b>.\n</response>\n", ("Hm.", "Yes <b>.", &[]));
    is("<think>Hm.</think><resp", ("Hm.", "<resp", &[]));
    is("<think>Hm.</think><respect>", ("Hm.", "<respect>", &[]));
    is("<response>Yes</response>", ("", "<response>Yes</response>", &[]));
}

#[test]
fn other_styles_and_their_habits() {
    let call: &[(&str, &str)] = &[("get_weather", "{\"days\": 1}")];
    let plain = |style, answer| is(style, None, "", answer, ("", "", call));
    plain(
        "kimi",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{\"days\": 1}<|tool_call_end|><|tool_calls_section_end|>",
    );
    plain("kimi", "<|tool_call_begin|>get_weather<|tool_call_argument_begin|>{\"days\": 1}<|tool_call_end|>");
    plain(
        "deepseek",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{\"days\": 1}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    );
    plain(
        "hunyuan",
        "<tool_calls>\n<tool_call>get_weather\n```json\n{\"days\": 1}\n```\n</tool_call>\n</tool_calls>",
    );
    plain("glm", "<tool_call>get_weather\n<arg_key>days</arg_key>\n<arg_value>1</arg_value>\n</tool_call>");
    plain("minicpm", "<function name=\"get_weather\"><param name=\"days\">1</param></function>");
    plain(
        "tool_calls",
        "<tool_calls>\n{\"name\": \"get_weather\", \"arguments\": {\"days\": 1}}\n</tool_calls>",
    );
    plain("nemotron", "<TOOLCALL>[{\"name\": \"get_weather\", \"arguments\": {\"days\": 1}}]</TOOLCALL>");
    plain("ministral", "[TOOL_CALLS]get_weather[ARGS]{\"days\": 1}");
    is("glm", None, "", "<tool_call>now</tool_call>", ("", "", &[("now", "{}")]));
    is(
        "minicpm",
        None,
        "",
        "<function name=\"get_weather\"><param name=\"city\"><![CDATA[<a href=\"/x\">hi</a> </param>]]></param></function>",
        ("", "", &[("get_weather", "{\"city\": \"<a href=\\\"/x\\\">hi</a> </param>\"}")]),
    );
    is(
        "dsml",
        None,
        "",
        "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"any\" string=\"true\">1</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" string=\"false\">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
        ("", "", &[("get_weather", "{\"any\": \"1\", \"days\": 1}")]),
    );
}
