//! Files and inputs that are refused, and how.

use onnx::{Data, Error, Options, RunOptions, Session, Tensor, Value};

use crate::write::{external, field, int, model, node, stored, value};

fn refusal(bytes: Vec<u8>) -> String {
    match Session::from_bytes(bytes, &Options::default()) {
        Ok(_) => panic!("it was loaded"),
        Err(error) => error.to_string(),
    }
}

/// `y = x + w`, with these further fields.
fn sum(more: &[Vec<u8>]) -> Vec<u8> {
    let fields =
        [value(11, "x", &[-1, 2]), value(12, "y", &[-1, 2]), node("add", "Add", &["x", "w"], &["y"], &[])];
    model(&[&fields[..], more].concat())
}

fn w() -> Vec<u8> {
    stored("w", &[2], &[0, 0, 128, 63, 0, 0, 0, 64])
}

fn tensor(shape: &[usize]) -> Value {
    let count = shape.iter().product();
    Value::Tensor(Tensor::new(shape.to_vec(), Data::F32(vec![1.0; count])).unwrap())
}

#[test]
fn a_sound_model_runs() {
    let session = Session::from_bytes(sum(&[w()]), &Options::default()).unwrap();
    let found = session.run(&[("x", &tensor(&[3, 2]))], &["y", "y"], &RunOptions::default()).unwrap();
    let wanted = Tensor::new(vec![3, 2], Data::F32([2.0, 3.0].repeat(3))).unwrap();
    assert_eq!(found, [Value::Tensor(wanted.clone()), Value::Tensor(wanted)]);
    assert_eq!(session.bytes(), 8);
    assert_eq!(session.inputs()[0].kind.to_string(), "float32 [rows, 2]");
}

#[test]
fn files_that_are_no_models_are_refused() {
    assert!(refusal(Vec::new()).contains("empty"));
    assert!(refusal(b"GGUF and some more".to_vec()).contains("not an ONNX model"));
    assert!(refusal(int(1, 9)).contains("the file holds none"));
    let whole = sum(&[w()]);
    for length in 1..whole.len() {
        // A file that ends between two fields is still one, without what is behind.
        let _ = Session::from_bytes(whole[..length].to_vec(), &Options::default());
    }
}

#[test]
fn graphs_with_cycles_doubles_and_gaps_are_refused_by_name() {
    let cycle = model(&[
        value(11, "x", &[1]),
        value(12, "y", &[1]),
        node("first", "Add", &["x", "c"], &["a"], &[]),
        node("second", "Add", &["a", "x"], &["b"], &[]),
        node("third", "Add", &["b", "x"], &["c"], &[]),
        node("last", "Add", &["c", "x"], &["y"], &[]),
    ]);
    let text = refusal(cycle);
    assert!(text.contains("cycle") && text.contains("first") && text.contains("third"), "{text}");
    assert!(!text.contains("last"), "{text}");
    assert!(refusal(sum(&[])).contains("node add (Add, ai.onnx 18): its input 'w' is no input"));
    assert!(
        refusal(sum(&[w(), node("again", "Add", &["x", "w"], &["y"], &[])])).contains("'y' is defined twice")
    );
    assert!(refusal(sum(&[w(), w()])).contains("'w' is defined twice"));
    let other = model(&[value(11, "x", &[1]), value(12, "z", &[1]), node("n", "Abs", &["x"], &["y"], &[])]);
    assert!(refusal(other).contains("output 'z' is made by no node"));
    let domain = node("n", "Abs", &["x"], &["y"], &[field(7, b"com.example")]);
    let text = refusal(model(&[value(11, "x", &[1]), value(12, "y", &[1]), domain]));
    assert!(text.contains("com.example") && text.contains("imports no version"), "{text}");
}

#[test]
fn nodes_may_stand_in_any_order() {
    let turned = model(&[
        value(11, "x", &[1]),
        value(12, "y", &[1]),
        node("second", "Neg", &["a"], &["y"], &[]),
        node("first", "Abs", &["x"], &["a"], &[]),
    ]);
    let session = Session::from_bytes(turned, &Options::default()).unwrap();
    let found = session.run(&[("x", &tensor(&[1]))], &["y"], &RunOptions::default()).unwrap();
    assert_eq!(found, [Value::Tensor(Tensor::new(vec![1], Data::F32(vec![-1.0])).unwrap())]);
}

