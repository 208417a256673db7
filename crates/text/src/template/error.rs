//! Errors of chat templates.

use std::fmt;

use minijinja::ErrorKind;

use super::limits::{FUEL, MAX_OUTPUT};
use super::{meter, python};

/// Why a template does not compile, or does not render a conversation.
#[derive(Debug, thiserror::Error)]
#[error("chat template{}: {message}", Line(*line))]
pub struct TemplateError {
    /// The line of the template, from 1, if known.
    pub line: Option<usize>,
    /// The error message; for `raise_exception`, that of the template.
    pub message: String,
    /// Whether the template exceeded its limit of steps or bytes.
    pub limit: bool,
}

impl TemplateError {
    pub(super) fn new(message: impl Into<String>) -> TemplateError {
        TemplateError { line: None, message: message.into(), limit: false }
    }
}

struct Line(Option<usize>);

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |line| write!(f, ", line {line}"))
    }
}

impl From<minijinja::Error> for TemplateError {
    fn from(error: minijinja::Error) -> TemplateError {
        let line = error.line();
        let message = match (error.kind(), error.detail()) {
            (ErrorKind::OutOfFuel, _) => format!("takes more than {FUEL} steps"),
            (ErrorKind::WriteFailure, _) => format!("writes more than {MAX_OUTPUT} bytes"),
            (ErrorKind::InvalidOperation, Some(detail)) => detail.to_owned(),
            (kind, Some(detail)) => format!("{kind}: {detail}"),
            (kind, None) => kind.to_string(),
        };
        let limit = matches!(error.kind(), ErrorKind::OutOfFuel | ErrorKind::WriteFailure);
        TemplateError { line, message, limit }
    }
}

/// The error of `raise_exception` (its message alone), or of an exceeded limit.
pub(super) fn raised(error: &minijinja::Error) -> Option<TemplateError> {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = source {
        if let Some(raised) = current.downcast_ref::<python::Raised>() {
            return Some(TemplateError { line: error.line(), message: raised.0.clone(), limit: false });
        }
        if let Some(spent) = current.downcast_ref::<meter::Spent>() {
            return Some(TemplateError { line: error.line(), message: spent.to_string(), limit: true });
        }
        source = current.source();
    }
    None
}
