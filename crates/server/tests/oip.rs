//! The Open Inference Protocol over REST: a model of tensors, an encoder and a generating model.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use server::LoadedModel;
use service::fake::{FAILS, FakeTensors, PANICS};

use crate::frame::{Answer, Running, encoder, head, options, ready, unready};

/// A server with a model of tensors that takes `pace`.
fn tensors(pace: Duration) -> Running {
    let running = unready(options(), Duration::from_secs(5));
    let model = LoadedModel::tensor_model(vec!["org/fake".to_owned()], Arc::new(FakeTensors { pace }));
    running.server.ready(model, Instant::now());
    running
}

const INFER: &str = "/v2/models/org/fake/infer";

fn numbers(values: &[f32]) -> Value {
    json!({"name": "numbers", "datatype": "FP32", "shape": [values.len() / 3, 3], "data": values})
}

fn error(answer: &Answer, status: u16) -> String {
    assert_eq!(answer.status, status, "{answer:?}");
    let body = answer.json();
    assert_eq!(body.as_object().unwrap().len(), 1, "{body}");
    body["error"].as_str().unwrap().to_owned()
}

/// The answer's JSON, and the binary data behind it.
fn binary(running: &Running, path: &str, json: &Value, data: &[u8]) -> (Value, Vec<u8>) {
    let text = json.to_string();
    let length = text.len().to_string();
    let body = [text.as_bytes(), data].concat();
    let headers = [("inference-header-content-length", length.as_str())];
    let mut stream = running.connect();
    stream.write_all(&head("POST", path, &headers, body.len())).unwrap();
    stream.write_all(&body).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    let told = String::from_utf8(bytes[..end].to_vec()).unwrap().to_ascii_lowercase();
    assert!(told.starts_with("http/1.1 200"), "{told} {:?}", String::from_utf8_lossy(&bytes[end..]));
    assert!(told.contains("content-type: application/octet-stream"), "{told}");
    let length = told.split("inference-header-content-length: ").nth(1).unwrap();
    let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
    let (json, data) = bytes[end..].split_at(length);
    (serde_json::from_slice(json).unwrap(), data.to_vec())
}

