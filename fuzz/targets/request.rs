//! Request bodies, as each endpoint reads them. Input: a letter that chooses the reader, and the body.
//!
//! Looks for: a panic, an overflow, and a refusal that is not a client error with one readable line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{Fault, bodies};

/// The letters, and the paths whose bodies they stand for.
const LETTERS: [(u8, &str); 30] = [
    (b'm', "/v1/messages"),
    (b'n', "/v1/messages/count_tokens"),
    (b'r', "/v1/responses"),
    (b't', "/tokenize"),
    (b'd', "/detokenize"),
    (b'p', "/v1/completions"),
    (b'c', "/v1/chat/completions"),
    (b'g', "/generate"),
    (b'l', "/completion"),
    (b'i', "/infill"),
    (b'o', "/api/chat"),
    (b'a', "/api/generate"),
    (b's', "/api/show"),
    (b'e', "/v1/embeddings"),
    (b'1', "/v1/embed"),
    (b'2', "/v2/embed"),
    (b'k', "/v2/rerank"),
    (b'K', "/rerank"),
    (b'x', "/score"),
    (b'y', "/classify"),
    (b'P', "/pooling"),
    (b'E', "/embed"),
    (b'R', "/predict"),
    (b'S', "/similarity"),
    (b'h', "/pipeline/text-classification"),
    (b'H', "/pipeline/token-classification"),
    (b'b', "/api/embed"),
    (b'B', "/api/embeddings"),
    (b'N', "/v1/entities"),
    (b'C', "/v1/chunk"),
];

const _: () = assert!(LETTERS.len() == bodies::ALL.len(), "a reader of `bodies::ALL` has no letter");

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
    // Seeds of before begin with the body.
    let chosen = LETTERS.iter().find(|(letter, _)| letter == kind).map(|(_, path)| *path);
    let body = if chosen.is_some() { body } else { bytes };
    for (path, read) in bodies::ALL {
        if chosen.is_none_or(|chosen| chosen == path)
            && let Err(fault) = read(body)
        {
            check(bytes, &fault);
        }
    }
});
