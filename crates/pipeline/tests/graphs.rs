//! Definitions: what is read, what is refused, and in which order steps run.

use std::sync::Arc;

use pipeline::{Definition, Plan};
use wire::oip::{Datatype, ModelConfig, Signature, TensorSpec};

const HEAD: &str =
    "[[input]]\nname = \"x\"\ndatatype = \"FP32\"\nshape = [-1, 3]\n[[output]]\nname = \"y\"\n";

fn parse(text: &str) -> Result<Definition, String> {
    Definition::parse(text, &|name| match name {
        "labels.txt" => Ok("ant\nbee\ncat\n".into()),
        _ => Err(format!("there is no file {name}")),
    })
}

/// A step that makes one tensor of others.
fn step(input: &str, output: &str) -> String {
    format!("[[step]]\nkind = \"softmax\"\ninput = \"{input}\"\noutput = \"{output}\"\n")
}

fn model(name: &str, version: Option<u64>) -> Result<Arc<Signature>, String> {
    let spec = |name, shape: &[i64]| TensorSpec::new(name, Datatype::Fp32, shape);
    match (name, version) {
        ("net", None) => Ok(Arc::new(Signature {
            inputs: vec![spec("in", &[-1, 3])],
            outputs: vec![spec("out", &[-1, 3]), spec("more", &[-1, 7])],
            platform: "onnxruntime_onnx".into(),
            decoupled: false,
        })),
        _ => Err(format!("there is no model {name}")),
    }
}

#[test]
fn steps_run_behind_what_they_take() {
    let text = format!("{HEAD}{}{}{}", step("b", "y"), step("x", "a"), step("a", "b"));
    let definition = parse(&text).unwrap();
    let outputs: Vec<&str> = definition.steps.iter().map(|step| step.outputs[0].as_str()).collect();
    assert_eq!(outputs, ["a", "b", "y"]);
    let plan = Plan::new(definition, &model).unwrap();
    assert_eq!(plan.signature.outputs, [TensorSpec::new("y", Datatype::Fp32, &[-1, 3])]);
    assert_eq!(plan.needed(&[]), [0, 1, 2]);
}

#[test]
fn graphs_that_cannot_run_are_refused_by_name() {
    let cycle = format!("{HEAD}{}{}{}", step("x", "y"), step("b", "a"), step("a", "b"));
    for (text, words) in [
        (cycle, "wait for one another: 2 (softmax) → 3 (softmax) → 2 (softmax)"),
        (
            format!("{HEAD}{}{}", step("x", "y"), step("x", "y")),
            "\"y\" is made by the step 1 (softmax) and by the step 2",
        ),
        (format!("{HEAD}{}", step("q", "y")), "takes \"q\", which nothing makes"),
        (format!("{HEAD}{}", step("x", "z")), "nothing makes the output \"y\""),
        (format!("{HEAD}{}", step("x", "x")), "\"x\" is made by the request and by the step"),
        (format!("{HEAD}[[step]]\nkind = \"dream\"\n"), "none of cast, concat"),
        (format!("{HEAD}{}colour = 1\n", step("x", "y")), "colour"),
        (
            format!(
                "{HEAD}[[step]]\nkind = \"labels\"\ninput = \"x\"\noutput = \"y\"\nlabels-file = \"../l\"\n"
            ),
            "no file ../l",
        ),
        (
            format!(
                "{HEAD}[[step]]\nkind = \"image\"\ninput = \"x\"\noutput = \"y\"\nwidth = 0\nheight = 1\n"
            ),
            "width is 0",
        ),
        ("[[input]]\nname = \"x\"\ndatatype = \"FP33\"\n[[output]]\nname=\"y\"\n[[step]]\n".into(), "kind"),
        (String::new(), "input"),
        ("#".repeat(70_000), "the limit is"),
    ] {
        let why = parse(&text).expect_err(&text);
        assert!(why.contains(words), "{text}: {why}");
    }
}

#[test]
fn tensors_are_checked_against_models() {
    let with =
        |step: &str| parse(&format!("{HEAD}{step}")).and_then(|definition| Plan::new(definition, &model));
    let net = |rest: &str| format!("[[step]]\nkind = \"model\"\nmodel = \"net\"\n{rest}\n");
    let good = with(&net("inputs = { in = \"x\" }\noutputs = { more = \"y\" }")).unwrap();
    assert_eq!(good.signature.outputs[0].shape, [-1, 7]);
    let labelled = format!(
        "{}[[step]]\nkind = \"labels\"\ninput = \"s\"\noutput = \"y\"\nlabels-file = \"labels.txt\"\n",
        net("inputs = { in = \"x\" }\noutputs = { out = \"s\" }")
    );
    let spec = with(&labelled).unwrap().signature.outputs[0].clone();
    assert_eq!((spec.datatype, spec.shape), (Datatype::Bytes, vec![-1]));
    for (step, words) in [
        (net("inputs = { in = \"x\" }\noutputs = { less = \"y\" }"), "net has no output \"less\"; its outputs are: out, more"),
        (net("inputs = { on = \"x\" }\noutputs = { out = \"y\" }"), "net has no input \"on\""),
        (net("version = 2\ninputs = { in = \"x\" }\noutputs = { out = \"y\" }"), "there is no model net"),
        (labelled.replace("out = \"s\"", "more = \"s\""), "has 7 scores in a row; there are 3 labels"),
        ("[[step]]\nkind = \"image\"\ninput = \"x\"\noutput = \"y\"\nwidth = 2\nheight = 2\n".into(), "its input is FP32; it must be BYTES"),
        ("[[step]]\nkind = \"tokenize\"\nmodel = \"net\"\ninput = \"x\"\noutputs = { input_ids = \"y\" }\n".into(), "net is no encoder"),
    ] {
        let why = with(&step).expect_err(&step);
        assert!(why.contains(words) && why.contains("the step 1") || why.contains("the step 2"), "{step}: {why}");
    }
    let narrow = "[[input]]\nname = \"x\"\ndatatype = \"FP32\"\nshape = [-1, 4]\n[[output]]\nname = \"y\"\n";
    let definition =
        parse(&format!("{narrow}{}", net("inputs = { in = \"x\" }\noutputs = { out = \"y\" }"))).unwrap();
    let why = Plan::new(definition, &model).unwrap_err();
    assert!(why.contains("\"x\" has the shape [-1,4], not [-1,3], the input \"in\" of net"), "{why}");
}

#[test]
fn an_ensemble_of_triton_is_a_pipeline() {
    let text = "platform: 'ensemble' max_batch_size: 8\n\
        input { name: 'x' data_type: TYPE_FP32 dims: 3 } output { name: 'y' data_type: TYPE_FP32 dims: 3 }\n\
        ensemble_scheduling { step { model_name: 'net' model_version: -1\n\
        input_map { key: 'in' value: 'x' } output_map { key: 'out' value: 'm' } }\n\
        step { model_name: 'net' input_map { key: 'in' value: 'm' } output_map { key: 'out' value: 'y' } } }";
    let definition = Definition::of_ensemble(&ModelConfig::parse(text).unwrap()).unwrap();
    assert_eq!(definition.models(), [("net", None)]);
    let plan = Plan::new(definition, &model).unwrap();
    assert_eq!(plan.signature.inputs[0].shape, [-1, 3]);
    let cycle = text.replace("value: 'x'", "value: 'y'");
    let why = Definition::of_ensemble(&ModelConfig::parse(&cycle).unwrap()).unwrap_err();
    assert!(why.contains("wait for one another: net of line 3 → net of line 5 → net of line 3"), "{why}");
}