#[test]
fn tensors_come_back_as_json_and_as_binary_data() {
    let running = tensors(Duration::ZERO);
    let words = json!({"name": "words", "datatype": "BYTES", "shape": [2], "data": ["a", "b"]});
    let body = json!({"id": "mine", "inputs": [numbers(&[1.0, 2.0, 3.0]), words]});
    let answer = running.post(INFER, &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    let outputs = json!([
        {"name": "double", "datatype": "FP32", "shape": [1, 3], "data": [2.0, 4.0, 6.0]},
        {"name": "upper", "datatype": "BYTES", "shape": [2], "data": ["A", "B"]},
    ]);
    let wanted = json!({"model_name": "org/fake", "model_version": "1", "id": "mine", "outputs": outputs});
    assert_eq!(answer.json(), wanted);
    let input = json!({"name": "numbers", "datatype": "FP32", "shape": [1, 3], "parameters": {"binary_data_size": 12}});
    let data: Vec<u8> = [1.0_f32, 2.0, 3.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    let asked = json!({"inputs": [input], "parameters": {"binary_data_output": true}});
    let (told, data) = binary(&running, "/v2/models/org/fake/versions/1/infer", &asked, &data);
    assert_eq!(told["outputs"][0]["parameters"]["binary_data_size"], 12);
    let doubles: Vec<u8> = [2.0_f32, 4.0, 6.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(data, doubles);
    // One output, and its best class.
    let classes = json!({"name": "double", "parameters": {"classification": 1}});
    let body = json!({"inputs": [numbers(&[1.0, 2.0, 3.0])], "outputs": [classes]});
    assert_eq!(running.post(INFER, &body).json()["outputs"][0]["data"], json!(["6.000000:2:good"]));
}

#[test]
fn what_does_not_fit_a_model_is_named() {
    let running = tensors(Duration::ZERO);
    let good = numbers(&[1.0, 2.0, 3.0]);
    let shaped =
        |shape: Value| json!({"name": "numbers", "datatype": "FP32", "shape": shape, "data": [1, 2, 3]});
    let wrong_type = json!({"name": "numbers", "datatype": "INT8", "shape": [1, 3], "data": [1, 2, 3]});
    for (path, body, status, words) in [
        (INFER, json!({"inputs": [shaped(json!([2, 3]))]}), 400, &["[2,3]", "3 elements", "6"][..]),
        (INFER, json!({"inputs": [shaped(json!([3]))]}), 400, &["[3]", "[-1,3]"]),
        (INFER, json!({"inputs": [wrong_type]}), 400, &["INT8", "FP32"]),
        (
            INFER,
            json!({"inputs": [json!({"name": "other", "datatype": "INT8", "shape": [1], "data": [1]})]}),
            400,
            &["other", "numbers"],
        ),
        (
            INFER,
            json!({"inputs": [json!({"name": "words", "datatype": "BYTES", "shape": [1], "data": ["a"]})]}),
            400,
            &["numbers", "missing"],
        ),
        (INFER, json!({"inputs": [good], "outputs": [{"name": "none"}]}), 400, &["none", "double, upper"]),
        (INFER, json!({"inputs": [numbers(&[FAILS, 0.0, 0.0])]}), 400, &["refused"]),
        ("/v2/models/nobody/infer", json!({"inputs": [good]}), 404, &["nobody", "org/fake"]),
        ("/v2/models/org/fake/versions/2/infer", json!({"inputs": [good]}), 404, &["version", "2"]),
        ("/v2/models/org/fake/versions/x/infer", json!({"inputs": [good]}), 400, &["version", "x"]),
        ("/v2/models/org/../fake/infer", json!({"inputs": [good]}), 400, &[".."]),
        ("/v2/models/org/fake/generate", json!({"text_input": "a"}), 400, &["generate text"]),
        ("/v2/models/org/fake/nothing", json!({}), 405, &["does not answer"]),
        ("/v2/nothing", json!({}), 404, &["/v2/nothing"]),
    ] {
        let error = error(&running.post(path, &body), status);
        for word in words {
            assert!(error.contains(word), "{word} is not in: {error}");
        }
    }
    assert_eq!(running.post(INFER, &json!({"inputs": [good]})).status, 200, "nothing else is disturbed");
}

#[test]
fn a_model_that_panics_fails_alone() {
    let running = tensors(Duration::ZERO);
    let panics = running.post(INFER, &json!({"inputs": [numbers(&[PANICS, 0.0, 0.0])]}));
    assert!(error(&panics, 500).contains("org/fake"));
    assert_eq!(running.post(INFER, &json!({"inputs": [numbers(&[1.0, 2.0, 3.0])]})).status, 200);
    let stats = running.get("/v2/models/org/fake/stats").json()["model_stats"][0].clone();
    assert_eq!((&stats["inference_count"], &stats["execution_count"]), (&json!(1), &json!(1)), "{stats}");
    assert_eq!(stats["inference_stats"]["fail"]["count"], 1, "{stats}");
    assert!(stats["inference_stats"]["success"]["ns"].as_u64().unwrap() > 0, "{stats}");
    assert!(stats["last_inference"].as_u64().unwrap() > 1_600_000_000_000, "{stats}");
}

#[test]
fn a_deadline_ends_a_computation() {
    let running = tensors(Duration::from_secs(60));
    let body = json!({"inputs": [numbers(&[1.0, 2.0, 3.0])], "parameters": {"timeout": 20_000}});
    // More of them than are computed at once: those that were given up make room.
    for _ in 0..2 * server::TENSOR_THREADS {
        assert!(error(&running.post(INFER, &body), 408).contains("time limit"));
    }
}

#[test]
fn models_are_described() {
    let running = tensors(Duration::ZERO);
    assert_eq!(running.get("/v2").json()["name"], "gristmill");
    for (path, wanted) in [
        ("/v2/health/live", json!({"live": true})),
        ("/v2/health/ready", json!({"ready": true})),
        ("/v2/models/org/fake/ready", json!({"name": "org/fake", "ready": true})),
        ("/v2/systemsharedmemory/status", json!([])),
        ("/v2/cudasharedmemory/status", json!([])),
    ] {
        let answer = running.get(path);
        assert_eq!((answer.status, answer.json()), (200, wanted), "{path}");
    }
    let metadata = running.get("/v2/models/org/fake/versions/1").json();
    let input = json!({"name": "numbers", "datatype": "FP32", "shape": [-1, 3]});
    assert_eq!((&metadata["platform"], &metadata["inputs"][0]), (&json!("fake"), &input));
    let config = running.get("/v2/models/org/fake/config").json();
    assert_eq!(config["input"][1]["data_type"], "TYPE_STRING", "{config}");
    assert_eq!(config["input"][1]["optional"], true, "{config}");
    assert_eq!(
        error(&running.get("/v2/models/nobody"), 404),
        error(&running.get("/v2/models/nobody/config"), 404)
    );
    let index = running.post("/v2/repository/index", &json!({})).json();
    assert_eq!(index, json!([{"name": "org/fake", "version": "1", "state": "READY"}]));
    assert_eq!(running.send("POST", "/v2/repository/index", &[], b"").json(), index);
    assert_eq!(running.get("/v2/trace/setting").json()["trace_level"], json!(["OFF"]));
    assert!(
        error(&running.post("/v2/trace/setting", &json!({"trace_rate": "1"})), 400).contains("trace_rate")
    );
    assert_eq!(running.post("/v2/trace/setting", &json!({"trace_level": ["OFF"]})).status, 200);
    assert_eq!(running.post("/v2/logging", &json!({"log_info": true})).status, 200);
    assert!(error(&running.post("/v2/logging", &json!({"log_verbose_level": 1})), 400).contains("log"));
    let region =
        running.post("/v2/systemsharedmemory/region/r/register", &json!({"key": "k", "byte_size": 1}));
    assert!(error(&region, 400).contains("shared memory"));
    assert_eq!(running.post("/v2/systemsharedmemory/unregister", &json!({})).status, 200);
}

#[test]
fn the_only_model_stays_and_loads_take_no_files() {
    let running = tensors(Duration::ZERO);
    let load =
        |action: &str, body: &Value| running.post(&format!("/v2/repository/models/org/fake/{action}"), body);
    assert_eq!(load("load", &json!({})).status, 200);
    let files = json!({"parameters": {"file:1/model.onnx": "AAAA"}});
    assert!(error(&load("load", &files), 400).contains("file:1/model.onnx"));
    assert!(error(&load("unload", &json!({})), 400).contains("stays loaded"));
    let bad = running.post("/v2/repository/models/../x/load", &json!({}));
    assert!(error(&bad, 400).contains(".."));
}

#[test]
fn pages_of_other_origins_cannot_send_bodies_without_a_type() {
    let running = tensors(Duration::ZERO);
    let body = json!({"inputs": [numbers(&[1.0, 2.0, 3.0])]}).to_string();
    let send = |headers: &[(&str, &str)]| running.send("POST", INFER, headers, body.as_bytes()).status;
    assert_eq!(send(&[]), 200);
    assert_eq!(send(&[("content-type", "application/x-www-form-urlencoded")]), 200, "curl");
    for page in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")] {
        assert!([403, 415].contains(&send(&[page])), "{page:?}");
        assert!([403, 415].contains(&send(&[page, ("content-type", "text/plain")])), "{page:?}");
    }
}

fn close(found: &[f32], wanted: &[f32]) {
    let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-6;
    assert!(found.len() == wanted.len() && found.iter().zip(wanted).all(near), "{found:?} {wanted:?}");
}

#[test]
fn an_encoder_takes_texts_and_token_ids() {
    let running = encoder::serving(encoder::embeds());
    let infer = |inputs: Value| running.post("/v2/models/enc/infer", &json!({"inputs": inputs}));
    let texts =
        json!([{"name": "text", "datatype": "BYTES", "shape": [2, 1], "data": [["one two"], ["three"]]}]);
    let answer = infer(texts).json();
    let output = &answer["outputs"][0];
    assert_eq!((&output["name"], &output["shape"]), (&json!("embedding"), &json!([2, encoder::WIDTH])));
    let all: Vec<f32> = serde_json::from_value(output["data"].clone()).unwrap();
    close(&all, &[encoder::vector("one two"), encoder::vector("three")].concat());
    let words = service::fake::Words(encoder::VOCAB);
    let ids = [service::fake::START, words.token("three"), service::fake::END, 0];
    let rows =
        |name: &str, data: Value| json!({"name": name, "datatype": "INT64", "shape": [1, 4], "data": data});
    let mask = rows("attention_mask", json!([1, 1, 1, 0]));
    let answer =
        infer(json!([rows("input_ids", json!(ids)), mask, rows("token_type_ids", json!([0, 0, 0, 0]))]));
    let all: Vec<f32> = serde_json::from_value(answer.json()["outputs"][0]["data"].clone()).unwrap();
    // What the mask leaves out is not encoded.
    close(&all, &encoder::vector("three"));
    for (inputs, words) in [
        (
            json!([rows("input_ids", json!(ids)), rows("attention_mask", json!([1, 0, 1, 0]))]),
            "between tokens",
        ),
        (json!([rows("input_ids", json!(ids)), rows("attention_mask", json!([0, 0, 0, 0]))]), "0 everywhere"),
        (json!([rows("input_ids", json!(ids)), rows("token_type_ids", json!([0, 9, 0, 0]))]), "token type"),
        (json!([rows("input_ids", json!([1, -1, 2, 3]))]), "-1"),
        (json!([rows("input_ids", json!([1, 1_000_000, 2, 3]))]), "1000000"),
        (json!([rows("attention_mask", json!(ids))]), "input_ids"),
        (json!([{"name": "text", "datatype": "BYTES", "shape": [1], "data": [""]}]), "empty"),
    ] {
        let error = error(&infer(inputs), 400);
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn classifiers_and_rerankers_give_scores() {
    let running = encoder::serving(encoder::classifies());
    let text = json!({"name": "text", "datatype": "BYTES", "shape": [1], "data": ["one two"]});
    let answer = running.post("/v2/models/enc/infer", &json!({"inputs": [text]})).json();
    let outputs = answer["outputs"].as_array().unwrap();
    assert_eq!((&outputs[0]["name"], &outputs[0]["shape"]), (&json!("scores"), &json!([1, 3])));
    assert_eq!(outputs[1]["data"], json!(["bad", "fair", "good"]));
    let running = encoder::serving(encoder::ranks());
    let pair = json!({"name": "text_pair", "datatype": "BYTES", "shape": [1], "data": ["three"]});
    let answer = running.post("/v2/models/enc/infer", &json!({"inputs": [text, pair]})).json();
    let logit = encoder::logits(&encoder::ranks(), "one two", Some("three"))[0];
    let score: f32 = serde_json::from_value(answer["outputs"][0]["data"][0].clone()).unwrap();
    assert!((score - 1.0 / (1.0 + (-logit).exp())).abs() < 1e-6, "{answer}");
    assert_eq!(answer["outputs"][0]["shape"], json!([1]));
}

#[test]
fn a_generating_model_continues_texts() {
    let running = ready(options(), Duration::ZERO);
    let completion = running.completion(json!({"max_tokens": 5})).json()["choices"][0]["text"].clone();
    let text = |data: &str| json!({"name": "text_input", "datatype": "BYTES", "shape": [1], "data": [data]});
    let option = |name: &str, datatype: &str, data: Value| json!({"name": name, "datatype": datatype, "shape": [1], "data": [data]});
    let inputs = json!([
        text("hello"),
        option("max_tokens", "INT32", json!(5)),
        option("temperature", "FP32", json!(0)),
        option("exclude_input_in_output", "BOOL", json!(true)),
    ]);
    let answer = running.post("/v2/models/tiny/infer", &json!({"inputs": inputs})).json();
    let output = |name: &str| {
        let all = answer["outputs"].as_array().unwrap();
        all.iter().find(|output| output["name"] == name).unwrap()["data"][0].clone()
    };
    assert_eq!(output("text_output"), completion, "{answer}");
    assert_eq!((output("num_input_tokens"), output("num_output_tokens")), (json!(6), json!(5)), "{answer}");
    let streamed = json!({"inputs": [text("hello"), option("stream", "BOOL", json!(true))]});
    assert!(error(&running.post("/v2/models/tiny/infer", &streamed), 400).contains("generate_stream"));
    let body = json!({"text_input": "hello", "max_tokens": 5, "temperature": 0});
    let whole = running.post("/v2/models/tiny/generate", &body).json();
    assert_eq!(whole["text_output"], format!("hello{}", completion.as_str().unwrap()), "{whole}");
    let stream = running.post("/v2/models/tiny/generate_stream", &body);
    let pieces = stream.body.lines().filter_map(|line| line.strip_prefix("data: "));
    let pieces: Vec<Value> = pieces.map(|piece| serde_json::from_str(piece).unwrap()).collect();
    let text: String = pieces.iter().map(|piece| piece["text_output"].as_str().unwrap()).collect();
    assert_eq!(completion, text, "{stream:?}");
    assert_eq!((&pieces[0]["model_name"], &pieces[0]["model_version"]), (&json!("tiny"), &json!("1")));
    let config = running.get("/v2/models/tiny/config").json();
    assert_eq!(config["model_transaction_policy"]["decoupled"], true);
}

#[test]
fn answers_are_compressed_as_tritons_client_asks() {
    use flate2::read::{GzDecoder, ZlibDecoder};
    let running = tensors(Duration::ZERO);
    let body = json!({"inputs": [numbers(&vec![1.5; 300])]}).to_string();
    for way in ["gzip", "deflate"] {
        let headers = [("accept-encoding", way), ("content-type", "application/json")];
        let mut stream = running.connect();
        stream.write_all(&head("POST", INFER, &headers, body.len())).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
        let mut text = String::new();
        let read = match way {
            "gzip" => GzDecoder::new(&bytes[end..]).read_to_string(&mut text),
            _ => ZlibDecoder::new(&bytes[end..]).read_to_string(&mut text),
        };
        read.unwrap();
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["outputs"][0]["data"][299], 3.0);
    }
}
