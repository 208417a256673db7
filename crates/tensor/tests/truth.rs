//! Every format against the `gguf` Python package. Fixtures: `python tools/fixtures/formats.py`.

#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::path::Path;

use tensor::{Dtype, dequantize, quantize};

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

#[test]
fn dequantizes_bit_for_bit_as_gguf_does() {
    for dtype in Dtype::ALL {
        let bytes = fixture(&format!("{dtype}.bin"));
        let expected = floats(&fixture(&format!("{dtype}.f32")));
        assert!(expected.len() >= 1024);
        let mut out = vec![0.0; expected.len()];
        dequantize(dtype, &bytes, &mut out).unwrap();
        for (i, (a, b)) in out.iter().zip(&expected).enumerate() {
            assert_eq!(a.to_bits(), b.to_bits(), "{dtype} weight {i}: {a} and not {b}");
        }
    }
}

#[test]
fn quantizes_as_gguf_does_where_gguf_can() {
    let values = floats(&fixture("values.f32"));
    for dtype in [
        Dtype::F16,
        Dtype::BF16,
        Dtype::Q4_0,
        Dtype::Q4_1,
        Dtype::Q5_0,
        Dtype::Q5_1,
        Dtype::Q8_0,
        Dtype::MXFP4,
        Dtype::TQ1_0,
        Dtype::TQ2_0,
    ] {
        let expected = fixture(&format!("{dtype}.q"));
        let mut out = Vec::new();
        quantize(dtype, &values, &mut out).unwrap();
        let size = dtype.block_bytes();
        for (i, (a, b)) in out.chunks(size).zip(expected.chunks(size)).enumerate() {
            assert_eq!(a, b, "{dtype} block {i}");
        }
        assert_eq!(out.len(), expected.len());
    }
}