#[test]
fn missing_operators_are_refused_by_name_with_what_to_do() {
    let graph = [value(11, "x", &[1]), value(12, "y", &[1]), node("n_7", "NoSuch", &["x"], &["y"], &[])];
    let text = refusal(model(&graph));
    for part in ["node n_7 (NoSuch, ai.onnx 18)", "Convert the model", "ONNX Runtime"] {
        assert!(text.contains(part), "{text}");
    }
    // Beside an operator of `ai.onnx.ml` there is no other runtime.
    let ml = field(7, b"ai.onnx.ml");
    let binarizer = node("b", "Binarizer", &["x"], &["a"], &[ml]);
    let graph =
        [value(11, "x", &[1]), value(12, "y", &[1]), binarizer, node("c", "Conv", &["a"], &["y"], &[])];
    assert!(refusal(model(&graph)).contains("not supported: node c (Conv, ai.onnx 18)"));
}

#[test]
fn tensors_whose_shape_and_bytes_disagree_are_refused() {
    let text = refusal(sum(&[stored("w", &[3], &[0; 8])]));
    assert!(text.contains("'w'") && text.contains("takes 12 bytes, and it has 8"), "{text}");
    // Ten gigabytes that are not there, and sizes that no machine counts.
    let text = refusal(sum(&[stored("w", &[2_500_000_000], &[0; 8])]));
    assert!(text.contains("takes 10000000000 bytes, and it has 8"), "{text}");
    assert!(refusal(sum(&[stored("w", &[1 << 40, 1 << 40], &[0; 8])])).contains("too many elements"));
    assert!(refusal(sum(&[stored("w", &[-1], &[0; 8])])).contains("shape is [-1]"));
    assert!(refusal(sum(&[stored("w", &[1; 17], &[0; 4])])).contains("17 dimensions"));
}

#[test]
fn data_beside_the_model_are_read_and_stay_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    std::fs::write(folder.path().join("data"), [0, 0, 0, 0, 0, 0, 128, 63, 0, 0, 0, 64]).unwrap();
    let load = |entries: &[(&str, &str)]| {
        std::fs::write(&path, sum(&[external("w", &[2], entries)])).unwrap();
        Session::load(&path, &Options::default())
    };
    let session = load(&[("location", "data"), ("offset", "4"), ("length", "8")]).unwrap();
    let found = session.run(&[("x", &tensor(&[1, 2]))], &["y"], &RunOptions::default()).unwrap();
    assert_eq!(found, [Value::Tensor(Tensor::new(vec![1, 2], Data::F32(vec![2.0, 3.0])).unwrap())]);
    let says = |entries: &[(&str, &str)], part: &str| {
        let text = load(entries).err().unwrap().to_string();
        assert!(text.contains(part), "{text}");
    };
    says(&[("location", "data"), ("offset", "8"), ("length", "8")], "which has 12 bytes");
    says(&[("location", "data"), ("offset", "18446744073709551615"), ("length", "8")], "which has 12 bytes");
    says(&[("location", "data"), ("offset", "4"), ("length", "4")], "takes 8 bytes, and it has 4");
    says(&[("location", "../data")], "only a file beside the model");
    says(&[("location", "/etc/passwd")], "only a file beside the model");
    says(&[("offset", "0")], "not named");
    says(&[("location", "absent")], "absent");
    #[cfg(unix)]
    {
        let outside = tempfile::NamedTempFile::new().unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join("link")).unwrap();
        says(&[("location", "link")], "leaves the model's folder");
    }
    let memory = Session::from_bytes(std::fs::read(&path).unwrap(), &Options::default());
    assert!(memory.err().unwrap().to_string().contains("from memory"));
}

