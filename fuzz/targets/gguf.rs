//! GGUF files: header, metadata and tensor records.
//!
//! Looks for: a panic, memory out of proportion to the file, and a tensor that is said to lie outside the file, to share
//! bytes with another, or to have another size than its shape and type say.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weights::Element;

fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = weights::gguf::parse(bytes) else { return };
    assert!(file.data_start <= bytes.len().next_multiple_of(file.alignment.max(1) as usize));
    let _ = file.split();
    let mut order: Vec<_> = file.tensors.iter().collect();
    order.sort_by_key(|tensor| tensor.range.start);
    for pair in order.windows(2) {
        assert!(pair[0].range.end <= pair[1].range.start, "{} shares bytes", pair[0].name);
    }
    for tensor in &file.tensors {
        assert!(tensor.range.start >= file.data_start, "{} is in the header", tensor.name);
        assert!(bytes.get(tensor.range.clone()).is_some(), "{} is outside the file", tensor.name);
        if let Element::Weights(dtype) = tensor.element {
            let count = tensor.shape.iter().product();
            assert_eq!(dtype.row_bytes(count), Some(tensor.range.len()), "{}", tensor.name);
        }
    }
});
