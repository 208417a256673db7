//! What the writer writes, the reader reads: every metadata type, and tensors of several formats.

#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use proptest::prelude::*;
use tensor::Dtype;
use weights::gguf::{Array, Metadata, Value, write};
use weights::{Tensor, open};

fn array() -> impl Strategy<Value = Array> {
    use proptest::collection::vec;
    let flat = prop_oneof![
        vec(any::<u8>(), 0..5).prop_map(Array::U8),
        vec(any::<i8>(), 0..5).prop_map(Array::I8),
        vec(any::<u16>(), 0..5).prop_map(Array::U16),
        vec(any::<i16>(), 0..5).prop_map(Array::I16),
        vec(any::<u32>(), 0..5).prop_map(Array::U32),
        vec(any::<i32>(), 0..5).prop_map(Array::I32),
        vec(any::<u64>(), 0..5).prop_map(Array::U64),
        vec(any::<i64>(), 0..5).prop_map(Array::I64),
        vec(-1e9..1e9f32, 0..5).prop_map(Array::F32),
        vec(-1e9..1e9f64, 0..5).prop_map(Array::F64),
        vec(any::<bool>(), 0..5).prop_map(Array::Bool),
        vec(".{0,8}", 0..5).prop_map(|list| Array::String(list.into())),
    ];
    prop_oneof![flat.clone(), proptest::collection::vec(flat, 0..3).prop_map(Array::Array)]
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u8>().prop_map(Value::U8),
        any::<i8>().prop_map(Value::I8),
        any::<u16>().prop_map(Value::U16),
        any::<i16>().prop_map(Value::I16),
        any::<u32>().prop_map(Value::U32),
        any::<i32>().prop_map(Value::I32),
        any::<u64>().prop_map(Value::U64),
        any::<i64>().prop_map(Value::I64),
        (-1e9..1e9f32).prop_map(Value::F32),
        (-1e9..1e9f64).prop_map(Value::F64),
        any::<bool>().prop_map(Value::Bool),
        ".{0,20}".prop_map(Value::String),
        array().prop_map(Value::Array),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_reads_back_equal(
        values in proptest::collection::vec(value(), 0..8),
        align in prop_oneof![Just(None), (3u32..8).prop_map(|power| Some(1 << power))],
        rows in 1usize..4,
        seed in any::<u8>(),
    ) {
        let mut metadata = Metadata::default();
        for (i, value) in values.into_iter().enumerate() {
            metadata.insert(format!("key.{i}"), value);
        }
        if let Some(align) = align {
            metadata.insert("general.alignment".to_owned(), Value::U32(align));
        }
        let formats = [(Dtype::Q6_K, 256), (Dtype::F32, 3), (Dtype::Q4_0, 64)];
        let bytes: Vec<Vec<u8>> = formats
            .iter()
            .map(|(dtype, cols)| (0..rows * dtype.row_bytes(*cols).unwrap()).map(|i| i as u8 ^ seed).collect())
            .collect();
        let tensors: Vec<Tensor<'_>> = formats
            .iter()
            .zip(&bytes)
            .map(|(&(dtype, cols), bytes)| Tensor { name: dtype.name(), dtype, shape: vec![rows, cols], bytes })
            .collect();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("written.gguf");
        write(&path, &metadata, &tensors).unwrap();
        let read = open(&path).unwrap();
        prop_assert_eq!(read.metadata().gguf().unwrap(), &metadata);
        for (tensor, info) in tensors.iter().zip(read.tensors()) {
            let read = read.tensor(info.name).unwrap();
            prop_assert_eq!((read.name, read.dtype, &read.shape), (tensor.name, tensor.dtype, &tensor.shape));
            prop_assert_eq!(read.bytes, tensor.bytes);
        }
    }
}

#[test]
fn a_file_that_cannot_be_written_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut metadata = Metadata::default();
    metadata.insert("general.alignment".to_owned(), Value::U32(3));
    let error = write(&dir.path().join("wrong.gguf"), &metadata, &[]).unwrap_err();
    assert!(error.to_string().contains("power of two"), "{error}");
    assert!(write(&dir.path().join("absent/x.gguf"), &Metadata::default(), &[]).is_err());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
