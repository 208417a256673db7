//! The page at `/`: a chat, `/live`, plots of what `/metrics` says, and `/jobs`. Its files are in `page/`, inside the program.
//!
//! They hold no secret and are served without a key; what the page asks of the API carries the key that its user gave.
//! A browser that shows it may load nothing from elsewhere, run nothing that is not in these files and parse no HTML
//! from text ([`POLICY`]): what a model says cannot become code, whatever the page's own code does with it.

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use sha2::{Digest, Sha256};

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

const FILES: [File; 15] = files! {
    "/": "text/html; charset=utf-8" = "index.html",
    "/live": "text/html; charset=utf-8" = "index.html",
    "/jobs": "text/html; charset=utf-8" = "index.html",
    "/page/style.css": "text/css; charset=utf-8" = "style.css",
    "/page/icon.svg": "image/svg+xml" = "icon.svg",
    "/page/main.js": "text/javascript; charset=utf-8" = "main.js",
    "/page/api.js": "text/javascript; charset=utf-8" = "api.js",
    "/page/chat.js": "text/javascript; charset=utf-8" = "chat.js",
    "/page/jobs.js": "text/javascript; charset=utf-8" = "jobs.js",
    "/page/live.js": "text/javascript; charset=utf-8" = "live.js",
    "/page/markdown.js": "text/javascript; charset=utf-8" = "markdown.js",
    "/page/metrics.js": "text/javascript; charset=utf-8" = "metrics.js",
    "/page/models.js": "text/javascript; charset=utf-8" = "models.js",
    "/page/plot.js": "text/javascript; charset=utf-8" = "plot.js",
    "/page/settings.js": "text/javascript; charset=utf-8" = "settings.js",
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
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    FILES.iter().fold(Router::new(), |router, file| {
        let etag = etag(file.text);
        router.route(file.path, get(async move |sent: HeaderMap| answer(file, &etag, &sent)))
    })
}

/// The page's own path that this is, if it is one.
pub(crate) fn path(path: &str) -> Option<&'static str> {
    FILES.iter().map(|file| file.path).find(|own| *own == path)
}

fn etag(text: &str) -> HeaderValue {
    let hash = Sha256::digest(text.as_bytes());
    let hex: String = hash.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    HeaderValue::from_str(&format!("\"{hex}\"")).expect("hex digits between quotes")
}

fn answer(file: &'static File, etag: &HeaderValue, sent: &HeaderMap) -> Response {
    let mut response = if has(sent, etag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let mut full = Response::new(Body::from(file.text));
        full.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(file.kind));
        full
    };
    let headers = response.headers_mut();
    headers.insert(header::ETAG, etag.clone());
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether the browser has the file already: RFC 9110, 13.1.2, with the weak comparison.
fn has(sent: &HeaderMap, etag: &HeaderValue) -> bool {
    let lists = sent.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = lists.flat_map(|list| list.split(',')).map(str::trim);
    tags.any(|tag| tag == "*" || tag.trim_start_matches("W/").as_bytes() == etag.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_whole() {
        // `index.html` is there three times.
        let bytes: usize = FILES.iter().skip(2).map(|file| file.text.len()).sum();
        assert!(bytes < 100_000, "{bytes} bytes");
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
            for word in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("]
            {
                assert!(!file.text.contains(word), "{} has {word}", file.path);
            }
            let addresses =
                file.text.match_indices("://").map(|(at, _)| &file.text[at..(at + 20).min(file.text.len())]);
            // The namespace of SVG is a name, and a test of what a link may begin with is none.
            let foreign = addresses.filter(|rest| rest[3..].starts_with(|c: char| c.is_ascii_alphabetic()));
            assert!(
                foreign.clone().all(|rest| rest.starts_with("://www.w3.org/20")),
                "{}: {:?}",
                file.path,
                foreign.collect::<Vec<_>>()
            );
        }
        let html = FILES[0].text;
        for word in [" style=", "<style", "onclick=", "onload=", "<script>"] {
            assert!(!html.contains(word), "index.html has {word}");
        }
    }

    /// A field's default stands in grey in the page; it must be what the server does.
    #[test]
    fn the_defaults_that_the_page_shows_are_the_servers() {
        let html = FILES[0].text;
        let d = service::Params::default();
        for (field, value) in [
            ("temperature", d.temperature.to_string()),
            ("top_p", d.top_p.to_string()),
            ("top_k", d.top_k.to_string()),
            ("min_p", d.min_p.to_string()),
            ("repetition_penalty", d.repeat_penalty.to_string()),
            ("presence_penalty", d.presence_penalty.to_string()),
            ("frequency_penalty", d.frequency_penalty.to_string()),
            ("typical_p", d.typical_p.to_string()),
        ] {
            let tag =
                html.lines().find(|line| line.contains(&format!("data-field=\"{field}\""))).expect(field);
            assert!(tag.contains(&format!("placeholder=\"{value}\"")), "{field} is {value}: {tag}");
        }
    }

    /// And each field is one that the server reads: a bad value of it is refused by name.
    #[test]
    fn the_fields_that_the_page_has_are_the_servers() {
        let fields =
            FILES[0].text.split("data-field=\"").skip(1).map(|rest| rest.split('"').next().expect("a name"));
        let fields: Vec<&str> = fields.collect();
        assert!(fields.len() > 10, "{fields:?}");
        for field in fields {
            let body =
                format!(r#"{{"messages":[{{"role":"user","content":"a"}}],"{field}":{{"no":"value"}}}}"#);
            let fault = wire::ChatRequest::parse(body.as_bytes()).expect_err(field);
            assert_eq!(fault.param.as_deref(), Some(field));
        }
    }
}
