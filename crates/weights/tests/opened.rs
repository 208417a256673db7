//! Models on disk: GGUF files that the `gguf` package wrote (`python tools/fixtures/files.py`), split ones, Hugging Face
//! directories, and directories that lie.

#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tensor::Dtype;
use weights::gguf::{Array, Value as Meta};
use weights::{Element, ModelFormat, Opened, open};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn expected() -> Value {
    serde_json::from_slice(&fs::read(fixtures().join("expected.json")).unwrap()).unwrap()
}

/// The error of opening `path`, its sources joined as the command line does.
pub(crate) fn refusal(path: &Path) -> String {
    let error = open(path).expect_err("the model is wrong");
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(s) = source {
        text = format!("{text}: {s}");
        source = s.source();
    }
    text
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

fn assert_tensors(opened: &Opened, expected: &Value) {
    let expected = expected.as_object().unwrap();
    assert_eq!(opened.tensors().len(), expected.len());
    for (name, want) in expected {
        let tensor = opened.tensor(name).unwrap_or_else(|| panic!("no tensor {name}"));
        assert_eq!(tensor.dtype.name(), want["type"], "{name}");
        assert_eq!(json!(tensor.shape), want["shape"], "{name}");
        assert_eq!(hex(tensor.bytes), want["sha256"], "{name}");
        assert_eq!(opened.info(name).unwrap().bytes, tensor.bytes.len());
    }
}

fn as_json(value: &Meta) -> Value {
    let all = |a: &Array| (0..a.len()).map(|i| as_json(&a.get(i).unwrap())).collect();
    match value {
        Meta::Bool(v) => json!(v),
        Meta::String(v) => json!(v),
        // The package keeps Python's double; the file has its nearest f32.
        Meta::F32(v) => json!(v.to_string().parse::<f64>().unwrap()),
        Meta::F64(v) => json!(v),
        Meta::U64(v) => json!(v),
        Meta::Array(a) => Value::Array(all(a)),
        integer => json!(integer.as_i64().unwrap()),
    }
}

#[test]
fn every_metadata_type_and_every_format_reads_as_written() {
    let opened = open(&fixtures().join("every-type.gguf")).unwrap();
    let expected = &expected()["every-type"];
    assert_eq!(opened.kind(), ModelFormat::Gguf);
    let metadata = opened.metadata().gguf().unwrap();
    assert_eq!(metadata.get_str("general.architecture"), Some("llama"));
    assert_eq!(metadata.get_u32("general.alignment"), Some(64));
    for (key, want) in expected["metadata"].as_object().unwrap() {
        assert_eq!(&as_json(metadata.get(key).unwrap_or_else(|| panic!("no {key}"))), want, "{key}");
    }
    assert_tensors(&opened, &expected["tensors"]);
    for dtype in Dtype::ALL {
        assert_eq!(opened.tensor(&format!("t.{dtype}")).unwrap().dtype, dtype);
    }
    // Pages come back from the file after they were dropped, for one tensor and for all.
    opened.drop_pages_of(opened.tensor("t.Q4_K").unwrap().bytes);
    opened.drop_pages_of(b"of no model");
    opened.drop_pages();
    assert_tensors(&opened, &expected["tensors"]);
}

#[test]
fn typed_reads_take_what_fits() {
    let opened = open(&fixtures().join("every-type.gguf")).unwrap();
    let m = opened.metadata().gguf().unwrap();
    assert_eq!(m.get_u32("test.uint16"), Some(65535));
    assert_eq!(m.get_u32("test.uint64"), None);
    assert_eq!(m.get_u64("test.uint64"), Some(u64::MAX));
    assert_eq!(m.get_u32("test.int8"), None);
    assert_eq!(m.get_i64("test.int64"), Some(i64::MIN));
    assert_eq!(m.get_f32("test.float32"), Some(0.1));
    assert_eq!(m.get_str("test.float32"), None);
    assert_eq!(m.get_bools("test.bools"), Some(vec![true, false]));
    assert_eq!(m.get_bools("test.ints"), Some(vec![true, true, true]));
    assert_eq!(m.get_integers("test.ints"), Some(vec![1, -2, 3]));
    assert_eq!(m.get_integers("test.strings"), None);
    assert_eq!(m.get_f32s("test.floats"), Some(&[0.5, -1.5][..]));
}

#[test]
fn a_file_without_tensors_is_a_file() {
    let opened = open(&fixtures().join("plain.gguf")).unwrap();
    assert_eq!(opened.tensors().len(), 0);
    assert_eq!(opened.metadata().gguf().unwrap().get_u32("llama.context_length"), Some(2048));
    opened.ledger().close().unwrap();
}

#[test]
fn any_part_opens_the_whole_split_model() {
    for part in 1..=3 {
        let path = fixtures().join(format!("split-{part:05}-of-00003.gguf"));
        let opened = open(&path).unwrap();
        assert_tensors(&opened, &expected()["split"]["tensors"]);
        assert_eq!(opened.files().count(), 3);
        assert_eq!(opened.metadata().gguf().unwrap().get_u32("split.no"), Some(0));
    }
}

#[test]
fn split_models_with_parts_missing_mixed_or_renamed_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let part = |n: usize| format!("split-{n:05}-of-00003.gguf");
    let at = |name: &str| dir.path().join(name);
    let copy = |from: &str, to: &str| fs::copy(fixtures().join(from), at(to)).unwrap();
    copy(&part(1), "renamed.gguf");
    assert!(refusal(&at("renamed.gguf")).contains("must end its name in '-00001-of-00003.gguf'"));
    copy(&part(1), &part(1));
    copy(&part(2), &part(2));
    assert!(refusal(&at(&part(1))).contains("split-00003-of-00003.gguf"));
    copy(&part(2), &part(3));
    assert!(refusal(&at(&part(1))).contains("expected part 3 of 3"));
    copy("plain.gguf", &part(3));
    assert!(refusal(&at(&part(2))).contains("expected part 3 of 3, found a file that is no part"));
    fs::write(at(&part(3)), b"").unwrap();
    assert!(refusal(&at(&part(1))).contains("the file is empty"));
}

