//! Other servers' shapes of a completion, names of the model, compressed bodies, pages of other origins, and hints.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::frame;

use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use frame::{Answer, chat_body, options, ready};
use serde_json::{Value, json};
use server::{Cors, Keys, Options};

const JSON: (&str, &str) = ("content-type", "application/json");

/// The events of a stream that has no `[DONE]`.
fn events(answer: &Answer) -> Vec<Value> {
    let data = answer.body.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[test]
fn fault_12_tgi_answers_whole() {
    let server = ready(options(), Duration::ZERO);
    let plain = server.completion(json!({"prompt": "hello", "max_tokens": 12, "temperature": 0})).json();
    let text = plain["choices"][0]["text"].as_str().unwrap();
    let asked = json!({"inputs": "hello", "parameters": {"max_new_tokens": 12, "details": true, "top_n_tokens": 2,
        "decoder_input_details": true, "seed": 7}});
    let answer = server.post("/generate", &asked);
    let said = answer.json();
    assert_eq!((answer.status, said["generated_text"].as_str()), (200, Some(text)), "{said}");
    let details = &said["details"];
    assert!(["length", "eos_token"].contains(&details["finish_reason"].as_str().unwrap()), "{details}");
    let tokens = details["tokens"].as_array().unwrap();
    assert_eq!(tokens.len(), usize::try_from(details["generated_tokens"].as_u64().unwrap()).unwrap());
    let joined: String =
        tokens.iter().filter(|t| t["special"] == false).map(|t| t["text"].as_str().unwrap()).collect();
    assert_eq!((joined.as_str(), &details["seed"]), (text, &json!(7)));
    assert_eq!(details["top_tokens"][0].as_array().unwrap().len(), 2);
    let prefill = details["prefill"].as_array().unwrap();
    assert!(
        prefill.len() == 6 && prefill[0]["logprob"].is_null() && prefill[1]["logprob"].is_number(),
        "{prefill:?}"
    );
    // Without details there is the text alone; `/` gives a list of one.
    let short = json!({"inputs": "hello", "parameters": {"max_new_tokens": 12, "return_full_text": true}});
    assert_eq!(server.post("/generate", &short).json(), json!({"generated_text": format!("hello{text}")}));
    assert_eq!(server.post("/", &short).json(), json!([{"generated_text": format!("hello{text}")}]));
    let best = json!({"inputs": "hello", "parameters": {"max_new_tokens": 4, "best_of": 3, "details": true, "do_sample": true}});
    let best = server.post("/generate", &best).json();
    assert_eq!(best["details"]["best_of_sequences"].as_array().unwrap().len(), 2, "{best}");
}

#[test]
fn fault_12_tgi_answers_as_a_stream() {
    let server = ready(options(), Duration::ZERO);
    let whole = server
        .post("/generate", &json!({"inputs": "hello", "parameters": {"max_new_tokens": 9, "details": true}}))
        .json();
    let asked =
        json!({"inputs": "hello", "parameters": {"max_new_tokens": 9, "details": true}, "stream": true});
    for path in ["/generate_stream", "/"] {
        let answer = server.post(path, &asked);
        assert!(answer.header("content-type").unwrap().starts_with("text/event-stream"), "{path}");
        let events = events(&answer);
        let (last, before) = events.split_last().unwrap();
        assert!(before.iter().all(|event| event["generated_text"].is_null()), "{path}");
        assert_eq!(last["generated_text"], whole["generated_text"], "{path}");
        let texts: String = events
            .iter()
            .filter(|e| e["token"]["special"] == false)
            .map(|e| e["token"]["text"].as_str().unwrap())
            .collect();
        assert_eq!(whole["generated_text"], texts, "{path}");
        assert_eq!(last["details"]["generated_tokens"], whole["details"]["generated_tokens"], "{path}");
        assert_eq!(last["details"]["finish_reason"], whole["details"]["finish_reason"]);
        assert_eq!((&events[0]["index"], &last["details"]["input_length"]), (&json!(1), &json!(6)));
    }
    // `/generate` has no streams in that server.
    assert!(server.post("/generate", &asked).json()["generated_text"].is_string());
}

#[test]
fn tgi_refuses_in_its_own_shape() {
    let server = ready(options(), Duration::ZERO);
    for (body, status, kind) in [
        (json!({"inputs": "hello", "parameters": {"watermark": true}}), 422, "validation"),
        (json!({"inputs": "x".repeat(200)}), 422, "validation"),
        (json!({"inputs": "hello", "model": "gpt"}), 404, "validation"),
        (json!({}), 422, "validation"),
    ] {
        let answer = server.post("/generate", &body);
        let said = answer.json();
        assert_eq!((answer.status, &said["error_type"]), (status, &json!(kind)), "{body} {said}");
        assert!(said["error"].is_string());
    }
    let info = server.get("/info").json();
    assert_eq!((&info["model_id"], &info["max_total_tokens"]), (&json!("tiny"), &json!(frame::CONTEXT)));
}

#[test]
fn fault_12_the_short_form_answers_a_text() {
    let server = ready(options(), Duration::ZERO);
    let text = server.completion(json!({"prompt": "hello"})).json()["choices"][0]["text"].clone();
    let asked = json!({"prompt": "hello", "max_tokens": 12, "temperature": 0});
    let said = server.post("/generate", &asked).json();
    assert_eq!((&said["text"], said["usage"]["prompt_tokens"].as_u64()), (&text, Some(6)), "{said}");
    let mut two = asked.clone();
    two["n"] = json!(2);
    assert_eq!(server.post("/generate", &two).json()["text"].as_array().unwrap().len(), 2);
    let mut streamed = asked;
    streamed["stream"] = json!(true);
    let events = server.post("/generate", &streamed).events();
    let texts: String = events.iter().map(|event| event["text"].as_str().unwrap()).collect();
    assert_eq!(text, texts);
    assert!(events.last().unwrap()["finish_reason"].is_string());
}

/// The model of these tests has no tokens to fill in with.
#[test]
fn a_model_that_cannot_fill_in_says_so() {
    let server = ready(options(), Duration::ZERO);
    let infill = json!({"input_prefix": "a", "input_suffix": "b", "n_predict": 4});
    let suffix = json!({"prompt": "a", "suffix": "b"});
    for (path, body) in [("/infill", &infill), ("/v1/completions", &suffix)] {
        let answer = server.post(path, body);
        assert!(answer.status == 400 && answer.body.contains("cannot fill in"), "{path}: {}", answer.body);
    }
    // Nothing comes after the gap of an empty suffix.
    assert_eq!(server.post("/v1/completions", &json!({"prompt": "a", "suffix": ""})).status, 200);
}

#[test]
fn fault_12_llama_cpp_answers_whole_and_streamed() {
    let server = ready(options(), Duration::ZERO);
    let text = server.completion(json!({"prompt": "hello"})).json()["choices"][0]["text"].clone();
    let asked =
        json!({"prompt": "hello", "n_predict": 12, "temperature": 0, "n_probs": 1, "return_tokens": true});
    for path in ["/completion", "/completions"] {
        let said = server.post(path, &asked).json();
        assert_eq!(
            (&said["content"], &said["stop"], &said["tokens_evaluated"]),
            (&text, &json!(true), &json!(6)),
            "{said}"
        );
        assert!(["limit", "eos"].contains(&said["stop_type"].as_str().unwrap()), "{said}");
        let n = said["tokens_predicted"].as_u64().unwrap();
        assert_eq!(said["tokens"].as_array().unwrap().len() as u64, n);
        assert_eq!(said["completion_probabilities"].as_array().unwrap().len() as u64, n);
        assert_eq!(
            (&said["timings"]["predicted_n"], &said["generation_settings"]["n_predict"]),
            (&json!(n), &json!(12))
        );
        assert_eq!((&said["prompt"], &said["truncated"]), (&json!("hello"), &json!(false)));
    }
    let mut several = asked.clone();
    several["prompt"] = json!(["hello", [1, 2, 3]]);
    several["response_fields"] = json!(["content", "timings/predicted_n"]);
    let several = server.post("/completion", &several).json();
    let fields: Vec<&str> = several[1].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!((several.as_array().unwrap().len(), fields), (2, vec!["content", "predicted_n"]));
    let mut streamed = asked;
    streamed["stream"] = json!(true);
    let answer = server.post("/completion", &streamed);
    assert!(!answer.body.contains("[DONE]"));
    let events = events(&answer);
    let (last, pieces) = events.split_last().unwrap();
    let texts: String = pieces.iter().map(|event| event["content"].as_str().unwrap()).collect();
    assert_eq!(text, texts);
    assert_eq!((&last["stop"], &last["content"]), (&json!(true), &json!("")));
    let slots = server.get("/slots?fail_on_no_slot=1").json();
    assert_eq!(
        (slots.as_array().unwrap().len(), &slots[0]["is_processing"]),
        (options().service.parallel, &json!(false))
    );
    assert!(server.get("/tokenizer_info").json()["tokenizer_class"].is_string());
}

#[test]
fn fault_11_names_that_mean_the_model() {
    let server = ready(options(), Duration::ZERO);
    for name in ["tiny", "Tiny", "tiny:latest", "TINY:LATEST", "org/alias", "Org/Alias:latest"] {
        assert_eq!(server.chat(json!({"model": name})).status, 200, "{name}");
    }
    let refused = server.chat(json!({"model": "dummy"}));
    let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(refused.status == 404 && message.contains("tiny, org/alias"), "{message}");
    assert_eq!(server.chat(json!({"model": ":latest"})).status, 404);
}

#[test]
fn said_badly_a_gzip_body_is_read() {
    let server = ready(options(), Duration::ZERO);
    let gzip = |bytes: &[u8]| {
        let mut out = GzEncoder::new(Vec::new(), Compression::best());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    };
    let send = |encoding: &str, body: &[u8]| {
        server.send("POST", "/v1/chat/completions", &[JSON, ("content-encoding", encoding)], body)
    };
    let good = chat_body(json!({})).to_string();
    assert_eq!(send("gzip", &gzip(good.as_bytes())).status, 200);
    assert_eq!(send("identity", good.as_bytes()).status, 200);
    let unknown = send("br", good.as_bytes());
    assert!(unknown.status == 415 && unknown.body.contains("gzip"), "{unknown:?}");
    let bomb = gzip(&vec![b' '; 8 << 20]);
    assert_eq!(send("gzip", &bomb).status, 413);
    assert_eq!(send("gzip", good.as_bytes()).status, 400);
    let unsaid = server.send("POST", "/v1/chat/completions", &[JSON], &gzip(good.as_bytes()));
    assert!(unsaid.status == 400 && unsaid.body.contains("content-encoding: gzip"), "{unsaid:?}");
}

#[test]
fn fault_15_pages_of_other_origins_need_leave() {
    let origin = ("origin", "https://chat.example.org");
    let ask = |server: &frame::Running, method: &str, headers: &[(&str, &str)]| {
        server.send(method, "/v1/models", headers, b"")
    };
    let allow = "access-control-allow-origin";
    let closed = ready(options(), Duration::ZERO);
    assert_eq!(ask(&closed, "GET", &[origin]).header(allow), None);
    let mut keys = Keys::default();
    keys.add("secret").unwrap();
    let cors = Some(Cors::new(&["https://chat.example.org".to_owned()]).unwrap());
    let server = ready(
        Options { http: httpd::Options { keys, cors, ..httpd::Options::default() }, ..options() },
        Duration::ZERO,
    );
    let preflight = [
        origin,
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization, content-type"),
    ];
    let answer = ask(&server, "OPTIONS", &preflight);
    assert_eq!((answer.status, answer.header(allow)), (204, Some("https://chat.example.org")), "{answer:?}");
    assert_eq!(answer.header("access-control-allow-headers"), Some("authorization, content-type"));
    assert!(answer.header("access-control-allow-methods").unwrap().contains("POST"));
    // A refusal may be read by the page too.
    let refused = ask(&server, "GET", &[origin]);
    assert_eq!((refused.status, refused.header(allow)), (401, Some("https://chat.example.org")));
    assert_eq!(refused.header("vary"), Some("Origin"));
    let good = ask(&server, "GET", &[origin, ("authorization", "Bearer secret")]);
    assert!(
        good.status == 200 && good.header("access-control-expose-headers").unwrap().contains("x-request-id")
    );
    let other = [("origin", "https://evil.example"), ("access-control-request-method", "POST")];
    let other = ask(&server, "OPTIONS", &other);
    assert_eq!((other.status, other.header(allow)), (403, None), "{other:?}");
    let any = Options {
        http: httpd::Options {
            cors: Some(Cors::new(&["*".to_owned()]).unwrap()),
            ..httpd::Options::default()
        },
        ..options()
    };
    assert_eq!(ask(&ready(any, Duration::ZERO), "GET", &[origin]).header(allow), Some("*"));
}

#[test]
fn posting_to_the_page_needs_a_key() {
    let mut keys = Keys::default();
    keys.add("secret").unwrap();
    let server = ready(
        Options { http: httpd::Options { keys, ..httpd::Options::default() }, ..options() },
        Duration::ZERO,
    );
    let asked = json!({"inputs": "hello", "parameters": {"max_new_tokens": 2}});
    assert_eq!(server.post("/", &asked).status, 401);
    assert_eq!(server.get("/").status, 200);
    let headers = [JSON, ("authorization", "Bearer secret")];
    assert_eq!(server.send("POST", "/", &headers, asked.to_string().as_bytes()).status, 200);
}

#[test]
fn said_badly_absent_paths_and_methods_give_hints() {
    let server = ready(options(), Duration::ZERO);
    let told = |method: &str, path: &str| {
        let answer = server.send(method, path, &[JSON], b"{}");
        let error = &answer.json()["error"];
        let message = error.as_str().or(error["message"].as_str());
        (answer.status, message.unwrap().to_owned())
    };
    for (method, path, status, words) in [
        ("POST", "/chat/completions", 404, "/v1/chat/completions"),
        ("GET", "/models", 404, "/v1/models"),
        ("POST", "/v1/v1/embeddings", 404, "/v1/embeddings"),
        ("POST", "/api/pull", 404, "gristmill pull"),
        ("DELETE", "/api/delete", 404, "gristmill rm"),
        ("POST", "/api/me", 404, "Ollama"),
        ("GET", "/api/chat", 405, "it answers POST"),
        ("POST", "/v1/fim", 404, "/infill"),
        ("GET", "/v1/chat/completions", 405, "it answers POST"),
    ] {
        let (found, message) = told(method, path);
        assert!(found == status && message.contains(words), "{path}: {found} {message}");
    }
}

#[test]
fn a_misspelled_field_is_told_in_a_header() {
    let server = ready(options(), Duration::ZERO);
    let answer = server.chat(json!({"temprature": 0.5}));
    assert!(
        answer.status == 200 && answer.header("x-gristmill-warning").unwrap().contains("temperature"),
        "{answer:?}"
    );
    let answer = server.completion(json!({"max_tokes": 5}));
    assert!(answer.header("x-gristmill-warning").unwrap().contains("max_tokens"), "{answer:?}");
    assert_eq!(server.chat(json!({"my_own_field": 1})).header("x-gristmill-warning"), None);
}
