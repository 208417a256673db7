//! The admin page at `/`: upstreams, traffic, cost, budgets and keys. Its files are in `page/`, inside the program.
//!
//! They hold no secret and are served without a key; what the page asks of the admin API carries the key that its user
//! has typed in. A browser that shows it loads nothing from elsewhere, runs nothing that is not in these files and parses
//! no HTML from text ([`POLICY`]): the name of an upstream or a key cannot become code.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use sha2::{Digest, Sha256};

use crate::state::Shared;

struct File {
    path: &'static str,
    kind: &'static str,
    text: &'static str,
}

macro_rules! files {
    ($($path:literal: $kind:literal = $name:literal,)*) => {
        [$(File { path: $path, kind: $kind, text: include_str!(concat!("page/", $name)) },)*]
    };
}

const FILES: [File; 8] = files! {
    "/": "text/html; charset=utf-8" = "index.html",
    "/page/style.css": "text/css; charset=utf-8" = "style.css",
    "/page/icon.svg": "image/svg+xml" = "icon.svg",
    "/page/main.js": "text/javascript; charset=utf-8" = "main.js",
    "/page/api.js": "text/javascript; charset=utf-8" = "api.js",
    "/page/build.js": "text/javascript; charset=utf-8" = "build.js",
    "/page/traffic.js": "text/javascript; charset=utf-8" = "traffic.js",
    "/page/views.js": "text/javascript; charset=utf-8" = "views.js",
};

/// Content-Security-Policy, level 3, with Trusted Types: nothing inline, nothing from elsewhere, no HTML from strings,
/// not inside another page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// What each file is sent with. `no-cache` lets a browser keep it and ask, by its ETag, whether it is still the same.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::CACHE_CONTROL, "no-cache"),
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The page's routes.
pub(crate) fn routes() -> Router<Arc<Shared>> {
    FILES.iter().fold(Router::new(), |router, file| {
        let etag = etag(file.text);
        router.route(file.path, get(async move |sent: HeaderMap| answer(file, &etag, &sent)))
    })
}

/// The page's own path that this is, if it is one.
pub(crate) fn path(path: &str) -> Option<&'static str> {
    FILES.iter().map(|file| file.path).find(|own| *own == path)
}

/// Bytes of the hash that an ETag holds.
const ETAG_BYTES: usize = 12;

fn etag(text: &str) -> String {
    let hash = Sha256::digest(text.as_bytes());
    let hex: String = hash.iter().take(ETAG_BYTES).map(|byte| format!("{byte:02x}")).collect();
    format!("\"{hex}\"")
}

fn answer(file: &'static File, etag: &str, sent: &HeaderMap) -> Response {
    let mut response = if has(sent, etag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let mut full = Response::new(Body::from(file.text));
        full.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(file.kind));
        full
    };
    let headers = response.headers_mut();
    if let Ok(etag) = HeaderValue::from_str(etag) {
        headers.insert(header::ETAG, etag);
    }
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether the browser has the file already: RFC 9110, 13.1.2, with the weak comparison.
fn has(sent: &HeaderMap, etag: &str) -> bool {
    let lists = sent.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = lists.flat_map(|list| list.split(',')).map(str::trim);
    tags.any(|tag| tag == "*" || tag.trim_start_matches("W/") == etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_whole() {
        let bytes: usize = FILES.iter().map(|file| file.text.len()).sum();
        assert!(bytes < 60_000, "{bytes} bytes");
        for file in &FILES {
            let quoted = file.text.split(['"', '\'', '`']);
            for name in quoted.filter(|name| name.starts_with("./") || name.starts_with("/page/")) {
                let name = name.replace("./", "/page/");
                assert!(path(&name).is_some(), "{} names {name}, which is not served", file.path);
            }
        }
    }

    #[test]
    fn nothing_is_inline_or_from_elsewhere_or_parsed_as_html() {
        for file in &FILES {
            for word in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "Function(",
                " style=",
            ] {
                assert!(!file.text.contains(word), "{} has {word}", file.path);
            }
            for (at, _) in file.text.match_indices("://") {
                let rest = &file.text[at..(at + 20).min(file.text.len())];
                assert!(rest.starts_with("://www.w3.org/20"), "{}: {rest}", file.path);
            }
        }
        let html = FILES[0].text;
        for word in ["<style", "onclick=", "onload=", "<script>"] {
            assert!(!html.contains(word), "index.html has {word}");
        }
    }
}
