//! The table of request fields against the parsers, and against the lists of fields that other servers and clients have.
//! `GRISTMILL_BLESS=1` rewrites docs/request-fields.md.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use wire::bodies;
use wire::request_fields::{Decision, Group, Route, decision, groups};
use wire::{ChatRequest, CompletionRequest, Fault};

/// A list of the fields that one other program has for one of the routes.
struct List {
    file: String,
    source: String,
    route: Route,
    names: Vec<String>,
}

fn lists() -> Vec<List> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/request_fields");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let list = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        let head = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).unwrap().to_owned();
        let name = head("# route: ");
        let route = Route::ALL.into_iter().find(|route| route.name() == name).unwrap();
        let names =
            text.lines().filter(|l| !l.starts_with('#') && !l.is_empty()).map(str::to_owned).collect();
        let file = path.file_stem().unwrap().to_str().unwrap().to_owned();
        List { file, source: head("# source: "), route, names }
    };
    files.iter().map(list).collect()
}

/// A request that is good, of each route.
fn good(route: Route) -> Value {
    let turns = json!([{"role": "user", "content": "hi"}]);
    match route {
        Route::Chat | Route::OllamaChat => json!({"messages": turns}),
        Route::Completions | Route::LlamaCompletion | Route::Tokenize | Route::OllamaGenerate => {
            json!({"prompt": "hi"})
        }
        Route::OllamaOptions => json!({"messages": turns, "options": {}}),
        Route::Responses => json!({"input": "hi"}),
        Route::Messages => json!({"messages": turns, "max_tokens": 5}),
        Route::CountTokens => json!({"messages": turns}),
        Route::Generate
        | Route::Parameters
        | Route::TeiEmbed
        | Route::TeiPredict
        | Route::HfTask
        | Route::HfTextParameters
        | Route::HfTokenParameters => json!({"inputs": "hi", "parameters": {}}),
        Route::Embeddings
        | Route::Classify
        | Route::Pooling
        | Route::OllamaEmbed
        | Route::Entities
        | Route::Chunk => {
            json!({"input": "hi"})
        }
        Route::OllamaEmbeddings => json!({"prompt": "hi"}),
        Route::CohereEmbed => json!({"texts": ["hi"]}),
        Route::Rerank => json!({"query": "hi", "documents": ["a"]}),
        Route::Score => json!({"queries": "hi", "documents": ["a"]}),
        Route::TeiRerank => json!({"query": "hi", "texts": ["a"]}),
        Route::TeiSimilarity | Route::TeiSimilarityParameters => {
            json!({"inputs": {"source_sentence": "hi", "sentences": ["a"]}, "parameters": {}})
        }
    }
}

/// What the route's reader says of its good request with this field.
fn asked(route: Route, name: &str, value: &Value) -> Result<(), Fault> {
    // A tokenizer takes a text under either name, or a conversation.
    let of_chat = decision(Route::Chat, name).is_some() && !["model", "add_special_tokens"].contains(&name);
    let mut body = match route {
        Route::Tokenize if of_chat => good(Route::Chat),
        Route::Tokenize if name == "add_special" => json!({"content": "hi"}),
        _ => good(route),
    };
    let (object, path) = match route {
        Route::Parameters => (&mut body["parameters"], "/generate"),
        Route::TeiSimilarityParameters | Route::HfTextParameters | Route::HfTokenParameters => {
            let path = route.path().split_once(',').unwrap().0;
            (&mut body["parameters"], path)
        }
        Route::OllamaOptions => (&mut body["options"], "/api/chat"),
        _ => (&mut body, route.path()),
    };
    object[name] = value.clone();
    let (_, read) = bodies::ALL.into_iter().find(|(known, _)| *known == path).unwrap();
    read(body.to_string().as_bytes())
}

fn path(route: Route, name: &str) -> String {
    match route {
        Route::Parameters
        | Route::TeiSimilarityParameters
        | Route::HfTextParameters
        | Route::HfTokenParameters => {
            format!("parameters.{name}")
        }
        Route::OllamaOptions => format!("options.{name}"),
        _ => name.to_owned(),
    }
}

/// Values of every type, of which at least one is wrong for any field that is read.
fn odd() -> [Value; 7] {
    [
        json!({"zz": {"zz": 1}}),
        json!([{"zz": 1}]),
        json!("zz\u{0}zz"),
        json!(-7.25),
        json!(1e300),
        json!(true),
        json!([]),
    ]
}

