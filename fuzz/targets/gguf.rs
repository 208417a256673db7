//! GGUF files: header, metadata and tensor records.
//!
//! Looks for: a panic, memory out of proportion to the file, and a tensor that is said to lie outside the file.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(file) = weights::gguf::parse(bytes) {
        assert!(file.data_start <= bytes.len().next_multiple_of(file.alignment.max(1) as usize));
    }
});
