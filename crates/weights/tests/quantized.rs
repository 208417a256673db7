//! Layers that other libraries quantized, against what those libraries read back. Fixtures: `tools/fixtures/quantized.py`.

#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tensor::{Dtype, dequantize};
use weights::{Element, Opened, Repacked, open};

use crate::opened::{directory, text};

fn fixture(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/quantized").join(case)
}

/// The weights of all rows, made `at_once` rows at a time.
fn floats(weight: Repacked<'_>, at_once: usize) -> Vec<f32> {
    let [rows, cols] = weight.shape;
    let (dtype, row_bytes) = (weight.dtype(), weight.dtype().row_bytes(cols).unwrap());
    let mut all = vec![0.0; rows * cols];
    for (piece, out) in all.chunks_mut(at_once * cols).enumerate() {
        let mut blocks = vec![0xaa; out.len() / cols * row_bytes];
        weight.rows_into(piece * at_once, &mut blocks).unwrap();
        dequantize(dtype, &blocks, out).unwrap();
    }
    all
}

#[test]
fn layers_are_bit_for_bit_what_their_library_reads() {
    let cases = [
        ("awq", Dtype::Q5_0),
        ("gptq", Dtype::Q5_0),
        ("gptq-v2", Dtype::Q5_0),
        ("gptq-8", Dtype::Q8_0),
        ("packed-4", Dtype::Q4_0),
        ("packed-4-zeros", Dtype::Q5_0),
        ("packed-8", Dtype::Q8_0),
        ("int-8", Dtype::Q8_0),
        ("float-8", Dtype::BF16),
        ("fp8", Dtype::BF16),
    ];
    for (case, dtype) in cases {
        let opened = open(&fixture(case)).unwrap();
        assert_eq!(opened.quantization().unwrap().refused, None, "{case}");
        let names: Vec<&str> = opened.tensors().map(|t| t.name).collect();
        assert_eq!(names.len(), 2, "{case}: {names:?}");
        let info = opened.info("model.a.weight").unwrap();
        assert_eq!((info.element, info.shape), (Element::Weights(dtype), &[40, 128][..]), "{case}");
        assert!(opened.tensor("model.a.weight").is_none(), "{case}: no slice of the file is the weight");
        assert!(opened.tensor("model.b.weight").is_some() && opened.repacked("model.b.weight").is_none());
        let weight = opened.repacked("model.a.weight").unwrap();
        assert!(opened.place_of(weight.codes).is_some(), "{case}");
        let expected = fs::read(fixture(case).join("weight.f32")).unwrap();
        let expected: Vec<f32> =
            expected.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
        for at_once in [40, 16, 1, 23] {
            let got = floats(weight, at_once);
            for (i, (got, want)) in got.iter().zip(&expected).enumerate() {
                // A library's zero may be negative.
                let same = got.to_bits() == want.to_bits() || (*got == 0.0 && *want == 0.0);
                assert!(same, "{case} by {at_once}: weight {i} is {got} and not {want}");
            }
        }
    }
}

/// A tensor of a file: name, type, shape, bytes.
type Stored = (&'static str, &'static str, Vec<usize>, Vec<u8>);

fn file(tensors: &[Stored]) -> Vec<u8> {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, dtype, shape, bytes) in tensors {
        let offsets = [data.len(), data.len() + bytes.len()];
        header.insert((*name).to_owned(), json!({"dtype": dtype, "shape": shape, "data_offsets": offsets}));
        data.extend_from_slice(bytes);
    }
    let mut header = Value::Object(header).to_string();
    header.extend(std::iter::repeat_n(' ', (8 - header.len() % 8) % 8));
    let length = (header.len() as u64).to_le_bytes();
    [&length[..], header.as_bytes(), &data].concat()
}

fn model(settings: Value, tensors: &[Stored]) -> (tempfile::TempDir, Opened) {
    let dir = directory(&[
        ("config.json", text(json!({"quantization_config": settings}))),
        ("model.safetensors", file(tensors)),
    ]);
    let opened = open(dir.path()).unwrap();
    (dir, opened)
}

fn refused(settings: Value, tensors: &[Stored]) -> String {
    let (_dir, opened) = model(settings, tensors);
    assert!(opened.tensors().len() == tensors.len(), "the tensors stay as they are");
    opened.quantization().unwrap().refused.clone().expect("it is refused")
}

/// A layer of GPTQ with 8 outputs and 64 inputs in two groups.
fn gptq() -> Vec<Stored> {
    let order: Vec<u8> = (0..64i32).flat_map(|at| (at / 32).to_le_bytes()).collect();
    vec![
        ("a.qweight", "I32", vec![8, 8], vec![0x77; 256]),
        ("a.qzeros", "I32", vec![2, 1], vec![0x77; 8]),
        ("a.scales", "F16", vec![2, 8], [0, 0x2c].repeat(16)),
        ("a.g_idx", "I32", vec![64], order),
    ]
}

