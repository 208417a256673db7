//! Texts that are searched for personal data and secrets, redacted, cut, and restored. Input: a byte that says how the redacted
//! text is cut, and the text.
//!
//! Looks for: a panic, a place that is not on boundaries of characters or overlaps another, a text that does not come back,
//! and more text held back than the longest placeholder.
#![no_main]

use libfuzzer_sys::fuzz_target;
use privacy::{Escape, OwnList, OwnRule, RedactError, Redaction, Rules, Settings};
use std::sync::{Arc, LazyLock};

static RULES: LazyLock<Arc<Rules>> = LazyLock::new(|| {
    let rule = OwnRule {
        name: "employee".into(),
        pattern: "E-[0-9]{2,6}|(a|b)+c".into(),
        score: 60,
        context: vec!["staff".into()],
        label: privacy::Label::Internal,
    };
    let list =
        OwnList { name: "email_2".into(), words: vec!["bluebird".into()], label: privacy::Label::Secret };
    let settings = Settings { rule: vec![rule], list: vec![list], ..Settings::default() };
    Arc::new(Rules::new(&settings).expect("settings"))
});

fuzz_target!(|bytes: &[u8]| {
    let Some((&cut, bytes)) = bytes.split_first() else { return };
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut at = 0;
    for finding in RULES.find(text) {
        assert!(finding.range.start >= at && finding.range.start < finding.range.end);
        assert!(text.get(finding.range.clone()).is_some());
        at = finding.range.end;
    }
    let mut redaction = Redaction::new(RULES.clone());
    let redacted = match redaction.redact(text) {
        Ok(redacted) => redacted,
        Err(RedactError::Findings | RedactError::Values) => return,
        Err(other) => panic!("{other}"),
    };
    // Numbers of placeholders may only grow: the same text again gives the same.
    assert_eq!(redaction.redact(text).as_deref(), Ok(redacted.as_str()));
    assert_eq!(redaction.restore(&redacted), text);
    let mut restorer = redaction.restorer(Escape::None);
    let mut out = String::new();
    let mut rest = redacted.as_str();
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(rest.ceil_char_boundary(1 + usize::from(cut % 32)));
        out.push_str(&restorer.push(piece));
        assert!(restorer.held() <= restorer.longest());
        rest = behind;
    }
    out.push_str(&restorer.finish());
    assert_eq!(out, text);
});
