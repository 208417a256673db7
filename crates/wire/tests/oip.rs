//! Bodies of the Open Inference Protocol: those of Triton's own client (`tools/fixtures/oip.py`), and bad ones.

use bytes::Bytes;
use serde_json::{Value, json};
use wire::Fault;
use wire::oip::{
    Datatype, GenerateRequest, InferRequest, OutputRequest, Parameter, Parameters, ResponseHead, Tensor,
    as_wanted, check_model_name, elements, from_binary, load_parameters, no_version, plain_name, push_binary,
    text_request, versioned_name, write_response,
};

fn unhex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digit).collect()
}

fn cases() -> Vec<Value> {
    serde_json::from_str(include_str!("fixtures/oip.json")).unwrap()
}

fn parsed(case: &Value) -> InferRequest {
    let header = case["header"].as_u64().map(|length| usize::try_from(length).unwrap());
    let body = unhex(case["body"].as_str().unwrap());
    InferRequest::parse(body.into(), header).unwrap_or_else(|fault| panic!("{}: {fault}", case["name"]))
}

fn binary(tensor: &Tensor) -> Vec<u8> {
    let mut out = Vec::new();
    push_binary(&mut out, tensor);
    out
}

#[test]
fn tensors_are_those_of_tritons_client() {
    let cases = cases();
    assert!(cases.len() > 25, "{}", cases.len());
    for case in &cases {
        let request = parsed(case);
        let told = case["inputs"].as_array().unwrap();
        assert_eq!(request.inputs.len(), told.len(), "{}", case["name"]);
        for (tensor, told) in request.inputs.iter().zip(told) {
            let found =
                json!({"name": tensor.name, "datatype": tensor.datatype.name(), "shape": tensor.shape});
            let wanted = json!({"name": told["name"], "datatype": told["datatype"], "shape": told["shape"]});
            assert_eq!(found, wanted);
            assert_eq!(binary(tensor), unhex(told["elements"].as_str().unwrap()), "{}", case["name"]);
            assert_eq!(tensor.byte_size(), binary(tensor).len());
        }
    }
}

#[test]
fn options_of_tritons_client_are_read() {
    let case = cases().into_iter().find(|case| case["name"] == "outputs and options").unwrap();
    let request = parsed(&case);
    assert_eq!((request.id.as_deref(), request.timeout_us), (Some("mine"), Some(5_000_000)));
    let output = |name: &str, binary, classes| OutputRequest { name: name.into(), binary, classes };
    let wanted = [output("a", Some(true), 0), output("b", Some(false), 0), output("c", Some(false), 3)];
    assert_eq!(request.outputs, wanted);
    assert!(request.is_binary("a") && !request.is_binary("b"));
    let parameters = &request.parameters;
    assert_eq!(parameters.get("temperature"), Some(&Parameter::Float(0.5)));
    assert_eq!(parameters.get("word"), Some(&Parameter::Text("mill".into())));
    assert_eq!(parameters.get("on"), Some(&Parameter::Bool(true)));
    let all = cases().into_iter().find(|case| case["name"] == "BOOL in binary").unwrap();
    assert!(parsed(&all).binary_output, "it lists no outputs");
}

/// What is written is read again as it was.
#[test]
fn answers_hold_their_tensors() {
    for case in &cases() {
        let inputs = parsed(case).inputs;
        for sends_binary in [true, false] {
            let is_binary = |_: &str| sends_binary;
            let head = ResponseHead { model: "m".into(), version: "1".into(), ..ResponseHead::default() };
            let half = inputs.iter().any(|input| !input.datatype.has_json());
            let body = match write_response(&head, &inputs, &is_binary) {
                Err(fault) => {
                    assert!(!sends_binary && half && fault.message.contains("binary"), "{fault}");
                    continue;
                }
                Ok(body) => body,
            };
            assert!(sends_binary || !half);
            assert_eq!(body.header.is_some(), sends_binary);
            // An answer's outputs are a request's inputs.
            let length = body.header.unwrap_or(body.bytes.len());
            let mut json: Value = serde_json::from_slice(&body.bytes[..length]).unwrap();
            json["inputs"] = json["outputs"].take();
            json.as_object_mut().unwrap().remove("outputs");
            let text = json.to_string();
            let bytes = [text.as_bytes(), &body.bytes[length..]].concat();
            let again = InferRequest::parse(bytes.into(), sends_binary.then_some(text.len())).unwrap();
            assert_eq!(again.inputs, inputs, "{}", case["name"]);
        }
    }
}

fn fault(body: &Value, data: &[u8]) -> Fault {
    let text = body.to_string();
    let bytes = [text.as_bytes(), data].concat();
    InferRequest::parse(bytes.into(), (!data.is_empty()).then_some(text.len())).unwrap_err()
}