#[test]
fn a_method_that_is_not_read_is_named_with_those_that_are() {
    for method in ["hqq", "bitsandbytes", "exl2", ""] {
        let said = refused(json!({"quant_method": method}), &gptq());
        assert!(said.contains("awq, compressed-tensors, fp8 and gptq are read"), "{said}");
    }
    let cases = [
        (json!({"quant_method": "gptq", "bits": 3}), "bits in quantization_config is 3; read: 4, 8"),
        (json!({"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"}), "checkpoint_format"),
        (json!({"quant_method": "gptq", "bits": 4, "dynamic": {"-:.*": {}}}), "dynamic"),
        (
            json!({"quant_method": "awq", "bits": 4, "version": "gemv"}),
            "version in quantization_config is gemv",
        ),
        (
            json!({"quant_method": "compressed-tensors", "format": "marlin-24"}),
            "marlin-24; read: pack-quantized",
        ),
        (
            json!({"quant_method": "compressed-tensors", "sparsity_config": {"format": "sparse-24-bitmask"}}),
            "sparse",
        ),
        (
            json!({"quant_method": "compressed-tensors", "transform_config": {"config_groups": {"r": {}}}}),
            "config_groups",
        ),
        (json!({"quant_method": "fp8", "fmt": "e5m2"}), "fmt in quantization_config is e5m2"),
        (json!({"quant_method": "fp8"}), "no tensor that is quantized so"),
    ];
    for (settings, part) in cases {
        let said = refused(settings.clone(), &gptq());
        assert!(said.contains(part), "{settings}: {said}");
    }
    let off = json!({"quant_method": "bitsandbytes", "load_in_4bit": false, "load_in_8bit": false});
    assert_eq!(model(off, &gptq()).1.quantization(), None);
    assert_eq!(model(Value::Null, &gptq()).1.quantization(), None);
}

#[test]
fn abuse_layers_that_lie_are_refused_by_tensor() {
    let settings = json!({"quant_method": "gptq", "bits": 4});
    let (_dir, opened) = model(settings.clone(), &gptq());
    // All codes are 7 and zero points 8, under a scale of 1/16.
    assert!(floats(opened.repacked("a.weight").unwrap(), 8).iter().all(|w| *w == -0.0625));
    let with = |at: usize, shape: &[usize], bytes: usize| {
        let mut tensors = gptq();
        tensors[at].2 = shape.to_vec();
        tensors[at].3 = vec![0; bytes];
        refused(settings.clone(), &tensors)
    };
    assert!(with(0, &[8, 8, 1], 256).contains("tensor a.qweight is I32 [8, 8, 1]"));
    assert!(with(0, &[0, 8], 0).contains("a.qweight"));
    assert!(with(1, &[2, 2], 16).contains("a: its zero points take 8 bytes, 16 were given"));
    assert!(with(2, &[3, 8], 48).contains("tensor a.scales is [3, 8]"));
    let said = with(2, &[4, 8], 64);
    assert!(said.contains("columns out of the order of their groups"), "{said}");
    assert!(with(2, &[0, 8], 0).contains("tensor a.scales is [0, 8]"));
    let said = with(3, &[64], 256);
    assert!(said.contains("a.g_idx: columns out of the order") && said.contains("desc_act"), "{said}");
    let mut missing = gptq();
    missing.remove(1);
    assert!(refused(settings.clone(), &missing).contains("tensor a.qzeros is missing"));
    let mut whole = gptq();
    whole[2] = ("a.scales", "I32", vec![2, 8], vec![0; 64]);
    assert!(
        refused(settings, &whole).contains("tensor a.scales is I32; scales are read in F32, F16 and BF16")
    );
}

/// A packed layer of 2 outputs and 32 inputs.
fn packed(cols: i64, words: usize, scale: [u8; 4]) -> Vec<Stored> {
    let shape = [2, cols].iter().flat_map(|n: &i64| n.to_le_bytes()).collect();
    vec![
        ("a.weight_packed", "I32", vec![2, words], vec![0x9f; 8 * words]),
        ("a.weight_scale", "F32", vec![2, 1], [scale, scale].concat()),
        ("a.weight_shape", "I64", vec![2], shape),
        ("a.input_scale", "F32", vec![1], vec![0; 4]),
    ]
}

#[test]
fn abuse_shapes_and_scales_of_packed_layers_are_checked() {
    let settings = json!({"quant_method": "compressed-tensors", "format": "pack-quantized"});
    let (_dir, opened) = model(settings.clone(), &packed(32, 4, 0.5f32.to_le_bytes()));
    assert_eq!(floats(opened.repacked("a.weight").unwrap(), 1)[..2], [3.5, 0.5]);
    for cols in [0, -32, i64::MAX, i64::MIN, 31, 33] {
        let said = refused(settings.clone(), &packed(cols, 4, 0.5f32.to_le_bytes()));
        assert!(
            said.contains("bits a weight; 4 and 8") || said.contains("multiples of 32"),
            "{cols}: {said}"
        );
    }
    for scale in [f32::NAN, f32::INFINITY, 70_000.0] {
        let (_dir, opened) = model(settings.clone(), &packed(32, 4, scale.to_le_bytes()));
        let error = opened.repacked("a.weight").unwrap().rows_into(0, &mut [0; 36]).unwrap_err();
        assert!(error.to_string().contains("the scale in row 0, column 0"), "{error}");
    }
    // A scale that no f16 is: the nearest one.
    let (_dir, opened) = model(settings, &packed(32, 4, 0.1f32.to_le_bytes()));
    let got = floats(opened.repacked("a.weight").unwrap(), 2)[1];
    assert!((got - 0.1).abs() <= 0.1 / 2048.0, "{got}");
}

#[test]
fn a_code_too_far_from_its_zero_point_is_an_error_with_its_place() {
    let mut tensors = gptq();
    tensors[0] = ("a.qweight", "I32", vec![16, 8], vec![200; 512]);
    tensors[1] = ("a.qzeros", "I32", vec![2, 2], vec![9; 16]);
    let (_dir, opened) = model(json!({"quant_method": "gptq", "bits": 8}), &tensors);
    let weight = opened.repacked("a.weight").unwrap();
    let error = weight.rows_into(0, &mut [0; 8 * 68]).unwrap_err().to_string();
    assert_eq!(error, "the weight in row 0, column 0 is 190 steps from zero; Q8_0 holds -128 to 127");
}
