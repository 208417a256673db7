//! Conversations as clients write them, through templates as models have them: nothing that a user says is lost.

use crate::support;

use serde_json::{Map, Value, json};
use text::{ChatTemplate, ContentFormat, Prompt, TemplateError, Tokenizer};

fn tokenizer() -> Tokenizer {
    let file = json!({"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}});
    Tokenizer::from_json(file.to_string().as_bytes()).expect("opens")
}

fn say(turns: &[(&str, &str)]) -> Vec<Value> {
    turns.iter().map(|(role, text)| json!({"role": role, "content": text})).collect()
}

fn ask(source: &str, turns: &[(&str, &str)]) -> Result<Prompt, TemplateError> {
    ChatTemplate::compile(source)?.prompt(&tokenizer(), &say(turns), None, true, &Map::new())
}

fn committed() -> Vec<(String, ChatTemplate)> {
    let entries = std::fs::read_dir(support::fixtures().join("templates")).expect("committed");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let jinja = paths.filter(|path| path.extension().is_some_and(|extension| extension == "jinja"));
    jinja
        .map(|path| {
            let source = std::fs::read_to_string(&path).expect("a template");
            let template = ChatTemplate::compile(&source).expect("compiles").with_tokens(support::tokens());
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            (name, template.with_clock(|| support::NOW))
        })
        .collect()
}

#[test]
fn fault_01_templates_that_want_parts_get_parts() {
    let cases = [
        (
            "{% for m in messages %}{% for line in m['content'] %}{% if line['type'] == 'text' %}{{ line['text'] }}{% endif %}{% endfor %};{% endfor %}",
            ContentFormat::Parts,
        ),
        (
            "{% for m in messages %}{% if m['content'][0]['type'] == 'image' %}:{% else %}: {% endif %}{{ m['content'][0]['text'] }};{% endfor %}",
            ContentFormat::Parts,
        ),
        (
            "{% for m in messages %}{% for c in m['content'] | selectattr('type', 'equalto', 'text') %}{{ c['text'] }}{% endfor %};{% endfor %}",
            ContentFormat::Parts,
        ),
        ("{% for m in messages %}{{ m.content[0].text | trim }};{% endfor %}", ContentFormat::Parts),
        (
            "{% for m in messages %}{{ m.content | map(attribute='text') | join('') }};{% endfor %}",
            ContentFormat::Parts,
        ),
        ("{% for m in messages %}{{ '<' + m['content'] + '>' }};{% endfor %}", ContentFormat::Text),
        ("{% for m in messages %}{{ m['content'] | trim }};{% endfor %}", ContentFormat::Text),
        ("{% for m in messages %}{{ m['content'] }};{% endfor %}", ContentFormat::Text),
        (
            "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for c in m.content %}{{ c.text }}{% endfor %}{% endif %};{% endfor %}",
            ContentFormat::Text,
        ),
        (
            "{% for m in messages %}{% if m.content is iterable and m.content is not string %}{% for c in m.content %}{{ c.text }}{% endfor %}{% endif %};{% endfor %}",
            ContentFormat::Parts,
        ),
        ("{% for m in messages %}{{ m.content | tojson }};{% endfor %}", ContentFormat::Text),
    ];
    for (source, form) in cases {
        let template = ChatTemplate::compile(source).expect("compiles");
        assert_eq!(template.content_format("user").expect("found"), form, "{source}");
        let said = |text: &str| ask(source, &[("user", text)]).expect("renders").text;
        assert!(said("What is red?").contains("What is red?"), "{source}");
        assert_ne!(said("What is red?"), said("What is blue?"), "{source}");
    }
}

#[test]
fn fault_01_each_role_gets_its_own_form() {
    let source = "{% for m in messages %}{% if m.role == 'user' %}{{ m.content[0].text }}{% else %}{{ '[' + m.content + ']' }}{% endif %}{% endfor %}";
    let prompt = ask(source, &[("system", "S1"), ("user", "U1"), ("assistant", "A1"), ("user", "U2")]);
    assert_eq!(prompt.expect("renders").text, "[S1]U1[A1]U2");
}

#[test]
fn fault_01_a_template_that_loses_what_users_say_is_refused() {
    for source in
        ["always the same", "{% for m in messages %}{{ m.role }}{% endfor %}", "{{ messages[0].text }}"]
    {
        let error = ask(source, &[("user", "What is red?")]).expect_err("loses the text");
        assert!(error.message.contains("message 1 of 1"), "{error}");
        let remarks = ChatTemplate::compile(source).expect("compiles").remarks();
        assert!(remarks.len() == 1 && remarks[0].contains("leaves out what users say"), "{remarks:?}");
    }
    // One that speaks of the last message only keeps it, and loses the first.
    let source = "{{ messages[-1].content }}";
    assert_eq!(ask(source, &[("user", "red")]).expect("renders").text, "red");
    let error = ask(source, &[("user", "red"), ("assistant", "blue"), ("user", "green")]);
    assert!(error.expect_err("loses a text").message.contains("message 1 of 3"));
}

/// Each published template, each shape of a conversation: the question is in the prompt, and another gives another.
#[test]
fn fault_01_two_questions_never_give_the_same_prompt() {
    let shapes: [&[(&str, &str)]; 8] = [
        &[("user", "?")],
        &[("system", "Be brief."), ("user", "?")],
        &[("user", "Hi."), ("assistant", "Hello."), ("user", "?")],
        &[("system", "Be brief."), ("system", "Be kind."), ("user", "?")],
        &[("user", "Hi."), ("user", "?")],
        &[
            ("system", "Be brief."),
            ("user", "Hi."),
            ("assistant", "Hello."),
            ("system", "Now rhyme."),
            ("user", "?"),
        ],
        &[("user", "Hi."), ("assistant", "Hello."), ("user", "?"), ("system", "Now rhyme.")],
        &[("developer", "Be brief."), ("user", "?")],
    ];
    let named =
        ChatTemplate::names().map(|name| (name.to_owned(), ChatTemplate::named(name).expect("is known")));
    let tokenizer = tokenizer();
    for (name, template) in committed().into_iter().chain(named) {
        assert!(template.remarks().is_empty(), "{name}: {:?}", template.remarks());
        for shape in shapes {
            let prompt = |question: &str| {
                let fill = |(role, text): &(&str, &str)| json!({"role": role, "content": if *text == "?" { question } else { text }});
                let messages: Vec<Value> = shape.iter().map(fill).collect();
                let prompt = template.prompt(&tokenizer, &messages, None, true, &Map::new());
                let text = prompt.unwrap_or_else(|e| panic!("{name}: {shape:?}: {e}")).text;
                for (_, said) in shape.iter().filter(|(_, said)| *said != "?") {
                    assert!(text.contains(said), "{name}: {said} is missing in {text}");
                }
                text
            };
            let (red, blue) = (prompt("What is red?"), prompt("What is blue?"));
            assert!(red.contains("What is red?"), "{name}: {shape:?}: {red}");
            assert_ne!(red, blue, "{name}: {shape:?}");
        }
    }
}

/// A template of the strict kind: no system message, and user and assistant must take turns.
const STRICT: &str = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{{ '<' + message['role'] + '>' + message['content'] }}{% endfor %}";
/// One that takes a system message at the start and forgets later ones.
const FIRST_ONLY: &str = "{% for m in messages %}{% if m.role == 'system' %}{% if loop.first %}{{ '<system>' + m.content }}{% endif %}{% else %}{{ '<' + m.role + '>' + m.content }}{% endif %}{% endfor %}";

#[test]
fn fault_08_system_messages_in_the_middle_are_kept() {
    let turns =
        [("system", "one"), ("user", "two"), ("assistant", "three"), ("system", "four"), ("user", "five")];
    let prompt = ask(FIRST_ONLY, &turns).expect("renders");
    assert_eq!(prompt.text, "<system>one<user>two<assistant>three<user>four\n\nfive");
    assert!(prompt.warnings.len() == 1 && prompt.warnings[0].contains("system"), "{:?}", prompt.warnings);
    let prompt = ask(STRICT, &turns).expect("renders");
    assert_eq!(prompt.text, "<user>one\n\ntwo<assistant>three<user>four\n\nfive");
    assert_eq!(prompt.warnings.len(), 1, "{:?}", prompt.warnings);
    // A template that takes them anywhere gets them where they were.
    let chatml = ChatTemplate::named("chatml").expect("is known");
    let prompt = chatml.prompt(&tokenizer(), &say(&turns), None, true, &Map::new()).expect("renders");
    assert!(
        prompt.text.contains("three<|im_end|>\n<|im_start|>system\nfour<|im_end|>")
            && prompt.warnings.is_empty()
    );
}

#[test]
fn fault_08_roles_that_do_not_take_turns_are_joined() {
    let prompt =
        ask(STRICT, &[("user", "one"), ("user", "two"), ("assistant", "three"), ("assistant", "four")]);
    let prompt = prompt.expect("renders");
    assert_eq!(prompt.text, "<user>one\n\ntwo<assistant>three\n\nfour");
    assert!(prompt.warnings[0].contains("take turns"), "{:?}", prompt.warnings);
    // What no order of turns mends is told in the template's words.
    let error = ask(STRICT, &[("assistant", "one")]).expect_err("begins with the assistant");
    assert!(error.message.contains("must alternate"), "{error}");
}

#[test]
fn a_developer_message_is_a_system_message_where_the_template_does_not_know_better() {
    let turns = [("developer", "one"), ("user", "two")];
    assert_eq!(ask(FIRST_ONLY, &turns).expect("renders").text, "<system>one<user>two");
    let knows = "{% for m in messages %}{{ ('<dev>' if m.role == 'developer' else '<' + m.role + '>') + m.content }}{% endfor %}";
    assert_eq!(ask(knows, &turns).expect("renders").text, "<dev>one<user>two");
}

/// The beginning of a conversation is written the same way in each turn: the prefix cache finds it.
#[test]
fn later_turns_begin_as_earlier_ones_did() {
    let turns = [
        ("system", "one"),
        ("user", "two"),
        ("assistant", "three"),
        ("system", "four"),
        ("user", "five"),
        ("assistant", "six"),
        ("user", "seven"),
    ];
    for source in [STRICT, FIRST_ONLY] {
        let (early, late) = (ask(source, &turns[..5]), ask(source, &turns));
        let (early, late) = (early.expect("renders").text, late.expect("renders").text);
        assert!(late.starts_with(&early), "{early}\n{late}");
    }
}

#[test]
fn said_badly_a_byte_order_mark_is_no_part_of_the_prompt() {
    let prompt = ask("\u{feff}{% for m in messages %}{{ m.content }}{% endfor %}", &[("user", "red")]);
    assert_eq!(prompt.expect("renders").text, "red");
}

#[test]
fn fault_01_a_name_in_place_of_a_template_is_looked_up() {
    let config = json!({"chat_template": "chatml"});
    let template = ChatTemplate::from_parts(None, Some(&config)).expect("is known").expect("has one");
    let text = template.render(&say(&[("user", "Hi")]), None, true, &Map::new()).expect("renders");
    assert_eq!(text, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    let config = json!({"chat_template": "martian-v2"});
    let error = ChatTemplate::from_parts(None, Some(&config)).expect_err("is not known").to_string();
    assert!(error.contains("martian-v2") && error.contains("mistral-v7-tekken"), "{error}");
}

#[test]
fn fault_15_the_text_false_is_no_for_a_switch() {
    let source = "{{ messages[0].content }}{% if enable_thinking %} think{% endif %}{{ word }}";
    let template = ChatTemplate::compile(source).expect("compiles");
    let said = |extra: Value| {
        let extra = extra.as_object().cloned().unwrap_or_default();
        template.render(&say(&[("user", "red")]), None, true, &extra).expect("renders")
    };
    for (switch, want) in [
        (json!("false"), "red"),
        (json!("False"), "red"),
        (json!(false), "red"),
        (json!("true"), "red think"),
        (json!(true), "red think"),
    ] {
        assert_eq!(said(json!({"enable_thinking": switch})), want, "{switch}");
    }
    assert_eq!(said(json!({"word": "false"})), "redfalse");
}

#[test]
fn results_of_tools_that_are_no_longer_offered_are_kept() {
    let calls = json!([{"type": "function", "function": {"name": "look_up", "arguments": {"word": "sun"}}}]);
    let messages = [
        json!({"role": "user", "content": "red"}),
        json!({"role": "assistant", "content": "", "tool_calls": calls}),
        json!({"role": "tool", "content": "a star"}),
        json!({"role": "user", "content": "blue"}),
    ];
    let template = ChatTemplate::compile(STRICT).expect("compiles");
    let prompt = template.prompt(&tokenizer(), &messages, None, true, &Map::new()).expect("renders");
    assert!(
        ["red", "look_up", "a star", "blue"].iter().all(|said| prompt.text.contains(said)),
        "{}",
        prompt.text
    );
}
