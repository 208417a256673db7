//! Triton's config.pbtxt, against what protobuf's own text format reads (`tools/fixtures/model_configs.py`), and against
//! the tensors of models.

use serde_json::{Map, Value, json};
use wire::oip::{
    ConfigTensor, Datatype, ModelConfig, Signature, Tensor, TensorSpec, VersionPolicy, model_config,
};

/// What a configuration is in the JSON of protobuf: what is as by default is left out.
fn shown(config: &ModelConfig) -> Map<String, Value> {
    let mut map = Map::new();
    let mut put = |name: &str, value: Value| {
        let is_empty = match &value {
            Value::String(text) => text.is_empty(),
            Value::Array(entries) => entries.is_empty(),
            Value::Object(entries) => entries.is_empty(),
            Value::Number(number) => number.as_u64() == Some(0),
            _ => false,
        };
        if !is_empty {
            map.insert(name.to_owned(), value);
        }
    };
    let tensor = |tensor: &ConfigTensor| {
        let dims: Vec<String> = tensor.dims.iter().map(ToString::to_string).collect();
        let mut one = json!({"name": tensor.name, "data_type": tensor.datatype.config_name(), "dims": dims});
        if let Some(labels) = &tensor.labels {
            one["label_filename"] = labels.as_str().into();
        }
        one
    };
    put("name", config.name.as_str().into());
    put("platform", config.platform.as_str().into());
    put("backend", config.backend.as_str().into());
    put("max_batch_size", config.max_batch_size.into());
    put("input", config.inputs.iter().map(tensor).collect());
    put("output", config.outputs.iter().map(tensor).collect());
    let policy = config.versions.as_ref().map(|policy| match policy {
        VersionPolicy::All => json!({"all": {}}),
        VersionPolicy::Latest(count) => json!({"latest": {"num_versions": count}}),
        VersionPolicy::Specific(versions) => {
            json!({"specific": {"versions": versions.iter().map(ToString::to_string).collect::<Vec<_>>()}})
        }
    });
    policy.into_iter().for_each(|policy| put("version_policy", policy));
    put("instances", config.instances.unwrap_or(0).into());
    let parameters = config.parameters.iter();
    let value = |value: &str| if value.is_empty() { json!({}) } else { json!({"string_value": value}) };
    put(
        "parameters",
        parameters.map(|(name, text)| (name.clone(), value(text))).collect::<Map<_, _>>().into(),
    );
    let map_of = |map: &[(String, String)]| -> Map<String, Value> {
        map.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect()
    };
    let steps = config.steps.iter().map(|step| {
        json!({"model_name": step.model, "input_map": map_of(&step.inputs), "output_map": map_of(&step.outputs),
            "model_version": step.version.map_or("-1".to_owned(), |version| version.to_string())})
    });
    put("steps", steps.collect());
    map
}

/// What protobuf read, of the fields that are honoured.
fn expected(read: &Value) -> Map<String, Value> {
    let mut map = read.as_object().unwrap().clone();
    for left_out in ["dynamic_batching", "optimization", "runtime"] {
        map.remove(left_out);
    }
    for list in ["input", "output"] {
        for tensor in map.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            tensor.as_object_mut().unwrap().remove("format");
        }
    }
    if map.get("version_policy") == Some(&json!({})) {
        map.remove("version_policy");
    }
    if let Some(groups) = map.remove("instance_group") {
        let count = |group: &Value| group["count"].as_u64().unwrap_or(1);
        map.insert("instances".into(), groups.as_array().unwrap().iter().map(count).sum::<u64>().into());
    }
    if let Some(ensemble) = map.remove("ensemble_scheduling") {
        map.insert("steps".into(), ensemble["step"].clone());
    }
    map
}

/// Words of errors about what Triton refuses too, or what is not supported here, in texts that are sound.
const REFUSED: [&str; 12] = [
    // The reader in Python keeps a backslash that begins no escape; that in C++, which Triton has, refuses it.
    "is no escape",
    "is not supported",
    "has no name",
    "has no data_type",
    "has no dims",
    "must be at least 1",
    "must be between",
    "are called",
    "inside the model's folder",
    "must be a datatype",
    "is 0; it must",
    "has the platform",
];

