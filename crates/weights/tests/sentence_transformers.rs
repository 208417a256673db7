//! sentence-transformers directories: modules, their weights, and lists that lie.

use std::fs;

use serde_json::{Value, json};
use weights::huggingface::Module;
use weights::{Element, open};

use crate::opened::{directory, refusal, text, weights_file};

fn module(index: usize, path: &str, kind: &str) -> Value {
    json!({"idx": index, "name": index.to_string(), "path": path, "type": kind})
}

/// The list of EmbeddingGemma, with the types that sentence-transformers 5 writes.
fn embedding_modules() -> Value {
    json!([
        module(0, "", "sentence_transformers.models.Transformer"),
        module(1, "1_Pooling", "sentence_transformers.models.Pooling"),
        module(2, "2_Dense", "sentence_transformers.models.Dense"),
        module(3, "3_Normalize", "sentence_transformers.base.modules.normalize.Normalize"),
    ])
}

fn embedding_files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("config.json", text(json!({"model_type": "bert"}))),
        ("model.safetensors", weights_file(&[("embeddings", "F32", &[3, 4])])),
        ("vocab.txt", b"[PAD]\n[UNK]\n".to_vec()),
        ("modules.json", text(embedding_modules())),
        ("sentence_bert_config.json", text(json!({"max_seq_length": 256}))),
        ("config_sentence_transformers.json", text(json!({"prompts": {"query": "q: "}}))),
        ("1_Pooling/config.json", text(json!({"pooling_mode_mean_tokens": true}))),
        ("2_Dense/config.json", text(json!({"in_features": 4, "out_features": 2}))),
        ("2_Dense/model.safetensors", weights_file(&[("linear.weight", "F32", &[2, 4])])),
    ]
}

#[test]
fn modules_are_listed_and_their_weights_are_tensors() {
    let dir = directory(&embedding_files());
    let opened = open(dir.path()).unwrap();
    let files = opened.metadata().hugging_face().unwrap();
    let modules = files.modules.as_deref().unwrap();
    let kinds: Vec<_> = modules.iter().map(|m| (m.index, m.path.as_str(), m.kind.as_str())).collect();
    assert_eq!(
        kinds,
        [
            (0, "", "Transformer"),
            (1, "1_Pooling", "Pooling"),
            (2, "2_Dense", "Dense"),
            (3, "3_Normalize", "Normalize")
        ]
    );
    assert_eq!(modules[0].config["model_type"], "bert");
    assert_eq!(modules[1].config, json!({"pooling_mode_mean_tokens": true}));
    assert_eq!(modules[2].config["out_features"], 2);
    assert_eq!(modules[3].config, Value::Null);
    assert_eq!(files.vocab_txt.as_ref().unwrap().bytes().unwrap(), &b"[PAD]\n[UNK]\n"[..]);
    assert!(files.tokenizer_json.is_none());
    assert_eq!(files.sentence_bert_config.as_ref().unwrap()["max_seq_length"], 256);
    assert_eq!(files.sentence_transformers.as_ref().unwrap()["prompts"]["query"], "q: ");
    let dense = opened.tensor("2_Dense/linear.weight").unwrap();
    assert_eq!(dense.shape, [2, 4]);
    assert_eq!(dense.bytes, (0..32).collect::<Vec<u8>>());
    assert_eq!(opened.files().count(), 2);
    let mut ledger = opened.ledger();
    assert!(ledger.claim("embeddings") && ledger.claim("2_Dense/linear.weight"));
    ledger.close().unwrap();
    // The packed cache must notice a change of either file.
    assert_eq!(opened.file_keys().unwrap().len(), 2);
}

#[test]
fn a_directory_without_modules_has_none() {
    let dir = directory(&[
        ("config.json", b"{}".to_vec()),
        ("model.safetensors", weights_file(&[("a", "F32", &[1])])),
    ]);
    let opened = open(dir.path()).unwrap();
    let files = opened.metadata().hugging_face().unwrap();
    assert_eq!((&files.modules, &files.sentence_bert_config), (&None::<Vec<Module>>, &None));
    assert!(files.vocab_txt.is_none());
}