fn one(input: Value) -> Value {
    json!({"inputs": [input]})
}

#[test]
fn what_does_not_fit_is_named_with_both_numbers() {
    let binary = |datatype: &str, shape: Value, size: usize| {
        one(
            json!({"name": "x", "datatype": datatype, "shape": shape, "parameters": {"binary_data_size": size}}),
        )
    };
    let plain = |datatype: &str, shape: Value, data: Value| {
        one(json!({"name": "x", "datatype": datatype, "shape": shape, "data": data}))
    };
    let bytes = [1_u8, 0, 0, 0, b'a', 0, 0, 0];
    for (body, data, words) in [
        (binary("FP32", json!([3]), 8), &bytes[..], &["\"x\"", "FP32", "[3]", "8 bytes", "12"][..]),
        (binary("FP32", json!([2]), 9), &bytes, &["9", "8 bytes are left"]),
        (binary("INT8", json!([4]), 4), &bytes, &["8 bytes of binary data", "take 4"]),
        (binary("BOOL", json!([5]), 5), &bytes, &["97", "element 4"]),
        (binary("BYTES", json!([1]), 8), &bytes, &["8 bytes", "1 strings end after 5"]),
        (binary("BYTES", json!([2]), 8), &bytes, &["length of string 1", "byte 5 of 8"]),
        (binary("BYTES", json!([1]), 4), &bytes[..4], &["string 0 has 1 bytes", "0 are left of 4"]),
        (binary("FP32", json!([1_u64 << 40, 1_u64 << 40]), 8), &bytes, &["at most"]),
        (plain("INT8", json!([2]), json!([1, 128])), &[], &["128", "element 1", "INT8"]),
        (plain("FP32", json!([2, 2]), json!([[1.0, 2.0], [3.0]])), &[], &["3 elements", "has 4"]),
        (plain("FP16", json!([1]), json!([1.0])), &[], &["binary"]),
        (plain("FP32", json!([1]), json!([1e300])), &[], &["1e+300", "FP32"]),
        (plain("BYTES", json!([1]), json!([1])), &[], &["strings"]),
        (plain("FP33", json!([1]), json!([1])), &[], &["FP33", "FP32"]),
        (plain("INT8", json!([-1]), json!([1])), &[], &["-1", "shape"]),
        (plain("INT8", json!(vec![1; 17]), json!([1])), &[], &["17", "16"]),
        (one(json!({"name": "x", "datatype": "INT8", "shape": [1]})), &[], &["no data"]),
        (one(json!({"name": "", "datatype": "INT8", "shape": [0], "data": []})), &[], &["empty"]),
        (json!({"inputs": []}), &[], &["at least 1"]),
        (json!({}), &[], &["inputs", "required"]),
    ] {
        let fault = fault(&body, data);
        assert_eq!(fault.status, 400, "{fault}");
        for word in words {
            assert!(fault.message.contains(word), "{word} is not in: {fault}");
        }
    }
    let parse =
        |body: &'static [u8], header| InferRequest::parse(Bytes::from_static(body), header).unwrap_err();
    assert!(parse(b"{}", Some(3)).message.contains("has 2 bytes"));
    assert!(parse(b"\x01\x02", Some(0)).message.contains("without JSON"));
    let shared =
        json!({"name": "x", "datatype": "INT8", "shape": [1], "parameters": {"shared_memory_region": "r"}});
    assert!(fault(&one(shared), &[]).message.contains("shared memory"));
    let twice = json!({"name": "x", "datatype": "INT8", "shape": [1], "data": [1]});
    assert!(fault(&json!({"inputs": [twice, twice]}), &[]).message.contains("before"));
}

#[test]
fn shapes_are_counted_without_overflow() {
    assert_eq!(elements(&[]), Ok(1));
    assert_eq!(elements(&[usize::MAX, 0, usize::MAX]), Ok(0));
    assert!(elements(&[usize::MAX, 2]).is_err());
    assert!(elements(&[1 << 27]).unwrap_err().contains("134217728"));
    assert!(from_binary("x", Datatype::Bytes, vec![1 << 20], Bytes::new()).is_err());
}

#[test]
fn classes_are_the_best_of_each_row() {
    let scores = Tensor::floats("scores", vec![2, 3], &[0.1, 0.7, 0.2, 0.5, 0.5, 0.0]).unwrap();
    let wanted = [OutputRequest { name: "scores".into(), binary: None, classes: 2 }];
    let labels = |_: &str, index: usize| ["bad", "fair"].get(index).map(|label| (*label).to_owned());
    let classes = as_wanted(vec![scores.clone()], &wanted, &labels).unwrap();
    assert_eq!(classes[0].shape, [2, 2]);
    assert_eq!(
        classes[0].texts().unwrap(),
        ["0.700000:1:fair", "0.200000:2", "0.500000:0:bad", "0.500000:1:fair"]
    );
    assert_eq!(as_wanted(vec![scores.clone()], &[], &labels).unwrap(), [scores]);
}

