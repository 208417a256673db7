//! Records that nodes push to a gateway.
//!
//! Looks for: a panic, a refusal that is no client error with one readable line, and a record that is read otherwise
//! once it was written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::node::{NodeLoad, NodePush, NodeRecord};

fuzz_target!(|bytes: &[u8]| {
    if let Some(load) = std::str::from_utf8(bytes).ok().and_then(NodeLoad::read_header) {
        assert_eq!(NodeLoad::read_header(&load.header()), Some(load));
    }
    match NodePush::parse(bytes) {
        Ok(push) => {
            let again = serde_json::to_vec(&push).expect("records serialize");
            assert!(NodePush::parse(&again).is_ok());
        }
        Err(fault) => {
            assert!((400..500).contains(&fault.status), "{fault}");
            assert!(fault.message.len() < 2_048 && !fault.message.chars().any(char::is_control), "{fault:?}");
        }
    }
    let _ = NodeRecord::parse(bytes);
});
