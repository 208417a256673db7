//! Values that stay here: a request whose findings are replaced by placeholders, and the answer in which they are put
//! back.
//!
//! A redacted body travels under the label that the request has without its findings; what key, header and model say of it
//! stays. Where not everything could be read or replaced, there is no redacted body.

mod json;
mod stream;

use std::sync::Arc;

use bytes::Bytes;
use privacy::{JsonScan, Label, Redaction, Rules};
use serde_json::Value;
use translation::Head;

pub(crate) use stream::RestoredStream;

/// A request without its findings.
pub(crate) struct Redacted {
    /// The label that it travels under.
    pub(crate) label: Label,
    pub(crate) body: Bytes,
    pub(crate) head: Head,
    pub(crate) redaction: Arc<Redaction>,
}

impl Redacted {
    /// The request without the findings of `scan`, under its `label` without them; nothing where not all of them can be
    /// replaced, or where parts cannot be read.
    pub(crate) fn new(
        rules: &Arc<Rules>,
        scan: &JsonScan,
        mut body: Value,
        label: Label,
        head: &Head,
    ) -> Option<Redacted> {
        if !scan.complete || scan.opaque > 0 || scan.findings.is_empty() {
            return None;
        }
        let mut redaction = Redaction::new(rules.clone());
        redaction.redact_json(&mut body).ok()?;
        // What reads clean is clean: nothing leaves on the redaction's word alone.
        let after = rules.scan_json(&body, None);
        if !after.complete || after.label > label {
            return None;
        }
        let body = Bytes::from(body.to_string());
        let mut read = Head::read(head.dialect, &body).ok()?;
        // Gemini has them in the path.
        read.model.clone_from(&head.model);
        read.stream = head.stream;
        Some(Redacted { label, body, head: read, redaction: Arc::new(redaction) })
    }

    /// A whole answer with its values; an answer that is not JSON stays as it is.
    pub(crate) fn restore(&self, body: &Bytes) -> Bytes {
        match serde_json::from_slice::<Value>(body) {
            Ok(mut answer) if !self.redaction.is_empty() => {
                json::restore(&self.redaction, None, &mut answer);
                Bytes::from(answer.to_string())
            }
            _ => body.clone(),
        }
    }
}
