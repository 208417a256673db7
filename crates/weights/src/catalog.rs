//! The model catalog: an embedded data file (`catalog.toml`) with the name, sources and hashes of each model.
//!
//! The catalog pins a file's hash only if its author has computed it from the bytes. Without a pinned hash, the one
//! that the hub reports is checked and recorded in the store. All sources of an entry must deliver the pinned bytes, so
//! that a name always means the same model.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::fetch::{InlineFile, ModelSource, Pinned, is_sha256};

const TEXT: &str = include_str!("../catalog.toml");
/// Longest text of an inline file, in bytes.
const MAX_INLINE_BYTES: usize = 64 << 10;

/// The task of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelKind {
    /// An instruction-tuned model with a chat template.
    Chat,
    /// A base model: continues text.
    Base,
    /// An embedding model: text to vector.
    Embed,
    /// A reranker: scores a query and a document.
    Rerank,
    /// A text classifier.
    Classify,
    /// A token classifier: a label for each token, such as the names in a text.
    Tokens,
    /// A sparse embedding model: text to weights of words.
    Sparse,
}

impl std::fmt::Display for ModelKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            ModelKind::Chat => "chat",
            ModelKind::Base => "base",
            ModelKind::Embed => "embed",
            ModelKind::Rerank => "rerank",
            ModelKind::Classify => "classify",
            ModelKind::Tokens => "tokens",
            ModelKind::Sparse => "sparse",
        })
    }
}

/// An entry of the catalog: one model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The model's name on the command line: lower-case letters, digits, `.` and `-`.
    pub name: String,
    /// The description that `gristmill list` prints, one line.
    pub description: String,
    /// Architecture family, such as `llama`.
    pub family: String,
    /// The task of the model.
    pub kind: ModelKind,
    /// SPDX identifier, or the name of the licence's terms.
    pub licence: String,
    /// Bytes to download: exact if `files` pins them, approximate otherwise.
    pub size_bytes: u64,
    /// Name of the single file; absent for a directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Files with pinned length and SHA-256.
    #[serde(default)]
    pub files: Vec<Pinned>,
    /// Small files, such as configuration, for sources that lack them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inline: Vec<InlineFile>,
    /// Sources as text (`hf:`, `py:`, `https://`), tried in order.
    pub sources: Vec<String>,
}

/// The catalog: all models that can be pulled by name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalog {
    /// The entries, in the order of the file.
    #[serde(rename = "model")]
    pub entries: Vec<Entry>,
}

impl Catalog {
    /// The catalog that is compiled into the binary.
    pub fn embedded() -> &'static Catalog {
        static CATALOG: OnceLock<Catalog> = OnceLock::new();
        CATALOG.get_or_init(|| Catalog::parse(TEXT).expect("a test parses the embedded catalog"))
    }

    /// Parses and validates a catalog; the error names the entry.
    pub fn parse(text: &str) -> Result<Catalog, String> {
        let catalog: Catalog = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut names = std::collections::BTreeSet::new();
        for entry in &catalog.entries {
            entry.check().map_err(|reason| format!("{}: {reason}", entry.name))?;
            if !names.insert(&entry.name) {
                return Err(format!("{}: named twice", entry.name));
            }
        }
        Ok(catalog)
    }

    /// The entry of this name, ignoring case.
    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name.eq_ignore_ascii_case(name))
    }

    /// At most three similar names for "did you mean", best first.
    pub fn similar(&self, name: &str) -> Vec<&str> {
        let asked = plain(name);
        let limit = (asked.chars().count() / 3).max(2);
        let score = |entry: &str| {
            let entry = plain(entry);
            let whole = distance(&asked, &entry);
            // A part of a long name counts as similar too.
            let part = asked.chars().count() >= 3 && entry.contains(&asked);
            if part { Some(whole.min(limit)) } else { Some(whole).filter(|&whole| whole <= limit) }
        };
        let mut scored: Vec<(usize, &str)> = self
            .entries
            .iter()
            .filter_map(|entry| Some((score(&entry.name)?, entry.name.as_str())))
            .collect();
        scored.sort_by_key(|(score, _)| *score);
        scored.into_iter().take(3).map(|(_, name)| name).collect()
    }
}

impl Entry {
    /// The sources in order, parsed.
    pub fn parsed_sources(&self) -> Vec<ModelSource> {
        self.sources.iter().filter_map(|text| ModelSource::parse(text).ok()).collect()
    }

