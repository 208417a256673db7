//! Steps against Pillow and NumPy (`tools/fixtures/pipelines.py`).

use bytes::Bytes;
use pipeline::{Definition, Spec, Work};
use serde_json::Value;
use wire::oip::{Datatype, Tensor, TensorData};

/// Bytes of base64.
fn unbase64(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut out = Vec::new();
    for four in text.trim_end_matches('=').as_bytes().chunks(4) {
        let bits = four.iter().fold(0_u32, |bits, byte| bits << 6 | u32::from(value(*byte)))
            << (6 * (4 - four.len()));
        out.extend(bits.to_be_bytes()[1..four.len()].iter());
    }
    out
}

fn tensor(name: &str, case: &Value) -> Tensor {
    let datatype = Datatype::parse(case["datatype"].as_str().unwrap()).unwrap();
    let shape = case["shape"].as_array().unwrap().iter().map(|dim| dim.as_u64().unwrap() as usize).collect();
    if let Some(strings) = case["strings"].as_array() {
        let strings = strings.iter().map(|text| Bytes::from(text.as_str().unwrap().to_owned())).collect();
        return Tensor::strings(name, shape, strings).unwrap();
    }
    Tensor::raw(name, datatype, shape, unbase64(case["bytes"].as_str().unwrap()).into()).unwrap()
}

/// A value of JSON as TOML.
fn toml(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let entries: Vec<String> =
                map.iter().map(|(key, value)| format!("{key} = {}", toml(value))).collect();
            entries.join("\n")
        }
        other => other.to_string(),
    }
}

/// Runs a pipeline of one step of a kind.
fn run(kind: &str, options: &Value, inputs: &[Tensor], outputs: usize) -> Vec<Tensor> {
    let mut text = String::new();
    for input in inputs {
        let rank = vec!["-1"; input.shape.len()].join(", ");
        let datatype = input.datatype.name();
        text +=
            &format!("[[input]]\nname = \"{}\"\ndatatype = \"{datatype}\"\nshape = [{rank}]\n", input.name);
    }
    let names: Vec<String> = (0..outputs).map(|at| format!("\"y{at}\"")).collect();
    names.iter().for_each(|name| text += &format!("[[output]]\nname = {name}\n"));
    let taken: Vec<String> = inputs.iter().map(|input| format!("\"{}\"", input.name)).collect();
    text += &format!(
        "[[step]]\nkind = \"{kind}\"\ninputs = [{}]\noutputs = [{}]\n{}\n",
        taken.join(", "),
        names.join(", "),
        toml(options)
    );
    let definition = Definition::parse(&text, &|_| Err("there are no files".into())).unwrap();
    let Work::Own(operation) = &definition.steps[0].work else { panic!("{kind} is no operation") };
    let specs: Vec<Spec> = definition.inputs.iter().map(|input| input.spec.clone()).collect();
    let known = operation.check(&specs).unwrap();
    let taken: Vec<&Tensor> = inputs.iter().collect();
    let made = operation.run(&taken, &|| false).unwrap();
    assert_eq!(known.len(), made.len());
    for (spec, tensor) in known.iter().zip(&made) {
        let shape = tensor.shape.iter().map(|dim| i64::try_from(*dim).unwrap()).collect();
        spec.and(&Spec::new(tensor.datatype, shape))
            .unwrap_or_else(|why| panic!("{kind}: what was checked {why}"));
    }
    made
}

fn floats(tensor: &Tensor) -> Vec<f64> {
    let TensorData::Raw(bytes) = &tensor.data else { panic!("numbers") };
    match tensor.datatype {
        Datatype::Fp32 => {
            bytes.as_chunks::<4>().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect()
        }
        _ => bytes.iter().map(|byte| f64::from(*byte)).collect(),
    }
}

