//! What `/metrics` tells on request only.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod frame;

use std::time::Duration;

use events::Process;
use frame::{options, ready};
use serde_json::json;
use server::Options;

#[test]
fn the_process_is_asked_at_each_scrape() {
    let server = ready(options(), Duration::ZERO);
    assert!(!server.get("/metrics").body.contains("process_"));
    let asked = std::sync::atomic::AtomicU64::new(0);
    server.server.measure(move || {
        let files = asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        Process { open_files: Some(files), ..Process::default() }
    });
    // The first one stays.
    server.server.measure(Process::default);
    assert!(server.get("/metrics").body.contains("process_open_fds 1.0\n"));
    assert!(server.get("/metrics").body.contains("process_open_fds 2.0\n"));
}

#[test]
fn llama_servers_names_follow_the_requests() {
    let server = ready(Options { metrics_llamacpp: true, ..options() }, Duration::ZERO);
    assert_eq!(server.chat(json!({"max_tokens": 5, "ignore_eos": true})).status, 200);
    server.until("nothing running", |stats| stats.running == 0);
    let text = server.get("/metrics").body;
    assert!(text.contains("\nllamacpp:tokens_predicted_total 5\n"), "{text}");
    assert!(text.contains("\nllamacpp:requests_processing 0\n"), "{text}");
    assert!(!ready(options(), Duration::ZERO).get("/metrics").body.contains("llamacpp:"));
}
