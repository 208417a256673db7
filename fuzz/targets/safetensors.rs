//! Safetensors files: the JSON header and where it says the tensors are.
//!
//! Looks for: a panic, and a tensor outside the file or of another size than its shape and type say.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weights::Element;

fuzz_target!(|bytes: &[u8]| {
    let Ok(tensors) = weights::safetensors::parse(bytes) else { return };
    for tensor in tensors {
        assert!(bytes.get(tensor.range.clone()).is_some(), "{} is outside the file", tensor.name);
        if let Element::Weights(dtype) = tensor.element {
            let count = tensor.shape.iter().product();
            assert_eq!(dtype.row_bytes(count), Some(tensor.range.len()), "{}", tensor.name);
        }
    }
});