#[test]
fn texts_are_read_as_protobuf_reads_them() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("fixtures/configs.json")).unwrap();
    let (mut read, mut refused, mut wrong) = (0, 0, Vec::new());
    for case in &cases {
        let (name, text) = (case["name"].as_str().unwrap(), case["text"].as_str().unwrap());
        match (ModelConfig::parse(text), &case["read"]) {
            (Err(_), Value::Null) => refused += 1,
            // The reader in C++, which Triton has, takes a sign apart from its number; that in Python does not.
            (Ok(_), Value::Null) if text.contains("- ") => {}
            (Ok(config), Value::Null) => {
                wrong.push(format!("{name}: protobuf refuses {text:?}, read as {config:?}"));
            }
            (Err(error), _) => {
                let is_known = REFUSED.iter().any(|words| error.message.contains(words));
                if !is_known {
                    wrong.push(format!("{name}: {error} in {text:?}"));
                }
            }
            (Ok(config), known) => {
                read += 1;
                let (found, known) = (shown(&config), expected(known));
                if found != known {
                    wrong.push(format!("{name}: {found:?} in place of {known:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(read > 80 && refused > 80, "{read} read, {refused} refused");
}

#[test]
fn what_changes_answers_is_refused_by_name_and_line() {
    for (text, line, words) in [
        ("name: \"m\"\ninput {\n name: \"x\"\n reshape { shape: [ ] } }", 4, "reshape is not supported"),
        (
            "input { name: 'x'\n data_type: TYPE_FP32 dims: 1 allow_ragged_batch: true }",
            2,
            "allow_ragged_batch",
        ),
        ("\n\nsequence_batching { }", 3, "sequence_batching is not supported"),
        ("batch_input [ { kind: BATCH_ELEMENT_COUNT } ]", 1, "batch_input is not supported"),
        ("platform: 'ensemble'", 1, "ensemble_scheduling"),
        ("ensemble_scheduling { step { model_name: 'a' } }", 1, "input_map"),
        ("output { name: 'x' data_type: TYPE_FP32 dims: 2 label_filename: '/etc/passwd' }", 1, "inside"),
        ("output { name: 'x' data_type: TYPE_FP32 dims: 2 label_filename: 'a/../../b' }", 1, "inside"),
        (
            "a { a { a { a { a { a { a { a { a { a { a { a { a { a { a { a { a { a { } } } } } } } } } } } } } } } } } }",
            1,
            "deep",
        ),
    ] {
        let error = ModelConfig::parse(text).expect_err(text);
        assert!(error.line == line && error.message.contains(words), "{text}: {error}");
    }
    let config = ModelConfig::parse("dynamic_batching { } model_warmup { } colour: 'red'").unwrap();
    assert_eq!(
        (config.ignored, config.unknown),
        (vec!["dynamic_batching".into(), "model_warmup".into()], vec!["colour".into()])
    );
    assert!(ModelConfig::parse(&"a: 1\n".repeat(60_000)).unwrap_err().message.contains("the limit is"));
}

#[test]
fn a_configuration_that_contradicts_its_model_says_where() {
    let spec = |name, shape: &[i64]| TensorSpec::new(name, Datatype::Fp32, shape);
    let model = Signature {
        inputs: vec![spec("x", &[-1, 4])],
        outputs: vec![spec("y", &[-1, 3]), spec("z", &[2])],
        platform: "onnxruntime_onnx".into(),
        decoupled: false,
    };
    let check = |text: &str| ModelConfig::parse(text).unwrap().check(&model);
    let y = "output { name: 'y' data_type: TYPE_FP32 dims: 3 }";
    let batched =
        check(&format!("max_batch_size: 8 input {{ name: 'x' data_type: TYPE_FP32 dims: 4 }} {y}")).unwrap();
    assert_eq!(batched.signature.outputs, [spec("y", &[-1, 3])], "only what is configured is given");
    assert_eq!(check("").unwrap().signature.outputs.len(), 2);
    let fixed = check("input { name: 'x' data_type: TYPE_FP32 dims: [ 2, 4 ] }").unwrap();
    assert_eq!(fixed.signature.inputs[0].shape, [2, 4], "an open dimension may be fixed");
    for (text, words) in [
        (
            "platform: 'tensorflow_savedmodel'",
            "platform is \"tensorflow_savedmodel\"; of this model it must be onnxruntime_onnx or onnxruntime",
        ),
        ("backend: 'python'", "backend"),
        (
            "input { name: 'q' data_type: TYPE_FP32 dims: [ -1, 4 ] }",
            "\"q\" is not an input of the model; its inputs are: x",
        ),
        (
            "input { name: 'x' data_type: TYPE_INT64 dims: [ -1, 4 ] }",
            "has data_type TYPE_INT64; that of the model is TYPE_FP32",
        ),
        (
            "input { name: 'x' data_type: TYPE_FP32 dims: [ -1, 5 ] }",
            "has the dims [-1,5]; those of the model are [-1,4]",
        ),
        ("input { name: 'x' data_type: TYPE_FP32 dims: [ 4 ] }", "has the dims [4]"),
        (
            "max_batch_size: 8",
            "max_batch_size is 8; the first dimension of the model's output \"z\" is fixed: [2]",
        ),
        ("model_transaction_policy { decoupled: true }", "decoupled"),
    ] {
        let why = check(text).expect_err(text);
        assert!(why.contains(words), "{text}: {why}");
    }
    let rows = |count| Tensor::floats("x", vec![count, 4], &vec![0.0; 4 * count]).unwrap();
    assert!(batched.check_rows(&[rows(8)]).is_ok());
    let fault = batched.check_rows(&[rows(9)]).unwrap_err();
    assert!(fault.status == 400 && fault.message.contains("has 9 rows; it must have 1 to 8"), "{fault}");
    let config = ModelConfig::parse(&format!("max_batch_size: 8 {y}")).unwrap();
    let told = model_config("m", &batched.signature, Some(&config));
    assert_eq!((&told["max_batch_size"], &told["output"][0]["dims"]), (&json!(8), &json!([3])));
    assert_eq!(told["backend"], "onnxruntime");
}

#[test]
fn versions_are_chosen_by_policy() {
    let there = [1, 3, 2, 10];
    assert_eq!(VersionPolicy::default().chosen(&there), [10]);
    assert_eq!(VersionPolicy::Latest(2).chosen(&there), [10, 3]);
    assert_eq!(VersionPolicy::All.chosen(&there), [10, 3, 2, 1]);
    assert_eq!(VersionPolicy::Specific(vec![1, 4, 3]).chosen(&there), [3, 1]);
}
