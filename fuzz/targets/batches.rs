//! Files of batch lines and bodies of message batches, in pieces. Input: a byte that chooses between the two and says how
//! the rest is cut, and the file or body.
//!
//! Looks for: a panic, a result that depends on how the bytes were cut, more lines than the rules allow, and a request
//! whose parameters are not JSON.
#![no_main]

use jobs::{FileRules, Line, Request, RequestReader, RequestRules, RequestsError, Validator};
use libfuzzer_sys::fuzz_target;

const MAX_REQUESTS: u64 = 16;
const MAX_BYTES: usize = 512;

fn lines(bytes: &[u8], piece: usize) -> (Vec<Line>, Vec<jobs::FileError>) {
    let rules = FileRules {
        max_lines: MAX_REQUESTS,
        max_line_bytes: MAX_BYTES,
        ..FileRules::for_endpoint("/v1/chat/completions")
    };
    let mut validator = Validator::new(rules);
    let mut all = Vec::new();
    for piece in bytes.chunks(piece) {
        all.extend(validator.feed(piece));
    }
    let (last, errors) = validator.finish();
    all.extend(last);
    (all, errors)
}

fn requests(bytes: &[u8], piece: usize) -> (Vec<Request>, Result<u64, RequestsError>) {
    let rules = RequestRules { max_requests: MAX_REQUESTS, max_request_bytes: MAX_BYTES };
    let mut reader = RequestReader::new(rules);
    let mut all = Vec::new();
    for piece in bytes.chunks(piece) {
        if let Err(error) = reader.feed(piece, |request| all.push(request)) {
            return (all, Err(error));
        }
    }
    (all, reader.finish())
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let piece = 1 + usize::from(choice >> 1);
    if choice & 1 == 0 {
        let whole = lines(bytes, bytes.len().max(1));
        assert_eq!(lines(bytes, piece), whole);
        assert!(whole.0.len() as u64 <= MAX_REQUESTS);
    } else {
        let whole = requests(bytes, bytes.len().max(1));
        assert_eq!(requests(bytes, piece), whole);
        for request in &whole.0 {
            serde_json::from_slice::<serde_json::Value>(&request.params).expect("parameters in JSON");
        }
    }
});