#[test]
fn names_versions_and_loads_are_checked() {
    for bad in ["", "..", "a/../b", "/a", "a/", "a//b", ".", "a\\b", "a\nb", &"a".repeat(300)] {
        let fault = check_model_name(bad).unwrap_err();
        assert!(fault.status == 400 && fault.message.len() < 400, "{fault}");
        assert!(!fault.message.chars().any(char::is_control), "{fault:?}");
    }
    for good in ["tiny", "org/name", "a.b..c"] {
        check_model_name(good).unwrap();
    }
    let known = ["1".to_owned(), "3".to_owned()];
    assert_eq!(no_version("m", "2", &known).status, 404);
    assert_eq!(no_version("m", "x", &known).status, 400);
    assert_eq!(plain_name("org/m/versions/12"), "org/m");
    assert_eq!(plain_name("m/versions/x"), "m/versions/x");
    assert_eq!(plain_name(&versioned_name("m", "2")), "m");
    assert!(load_parameters(b"").unwrap().0.is_empty());
    load_parameters(br#"{"parameters": {"unload_dependents": true}}"#).unwrap();
    for name in ["config", "file:1/model.onnx"] {
        let body = json!({"parameters": {name: "x"}}).to_string();
        assert!(load_parameters(body.as_bytes()).unwrap_err().message.contains(name));
    }
}

fn strings(name: &str, strings: &[&str]) -> Tensor {
    let bytes = strings.iter().map(|string| Bytes::copy_from_slice(string.as_bytes())).collect();
    Tensor::strings(name, vec![strings.len()], bytes).unwrap()
}

#[test]
fn options_of_text_have_the_names_of_tritons_backends() {
    let max_tokens = Tensor::raw("max_tokens", Datatype::Int32, vec![1, 1], vec![7, 0, 0, 0].into()).unwrap();
    let excludes = Tensor::raw("exclude_input_in_output", Datatype::Bool, vec![1], vec![1].into()).unwrap();
    let options = r#"{"temperature": "0.5", "top_p": 0.9, "stop": "12", "ignore_eos": "True"}"#;
    let inputs = [
        strings("text_input", &["a", "b"]),
        max_tokens,
        excludes,
        strings("sampling_parameters", &[options]),
        strings("stop_words", &["end", ""]),
    ];
    let parameters = Parameters(vec![
        ("random_seed".into(), Parameter::Int(5)),
        ("binary_data_output".into(), Parameter::Bool(true)),
    ]);
    let request = text_request(Some("m"), &inputs, &parameters).unwrap();
    let completion = &request.completion;
    assert_eq!((request.stream, request.echo, completion.prompts.len()), (false, false, 2));
    let sampling = &completion.sampling;
    assert_eq!((completion.max_tokens, sampling.temperature, sampling.seed), (Some(7), Some(0.5), Some(5)));
    assert!(sampling.ignore_eos && sampling.stop == ["end"]);
    let echoed = text_request(None, &[strings("text_input", &["a"])], &Parameters::default()).unwrap();
    assert!(echoed.echo, "as with vLLM's backend");
    let wrong = |inputs: &[Tensor]| text_request(None, inputs, &Parameters::default()).unwrap_err().message;
    assert!(wrong(&[]).contains("text_input"));
    assert!(wrong(&[strings("text", &["a"])]).contains("text_input"));
    assert!(wrong(&[strings("text_input", &["a"]), strings("sampling_parameters", &["["])]).contains("JSON"));
}

#[test]
fn generate_bodies_are_read() {
    let body = json!({"text_input": "a", "max_tokens": 3, "id": "i", "parameters": {"temperature": 0, "stream": true}});
    let request = GenerateRequest::parse(body.to_string().as_bytes(), Some("m"), false).unwrap();
    assert_eq!((request.id.as_deref(), request.text.stream, request.text.echo), (Some("i"), false, true));
    assert_eq!(request.text.completion.max_tokens, Some(3));
    let streamed = GenerateRequest::parse(body.to_string().as_bytes(), None, true).unwrap();
    assert!(streamed.text.stream && !streamed.text.echo);
    for (bad, word) in [
        (json!({}), "text_input"),
        (json!({"text_input": 5}), "text_input"),
        (json!({"text_input": "a", "parameters": {"temperature": 9}}), "temperature"),
        (json!({"text_input": "a", "n": 2}), "n is 2"),
    ] {
        let fault = GenerateRequest::parse(bad.to_string().as_bytes(), None, false).unwrap_err();
        assert!(fault.message.contains(word), "{fault}");
    }
}
