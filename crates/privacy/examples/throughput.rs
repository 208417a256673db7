//! Megabytes a second that the rules read: `cargo run --release -p privacy --example throughput [FILE]`.
//!
//! Without a file, a text is made of sentences, one in forty of which has a finding. Also read: numbers without spaces, which
//! end no fast path, and texts that nearly are many findings.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "an example that prints what it measures"
)]

use privacy::{Redaction, Rules};
use std::sync::Arc;
use std::time::Instant;

/// Sentences of the King James Bible and of Darwin's "Origin of Species", both in the public domain.
const SENTENCES: [&str; 8] = [
    "In the beginning God created the heaven and the earth.",
    "And the earth was without form, and void; and darkness was upon the face of the deep.",
    "When on board H.M.S. Beagle, as naturalist, I was much struck with certain facts in the distribution of the inhabitants of \
     South America, and in the geological relations of the present to the past inhabitants of that continent.",
    "These facts seemed to me to throw some light on the origin of species, that mystery of mysteries, as it has been called by \
     one of our greatest philosophers.",
    "On my return home, it occurred to me, in 1837, that something might perhaps be made out on this question.",
    "After five years' work I allowed myself to speculate on the subject, and drew up some short notes.",
    "My work is now nearly finished; but as it will take me two or three more years to complete it.",
    "And God said, Let there be light: and there was light.",
];

fn text(megabytes: usize) -> String {
    let mut out = String::new();
    for at in 0.. {
        out.push_str(SENTENCES[at % SENTENCES.len()]);
        out.push(if at % 5 == 4 { '\n' } else { ' ' });
        if at % 40 == 39 {
            out.push_str("Write to charles@example.org or call +44 20 7946 0958. ");
        }
        if out.len() > megabytes << 20 {
            break;
        }
    }
    out
}

fn measure(name: &str, text: &str, mut act: impl FnMut(&str) -> usize) {
    // The best of many short runs, so that other programs on the machine do not count.
    let mut best = f64::INFINITY;
    let mut count = 0;
    for _ in 0..40 {
        let start = Instant::now();
        count = act(text);
        best = best.min(start.elapsed().as_secs_f64());
    }
    let speed = text.len() as f64 / 1e6 / best;
    println!(
        "{name:24} {:6.2} MB  {:8.2} ms  {speed:7.1} MB/s  {count} findings",
        text.len() as f64 / 1e6,
        best * 1e3
    );
}

fn main() {
    let settings = privacy::Settings { max_findings: 10_000, ..Default::default() };
    let Ok(rules) = Rules::new(&settings) else { return };
    let rules = Arc::new(rules);
    let english = match std::env::args().nth(1).map(std::fs::read_to_string) {
        Some(Ok(file)) => file,
        _ => text(1),
    };
    let find = |text: &str| rules.find(text).len();
    measure("English", &english, find);
    measure("redacted", &english, |text| {
        let mut redaction = Redaction::new(rules.clone());
        redaction.redact(text).map_or(0, |_| redaction.len())
    });
    let megabyte = |pattern: &str| pattern.repeat((1 << 20) / pattern.len());
    for (name, pattern) in [
        ("digits", "7"),
        ("digits in groups", "1234 "),
        ("dates and numbers", "2024-03-15 10:30:45,123 4111111111111112 "),
        ("at signs", "a@"),
        ("colons", "a:b::"),
        ("JSON", "{\"id\": 12345678, \"token_count\": 17, \"name\": \"x\"}, "),
        ("Cyrillic", "Когда я плыл на корабле "),
        ("fullwidth digits", "１２３４ "),
        ("begin of keys", "-----BEGIN PRIVATE KEY----- "),
        ("begin of IBANs", "GB82 WEST 1234 5698 7654 33 "),
        ("base64", "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo0"),
    ] {
        measure(name, &megabyte(pattern), find);
    }
}
