//! Ollama's API, as its own clients and Open WebUI ask for it.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::frame;

use std::time::Duration;

use frame::script::saying;
use frame::{Running, merge, options, ready, unready};
use serde_json::{Value, json};
use server::{Keys, Options};

const SCRIPT: &str = "<think>Two cities.</think>\n\nI look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";

fn chat(extra: Value) -> Value {
    let mut body = json!({"model": "tiny", "messages": [{"role": "user", "content": "hello"}],
        "options": {"num_predict": 12, "temperature": 0}});
    merge(&mut body, extra);
    body
}

fn prompt(extra: Value) -> Value {
    let mut body =
        json!({"model": "tiny", "prompt": "hello", "options": {"num_predict": 12, "temperature": 0}});
    merge(&mut body, extra);
    body
}

/// The texts that the lines of a stream add up to.
fn joined(lines: &[Value], pointer: &str) -> String {
    lines.iter().filter_map(|line| line.pointer(pointer)?.as_str()).collect()
}

/// What an answer's last line tells beside its text.
fn check_end(end: &Value, prompt_tokens: u64) {
    assert_eq!((&end["done"], &end["prompt_eval_count"]), (&json!(true), &json!(prompt_tokens)), "{end}");
    assert!(["stop", "length"].contains(&end["done_reason"].as_str().unwrap()), "{end}");
    let time = |name: &str| end[name].as_u64().unwrap_or_else(|| panic!("{name} in {end}"));
    let parts = time("load_duration") + time("prompt_eval_duration") + time("eval_duration");
    assert!(time("total_duration") > 0 && parts <= time("total_duration"), "{end}");
    let (created, count) = (end["created_at"].as_str().unwrap(), end["eval_count"].as_u64().unwrap());
    assert!(
        created.starts_with("20") && created.ends_with('Z') && created.len() == 27 && count <= 12,
        "{end}"
    );
}

#[test]
fn a_chat_is_that_of_the_other_api() {
    let server = ready(options(), Duration::ZERO);
    let plain = server.chat(json!({})).json();
    let text = plain["choices"][0]["message"]["content"].as_str().unwrap();
    let prompt_tokens = plain["usage"]["prompt_tokens"].as_u64().unwrap();
    let whole = server.post("/api/chat", &chat(json!({"stream": false})));
    assert_eq!(whole.header("content-type"), Some("application/json; charset=utf-8"));
    let whole = whole.json();
    assert_eq!(whole["message"], json!({"role": "assistant", "content": text}), "{whole}");
    assert_eq!(
        (&whole["model"], &whole["eval_count"]),
        (&json!("tiny"), &plain["usage"]["completion_tokens"])
    );
    check_end(&whole, prompt_tokens);
    let lines = server.post("/api/chat", &chat(json!({}))).lines();
    assert_eq!(joined(&lines, "/message/content"), text);
    let (last, before) = lines.split_last().unwrap();
    check_end(last, prompt_tokens);
    assert_eq!((&last["message"]["content"], &last["done_reason"]), (&json!(""), &whole["done_reason"]));
    assert!(before.iter().all(|line| line["message"]["role"] == "assistant" && line["model"] == "tiny"));
    assert!(before.iter().all(|line| line.get("done_reason").is_none() && line.get("eval_count").is_none()));
    // The name comes back as it was sent.
    let named = server.post("/api/chat", &chat(json!({"model": "org/alias:latest", "stream": false}))).json();
    assert_eq!((&named["model"], &named["message"]["content"]), (&json!("org/alias:latest"), &json!(text)));
}

#[test]
fn a_prompt_is_answered_or_continued() {
    let server = ready(options(), Duration::ZERO);
    let of_chat = server.chat(json!({})).json()["choices"][0]["message"]["content"].clone();
    let of_text = server.completion(json!({})).json()["choices"][0]["text"].clone();
    for (extra, text, prompt_tokens) in [(json!({}), of_chat, 18), (json!({"raw": true}), of_text, 6)] {
        let mut asked = prompt(extra);
        asked["stream"] = json!(false);
        let whole = server.post("/api/generate", &asked).json();
        assert_eq!((&whole["response"], whole.get("context")), (&text, None), "{whole}");
        check_end(&whole, prompt_tokens);
        asked["stream"] = json!(true);
        let lines = server.post("/api/generate", &asked).lines();
        assert_eq!(text, joined(&lines, "/response"));
        check_end(lines.last().unwrap(), prompt_tokens);
    }
    let system = prompt(json!({"system": "brief", "stream": false}));
    assert_eq!(server.post("/api/generate", &system).json()["prompt_eval_count"], 18 + 11);
}

