//! Triton's `config.pbtxt`: the text format of protocol buffers, and the configuration that it is read into.
//!
//! Looks for: a panic, a name of a file outside the model's folder, dimensions and counts beyond their ranges.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::oip::{Datatype, ModelConfig, Signature, TensorSpec, model_config};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(config) = ModelConfig::parse(text) else { return };
    let tensors = || config.inputs.iter().chain(&config.outputs);
    assert!(tensors().flat_map(|tensor| &tensor.dims).all(|dim| *dim == -1 || *dim > 0));
    let files = tensors().filter_map(|tensor| tensor.labels.as_deref()).chain(config.file.as_deref());
    for file in files {
        assert!(!file.starts_with('/') && !file.split('/').any(|part| part == ".."));
    }
    // A model that is as the configuration says: only the platform may not fit.
    let specs = |tensors: &[wire::oip::ConfigTensor]| -> Vec<TensorSpec> {
        let spec = |tensor: &wire::oip::ConfigTensor| {
            TensorSpec::new(tensor.name.clone(), tensor.datatype, &config.shape(tensor)).optional()
        };
        tensors.iter().map(spec).collect()
    };
    let signature = Signature {
        inputs: specs(&config.inputs),
        outputs: specs(&config.outputs),
        platform: if config.is_ensemble() { "ensemble" } else { "onnxruntime_onnx" }.into(),
        decoupled: true,
    };
    if let Ok(checked) = config.check(&signature) {
        assert_eq!(checked.signature.inputs.len(), signature.inputs.len());
        model_config("m", &checked.signature, Some(&config));
    }
    let other = Signature { inputs: vec![TensorSpec::new("x", Datatype::Fp32, &[2])], ..signature };
    let _ = config.check(&other);
});
