//! Translation between the APIs' dialects: heads, edits, requests, answers, streams, scanners and errors. Input: a byte that
//! chooses the dialects, a byte that cuts the rest, and the body or stream.
//!
//! Looks for: a panic, a body that a head took and `serde_json` does not, an edit that is not JSON any more, and a scanner
//! or translator whose result depends on how the bytes were cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use translation::{
    AnswerOptions, Dialect, Edit, Framing, Head, RequestOptions, Scanner, ScannerOptions, StreamTranslator,
};

fn scan(dialect: Dialect, framing: Framing, pieces: &[&[u8]]) -> String {
    let options = ScannerOptions { collect_bytes: 256, max_event_bytes: 4096, ..ScannerOptions::default() };
    let mut scanner = Scanner::new(dialect, framing, options);
    let fed = pieces.iter().try_for_each(|piece| scanner.feed(piece));
    let ending = scanner.end();
    if fed.is_err() { String::new() } else { format!("{ending:?} {:?}", scanner.state()) }
}

fn stream(from: Dialect, to: Dialect, pieces: &[&[u8]]) -> Vec<u8> {
    let mut translator = StreamTranslator::new(from, to, AnswerOptions::default());
    let mut out = Vec::new();
    for piece in pieces {
        if translator.feed(piece, &mut out).is_err() {
            break;
        }
    }
    translator.finish(&mut out);
    out
}

fuzz_target!(|bytes: &[u8]| {
    let [choice, cut, body @ ..] = bytes else { return };
    let (from, to) = (Dialect::ALL[usize::from(choice & 3)], Dialect::ALL[usize::from(choice >> 2 & 3)]);
    if let Ok(head) = Head::read(from, body) {
        assert!(serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok());
        let edit = Edit {
            model: Some("m"),
            include_usage: true,
            cache_salt: None,
            extra: &[("user", json!("u")), ("n", Value::Null)],
        };
        let edited = head.rewrite(body, &edit);
        let again = Head::read(from, &edited).expect("an edited body can be read");
        assert!(again.user.as_deref().is_none_or(|user| user == "u") || from == Dialect::Anthropic);
    }
    let at = usize::from(*cut).min(body.len());
    let pieces = [&body[..at], &body[at..]];
    for framing in [Framing::Events, Framing::Json] {
        assert_eq!(scan(from, framing, &pieces), scan(from, framing, &[body]));
    }
    assert_eq!(stream(from, to, &pieces), stream(from, to, &[body]));
    if let Ok(out) = translation::request(from, to, body, &RequestOptions::default()) {
        assert!(serde_json::from_slice::<serde::de::IgnoredAny>(&out.body).is_ok());
    }
    let _ = translation::answer(from, to, body, &AnswerOptions::default());
    translation::error(to, 400, body);
    translation::classify(429, body);
});