#[test]
fn operations_compute_what_numpy_computes() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("fixtures/operations.json")).unwrap();
    for (at, case) in cases.iter().enumerate() {
        let kind = case["kind"].as_str().unwrap();
        let inputs = case["inputs"].as_array().unwrap().iter().enumerate();
        let inputs: Vec<Tensor> = inputs.map(|(at, input)| tensor(&format!("x{at}"), input)).collect();
        let expected: Vec<Tensor> =
            case["outputs"].as_array().unwrap().iter().map(|output| tensor("", output)).collect();
        let made = run(kind, &case["options"], &inputs, expected.len());
        for (made, expected) in made.iter().zip(&expected) {
            assert_eq!(
                (made.datatype, &made.shape),
                (expected.datatype, &expected.shape),
                "case {at}, {kind}"
            );
            if made.datatype != Datatype::Fp32 {
                assert_eq!(made.data, expected.data, "case {at}, {kind}");
                continue;
            }
            for (made, expected) in floats(made).into_iter().zip(floats(expected)) {
                // Both compute in 64 bits; the functions of the two libraries differ in the last one.
                assert!(
                    (made - expected).abs() <= 1e-7 * expected.abs().max(1e-30),
                    "case {at}, {kind}: {made}, not {expected}"
                );
            }
        }
    }
    assert!(cases.len() > 25);
}

#[test]
fn images_are_those_of_pillow() {
    let fixture: Value = serde_json::from_str(include_str!("fixtures/images.json")).unwrap();
    let mut equal = 0;
    for case in fixture["cases"].as_array().unwrap() {
        let (name, step) = (case["file"].as_str().unwrap(), &case["step"]);
        let file = Bytes::from(unbase64(fixture["files"][name].as_str().unwrap()));
        let input = Tensor::strings("x0", vec![1], vec![file]).unwrap();
        let made = run("image", step, &[input], 1).remove(0);
        let expected = tensor("", case);
        assert_eq!((made.datatype, &made.shape), (expected.datatype, &expected.shape), "{name} {step}");
        // The decoders of JPEG round the inverse cosine transform and the upsampling of colours in ways of their own.
        let levels = if made.datatype == Datatype::Fp32 { 255.0 } else { 1.0 };
        let apart: Vec<f64> =
            floats(&made).into_iter().zip(floats(&expected)).map(|(a, b)| (a - b).abs() * levels).collect();
        let (largest, mean) =
            (apart.iter().copied().fold(0.0, f64::max), apart.iter().sum::<f64>() / apart.len() as f64);
        // PNG files are read bit for bit; Pillow takes the passes of some sizes in the other order, which rounds otherwise.
        let (most, most_mean) = if name.ends_with(".png") { (1.01, 0.05) } else { (3.01, 0.5) };
        equal += usize::from(made.data == expected.data);
        assert!(
            largest <= most && mean < most_mean,
            "{name} {step}: {largest} levels apart, {mean} on average"
        );
    }
    assert!(equal >= 25, "{equal} images are equal bit for bit");
}

#[test]
fn files_that_are_no_images_are_refused_in_words() {
    let fixture: Value = serde_json::from_str(include_str!("fixtures/images.json")).unwrap();
    let whole = |name: &str| unbase64(fixture["files"][name].as_str().unwrap());
    let png = whole("rgb.png");
    let mut large = png.clone();
    large[16..24].copy_from_slice(&[0, 0, 64, 0, 0, 0, 64, 0]);
    let cases = [
        (b"GIF89a".to_vec(), "neither a PNG nor a JPEG"),
        (Vec::new(), "neither"),
        (png[..40].to_vec(), "PNG file is not sound"),
        (whole("full.jpg")[..20].to_vec(), "JPEG file"),
        (large, "PNG file"),
    ];
    let text = "[[input]]\nname = \"x\"\ndatatype = \"BYTES\"\nshape = [-1]\n[[output]]\nname = \"y\"\n\
                [[step]]\nkind = \"image\"\ninput = \"x\"\noutput = \"y\"\nwidth = 8\nheight = 8\n";
    let definition = Definition::parse(text, &|_| Err(String::new())).unwrap();
    let Work::Own(operation) = &definition.steps[0].work else { panic!("an operation") };
    for (file, words) in cases {
        let input = Tensor::strings("x", vec![1], vec![file.into()]).unwrap();
        let why = operation.run(&[&input], &|| false).unwrap_err();
        assert!(why.contains(words) && why.contains("image 0"), "{why}");
    }
    let many = Tensor::strings("x", vec![65], vec![Bytes::from(png); 65]).unwrap();
    assert!(operation.run(&[&many], &|| false).unwrap_err().contains("at most 64 images"));
}
