//! The page: what it is sent with, and who gets it.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::frame;

use std::time::Duration;

use frame::{options, ready, unready};
use server::{Keys, Options};

const PATHS: [&str; 5] = ["/", "/live", "/page/style.css", "/page/main.js", "/page/icon.svg"];

fn keyed(page: bool) -> Options {
    let mut keys = Keys::default();
    keys.add("sesame").unwrap();
    Options { http: httpd::Options { keys, ..httpd::Options::default() }, page, ..options() }
}

#[test]
fn every_file_has_its_type_and_the_headers() {
    let server = ready(options(), Duration::ZERO);
    for (path, kind) in
        PATHS.into_iter().zip(["text/html", "text/html", "text/css", "text/javascript", "image/svg"])
    {
        let answer = server.get(path);
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.header("content-type").unwrap().starts_with(kind), "{answer:?}");
        assert!(!answer.body.is_empty());
        let policy = answer.header("content-security-policy").unwrap();
        for rule in ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"]
        {
            assert!(policy.contains(rule), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert!(answer.header("access-control-allow-origin").is_none());
    }
}

#[test]
fn a_browser_that_has_it_is_not_sent_it_again() {
    let server = ready(options(), Duration::ZERO);
    let first = server.get("/page/main.js");
    let etag = first.header("etag").unwrap().to_owned();
    assert_eq!(first.header("cache-control"), Some("no-cache"));
    for (sent, status) in [
        (etag.clone(), 304),
        (format!("\"other\", W/{etag}"), 304),
        ("*".to_owned(), 304),
        ("\"other\"".to_owned(), 200),
        (etag.trim_matches('"').to_owned(), 200),
    ] {
        let again = server.send("GET", "/page/main.js", &[("if-none-match", &sent)], b"");
        assert_eq!(again.status, status, "{sent}");
        assert_eq!(again.body.is_empty(), status == 304);
        assert_eq!(again.header("etag"), Some(etag.as_str()));
        assert!(again.header("content-security-policy").is_some());
    }
    let head = server.send("HEAD", "/", &[], b"");
    assert_eq!(head.status, 200);
}

#[test]
fn it_is_there_before_the_model_is() {
    let server = unready(options(), Duration::from_secs(1));
    assert_eq!(server.get("/").status, 200);
    assert_eq!(server.get("/v1/models").status, 503);
}

#[test]
fn keys_guard_the_api_and_not_the_page() {
    let server = ready(keyed(true), Duration::ZERO);
    for path in PATHS {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    for path in ["/v1/models", "/metrics", "/page/", "/page/secret.js", "/live/", "//", "/page/../metrics"] {
        assert_eq!(server.get(path).status, 401, "{path}");
    }
    // What is posted there is a request to generate.
    assert_eq!(server.send("POST", "/", &[], b"").status, 401);
    assert_eq!(server.send("PUT", "/", &[("authorization", "Bearer sesame")], b"").status, 405);
}

#[test]
fn another_hosts_name_is_refused_for_the_page_too() {
    let server = ready(options(), Duration::ZERO);
    let answer = server.send("GET", "/", &[("host", "evil.example")], b"");
    assert_eq!(answer.status, 421, "{answer:?}");
}

#[test]
fn it_can_be_left_out() {
    for options in [Options { page: false, ..options() }, keyed(false)] {
        let status = if options.http.keys.is_empty() { 404 } else { 401 };
        let server = ready(options, Duration::ZERO);
        for path in PATHS {
            // What Ollama says there is in the page's place.
            let status = if path == "/" && status == 404 { 200 } else { status };
            assert_eq!(server.get(path).status, status, "{path}");
        }
    }
}