#[test]
fn what_is_no_model_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    assert!(refusal(&dir.path().join("absent.gguf")).contains("absent.gguf"));
    assert!(refusal(dir.path()).contains("no config.json"));
    let file = dir.path().join("model.safetensors");
    fs::write(&file, weights_file(&[("a", "F32", &[2])])).unwrap();
    assert!(refusal(&file).contains("a safetensors file; give the folder"));
}

/// A safetensors file of these tensors, its data counting up.
pub(crate) fn weights_file(tensors: &[(&str, &str, &[usize])]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut at = 0;
    for (name, dtype, shape) in tensors {
        let size = match *dtype {
            "F32" => 4,
            "BF16" | "F16" => 2,
            _ => 8,
        };
        let end = at + size * shape.iter().product::<usize>();
        header.insert((*name).to_owned(), json!({"dtype": dtype, "shape": shape, "data_offsets": [at, end]}));
        at = end;
    }
    let header = Value::Object(header).to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend((0..at).map(|i| i as u8));
    bytes
}

pub(crate) fn directory(files: &[(&str, Vec<u8>)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    dir
}

pub(crate) fn text(value: Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

const INDEX: &str = "model.safetensors.index.json";

#[test]
fn a_directory_with_one_file_opens() {
    let dir = directory(&[
        ("config.json", text(json!({"model_type": "bert", "hidden_size": 4}))),
        (
            "tokenizer_config.json",
            text(
                json!({"chat_template": [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]}),
            ),
        ),
        ("generation_config.json", text(json!({"eos_token_id": [1, 2]}))),
        ("tokenizer.json", b"{}".to_vec()),
        (
            "model.safetensors",
            weights_file(&[("embeddings", "BF16", &[3, 4]), ("position_ids", "I64", &[1, 2])]),
        ),
    ]);
    let opened = open(dir.path()).unwrap();
    assert_eq!(opened.kind(), ModelFormat::HuggingFace);
    let m = opened.metadata().hugging_face().unwrap();
    assert_eq!(m.config["hidden_size"], 4);
    assert_eq!(m.generation_config.as_ref().unwrap()["eos_token_id"], json!([1, 2]));
    assert_eq!(m.chat_template.as_deref(), Some("D"));
    let vocabulary = m.tokenizer_json.as_ref().unwrap();
    assert_eq!((vocabulary.size(), vocabulary.bytes().unwrap()), (2, &b"{}"[..]));
    let tensor = opened.tensor("embeddings").unwrap();
    assert_eq!((tensor.dtype, &tensor.shape[..]), (Dtype::BF16, &[3, 4][..]));
    assert_eq!(tensor.bytes, (0..24).collect::<Vec<u8>>());
    // Integers are listed and claimed, but are no weights.
    assert!(opened.tensor("position_ids").is_none());
    assert_eq!(opened.info("position_ids").unwrap().element, Element::Other("I64"));
    let mut ledger = opened.ledger();
    assert!(ledger.claim("embeddings"));
    assert!(ledger.close().unwrap_err().to_string().contains("position_ids"));
    // Template files come before the one in the tokenizer's configuration.
    fs::write(dir.path().join("chat_template.json"), text(json!({"chat_template": "J"}))).unwrap();
    assert_eq!(
        open(dir.path()).unwrap().metadata().hugging_face().unwrap().chat_template.as_deref(),
        Some("J")
    );
    fs::write(dir.path().join("chat_template.jinja"), "X").unwrap();
    assert_eq!(
        open(dir.path()).unwrap().metadata().hugging_face().unwrap().chat_template.as_deref(),
        Some("X")
    );
}

#[test]
fn a_sharded_directory_opens() {
    let map = json!({"metadata": {"total_size": 1}, "weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}});
    let dir = directory(&[
        ("config.json", b"{}".to_vec()),
        (INDEX, text(map)),
        ("m-1.safetensors", weights_file(&[("a", "F32", &[2])])),
        ("m-2.safetensors", weights_file(&[("b", "F16", &[2, 1]), ("extra", "F32", &[1])])),
    ]);
    let opened = open(dir.path()).unwrap();
    assert_eq!(opened.tensor("b").unwrap().shape, [2, 1]);
    assert_eq!(opened.files().count(), 2);
    // A tensor that the index does not list is there for the ledger to name.
    let mut ledger = opened.ledger();
    assert!(ledger.claim("a") && ledger.claim("b"));
    assert_eq!(ledger.close().unwrap_err().left_over, ["extra"]);
}

#[test]
fn shard_indexes_that_lie_are_refused() {
    let shard = || weights_file(&[("a", "F32", &[2])]);
    let refused = |index: Value| {
        let dir = directory(&[
            ("config.json", b"{}".to_vec()),
            (INDEX, text(index)),
            ("m.safetensors", shard()),
            ("n.safetensors", shard()),
        ]);
        refusal(dir.path())
    };
    // Pointing at itself, out of the directory, or at something else.
    for file in [
        INDEX,
        "../m.safetensors",
        "/etc/passwd",
        "x/../m.safetensors",
        "..\\m.safetensors",
        ".safetensors",
        "m.bin",
        "",
        "a\0.safetensors",
    ] {
        let text = refused(json!({"weight_map": {"a": file}}));
        assert!(text.contains("not the plain name of a .safetensors file"), "{file}: {text}");
    }
    assert!(refused(json!({"weight_map": {"a": 3}})).contains("not a string"));
    assert!(refused(json!({"weight_map": {}})).contains("names no tensors"));
    assert!(refused(json!({"weight_map": [1]})).contains("no object 'weight_map'"));
    assert!(refused(json!([])).contains("no object 'weight_map'"));
    assert!(refused(json!({"weight_map": {"a": "absent.safetensors"}})).contains("absent.safetensors"));
    assert!(refused(json!({"weight_map": {"b": "m.safetensors"}})).contains("tensor 'b' is listed for"));
    let both = refused(json!({"weight_map": {"a": "m.safetensors", "b": "n.safetensors"}}));
    assert!(both.contains("tensor 'a' is in"), "{both}");
}

#[test]
fn directories_with_bad_files_are_refused_by_the_files_name() {
    let good = || ("model.safetensors", weights_file(&[("a", "F32", &[2])]));
    let with = |name: &'static str, bytes: &[u8]| {
        refusal(directory(&[("config.json", b"{}".to_vec()), good(), (name, bytes.to_vec())]).path())
    };
    assert!(with("config.json", b"").contains("config.json is empty"));
    assert!(with("config.json", "[".repeat(100_000).as_bytes()).contains("recursion limit"));
    assert!(with("config.json", b"{\"a\": NaN}").contains("config.json"));
    assert!(with("tokenizer_config.json", b"{").contains("tokenizer_config.json"));
    assert!(with("generation_config.json", b"x").contains("generation_config.json"));
    assert!(with("chat_template.jinja", b"\xff").contains("chat_template.jinja is not UTF-8"));
    assert!(with("model.safetensors", b"").contains("the file is empty"));
    assert!(
        with("model.safetensors", &[0xff; 40]).contains("model.safetensors is not a valid safetensors file")
    );
    assert!(
        with("config.json", &vec![b' '; (16 << 20) + 1]).contains("larger than the limit of 16777216 bytes")
    );
    let pickle = directory(&[("config.json", b"{}".to_vec()), ("pytorch_model.bin", vec![0])]);
    assert!(refusal(pickle.path()).contains("PyTorch pickle"));
    let none = directory(&[("config.json", b"{}".to_vec())]);
    assert!(refusal(none.path()).contains("neither model.safetensors nor"));
    std::fs::create_dir(none.path().join("onnx")).unwrap();
    std::fs::write(none.path().join("onnx/model_q4.onnx"), b"x").unwrap();
    assert!(refusal(none.path()).contains("a form that is not read (onnx/model_q4.onnx)"));
}

#[test]
fn said_badly_what_is_no_model_is_named_with_the_way_out() {
    let lfs = b"version https://git-lfs.github.com/spec/v1\noid sha256:0000\nsize 4\n".to_vec();
    let config = ("config.json", b"{}".to_vec());
    let index = |files: &[&str]| {
        let map: serde_json::Map<_, _> =
            files.iter().enumerate().map(|(i, file)| (format!("t{i}"), json!(file))).collect();
        ("model.safetensors.index.json", json!({ "weight_map": map }).to_string().into_bytes())
    };
    let adapter = (
        "adapter_config.json",
        json!({"base_model_name_or_path": "meta-llama/Llama-3.2-1B", "peft_type": "LORA"})
            .to_string()
            .into_bytes(),
    );
    let empty: &[u8] = b"";
    type Files = Vec<(&'static str, Vec<u8>)>;
    let cases: Vec<(Files, &[&str])> = vec![
        (vec![("config.json", lfs.clone())], &["config.json", "Git LFS pointer", "git lfs pull"]),
        (vec![config.clone(), ("model.safetensors", lfs.clone())], &["model.safetensors", "Git LFS pointer"]),
        (vec![config.clone(), ("tokenizer.json", lfs.clone())], &["tokenizer.json", "Git LFS pointer"]),
        (vec![config.clone(), ("model.safetensors.index.json", lfs)], &["index.json", "Git LFS pointer"]),
        (
            vec![adapter.clone(), ("adapter_model.safetensors", vec![0; 8])],
            &["LoRA adapter for meta-llama/Llama-3.2-1B", "merge"],
        ),
        (vec![config.clone(), adapter], &["LoRA adapter"]),
        (
            vec![config.clone(), ("pytorch_model.bin", vec![0])],
            &["PyTorch pickle (pytorch_model.bin)", "safetensors"],
        ),
        (
            vec![config.clone(), ("pytorch_model-00001-of-00002.bin", vec![0])],
            &["PyTorch pickle (pytorch_model-00001-of-00002.bin)"],
        ),
        (vec![config.clone(), ("tf_model.h5", vec![0])], &["tf_model.h5"]),
        (vec![config.clone(), ("q4.gguf", vec![0])], &["q4.gguf"]),
        (vec![("q4.gguf", vec![0]), ("q8.gguf", vec![0])], &["one of its GGUF files: q4.gguf, q8.gguf"]),
        (vec![("params.json", vec![]), ("consolidated.00.pth", vec![])], &["publisher's own form"]),
        (vec![("model.safetensors", vec![0])], &["no config.json", "download all files"]),
        (vec![], &["the folder is empty"]),
        (
            vec![config.clone(), ("model-00001-of-00002.safetensors", vec![0])],
            &["model.safetensors.index.json", "model-00001-of-00002.safetensors"],
        ),
        (
            vec![config.clone(), index(&["a.safetensors", "b.safetensors"])],
            &["2 of the 2 files", "a.safetensors", "download all files"],
        ),
        (
            vec![config.clone(), ("model.safetensors", empty.to_vec())],
            &["model.safetensors", "the file is empty"],
        ),
        (vec![config.clone(), ("model.safetensors", b"<!DOCTYPE html>".to_vec())], &["web page"]),
        (vec![("config.json", b"<html></html>".to_vec())], &["config.json", "web page"]),
        (vec![config, ("model.safetensors", b"Entry not found".to_vec())], &["'Entry not found'"]),
    ];
    for (files, words) in cases {
        let folder = directory(&files);
        let said = refusal(folder.path());
        for word in words {
            assert!(said.contains(word), "{word}: {said}");
        }
    }
}

#[test]
fn said_badly_a_file_that_is_no_gguf_is_named_with_the_way_out() {
    let mut safetensors = 2u64.to_le_bytes().to_vec();
    safetensors.extend(b"{}");
    let folder = directory(&[("config.json", b"{}".to_vec()), ("model.safetensors", safetensors.clone())]);
    for file in ["model.safetensors", "config.json"] {
        let said = refusal(&folder.path().join(file));
        let folder = folder.path().to_str().unwrap();
        assert!(said.contains("give its folder: ") && said.ends_with(folder), "{said}");
    }
    let mut big = b"GGUF".to_vec();
    big.extend(3u32.to_be_bytes());
    big.extend([0; 64]);
    let good = fs::read(fixtures().join("plain.gguf")).unwrap();
    let cases: [(&str, Vec<u8>, &str); 8] = [
        ("alone.safetensors", safetensors, "give the folder that holds it"),
        ("page.gguf", b"<!doctype HTML>".to_vec(), "web page"),
        ("model.zip", b"PK\x03\x04........".to_vec(), "ZIP archive; unpack it"),
        ("model.gguf", b"version https://git-lfs.github.com/spec/v1\n".to_vec(), "Git LFS pointer"),
        ("pytorch_model.bin", b"PK\x03\x04....archive/data.pkl".to_vec(), "PyTorch"),
        ("empty.gguf", Vec::new(), "the file is empty"),
        ("big.gguf", big, "big-endian"),
        ("cut.gguf", good[..good.len() / 2].to_vec(), "its download may not have ended"),
    ];
    for (name, bytes, words) in cases {
        let alone = directory(&[(name, bytes)]);
        let said = refusal(&alone.path().join(name));
        assert!(said.contains(words) && said.contains(name), "{name}: {said}");
    }
    assert!(refusal(Path::new("/dev/zero")).contains("a pipe or a device"));
}

#[test]
fn bytes_of_a_tensor_outlive_the_model_that_they_are_of() {
    let opened = open(&fixtures().join("every-type.gguf")).unwrap();
    let name = opened.tensors().next().unwrap().name.to_owned();
    let (kept, bytes) = (opened.kept(&name).unwrap(), opened.bytes(&name).unwrap().to_vec());
    assert!(opened.kept("none").is_none());
    opened.drop_pages();
    drop(opened);
    assert!(!bytes.is_empty());
    assert_eq!(*kept, *bytes);
}