    fn check(&self) -> Result<(), String> {
        let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'.' || b == b'-';
        if self.name.is_empty()
            || self.name.len() > 64
            || !self.name.bytes().all(word)
            || self.name.starts_with('.')
        {
            return Err("not a name".to_owned());
        }
        if self.sources.is_empty() || self.size_bytes == 0 || self.licence.is_empty() {
            return Err("a source, a size and a licence are needed".to_owned());
        }
        for source in &self.sources {
            ModelSource::parse(source).map_err(|reason| format!("{source}: {reason}"))?;
        }
        for pin in &self.files {
            if !is_sha256(&pin.sha256) {
                return Err(format!("{}: not a SHA-256", pin.name));
            }
            crate::fetch::check_relative(&pin.name)?;
        }
        for file in &self.inline {
            crate::fetch::check_relative(&file.name)?;
            if file.from.is_empty() || file.text.is_empty() || file.text.len() > MAX_INLINE_BYTES {
                let limit =
                    format!("1 to {MAX_INLINE_BYTES} bytes of text and where they are from are needed");
                return Err(format!("{}: {limit}", file.name));
            }
            if self.files.iter().any(|pin| pin.name == file.name) {
                return Err(format!("{} is pinned and inline", file.name));
            }
        }
        if let Some(file) = &self.file {
            crate::fetch::check_relative(file)?;
            if !self.files.is_empty() && !self.files.iter().any(|pin| pin.name == *file) {
                return Err(format!("{file} is not among its files"));
            }
        }
        Ok(())
    }
}

/// A name in lower case without punctuation, for comparison.
fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).take(64).flat_map(char::to_lowercase).collect()
}

/// Levenshtein distance, in characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = corner + usize::from(x != *y);
            corner = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    /// After a wanted change: `sha256sum catalog.toml > catalog.toml.sha256` in this crate's directory.
    #[test]
    fn the_catalog_is_the_one_that_was_checked_in() {
        let want = include_str!("../catalog.toml.sha256").split_whitespace().next().unwrap();
        assert_eq!(crate::fetch::hex(&Sha256::digest(TEXT)), want);
    }

    #[test]
    fn every_entry_holds_together() {
        let catalog = Catalog::parse(TEXT).unwrap();
        for entry in &catalog.entries {
            assert_eq!(entry.parsed_sources().len(), entry.sources.len());
            let pinned: u64 = entry.files.iter().map(|pin| pin.size_bytes).sum();
            assert!(pinned <= entry.size_bytes, "{}: files are larger than the model", entry.name);
            if entry.file.is_some() && pinned > 0 {
                assert_eq!(pinned, entry.size_bytes, "{}", entry.name);
            }
            let python = entry.sources.iter().position(|source| source.starts_with("py:"));
            let hub = entry.sources.iter().rposition(|source| source.starts_with("hf:"));
            assert!(python.is_none() || hub < python, "{}: the hub comes first", entry.name);
            assert!(python.is_none() || !entry.files.is_empty(), "{}: a package needs a hash", entry.name);
        }
        assert_eq!(catalog.find(crate::store::DEFAULT_MODEL).map(|entry| entry.kind), Some(ModelKind::Chat));
    }

    #[test]
    fn bad_entries_are_named() {
        let entry = |change: (&str, &str)| {
            let text = "[[model]]\nname = \"a\"\ndescription = \"\"\nfamily = \"llama\"\nkind = \"chat\"\n\
                        licence = \"MIT\"\nsize_bytes = 1\nsources = [\"hf:a/b\"]\n";
            Catalog::parse(&text.replace(change.0, change.1)).map(|catalog| catalog.entries.len())
        };
        assert_eq!(entry(("", "")), Ok(1));
        for change in [
            ("\"a\"", "\"../a\""),
            ("\"a\"", "\"A b\""),
            ("hf:a/b", "nothing"),
            ("= 1", "= 0"),
            ("chat", "chatty"),
            ("MIT", ""),
            ("sources", "colour = 1\nsources"),
            ("sources", "files = [{ name = \"x\", sha256 = \"12\", size_bytes = 1 }]\nsources"),
            ("sources", "file = \"../x\"\nsources"),
            ("sources", "inline = [{ name = \"../x\", from = \"y\", text = \"z\" }]\nsources"),
            ("sources", "inline = [{ name = \"x\", from = \"\", text = \"z\" }]\nsources"),
            ("sources", "inline = [{ name = \"x\", from = \"y\", text = \"\" }]\nsources"),
        ] {
            assert!(entry(change).is_err(), "{change:?}");
        }
    }

    #[test]
    fn near_misses_are_suggested() {
        let catalog = Catalog::embedded();
        assert_eq!(catalog.similar("smollm2-135m-instrct").first(), Some(&"smollm2-135m-instruct"));
        assert_eq!(catalog.similar("smollm2").first(), Some(&"smollm2-135m-instruct"));
        assert_eq!(catalog.similar("Gemma3_270M").first(), Some(&"gemma3-270m"));
        assert!(catalog.similar("zzzzzzzzzzzzzz").is_empty());
        assert!(catalog.similar(&"x".repeat(100_000)).is_empty());
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