#[test]
fn inputs_are_checked_against_the_model() {
    let session = Session::from_bytes(sum(&[w()]), &Options::default()).unwrap();
    let says = |inputs: &[(&str, &Value)], part: &str| {
        let text = session.run(inputs, &["y"], &RunOptions::default()).unwrap_err().to_string();
        assert!(text.contains(part), "{text}");
    };
    says(&[], "input 'x': it is missing");
    says(&[("z", &tensor(&[1, 2]))], "its inputs are x");
    says(&[("x", &tensor(&[1, 2])), ("x", &tensor(&[1, 2]))], "given twice");
    says(&[("x", &tensor(&[1, 3]))], "shape [1, 3] is not float32 [rows, 2]");
    says(&[("x", &tensor(&[2]))], "shape [2] is not");
    let wide = Value::Tensor(Tensor::new(vec![1, 2], Data::F64(vec![0.0; 2])).unwrap());
    says(&[("x", &wide)], "its elements are float32, not float64");
    let one = tensor(&[1, 2]);
    let unknown = session.run(&[("x", &one)], &["q"], &RunOptions::default()).unwrap_err();
    assert!(unknown.to_string().contains("no output 'q'; its outputs are y"));
    let stop = RunOptions { stop: Some(&|| true), ..RunOptions::default() };
    assert!(matches!(session.run(&[("x", &one)], &["y"], &stop), Err(Error::Stopped)));
}

/// A tree of two leaves with one list changed, as the error for it.
fn tree(name: &str, values: &[i64]) -> String {
    let ints = |name: &str, values: &[i64]| {
        let list: Vec<u8> = values.iter().flat_map(|&n| int(8, n)).collect();
        field(5, &[field(1, name.as_bytes()), list, int(20, 7)].concat())
    };
    let floats = |name: &str, values: &[f32]| {
        let list: Vec<u8> = values.iter().flat_map(|x| [&[0x3d][..], &x.to_le_bytes()].concat()).collect();
        field(5, &[field(1, name.as_bytes()), list, int(20, 6)].concat())
    };
    let modes: Vec<u8> =
        ["BRANCH_LEQ", "LEAF", "LEAF"].iter().flat_map(|mode| field(9, mode.as_bytes())).collect();
    let mut more = vec![
        field(7, b"ai.onnx.ml"),
        field(5, &[field(1, b"nodes_modes"), modes, int(20, 8)].concat()),
        floats("nodes_values", &[0.5, 0.0, 0.0]),
        floats("target_weights", &[1.0, 2.0]),
    ];
    let lists: [(&str, &[i64]); 8] = [
        ("nodes_treeids", &[0, 0, 0]),
        ("nodes_nodeids", &[0, 1, 2]),
        ("nodes_featureids", &[0, 0, 0]),
        ("nodes_truenodeids", &[1, 0, 0]),
        ("nodes_falsenodeids", &[2, 0, 0]),
        ("target_treeids", &[0, 0]),
        ("target_nodeids", &[1, 2]),
        ("target_ids", &[0, 0]),
    ];
    more.extend(lists.map(|(list, usual)| ints(list, if list == name { values } else { usual })));
    let graph = [
        value(11, "x", &[-1, 2]),
        value(12, "y", &[-1, 1]),
        node("tree_1", "TreeEnsembleRegressor", &["x"], &["y"], &more),
    ];
    match Session::from_bytes(model(&graph), &Options::default()) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn trees_that_are_none_are_refused_with_the_place() {
    assert_eq!(tree("", &[]), "");
    let text = tree("nodes_falsenodeids", &[7, 0, 0]);
    let whole = "node tree_1 (TreeEnsembleRegressor, ai.onnx.ml 3): attribute nodes_falsenodeids: 7 at 0 is not a node \
                 of tree 0, which has 3";
    assert_eq!(text, whole);
    assert!(tree("nodes_truenodeids", &[0, 0, 0]).contains("reached twice"));
    assert!(tree("nodes_truenodeids", &[2, 0, 0]).contains("reached twice"));
    assert!(tree("nodes_nodeids", &[0, 1, 1]).contains("second node of that number"));
    assert!(tree("nodes_featureids", &[-1, 0, 0]).contains("-1 at 0 is no feature"));
    assert!(tree("nodes_featureids", &[i64::MAX, 0, 0]).contains("is no feature"));
    assert!(tree("nodes_treeids", &[0, 0]).contains("has 2 entries, and nodes_nodeids has 3"));
    assert!(tree("target_ids", &[0, 5]).contains("target 5"));
    assert!(tree("target_nodeids", &[1, 9]).contains("node 9 of tree 0"));
}
