//! Models of scikit-learn, LightGBM and XGBoost, against ONNX Runtime's outputs (tools/fixtures/onnx_ml.py).

use std::collections::BTreeSet;

use onnx::{Data, NeuralThreads, Options, RunOptions, Runtime, Session, Tensor, Value};

use crate::fixtures::{folder, near, read, value};

/// ONNX Runtime sums in another order, on its threads: a few units in the last place of `f32`.
const TOLERANCE: f64 = 1e-5;

/// The names of all fixtures.
fn names() -> BTreeSet<String> {
    let files = std::fs::read_dir(folder("ml")).unwrap();
    files.map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

/// Values with their names.
type Named = Vec<(String, Value)>;

/// The model's inputs and outputs by name.
fn case(name: &str) -> (Session, Named, Named) {
    let session = Session::load(&folder("ml").join(format!("{name}.onnx")), &Options::default());
    let session = session.unwrap_or_else(|error| panic!("{name}: {error}"));
    let told = read(&folder("ml").join(format!("{name}.json")));
    let values = |side: &str| -> Named {
        told[side].as_object().unwrap().iter().map(|(key, json)| (key.clone(), value(json))).collect()
    };
    (session, values("inputs"), values("outputs"))
}

fn run(
    session: &Session,
    inputs: &[(String, Value)],
    wanted: &[(String, Value)],
    run: &RunOptions,
) -> Vec<Value> {
    let inputs: Vec<(&str, &Value)> = inputs.iter().map(|(name, value)| (&**name, value)).collect();
    let wanted: Vec<&str> = wanted.iter().map(|(name, _)| &**name).collect();
    session.run(&inputs, &wanted, run).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn models_give_what_onnx_runtime_gives() {
    let names = names();
    for name in &names {
        let path = folder("ml").join(format!("{name}.onnx"));
        let needed = Session::bytes_needed(&path, &Options::default()).unwrap();
        let (session, ..) = case(name);
        assert!(session.bytes() as u64 <= needed, "{name}: {} of {needed} bytes", session.bytes());
    }
    assert!(names.len() > 40, "{} fixtures", names.len());
    let mut wrong = Vec::new();
    for name in &names {
        let (session, inputs, outputs) = case(name);
        let found = run(&session, &inputs, &outputs, &RunOptions::default());
        for ((output, wanted), found) in outputs.iter().zip(&found) {
            if let Err(difference) = near(found, wanted, TOLERANCE) {
                wrong.push(format!("{name}, output {output}: {difference}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn other_graphs_are_run_by_rten_and_say_so() {
    let (session, inputs, outputs) = case("network");
    assert_eq!(session.runtime(), Runtime::Rten);
    let own = Options { neural: false, ..Options::default() };
    let refused = Session::load(&folder("ml").join("network.onnx"), &own).err().unwrap().to_string();
    assert!(refused.contains("node conv (Conv, ai.onnx 18)"), "{refused}");
    assert!(session.bytes() > 0);
    let threads = NeuralThreads::new(2);
    let options = RunOptions { neural: Some(&threads), ..RunOptions::default() };
    for ((name, wanted), found) in outputs.iter().zip(run(&session, &inputs, &outputs, &options)) {
        near(&found, wanted, TOLERANCE).unwrap_or_else(|difference| panic!("{name}: {difference}"));
    }
    let large = Value::Tensor(Tensor::new(vec![2, 2], Data::I64(vec![1 << 40; 4])).unwrap());
    let bad = [("image", &inputs.iter().find(|(name, _)| name == "image").unwrap().1), ("ids", &large)];
    let text = session.run(&bad, &["sum"], &options).unwrap_err().to_string();
    assert!(text.contains("input 'ids'") && text.contains("32 bits"), "{text}");
}

#[test]
fn results_do_not_depend_on_threads_or_on_the_other_rows() {
    let pool = cpu::Pool::new(3, None).unwrap();
    let with_pool = RunOptions { pool: Some(&pool), ..RunOptions::default() };
    let rows = |value: &Value, from: usize, count: usize, times: usize| {
        let Value::Tensor(tensor) = value else { panic!("a map") };
        let (Data::F32(data), [_, cols]) = (tensor.data(), tensor.shape()) else { panic!("no matrix") };
        let data = data[from * cols..][..count * cols].repeat(times);
        Value::Tensor(Tensor::new(vec![count * times, *cols], Data::F32(data)).unwrap())
    };
    for name in ["lightgbm-multi-missing", "xgboost-binary", "forest-regressor", "extra-trees", "svc-rbf"] {
        let (session, inputs, outputs) = case(name);
        let output: Vec<_> =
            outputs.into_iter().filter(|(_, value)| matches!(value, Value::Tensor(_))).collect();
        let (input, x) = &inputs[0];
        let run = |x: Value, options: &RunOptions| run(&session, &[(input.clone(), x)], &output, options);
        let many = run(rows(x, 0, 37, 9), &RunOptions::default());
        assert_eq!(many, run(rows(x, 0, 37, 9), &with_pool), "{name}");
        let seventh = run(rows(x, 7, 1, 1), &with_pool);
        for (all, one) in many.iter().zip(&seventh) {
            let (Value::Tensor(all), Value::Tensor(one)) = (all, one) else { panic!("a map") };
            if let (Data::F32(all), Data::F32(one)) = (all.data(), one.data()) {
                assert_eq!(&all[(37 + 7) * one.len()..][..one.len()], &one[..], "{name}");
            }
        }
    }
}
