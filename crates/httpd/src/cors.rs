//! The origins whose pages may use the server (the Fetch standard's CORS), as `--cors-origin` names them.

use axum::http::HeaderValue;
use wire::error::quote;

/// Most origins.
const ORIGINS: usize = 64;
/// The origins whose pages may use the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// None is any.
    origins: Option<Vec<String>>,
}

impl Cors {
    /// These origins, each `scheme://host` with a port where it is not the scheme's own, `null`, or `*` for any.
    ///
    /// # Errors
    /// In words, when one is no origin, or there are too many.
    pub fn new(origins: &[String]) -> Result<Cors, String> {
        if origins.len() > ORIGINS {
            return Err(format!("{} origins are given; at most {ORIGINS} are allowed", origins.len()));
        }
        if origins.iter().any(|origin| origin == "*") {
            return Ok(Cors { origins: None });
        }
        let origins: Result<Vec<String>, String> = origins.iter().map(|origin| checked(origin)).collect();
        Ok(Cors { origins: Some(origins?) })
    }

    /// Whether any origin may use the server.
    pub fn is_open(&self) -> bool {
        self.origins.is_none()
    }

    pub(crate) fn allows(&self, origin: &HeaderValue) -> bool {
        match &self.origins {
            None => true,
            Some(known) => origin.to_str().is_ok_and(|o| known.iter().any(|k| k.eq_ignore_ascii_case(o))),
        }
    }
}

/// An origin as browsers send it: no path, and no slash at the end.
fn checked(origin: &str) -> Result<String, String> {
    if origin == "null" {
        return Ok(origin.to_owned());
    }
    let bad = |why: &str| Err(format!("{} is no origin: {why}", quote(origin)));
    let Some((scheme, host)) = origin.split_once("://") else {
        return bad("it must be as https://chat.example.org, or *");
    };
    let scheme_is_good =
        !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    let host_is_good =
        !host.is_empty() && host.bytes().all(|b| b.is_ascii_graphic() && !b"/?#@\\".contains(&b));
    if !scheme_is_good || !host_is_good {
        return bad(
            "it must be scheme://host, with a port if it is not the usual one, and no path behind it",
        );
    }
    Ok(origin.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_checked() {
        let of = |origins: &[&str]| Cors::new(&origins.iter().map(|o| (*o).to_owned()).collect::<Vec<_>>());
        let two = of(&["https://Chat.example.org", "http://localhost:3000"]).unwrap();
        let allows = |origin: &'static str| two.allows(&HeaderValue::from_static(origin));
        assert!(allows("https://chat.example.org") && allows("http://localhost:3000") && !two.is_open());
        assert!(!allows("http://chat.example.org") && !allows("http://localhost:3001") && !allows("null"));
        assert!(of(&["http://a", "*"]).unwrap().is_open());
        for bad in ["localhost:3000", "https://a/", "https://", "https://a/b", "://a", "", "https://u@a"] {
            assert!(of(&[bad]).is_err(), "{bad}");
        }
    }
}
