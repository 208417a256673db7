//! The rules of detection, and what they find in a text.

use crate::context::Context;
use crate::kind::Kind;
use crate::label::Label;
use crate::normal::Normal;
use crate::own::{Own, SettingsError};
use crate::scan;
use crate::secrets;
use crate::settings::Settings;
use crate::sink::{Candidate, Sink};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::ops::Range;

/// A place of a text that says something about a person or is a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What the place is.
    pub kind: Kind,
    /// The place: bytes of the original text, on boundaries of characters.
    pub range: Range<usize>,
    /// How sure the finding is, in percent.
    pub score: u8,
}

/// What a scan found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// The findings, in the order of the text, without overlaps.
    pub findings: Vec<Finding>,
    /// Whether the text was scanned to its end. If not, it has more findings than are kept, and cannot be redacted.
    pub complete: bool,
}

/// The rules of detection, compiled. Clones are cheap beside their making; share one in an `Arc`.
#[derive(Clone, Debug)]
pub struct Rules {
    context: Context,
    enabled: u128,
    min_score: u8,
    max_findings: usize,
    labels: BTreeMap<Kind, Label>,
    own: Vec<Own>,
    fingerprint: [u8; 32],
}

/// Changes with the rules that are built in, so that verdicts of other versions are not used.
const VERSION: u8 = 1;

/// Findings before overlaps are resolved, for each that is kept: a place may be offered as several kinds.
const CANDIDATES: usize = 8;

impl Default for Rules {
    /// The rules that are built in, all of them.
    fn default() -> Self {
        Rules::new(&Settings::default()).unwrap_or_else(|error| unreachable!("default settings: {error}"))
    }
}

impl Rules {
    /// The rules of a configuration.
    ///
    /// # Errors
    ///
    /// Own rules that cannot be compiled or are beyond their bounds, and numbers outside their ranges.
    pub fn new(settings: &Settings) -> Result<Self, SettingsError> {
        let range = |name, value, range| Err(SettingsError::Range { name, value, range });
        if settings.min_score > 100 {
            return range("min_score", usize::from(settings.min_score), "0 to 100");
        }
        if !(1..=10_000).contains(&settings.max_findings) {
            return range("max_findings", settings.max_findings, "1 to 10000");
        }
        let own = Own::all(settings)?;
        let bits = |kinds: &[Kind]| kinds.iter().fold(0, |bits, kind| bits | kind.bit());
        let built_in = bits(settings.kinds.as_deref().unwrap_or(Kind::ALL)) & !bits(&settings.except);
        let owned = (0..own.len()).fold(0, |bits, at| bits | Kind::Own(at as u8).bit());
        let words = settings.rule.iter().enumerate().flat_map(|(at, rule)| {
            let bit = Kind::Own(at as u8).bit();
            rule.context.iter().take(64).map(move |word| (bit, word.as_str()))
        });
        let mut hash = Sha256::new();
        hash.update([VERSION]);
        hash.update(format!("{settings:?}"));
        Ok(Rules {
            context: Context::new(words)?,
            enabled: built_in | owned,
            min_score: settings.min_score,
            max_findings: settings.max_findings,
            labels: settings.labels.clone(),
            own,
            fingerprint: hash.finalize().into(),
        })
    }

    /// The findings in a text. See [`scan`](Self::scan), which also tells whether there were more than are kept.
    #[must_use]
    pub fn find(&self, text: &str) -> Vec<Finding> {
        self.scan(text).findings
    }

    /// What is in a text, in time linear in its length.
    #[must_use]
    pub fn scan(&self, text: &str) -> Scan {
        self.scan_under(text, 0)
    }

    /// What is in a text that is the value of a key: `{"passport": "…"}`.
    #[must_use]
    pub fn scan_value(&self, key: &str, text: &str) -> Scan {
        self.scan_under(text, self.hint(key))
    }

    /// What a key says of its value.
    pub(crate) fn hint(&self, key: &str) -> u128 {
        let end = key.floor_char_boundary(128);
        self.context.within(&key.as_bytes()[..end]) & !crate::kind::AGAINST
    }

    pub(crate) fn scan_under(&self, text: &str, hint: u128) -> Scan {
        let normal = Normal::of(text);
        let limit = self.max_findings.saturating_mul(CANDIDATES);
        let scope = (&self.context, hint);
        let mut sink = Sink::new(normal.text.as_bytes(), scope, (self.enabled, self.min_score), limit);
        scan::scan(&mut sink);
        if hint & Kind::Password.bit() != 0 {
            secrets::whole(&mut sink);
        }
        for (at, own) in self.own.iter().enumerate() {
            own.find(Kind::Own(at as u8), &mut sink, &normal.text);
        }
        let full = sink.full();
        let mut findings = resolved(sink.found);
        let complete = !full && findings.len() <= self.max_findings;
        findings.truncate(self.max_findings);
        for finding in &mut findings {
            finding.range = normal.original(&finding.range);
        }
        Scan { findings, complete }
    }

    /// The label that findings of these kinds give to a text.
    #[must_use]
    pub fn label<'f>(&self, findings: impl IntoIterator<Item = &'f Finding>) -> Label {
        findings.into_iter().map(|finding| self.label_of(finding.kind)).max().unwrap_or_default()
    }

    /// The label of a kind.
    #[must_use]
    pub fn label_of(&self, kind: Kind) -> Label {
        match kind {
            Kind::Own(at) => self.own.get(usize::from(at)).map_or(Label::Secret, |own| own.label),
            kind => self.labels.get(&kind).copied().unwrap_or_else(|| kind.label()),
        }
    }

    /// The name of a kind, that of an own rule too.
    #[must_use]
    pub fn name(&self, kind: Kind) -> &str {
        match kind {
            Kind::Own(at) => self.own.get(usize::from(at)).map_or("own", |own| &own.name),
            kind => kind.name(),
        }
    }

    /// The names of all kinds, those of own rules too.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        Kind::ALL.iter().map(|kind| kind.name()).chain(self.own.iter().map(|own| own.name.as_str()))
    }

    /// What tells these rules from others: part of the key of cached verdicts.
    pub(crate) fn fingerprint(&self) -> &[u8; 32] {
        &self.fingerprint
    }
}

/// Candidates without overlaps: the higher score, then the longer, then the earlier stays. In the order of the text.
fn resolved(mut candidates: Vec<Candidate>) -> Vec<Finding> {
    candidates
        .sort_unstable_by_key(|it| (std::cmp::Reverse((it.score, it.end - it.start)), it.start, it.kind));
    let mut taken: BTreeMap<usize, Candidate> = BTreeMap::new();
    for candidate in candidates {
        let before = taken.range(..candidate.end).next_back();
        if before.is_none_or(|(_, other)| other.end <= candidate.start) {
            taken.insert(candidate.start, candidate);
        }
    }
    let finding = |it: Candidate| Finding { kind: it.kind, range: it.start..it.end, score: it.score };
    taken.into_values().map(finding).collect()
}