#[test]
fn every_list_is_in_the_table() {
    let mut missing = Vec::new();
    for list in lists() {
        let absent = |name: &&String| decision(list.route, name).is_none();
        missing.extend(list.names.iter().filter(absent).map(|name| format!("{}: {name}", list.file)));
    }
    assert!(missing.is_empty(), "no decision on {}", missing.join(", "));
}

#[test]
fn the_parsers_hold_to_the_table() {
    let mut wrong = Vec::new();
    for route in Route::ALL {
        asked(route, "a_field_of_nobody", &json!(1)).unwrap();
        for group in groups().filter(|group| group.routes.contains(&route)) {
            for name in group.names() {
                wrong.extend(held(route, group, name).err());
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn held(route: Route, group: &Group, name: &str) -> Result<(), String> {
    let at = format!("{name} of {}", route.name());
    let refusals =
        || odd().into_iter().filter_map(|value| asked(route, name, &value).err().map(|f| (value, f)));
    match group.decision {
        Decision::Honoured => {
            let named = |(_, fault): &(Value, Fault)| {
                fault.status == 400 && fault.param.as_deref().is_some_and(|p| p.contains(name))
            };
            match refusals().any(|refusal| named(&refusal)) {
                true => Ok(()),
                false => Err(format!("{at} is honoured, but takes anything")),
            }
        }
        Decision::Refused(off) => {
            let asks = odd().into_iter().filter(|value| !off(value));
            for value in asks {
                let fault =
                    asked(route, name, &value).err().ok_or(format!("{at} is refused, but takes {value}"))?;
                if fault.param.as_deref() != Some(path(route, name).as_str())
                    || fault.code != Some("unsupported_parameter")
                {
                    return Err(format!("{at} is refused as {fault:?}"));
                }
            }
            asked(route, name, &Value::Null).map_err(|fault| format!("{at}: null is refused: {fault}"))
        }
        Decision::Ignored => match refusals().next() {
            Some((value, fault)) => Err(format!("{at} is ignored, but refuses {value}: {fault}")),
            None => Ok(()),
        },
        // Some of their readers look for what they need not tell.
        Decision::LeftOut(_) => Ok(()),
    }
}

/// Fields that were dropped silently: they change the answer.
#[test]
fn fault_05_options_that_change_the_answer_are_never_dropped() {
    let body = json!({"messages": [{"role": "user", "content": "hi"}], "n_predict": 7});
    assert_eq!(ChatRequest::read(&body).unwrap().max_tokens, Some(7));
    let body = json!({"prompt": "hi", "n_predict": -1});
    assert_eq!(CompletionRequest::read(&body).unwrap().max_tokens, None);
    for (route, name, value) in [
        (Route::Chat, "chat_template", json!("{{ messages }}")),
        (Route::Chat, "suffix", json!("x")),
        (Route::Chat, "prompt", json!("x")),
        (Route::Completions, "functions", json!([{"name": "f"}])),
        (Route::Completions, "messages", json!([{"role": "user", "content": "x"}])),
        (Route::Completions, "tools", json!([{"type": "function"}])),
        (Route::LlamaCompletion, "tools", json!([{"type": "function"}])),
    ] {
        let fault = asked(route, name, &value).unwrap_err();
        assert_eq!(
            (fault.param.as_deref(), fault.code),
            (Some(name), Some("unsupported_parameter")),
            "{fault}"
        );
        let nothing = if value.is_array() { json!([]) } else { Value::Null };
        asked(route, name, &nothing).unwrap();
    }
}

#[test]
fn fault_15_a_boolean_in_quotes_is_refused() {
    for arguments in
        [json!({"enable_thinking": "false"}), json!({"x": "True"}), json!({"enable_thinking": 0})]
    {
        let fault = asked(Route::Chat, "chat_template_kwargs", &arguments).unwrap_err();
        assert!(fault.param.unwrap().starts_with("chat_template_kwargs."), "{arguments}");
    }
    let switched = |extra: Value| {
        let mut body = good(Route::Chat);
        extra.as_object().unwrap().iter().for_each(|(name, value)| body[name] = value.clone());
        ChatRequest::read(&body).unwrap().template_arguments.get("enable_thinking").cloned()
    };
    for off in [
        json!({"enable_thinking": false}),
        json!({"think": false}),
        json!({"thinking": {"type": "disabled"}}),
        json!({"reasoning": {"enabled": false}}),
        json!({"reasoning_effort": "none"}),
    ] {
        assert_eq!(switched(off.clone()), Some(json!(false)), "{off}");
    }
    assert_eq!(switched(json!({"think": "high"})), None);
}

#[test]
fn said_badly_a_misspelled_field_is_told() {
    let warnings = |extra: &str| {
        let mut body = good(Route::Chat);
        body[extra] = json!(1);
        ChatRequest::read(&body).unwrap().warnings
    };
    for (name, meant) in
        [("temprature", "temperature"), ("max_token", "max_tokens"), ("repition_penalty", "")]
    {
        let told = warnings(name);
        if meant.is_empty() {
            assert!(told.is_empty(), "{told:?}");
        } else {
            assert!(told.len() == 1 && told[0].contains(meant) && told[0].contains(name), "{told:?}");
        }
    }
    let mut body = good(Route::Chat);
    body["verbosity"] = json!("low");
    assert!(ChatRequest::read(&body).unwrap().warnings[0].contains("verbosity"));
}

const BEGIN: &str = "<!-- made by crates/wire/tests/request_fields.rs -->\n";
const END: &str = "<!-- /made -->";

#[test]
fn the_manual_has_the_table() {
    let lists = lists();
    let mut text = String::from(BEGIN);
    for route in Route::ALL {
        text.push_str(&format!(
            "\n## {}\n\n| field | what becomes of it | why | known from |\n|---|---|---|---|\n",
            title(route)
        ));
        let mut rows: BTreeMap<&str, &Group> = BTreeMap::new();
        for group in groups().filter(|group| group.routes.contains(&route)) {
            group.names().for_each(|name| _ = rows.insert(name, group));
        }
        for (name, group) in rows {
            let mut known: Vec<&str> = lists
                .iter()
                .filter(|list| list.route == route && list.names.iter().any(|n| n == name))
                .map(|list| list.file.split('-').next().unwrap())
                .collect();
            known.dedup();
            let (word, reason) = (group.decision.word(), group.reason);
            text.push_str(&format!("| `{name}` | {word} | {reason} | {} |\n", known.join(", ")));
        }
    }
    text.push_str("\n## Sources\n\n");
    for list in &lists {
        text.push_str(&format!("- {}: {}\n", list.file, list.source));
    }
    text.push_str(END);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/request-fields.md");
    let written = std::fs::read_to_string(&page).unwrap();
    let (before, rest) = written.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let wanted = format!("{before}{text}{after}");
    if std::env::var_os("GRISTMILL_BLESS").is_some() {
        std::fs::write(&page, wanted).unwrap();
    } else {
        assert!(written == wanted, "docs/request-fields.md is not the table; GRISTMILL_BLESS=1 writes it");
    }
}

fn title(route: Route) -> String {
    match route {
        Route::Parameters => "`parameters` of `/generate`, `/generate_stream` and `/`".to_owned(),
        Route::Chat => "`/v1/chat/completions`, `/apply-template`".to_owned(),
        Route::Completions => "`/v1/completions`, and `/generate` with `prompt`".to_owned(),
        Route::Generate => "`/generate`, `/generate_stream` and `/` with `inputs`".to_owned(),
        Route::LlamaCompletion => "`/completion`, `/completions`".to_owned(),
        Route::OllamaOptions => "`options` of `/api/chat` and `/api/generate`".to_owned(),
        Route::Embeddings => "`/v1/embeddings`, `/embeddings`".to_owned(),
        Route::CohereEmbed => "`/v1/embed`, `/v2/embed`".to_owned(),
        Route::Rerank => "`/v1/rerank`, `/v2/rerank`, and `/rerank` with `documents`".to_owned(),
        Route::Score => "`/score`, `/v1/score`".to_owned(),
        Route::TeiEmbed => {
            "`/embed`, `/embed_all`, `/embed_sparse`, `/pipeline/feature-extraction`".to_owned()
        }
        Route::TeiRerank => "`/rerank` with `texts`".to_owned(),
        Route::TeiSimilarity => "`/similarity`, `/pipeline/sentence-similarity`".to_owned(),
        Route::TeiSimilarityParameters => "`parameters` of those".to_owned(),
        Route::HfTask => "`/pipeline/text-classification`, `/pipeline/token-classification`".to_owned(),
        Route::HfTextParameters => "`parameters` of `/pipeline/text-classification`".to_owned(),
        Route::HfTokenParameters => "`parameters` of `/pipeline/token-classification`".to_owned(),
        other => format!("`{}`", other.path()),
    }
}
