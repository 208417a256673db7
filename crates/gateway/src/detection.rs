//! How far a request may travel: the highest of what its key, header and model say, and what is found in its text.

use std::sync::Arc;

use privacy::{JsonScan, Label, Rules, Verdicts};
use serde_json::Value;
use translation::Head;

use crate::config::Privacy;
use crate::keys::KeyPolicy;
use crate::redaction::Redacted;
use crate::route::Route;
use crate::wishes::Wishes;

/// Bytes of verdicts on texts that were scanned before: a conversation sends its earlier turns again.
const VERDICT_BYTES: usize = 16 << 20;

/// What is looked for in requests.
pub(crate) struct Detection {
    rules: Arc<Rules>,
    verdicts: Verdicts,
    /// Label of what rules cannot read, such as images.
    opaque: Label,
    /// Whether findings are replaced for upstreams that may not have them.
    redact: bool,
}

impl Detection {
    /// The rules of a configuration. The secret keys the hashes of texts.
    ///
    /// # Errors
    /// A rule that cannot be compiled.
    pub(crate) fn new(table: &Privacy, secret: [u8; 32]) -> Result<Detection, String> {
        let rules = Rules::new(&table.rules).map_err(|error| format!("privacy: {error}"))?;
        let verdicts = Verdicts::new(secret, VERDICT_BYTES);
        Ok(Detection { rules: Arc::new(rules), verdicts, opaque: table.opaque, redact: table.redact })
    }

    /// The label and the kinds of what was found.
    fn read(&self, scan: &JsonScan) -> (Label, Vec<String>) {
        let mut label = if scan.complete { scan.label } else { Label::Secret };
        let mut kinds: Vec<String> = Vec::new();
        for found in &scan.findings {
            let name = self.rules.name(found.finding.kind);
            if !kinds.iter().any(|kind| kind == name) {
                kinds.push(name.to_owned());
            }
        }
        if scan.opaque > 0 && self.opaque > label {
            label = self.opaque;
            kinds.push("opaque".to_owned());
        }
        if !scan.complete {
            kinds.push("incomplete".to_owned());
        }
        (label, kinds)
    }
}

/// How far a request may travel.
pub(crate) struct Detected {
    pub(crate) label: Label,
    /// Kinds of findings.
    pub(crate) found: Vec<String>,
    /// The request without its findings, which may travel further.
    pub(crate) redacted: Option<Arc<Redacted>>,
}

/// The label of a request, and what was found in it.
pub(crate) fn detect(
    detection: Option<&Detection>,
    route: &Route,
    key: Option<&KeyPolicy>,
    wishes: &Wishes,
    head: &Head,
    body: &[u8],
) -> Detected {
    let said = [wishes.label, key.map(|key| key.label), route.label()];
    let label = said.into_iter().flatten().max().unwrap_or_default();
    // What is secret already cannot become more so.
    let Some(detection) = detection.filter(|_| label < Label::Secret) else {
        return Detected { label, found: Vec::new(), redacted: None };
    };
    let Ok(body) = serde_json::from_slice::<Value>(body) else {
        return Detected { label: Label::Secret, found: vec!["unreadable".to_owned()], redacted: None };
    };
    let scan = detection.rules.scan_json(&body, Some(&detection.verdicts));
    let (raised, found) = detection.read(&scan);
    let redacted = (detection.redact && raised > label)
        .then(|| Redacted::new(&detection.rules, &scan, body, label, head))
        .flatten();
    Detected { label: label.max(raised), found, redacted: redacted.map(Arc::new) }
}
