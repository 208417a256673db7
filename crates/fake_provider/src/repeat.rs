//! The last answer, kept for a request that is equal to the last one.

use crate::{Script, Usage};
use bytes::Bytes;

/// A request with its answer.
#[derive(Clone)]
pub(crate) struct Repeated {
    path: String,
    body: Bytes,
    pub(crate) answer: Bytes,
    pub(crate) usage: Usage,
}

impl Repeated {
    /// A request's answer, if the script lets it be repeated.
    pub(crate) fn keep(
        script: &Script,
        path: &str,
        body: &Bytes,
        answer: &Bytes,
        usage: Usage,
    ) -> Option<Self> {
        let is_plain = script.repeat
            && script.faults.is_empty()
            && script.key.is_none()
            && (script.first_token_ms, script.gap_ms, script.max_concurrent) == (0, 0, 0);
        is_plain.then(|| Self { path: path.to_owned(), body: body.clone(), answer: answer.clone(), usage })
    }

    /// Whether a request is equal to this one.
    pub(crate) fn is_of(&self, path: &str, body: &Bytes) -> bool {
        self.path == path && self.body == *body
    }
}
