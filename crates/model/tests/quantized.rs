//! Directories that other libraries quantized run as the same weights in floats do.

use crate::runner;

use cpu::Tier;
use kernels::{KvDtype, Precision};
use model::{PackedCache, Spec};
use runner::{Runner, fixtures};
use serde_json::{Map, Value, json};
use std::path::Path;
use tempfile::TempDir;
use weights::Opened;

/// Tensors of a safetensors file as they are written: header and bytes.
#[derive(Default)]
struct File {
    header: Map<String, Value>,
    data: Vec<u8>,
}

impl File {
    fn push(&mut self, name: &str, dtype: &str, shape: &[usize], bytes: &[u8]) {
        let offsets = [self.data.len(), self.data.len() + bytes.len()];
        self.header.insert(name.to_owned(), json!({"dtype": dtype, "shape": shape, "data_offsets": offsets}));
        self.data.extend_from_slice(bytes);
    }

    fn folder(mut self, config: &Value) -> TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let mut header = Value::Object(std::mem::take(&mut self.header)).to_string();
        header.extend(std::iter::repeat_n(' ', (8 - header.len() % 8) % 8));
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &self.data].concat();
        std::fs::write(folder.path().join("model.safetensors"), bytes).expect("written");
        std::fs::write(folder.path().join("config.json"), config.to_string()).expect("written");
        folder
    }
}

/// The fixture with the matrices of its layers in 8 bits and a scale to each row, and with the same weights in F32.
fn eight_bits(opened: &Opened) -> (TempDir, TempDir) {
    let (mut codes, mut floats) = (File::default(), File::default());
    for info in opened.tensors() {
        let tensor = opened.tensor(info.name).expect("fixtures are weights");
        let Some(stem) = info.name.strip_suffix("_proj.weight") else {
            for to in [&mut codes, &mut floats] {
                to.push(info.name, tensor.dtype.name(), info.shape, tensor.bytes);
            }
            continue;
        };
        let mut values = vec![0.0; info.shape.iter().product()];
        tensor::dequantize(tensor.dtype, tensor.bytes, &mut values).expect("whole rows");
        let (mut stored, mut scales, mut wide) = (Vec::new(), Vec::new(), Vec::new());
        for row in values.chunks_exact(info.shape[1]) {
            let most = row.iter().fold(0.0f32, |most, v| most.max(v.abs()));
            let scale = half::bf16::from_f32(most / 127.0);
            scales.extend(scale.to_le_bytes());
            for v in row {
                let code = (v / scale.to_f32()).round().clamp(-128.0, 127.0) as i8;
                stored.push(code as u8);
                wide.extend((f32::from(code) * scale.to_f32()).to_le_bytes());
            }
        }
        codes.push(info.name, "I8", info.shape, &stored);
        codes.push(&format!("{stem}_proj.weight_scale"), "BF16", &[info.shape[0], 1], &scales);
        codes.push(&format!("{stem}_proj.input_scale"), "F32", &[1], &[0; 4]);
        floats.push(info.name, "F32", info.shape, &wide);
    }
    let mut config = opened.metadata().hugging_face().expect("a directory").config.clone();
    let floats = floats.folder(&config);
    config["quantization_config"] = json!({"quant_method": "compressed-tensors", "format": "int-quantized"});
    (codes.folder(&config), floats)
}

fn logits(path: &Path, precision: Precision, cache: PackedCache) -> (Vec<f32>, bool) {
    let spec = Spec::read(&weights::open(path).expect("a model")).expect("a spec");
    let (mut runner, cached) = Runner::cached(path, spec, Tier::best(), precision, KvDtype::F16, cache);
    assert!(cached.errors.is_empty(), "{:?}", cached.errors);
    (runner.prompt(&(0..40).collect::<Vec<u32>>(), 9), cached.used)
}

#[test]
fn quantized_layers_compute_what_their_weights_in_floats_do() {
    // One has separate matrices, the other queries, keys and values (and gate and up) in one.
    for case in ["llama-3", "phi3"] {
        let opened = weights::open(&fixtures().join(case)).expect("a fixture");
        let (codes, floats) = eight_bits(&opened);
        let (wide, _) = logits(floats.path(), Precision::F32, PackedCache::Off);
        let (narrow, _) = logits(codes.path(), Precision::F32, PackedCache::Off);
        assert_eq!(narrow, wide, "{case}");
    }
}

#[test]
fn quantized_layers_come_back_from_packed_weights() {
    let opened = weights::open(&fixtures().join("llama-3")).expect("a fixture");
    let (codes, _) = eight_bits(&opened);
    let (first, used) = logits(codes.path(), Precision::Fast, PackedCache::Map);
    assert!(!used);
    let (second, used) = logits(codes.path(), Precision::Fast, PackedCache::Map);
    assert!(used && first == second);
}

#[test]
fn abuse_a_scale_that_is_no_number_fails_the_load_by_name() {
    let opened = weights::open(&fixtures().join("llama-3")).expect("a fixture");
    let (codes, _) = eight_bits(&opened);
    let path = codes.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).expect("written");
    let name = "model.layers.1.mlp.up_proj.weight_scale";
    let header = u64::from_le_bytes(*bytes.first_chunk().expect("a length")) as usize;
    let said: Value = serde_json::from_slice(&bytes[8..8 + header]).expect("a header");
    let at = 8 + header + said[name]["data_offsets"][0].as_u64().expect("an offset") as usize;
    bytes[at..at + 2].copy_from_slice(&half::bf16::NAN.to_le_bytes());
    std::fs::write(&path, bytes).expect("written");
    let opened = weights::open(codes.path()).expect("a model");
    let compute = kernels::Compute::new(Tier::best(), cpu::Pool::new(1, None).expect("threads"));
    let error = model::Model::load(&opened, &compute, Precision::Fast, &mut |_| ()).err().expect("NaN");
    let said = error.to_string();
    assert!(said.contains("up_proj.weight: the scale in row 0, column 0 is NaN"), "{said}");
}
