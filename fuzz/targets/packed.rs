//! Files of packed weights: what comes before them, and the index alone, whose checksum no change by chance would meet.
//!
//! Looks for: a panic, and a matrix outside the file or in another one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weights::packed::{Index, parse};

fn check(index: &Index, data_bytes: u64) {
    let mut end = 0;
    for slot in &index.slots {
        assert!(slot.start >= end, "{} is in another matrix", slot.role);
        end = slot.start.checked_add(slot.bytes).expect("a place in a file");
    }
    assert!(end <= data_bytes, "outside the file");
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(index) = parse(bytes) {
        check(&index, bytes.len() as u64);
    }
    let Some((length, json)) = bytes.split_first_chunk() else { return };
    let data_bytes = u64::from_le_bytes(*length);
    if let Ok(index) = Index::read(json, data_bytes) {
        check(&index, data_bytes);
    }
});
