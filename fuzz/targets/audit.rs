//! Files of the audit chain: every line's form, hash and place.
//!
//! Looks for: a panic, a file that is said to be whole and is not so with its own head, more lines counted than there are,
//! a whole file that stays whole when its last line is cut off and the head is known.
#![no_main]

use ledger::audit::verify_bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(summary) = verify_bytes(bytes, None) else { return };
    assert_eq!(verify_bytes(bytes, Some(&summary.head)).as_ref(), Ok(&summary));
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
    assert_eq!(summary.kinds.values().sum::<u64>(), lines);
    assert_eq!(summary.head.seq - summary.first + 1, lines);
    let end = bytes.len() - usize::try_from(summary.unfinished).unwrap_or(0);
    let last = bytes[..end - 1].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    assert!(verify_bytes(&bytes[..last], Some(&summary.head)).is_err());
});