#[test]
fn the_network_may_have_a_folder_of_its_own() {
    let list = json!([
        module(0, "0_Transformer", "sentence_transformers.models.Transformer"),
        module(1, "1_Pooling", "sentence_transformers.models.Pooling"),
    ]);
    let mut files = vec![
        ("modules.json", text(list)),
        ("0_Transformer/config.json", text(json!({"hidden_size": 4}))),
        ("0_Transformer/model.safetensors", weights_file(&[("embeddings", "F16", &[3, 4])])),
        ("0_Transformer/vocab.txt", b"a\n".to_vec()),
        ("0_Transformer/tokenizer.json", b"{}".to_vec()),
        ("0_Transformer/tokenizer_config.json", text(json!({"do_lower_case": true}))),
        ("0_Transformer/sentence_roberta_config.json", text(json!({"max_seq_length": 128}))),
        ("1_Pooling/config.json", text(json!({"word_embedding_dimension": 4}))),
    ];
    let dir = directory(&files);
    let opened = open(dir.path()).unwrap();
    let read = opened.metadata().hugging_face().unwrap();
    assert_eq!(read.config["hidden_size"], 4);
    assert_eq!(read.tokenizer_config.as_ref().unwrap()["do_lower_case"], true);
    assert_eq!(read.sentence_bert_config.as_ref().unwrap()["max_seq_length"], 128);
    assert!(read.vocab_txt.is_some() && read.tokenizer_json.is_some());
    // The network's tensors keep the names of its file.
    assert_eq!(opened.tensor("embeddings").unwrap().shape, [3, 4]);
    assert_eq!(opened.tensors().len(), 1);
    files.remove(2);
    let said = refusal(directory(&files).path());
    assert!(said.contains("0_Transformer") && said.contains("neither model.safetensors"), "{said}");
}

#[test]
fn heads_beside_the_weights_are_tensors() {
    let mut files = embedding_files();
    files.push((
        "sparse_linear.safetensors",
        weights_file(&[("weight", "F32", &[1, 4]), ("bias", "F32", &[1])]),
    ));
    files.push(("colbert_linear.safetensors", weights_file(&[("weight", "F16", &[4, 4])])));
    let opened = open(directory(&files).path()).unwrap();
    assert_eq!(opened.tensor("sparse_linear/weight").unwrap().shape, [1, 4]);
    assert_eq!(opened.info("sparse_linear/bias").unwrap().element, Element::Weights(tensor::Dtype::F32));
    assert_eq!(opened.tensor("colbert_linear/weight").unwrap().shape, [4, 4]);
    // A head that is no safetensors is named.
    files.last_mut().unwrap().1 = b"<html>".to_vec();
    let said = refusal(directory(&files).path());
    assert!(said.contains("colbert_linear.safetensors") && said.contains("web page"), "{said}");
}

#[test]
fn pickled_weights_are_refused_with_the_way_to_convert_them() {
    let mut files = embedding_files();
    files.last_mut().unwrap().0 = "2_Dense/pytorch_model.bin";
    let dir = directory(&files);
    let said = refusal(dir.path());
    assert!(said.contains("2_Dense/pytorch_model.bin") && said.contains("pickle"), "{said}");
    assert!(said.contains("'model.safetensors')"), "{said}");
    // Safetensors beside a pickle are enough.
    fs::write(
        dir.path().join("2_Dense/model.safetensors"),
        weights_file(&[("linear.weight", "F32", &[2, 4])]),
    )
    .unwrap();
    assert!(open(dir.path()).unwrap().tensor("2_Dense/linear.weight").is_some());
    fs::write(dir.path().join("sparse_linear.pt"), b"PK").unwrap();
    let said = refusal(dir.path());
    assert!(said.contains("sparse_linear.pt") && said.contains("'sparse_linear.safetensors')"), "{said}");
}

#[test]
fn lists_of_modules_that_lie_are_refused() {
    let refused = |list: Value| {
        let mut files = embedding_files();
        files[3].1 = text(list);
        let dir = directory(&files);
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        refusal(dir.path())
    };
    for path in ["../up", "..", "/etc", "a/b", "a\\b", ".hidden", "a\nb", "C:x"] {
        let said = refused(json!([module(0, path, "x.Transformer")]));
        assert!(said.contains("modules.json") && said.contains("plain name of a folder"), "{path}: {said}");
    }
    assert!(refused(json!([module(0, &"x".repeat(129), "x.Dense")])).contains("129 bytes"));
    assert!(refused(json!([module(0, "a", "x.")])).contains("names no type"));
    assert!(refused(json!([{"path": "a"}])).contains("module 0: 'type' is not a string"));
    assert!(refused(json!([{"type": "a", "path": 7}])).contains("'path' is not a string"));
    assert!(refused(json!({"modules": []})).contains("not a list"));
    assert!(
        refused(json!([module(0, "a", "x.Dense"), module(1, "a", "x.Dense")])).contains("modules 0 and 1")
    );
    let many: Vec<Value> = (0..17).map(|n| module(n, &format!("{n}_Dense"), "x.Dense")).collect();
    assert!(refused(json!(many)).contains("17 modules; the limit is 16"));
    assert!(open(directory(&embedding_files()).path()).is_ok());
}

#[test]
fn a_tensor_of_two_files_is_named_with_both() {
    let mut files = embedding_files();
    files[1].1 = weights_file(&[("2_Dense/linear.weight", "F32", &[1])]);
    let said = refusal(directory(&files).path());
    assert!(said.contains("'2_Dense/linear.weight'") && said.contains("2_Dense/model.safetensors"), "{said}");
}