#[test]
fn thoughts_and_calls_are_told_apart() {
    let server = saying(SCRIPT);
    let tool = json!({"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}});
    let asked = |stream: bool| json!({"messages": [{"role": "user", "content": "x"}], "tools": [tool], "think": true, "stream": stream});
    let calls = |of: &Value| -> Vec<Value> {
        let calls = of["tool_calls"].as_array().into_iter().flatten();
        let call = |call: &Value| {
            assert!(call["id"].as_str().unwrap().starts_with("call_"), "{call}");
            call["function"].clone()
        };
        calls.map(call).collect()
    };
    let expected = [
        json!({"index": 0, "name": "weather", "arguments": {"city": "Rome"}}),
        json!({"index": 1, "name": "weather", "arguments": {"city": "Oslo"}}),
    ];
    let whole = server.post("/api/chat", &asked(false)).json();
    let message = &whole["message"];
    assert_eq!((&message["content"], &message["thinking"]), (&json!("I look."), &json!("Two cities.")));
    assert_eq!((calls(message), &whole["done_reason"]), (expected.to_vec(), &json!("stop")));
    let lines = server.post("/api/chat", &asked(true)).lines();
    assert_eq!(joined(&lines, "/message/content"), "I look.");
    assert_eq!(joined(&lines, "/message/thinking"), "Two cities.");
    let streamed: Vec<Value> = lines.iter().flat_map(|line| calls(&line["message"])).collect();
    assert_eq!(streamed, expected);
    // A call that was cut is none.
    let mut cut = asked(false);
    cut["options"] = json!({"num_predict": 90});
    let cut = server.post("/api/chat", &cut).json();
    assert_eq!((calls(&cut["message"]), &cut["done_reason"]), (Vec::new(), &json!("length")), "{cut}");
    let generated = server.post("/api/generate", &json!({"prompt": "x", "stream": false})).json();
    assert_eq!(generated["thinking"], "Two cities.");
    let show = server.post("/api/show", &json!({"model": "tiny"})).json();
    assert_eq!(show["capabilities"], json!(["completion", "tools", "thinking"]));
    // And another model does not think.
    let letters = ready(options(), Duration::ZERO);
    let refused = letters.post("/api/chat", &chat(json!({"think": true})));
    assert!(refused.status == 400 && refused.json()["error"].as_str().unwrap().contains("does not think"));
    assert_eq!(letters.post("/api/chat", &chat(json!({"think": false, "stream": false}))).status, 200);
}

#[test]
fn log_probabilities_are_told() {
    let server = ready(options(), Duration::ZERO);
    let asked = |stream: bool| chat(json!({"logprobs": true, "top_logprobs": 2, "stream": stream}));
    let whole = server.post("/api/chat", &asked(false)).json();
    let all = whole["logprobs"].as_array().unwrap();
    let text: String = all.iter().map(|entry| entry["token"].as_str().unwrap()).collect();
    assert_eq!(whole["message"]["content"], text);
    assert!(all.iter().all(|e| e["top_logprobs"].as_array().unwrap().len() == 2 && e["logprob"].is_number()));
    let lines = server.post("/api/chat", &asked(true)).lines();
    let streamed: Vec<&Value> = lines.iter().filter_map(|l| l["logprobs"].as_array()).flatten().collect();
    assert_eq!(streamed, all.iter().collect::<Vec<_>>());
}

#[test]
fn a_form_that_cannot_be_held_is_refused() {
    let server = ready(options(), Duration::ZERO);
    for format in [json!("json"), json!({"type": "object"})] {
        let answer = server.post("/api/chat", &chat(json!({"format": format})));
        let said = answer.json();
        assert!(answer.status == 400 && said["error"].as_str().unwrap().contains("constrained"), "{said}");
    }
}

#[test]
fn an_empty_request_loads_or_unloads() {
    let server = ready(options(), Duration::ZERO);
    for (path, empty) in [
        ("/api/chat", json!({"model": "tiny", "messages": []})),
        ("/api/generate", json!({"model": "tiny"})),
        ("/api/generate", json!({"model": "tiny:latest", "prompt": ""})),
    ] {
        for (keep_alive, reason) in [
            (json!(null), "load"),
            (json!("5m"), "load"),
            (json!(-1), "load"),
            (json!(0), "unload"),
            (json!("0s"), "unload"),
        ] {
            let mut body = empty.clone();
            body["keep_alive"] = keep_alive.clone();
            let answer = server.post(path, &body);
            let said = answer.json();
            assert_eq!(
                (answer.status, &said["done"], &said["done_reason"]),
                (200, &json!(true), &json!(reason)),
                "{said}"
            );
            let warned = answer.header("x-gristmill-warning").is_some_and(|text| text.contains("keep_alive"));
            assert_eq!(warned, !(keep_alive.is_null() || keep_alive == -1), "{path} {keep_alive}");
        }
    }
    let bad = server.post("/api/generate", &json!({"keep_alive": "soon"}));
    assert!(bad.status == 400 && bad.json()["error"].as_str().unwrap().contains("keep_alive"));
    assert_eq!(server.post("/api/generate", &json!({"model": "gpt"})).status, 404);
    assert_eq!(server.post("/api/generate", &json!({"model": "gpt", "keep_alive": 0})).status, 404);
}

#[test]
fn what_is_wrong_is_told_in_ollamas_shape() {
    let server = ready(options(), Duration::ZERO);
    for (path, body, status, words) in [
        ("/api/chat", chat(json!({"model": "gpt"})), 404, "served: tiny"),
        ("/api/chat", chat(json!({"options": {"temperature": 9}})), 400, "options.temperature is 9"),
        ("/api/chat", chat(json!({"messages": [{"role": "user", "content": "refuse"}]})), 400, "line 7"),
        ("/api/generate", prompt(json!({"suffix": "x"})), 400, "suffix"),
        ("/api/generate", prompt(json!({"prompt": "x".repeat(200)})), 400, "the prompt has"),
        ("/api/generate", prompt(json!({"context": [1, 2]})), 400, "/api/chat"),
        ("/api/show", json!({}), 400, "model is required"),
        ("/api/show", json!({"model": "gpt"}), 404, "served: tiny"),
        ("/api/embed", json!({"model": "tiny", "input": "x"}), 400, "does not embed"),
        ("/api/pull", json!({"model": "tiny"}), 404, "gristmill pull"),
        ("/api/tags", json!({}), 405, "it answers GET"),
    ] {
        let answer = server.post(path, &body);
        let said = answer.json();
        let message = said["error"].as_str().unwrap_or_else(|| panic!("{path}: {said}"));
        assert!(answer.status == status && message.contains(words), "{path}: {} {message}", answer.status);
    }
    let broken = server.send("POST", "/api/chat", &[("content-type", "application/json")], b"{");
    assert!(broken.status == 400 && broken.json()["error"].is_string());
    let form = [("content-type", "application/x-www-form-urlencoded")];
    assert_eq!(server.send("POST", "/api/chat", &form, b"{}").status, 415);
    let loading = unready(options(), Duration::from_secs(1)).get("/api/tags");
    assert!(loading.status == 503 && loading.json()["error"].as_str().unwrap().contains("loading"));
    let mut keys = Keys::default();
    keys.add("secret").unwrap();
    let keyed = Options { http: httpd::Options { keys, ..httpd::Options::default() }, ..options() };
    let keyed = ready(keyed, Duration::ZERO);
    let refused = keyed.get("/api/tags");
    assert!(refused.status == 401 && refused.json()["error"].is_string());
    assert_eq!(keyed.send("GET", "/api/tags", &[("authorization", "Bearer secret")], b"").status, 200);
}

#[test]
fn silence_is_broken_by_a_line_that_says_nothing() {
    let server = ready(options(), Duration::from_millis(450));
    let lines =
        server.post("/api/chat", &chat(json!({"options": {"num_predict": 2, "temperature": 0}}))).lines();
    let silent = |line: &&Value| line["done"] == false && line["message"]["content"] == "";
    assert!(lines.iter().filter(silent).count() >= 2, "{lines:?}");
}

#[test]
fn more_context_than_there_is_is_told() {
    let server = ready(options(), Duration::ZERO);
    let warning = |num_ctx: usize| {
        let asked = chat(json!({"stream": false, "options": {"num_predict": 2, "num_ctx": num_ctx}}));
        let answer = server.post("/api/chat", &asked);
        assert_eq!(answer.status, 200);
        answer.header("x-gristmill-warning").map(str::to_owned)
    };
    assert_eq!(warning(frame::CONTEXT), None);
    assert!(warning(8192).unwrap().contains("num_ctx is 8192"));
}

#[test]
fn models_are_listed_and_shown() {
    let server = ready(options(), Duration::ZERO);
    let tags = server.get("/api/tags").json();
    let names: Vec<&str> =
        tags["models"].as_array().unwrap().iter().map(|m| m["model"].as_str().unwrap()).collect();
    assert_eq!(names, ["tiny:latest", "org/alias:latest"]);
    let first = &tags["models"][0];
    assert!(
        first["name"] == "tiny:latest" && first["size"].is_u64() && first["details"]["families"].is_array()
    );
    assert!(
        first["digest"].as_str().unwrap().len() == 64 && first["modified_at"].as_str().unwrap().len() == 27
    );
    let running = server.get("/api/ps").json();
    let [running] = running["models"].as_array().unwrap().as_slice() else { panic!("{running}") };
    assert_eq!(
        (&running["name"], &running["context_length"]),
        (&json!("tiny:latest"), &json!(frame::CONTEXT))
    );
    assert!(running["expires_at"].as_str().unwrap() > "2300" && running["digest"] == first["digest"]);
    let show = server.post("/api/show", &json!({"model": "tiny"})).json();
    assert_eq!(show["capabilities"], json!(["completion"]));
    assert!(show["model_info"]["general.architecture"].is_string() && show["template"].is_string(), "{show}");
    let version = server.get("/api/version").json();
    assert!(version["version"].as_str().unwrap().split('.').all(|part| part.parse::<u32>().is_ok()));
    assert_eq!(server.send("HEAD", "/", &[], b"").status, 200);
    let bare = ready(Options { page: false, ..options() }, Duration::ZERO);
    assert_eq!((bare.get("/").status, bare.get("/").body.as_str()), (200, "Ollama is running"));
    assert_eq!(bare.send("HEAD", "/", &[], b"").status, 200);
}

/// What Open WebUI's backend sends and reads (`routers/ollama.py`, `utils/payload.py`): it looks models up by a name with
/// `:latest`, and takes a version apart at its points.
#[test]
fn the_calls_of_open_webui() {
    let server = ready(options(), Duration::ZERO);
    let version = server.get("/api/version").json()["version"].as_str().unwrap().to_owned();
    assert!(version.split('.').all(|part| part.parse::<u64>().is_ok()), "{version}");
    let tags = server.get("/api/tags").json();
    let loaded = server.get("/api/ps").json();
    let model = tags["models"][0]["model"].as_str().unwrap();
    assert!(model.contains(':') && tags["models"][0]["name"] == loaded["models"][0]["name"]);
    let shown = server.post("/api/show", &json!({"model": model, "name": model}));
    assert_eq!(shown.status, 200);
    // A conversation with the parameters of its settings, streamed.
    let asked = json!({"model": model, "stream": true, "keep_alive": "5m",
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello", "images": []}],
        "options": {"temperature": 0.0, "top_p": 0.9, "top_k": 40, "min_p": 0.0, "seed": 42, "mirostat": 0,
            "mirostat_eta": 0.1, "mirostat_tau": 5.0, "num_ctx": 64, "num_batch": 512, "num_keep": 24,
            "num_predict": 12, "repeat_last_n": 64, "repeat_penalty": 1.1, "presence_penalty": 0.0,
            "frequency_penalty": 0.0, "tfs_z": 1.0, "use_mmap": true, "use_mlock": false, "num_thread": 2,
            "num_gpu": 0, "stop": ["zz"]}});
    let lines = streamed(&server, "/api/chat", &asked);
    let last = lines.last().unwrap();
    assert!(last["eval_count"].as_u64().unwrap() > 0 && last["total_duration"].is_u64(), "{last}");
    // A title for it, whole.
    let title = json!({"model": model, "stream": false, "messages": [{"role": "user", "content": "a title"}],
        "options": {"num_predict": 8}});
    assert!(server.post("/api/chat", &title).json()["message"]["content"].is_string());
    let completion =
        json!({"model": model, "prompt": "hello", "stream": true, "options": {"num_predict": 4}});
    streamed(&server, "/api/generate", &completion);
    // "Unload" in its menu.
    let unload = server.post("/api/generate", &json!({"model": model, "keep_alive": 0, "prompt": ""}));
    assert_eq!((unload.status, &unload.json()["done_reason"]), (200, &json!("unload")));
    // What it shows of a refusal is `error`.
    for (path, body, status) in [
        ("/api/pull", json!({"model": "llama3", "insecure": true}), 404),
        ("/api/embed", json!({"model": model, "input": ["a"], "truncate": true}), 400),
        ("/api/embeddings", json!({"model": model, "prompt": "a"}), 400),
        ("/api/create", json!({"model": "x", "from": model}), 404),
        ("/api/copy", json!({"source": model, "destination": "y"}), 404),
    ] {
        let refused = server.post(path, &body);
        assert!(refused.status == status && refused.json()["error"].is_string(), "{path}: {refused:?}");
    }
}

fn streamed(server: &Running, path: &str, body: &Value) -> Vec<Value> {
    let answer = server.post(path, body);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.lines()
}
