//! A repository of Triton's layout and pipelines, through a running server. The model is a logistic regression of
//! scikit-learn; what it gives is in the fixture, from ONNX Runtime.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::served::{Server, read, within};

const MODEL: &[u8] = include_bytes!("../../onnx/tests/fixtures/ml/logistic-plain-output.onnx");
const INPUT: [f64; 12] = [0.0, 1.0, 0.0, -1.0, 1.0, 0.0, -1.0, 1.0, 0.0, 0.0, 0.0, 1.0];

fn put(folder: &Path, file: &str, bytes: &[u8]) {
    let path = folder.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn serve(folder: &Path) -> Server {
    let mut server = Server::listen(&["--models-dir", folder.to_str().unwrap(), "--models-poll", "1"], &[]);
    server.until("is ready");
    server
}

fn get(server: &Server, path: &str) -> Value {
    serde_json::from_str(&read(server.request("GET", path, "", "")).1).unwrap()
}

/// Status and answer of two rows sent to an input.
fn infer(server: &Server, model: &str, input: &str, outputs: Value) -> (u16, Value) {
    let body = json!({"outputs": outputs,
        "inputs": [{"name": input, "datatype": "FP32", "shape": [2, 6], "data": INPUT}]});
    let (status, body) =
        read(server.request("POST", &format!("/v2/models/{model}/infer"), "", &body.to_string()));
    (status, serde_json::from_str(&body).unwrap())
}

fn numbers(answer: &Value) -> Vec<f64> {
    answer["outputs"][0]["data"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

#[test]
fn a_repository_of_triton_is_served_and_bad_models_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for version in ["iris/1", "iris/2", "iris/3", "bare/1", "wrong/1", "torn/1"] {
        put(at, &format!("{version}/model.onnx"), MODEL);
    }
    put(at, "cut/1/model.onnx", &MODEL[..MODEL.len() / 2]);
    let config = "name: \"iris\" platform: \"onnxruntime_onnx\" max_batch_size: 2\n\
        input { name: \"X\" data_type: TYPE_FP32 dims: 6 }\n\
        output { name: \"probabilities\" data_type: TYPE_FP32 dims: 3 label_filename: \"labels.txt\" }\n\
        version_policy { specific { versions: [1, 3] } } instance_group { count: 1 } dynamic_batching { }\n";
    put(at, "iris/config.pbtxt", config.as_bytes());
    put(at, "iris/labels.txt", b"ant\nbee\ncat\n");
    put(at, "wrong/config.pbtxt", b"input { name: \"X\" data_type: TYPE_INT64 dims: [ -1, 6 ] }");
    put(at, "torn/config.pbtxt", b"name: \"torn\"\ninput {");
    let server = serve(at);

    let probabilities = json!([{"name": "probabilities"}]);
    let (status, bare) = infer(&server, "bare", "X", probabilities.clone());
    assert_eq!((status, &bare["model_version"]), (200, &json!("1")), "{bare}");
    for (path, version) in [("iris", "3"), ("iris/versions/1", "1"), ("iris/versions/3", "3")] {
        let (status, answer) = infer(&server, path, "X", probabilities.clone());
        assert_eq!(
            (status, &answer["model_name"], &answer["model_version"]),
            (200, &json!("iris"), &json!(version))
        );
        assert_eq!(numbers(&answer), numbers(&bare));
    }
    let (status, fault) = infer(&server, "iris/versions/2", "X", probabilities.clone());
    assert_eq!(status, 404, "{fault}");
    let (_, classes) =
        infer(&server, "iris", "X", json!([{"name": "probabilities", "parameters": {"classification": 1}}]));
    let best = classes["outputs"][0]["data"][0].as_str().unwrap();
    assert!(["ant", "bee", "cat"].contains(&best.rsplit(':').next().unwrap()), "{classes}");

    let told = get(&server, "/v2/models/iris");
    assert_eq!((&told["versions"], &told["inputs"][0]["shape"]), (&json!(["1", "3"]), &json!([-1, 6])));
    assert_eq!(told["outputs"].as_array().unwrap().len(), 1, "only what is configured");
    let told = get(&server, "/v2/models/iris/config");
    assert_eq!((&told["max_batch_size"], &told["input"][0]["dims"]), (&json!(2), &json!([6])));
    assert_eq!(told["version_policy"], json!({"specific": {"versions": [1, 3]}}));

    for (model, words) in [
        ("wrong", "has data_type TYPE_INT64; that of the model is TYPE_FP32"),
        ("torn", "config.pbtxt: line 2: the text ends before '}'"),
        ("cut", "cannot be loaded"),
    ] {
        let (status, fault) = infer(&server, model, "X", probabilities.clone());
        assert!(status == 503 && fault["error"].as_str().unwrap().contains(words), "{model}: {fault}");
    }
    let (_, index) = read(server.request("POST", "/v2/repository/index", "", ""));
    let index: Value = serde_json::from_str(&index).unwrap();
    let torn = index.as_array().unwrap().iter().find(|entry| entry["name"] == "torn").unwrap();
    assert!(torn["reason"].as_str().unwrap().contains("line 2"), "{torn}");

    // Mended, it is served; what is served goes on when its configuration goes bad.
    put(at, "torn/config.pbtxt", b"name: \"torn\"");
    put(at, "iris/config.pbtxt", b"max_batch_size: none");
    within("the mended model", || infer(&server, "torn", "X", json!([{"name": "probabilities"}])).0 == 200);
    assert_eq!(infer(&server, "iris", "X", probabilities).0, 200);
}

#[test]
fn pipelines_and_ensembles_run_through_several_models() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    put(at, "net/model.onnx", MODEL);
    let pipeline = "[[input]]\nname = \"rows\"\ndatatype = \"FP32\"\nshape = [-1, 6]\n\
        [[output]]\nname = \"animal\"\n[[output]]\nname = \"share\"\n\
        [[step]]\nkind = \"labels\"\ninput = \"scores\"\noutputs = [\"animal\", \"share\"]\nlabels-file = \"names.txt\"\n\
        [[step]]\nkind = \"model\"\nmodel = \"net\"\ninputs = { X = \"rows\" }\noutputs = { probabilities = \"scores\" }\n";
    put(at, "animals/pipeline.toml", pipeline.as_bytes());
    put(at, "animals/names.txt", b"ant\nbee\ncat\n");
    put(at, "lost/pipeline.toml", pipeline.replace("\"net\"", "\"none\"").as_bytes());
    put(at, "lost/names.txt", b"ant\nbee\ncat\n");
    put(at, "round/pipeline.toml", pipeline.replace("X = \"rows\"", "X = \"share\"").as_bytes());
    put(at, "round/names.txt", b"ant\nbee\ncat\n");
    let ensemble = "platform: \"ensemble\"\ninput { name: \"IN\" data_type: TYPE_FP32 dims: [ -1, 6 ] }\n\
        output { name: \"OUT\" data_type: TYPE_FP32 dims: [ -1, 3 ] }\n\
        ensemble_scheduling { step { model_name: \"net\" model_version: -1\n\
        input_map { key: \"X\" value: \"IN\" } output_map { key: \"probabilities\" value: \"OUT\" } } }";
    put(at, "all/config.pbtxt", ensemble.as_bytes());
    fs::create_dir(at.join("all/1")).unwrap();
    let server = serve(at);

    let (status, alone) = infer(&server, "net", "X", json!([{"name": "probabilities"}]));
    assert_eq!(status, 200, "{alone}");
    let (status, whole) = infer(&server, "all", "IN", json!([]));
    assert_eq!((status, numbers(&whole)), (200, numbers(&alone)), "{whole}");
    let (status, told) = infer(&server, "animals", "rows", json!([]));
    assert_eq!(status, 200, "{told}");
    let scores = numbers(&alone);
    for row in 0..2 {
        let of_row = &scores[row * 3..(row + 1) * 3];
        let best = (0..3).max_by(|a, b| of_row[*a].total_cmp(&of_row[*b])).unwrap();
        assert_eq!(told["outputs"][0]["data"][row], ["ant", "bee", "cat"][best], "{told}");
        assert_eq!(told["outputs"][1]["data"][row], of_row[best]);
    }
    let metadata = get(&server, "/v2/models/animals");
    assert_eq!(metadata["outputs"][0], json!({"name": "animal", "datatype": "BYTES", "shape": [-1]}));
    for (model, words) in [("lost", "there is no model none"), ("round", "wait for one another")] {
        let (status, fault) = infer(&server, model, "rows", json!([]));
        assert!(status == 503 && fault["error"].as_str().unwrap().contains(words), "{model}: {fault}");
    }
    let statistics = get(&server, "/v2/models/animals/stats");
    assert_eq!(statistics["model_stats"][0]["inference_stats"]["success"]["count"], 1, "{statistics}");
}
