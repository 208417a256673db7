//! What a request's headers wish: a label, a class, a limit of time.

use std::time::Duration;

use axum::http::HeaderMap;
use privacy::Label;
use wire::Fault;

use crate::config;

/// A request's own label: `public`, `internal` or `secret`. What is known otherwise can only raise it.
const LABEL: &str = "x-gristmill-label";
/// A request's class, at most that of its key.
pub(crate) const CLASS: &str = "x-gristmill-class";
/// A request's time limit in seconds.
const TIMEOUT: &str = "x-request-timeout";

/// What a request's headers wish.
#[derive(Default)]
pub(crate) struct Wishes {
    pub(crate) label: Option<Label>,
    pub(crate) class: Option<config::Class>,
    pub(crate) limit: Option<Duration>,
}

impl Wishes {
    pub(crate) fn read(headers: &HeaderMap) -> Result<Wishes, Fault> {
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let label = text(LABEL).map(str::parse::<Label>).transpose();
        let class = match text(CLASS) {
            None => None,
            Some("batch") => Some(config::Class::Batch),
            Some("standard") => Some(config::Class::Standard),
            Some("premium") => Some(config::Class::Premium),
            Some("urgent") => Some(config::Class::Urgent),
            Some(other) => {
                let other = wire::error::quote(other);
                let message = format!("{CLASS} is {other}; it must be batch, standard, premium or urgent");
                return Err(Fault::field(CLASS, message));
            }
        };
        let limit = match text(TIMEOUT) {
            None => None,
            Some(text) => {
                let seconds = text.parse::<f64>().ok().filter(|s| (0.001..=86_400.0).contains(s));
                let wrong = || {
                    format!("{TIMEOUT} is {}; it must be 0.001 to 86400 seconds", wire::error::quote(text))
                };
                Some(Duration::from_secs_f64(seconds.ok_or_else(|| Fault::field(TIMEOUT, wrong()))?))
            }
        };
        Ok(Wishes { label: label.map_err(|error| Fault::field(LABEL, error.to_string()))?, class, limit })
    }
}
