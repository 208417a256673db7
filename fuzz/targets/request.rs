//! Request bodies, as each endpoint reads them. Input: a letter that chooses the parser, and the body.
//!
//! Looks for: a panic, an overflow, and a refusal that is not a client error with one readable line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::tokens::{self, Tokenize};
use wire::{ChatRequest, CompletionRequest, Fault, ResponsesRequest};

fn check(body: &[u8], fault: &Fault) {
    assert!((400..500).contains(&fault.status), "{fault}");
    assert!(fault.message.len() < 2_048, "{} bytes: {fault}", fault.message.len());
    assert!(!fault.message.chars().any(char::is_control), "{fault:?}");
    let body = String::from_utf8_lossy(body);
    for word in ["Some(", "None", "String(", "Number(", "Object {", "Array ["] {
        // What was sent may be shown; an escape in JSON may hide it.
        assert!(!fault.message.contains(word) || body.contains(word) || body.contains('\\'), "{fault}");
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, body)) = bytes.split_first() else { return };
    let outcome = match kind {
        b'r' => ResponsesRequest::parse(body).map(drop),
        b't' => Tokenize::parse(body).map(drop),
        b'd' => tokens::detokenize(body).map(drop),
        b'p' => CompletionRequest::parse(body).map(drop),
        b'c' => ChatRequest::parse(body).map(drop),
        // Seeds of before begin with the body.
        _ => ChatRequest::parse(bytes).map(drop).and(CompletionRequest::parse(bytes).map(drop)),
    };
    if let Err(fault) = outcome {
        check(bytes, &fault);
    }
});
