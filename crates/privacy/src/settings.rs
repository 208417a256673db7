//! What a configuration may say of detection: the kinds, their labels, own rules and lists of words.

use crate::kind::Kind;
use crate::label::Label;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The configuration of [`Rules`](crate::Rules).
///
/// # Examples
///
/// ```
/// let settings: privacy::Settings = toml::from_str(r#"
///     except = ["ipv4", "ipv6"]
///     [labels]
///     email = "secret"
///     [[rule]]
///     name = "employee"
///     pattern = '\bE-[0-9]{6}\b'
///     [[list]]
///     name = "project"
///     words = ["Bluebird", "Red Kite"]
/// "#).unwrap();
/// let rules = privacy::Rules::new(&settings).unwrap();
/// assert_eq!(rules.find("E-123456 works on Red Kite").len(), 2);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The kinds that are looked for; all if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<Kind>>,
    /// Kinds that are not.
    pub except: Vec<Kind>,
    /// The score, in percent, from which on a finding counts.
    pub min_score: u8,
    /// Findings in one text, 1 to 10,000; a text with more is not scanned to its end, which [`Scan`](crate::Scan) tells.
    pub max_findings: usize,
    /// Labels of kinds, where they are not those of [`Kind::label`].
    pub labels: BTreeMap<Kind, Label>,
    /// Own regular expressions.
    pub rule: Vec<OwnRule>,
    /// Own lists of words.
    pub list: Vec<OwnList>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            kinds: None,
            except: Vec::new(),
            min_score: 50,
            max_findings: 1_000,
            labels: BTreeMap::new(),
            rule: Vec::new(),
            list: Vec::new(),
        }
    }
}

/// An own regular expression, in the syntax of the crate `regex`: no look-around, no back-references.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnRule {
    /// Letters, digits and underscores: the placeholder's name is made of it.
    pub name: String,
    /// The expression, at most 1,024 bytes. What it matches is a finding, at most 1,024 bytes long.
    pub pattern: String,
    /// The score without a word of `context` beside the match.
    #[serde(default = "own_score")]
    pub score: u8,
    /// Words that add 40 to the score.
    #[serde(default)]
    pub context: Vec<String>,
    /// The label of a text with a match.
    #[serde(default = "own_label")]
    pub label: Label,
}

/// An own list of words and phrases, which are found whole and in any case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnList {
    /// Letters, digits and underscores: the placeholder's name is made of it.
    pub name: String,
    /// At most 10,000 words of at most 256 bytes.
    pub words: Vec<String>,
    /// The label of a text with one of the words.
    #[serde(default = "own_label")]
    pub label: Label,
}

fn own_score() -> u8 {
    85
}

fn own_label() -> Label {
    Label::Secret
}
