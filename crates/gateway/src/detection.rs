//! How far a request may travel: the highest of what its key, header and model say, and what is found in its text.

use privacy::{Label, Rules, Verdicts};
use translation::Head;

use crate::asked::Wishes;
use crate::config::Privacy;
use crate::keys::KeyPolicy;
use crate::route::Route;
use crate::snapshot::Snapshot;

/// Bytes of verdicts on texts that were scanned before: a conversation sends its earlier turns again.
const VERDICT_BYTES: usize = 16 << 20;

/// What is looked for in requests.
pub(crate) struct Detection {
    rules: Rules,
    verdicts: Verdicts,
    /// Label of what rules cannot read, such as images.
    opaque: Label,
}

impl Detection {
    /// The rules of a configuration. The secret keys the hashes of texts.
    ///
    /// # Errors
    /// A rule that cannot be compiled.
    pub(crate) fn new(table: &Privacy, secret: [u8; 32]) -> Result<Detection, String> {
        let rules = Rules::new(&table.rules).map_err(|error| format!("privacy: {error}"))?;
        Ok(Detection { rules, verdicts: Verdicts::new(secret, VERDICT_BYTES), opaque: table.opaque })
    }

    fn scan(&self, body: &[u8]) -> (Label, Vec<String>) {
        let Ok(body) = serde_json::from_slice(body) else {
            return (Label::Secret, vec!["unreadable".to_owned()]);
        };
        let scan = self.rules.scan_json(&body, Some(&self.verdicts));
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

/// The label of a request, and the kinds that were found in it.
pub(crate) fn label(
    snapshot: &Snapshot,
    route: &Route,
    key: Option<&KeyPolicy>,
    wishes: &Wishes,
    _head: &Head,
    body: &[u8],
) -> (Label, Vec<String>) {
    let said = [wishes.label, key.map(|key| key.label), route.label()];
    let label = said.into_iter().flatten().max().unwrap_or_default();
    // What is secret already cannot become more so.
    match snapshot.detection.as_deref().filter(|_| label < Label::Secret) {
        None => (label, Vec::new()),
        Some(detection) => {
            let (found, kinds) = detection.scan(body);
            (label.max(found), kinds)
        }
    }
}
