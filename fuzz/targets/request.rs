//! Request bodies, as `/v1/chat/completions` and `/v1/completions` read them.
//!
//! Looks for: a panic, an overflow, and a refusal that is not a client error with one readable line.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let _ = wire::ChatRequest::parse(body);
    let _ = wire::CompletionRequest::parse(body);
});
