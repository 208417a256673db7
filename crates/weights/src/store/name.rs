//! Parses a model argument into its directory name and sources.

use sha2::{Digest, Sha256};

use super::Error;
use crate::catalog::Catalog;
use crate::fetch::{ModelSource, RequestedFiles, hex};

const MAX_SLUG_BYTES: usize = 200;
const MAX_MODEL_BYTES: usize = 4096;

/// The model that a user asked for: its directory name and its sources.
#[derive(Debug)]
pub(super) struct Target {
    /// Directory name in the store.
    pub(super) slug: String,
    /// The name for messages, without secrets.
    pub(super) shown: String,
    pub(super) sources: Vec<ModelSource>,
    pub(super) want: RequestedFiles,
}

impl Target {
    pub(super) fn read(model: &str) -> Result<Target, Error> {
        if ModelSource::has_source_prefix(model) {
            let bad = |reason: String| Error::BadSource {
                source_text: crate::fetch::shown(&model.chars().take(200).collect::<String>()),
                reason,
            };
            if model.len() > MAX_MODEL_BYTES {
                return Err(bad(format!("{} bytes, more than the limit of {MAX_MODEL_BYTES}", model.len())));
            }
            let source = ModelSource::parse(model).map_err(bad)?;
            let shown = match &source {
                ModelSource::Url(_) => source.to_string(),
                ModelSource::Hub(_) | ModelSource::Python(_) => model.to_owned(),
            };
            return Ok(Target {
                slug: slug(model),
                shown,
                sources: vec![source],
                want: RequestedFiles::default(),
            });
        }
        let catalog = Catalog::embedded();
        let Some(entry) = catalog.find(model) else {
            let near = catalog.similar(model);
            let hint = match near.as_slice() {
                [] => "; see gristmill list --all".to_owned(),
                names => format!("; did you mean {}?", names.join(" or ")),
            };
            return Err(Error::Unknown { model: model.chars().take(200).collect(), hint });
        };
        Ok(Target {
            slug: entry.name.clone(),
            shown: entry.name.clone(),
            sources: entry.parsed_sources(),
            want: RequestedFiles {
                file: entry.file.clone(),
                pinned: entry.files.clone(),
                inline: entry.inline.clone(),
            },
        })
    }
}

/// A readable directory name for a source, unique by the hash at its end.
fn slug(source: &str) -> String {
    let plain = crate::fetch::shown(source);
    let word = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c.to_ascii_lowercase() } else { '-' };
    let mut text: String = plain.chars().map(word).collect();
    while text.contains("--") {
        text = text.replace("--", "-");
    }
    text.truncate(MAX_SLUG_BYTES - 20);
    let hash = hex(&Sha256::digest(source.as_bytes())[..6]);
    format!("{}-{hash}", text.trim_matches(['-', '.']))
}

/// Whether `text` can be the name of a directory of the store.
pub(super) fn is_slug(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_SLUG_BYTES
        && !text.starts_with(['.', '-'])
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'.' || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_source_has_its_own_directory() {
        let slugs: Vec<String> = [
            "hf:a/b",
            "hf:a-b",
            "hf:a/b:c.gguf",
            "https://h/x.gguf",
            "https://h/x.gguf?v=2",
            "py:x==1:y/",
            "py:p{1..3}==1:m{1..3}",
            "https://h/../../x.gguf",
        ]
        .iter()
        .map(|source| slug(source))
        .collect();
        for text in &slugs {
            assert!(is_slug(text), "{text}");
        }
        let unique: std::collections::BTreeSet<_> = slugs.iter().collect();
        assert_eq!(unique.len(), slugs.len());
        assert!(slugs[0].starts_with("hf-a-b-"));
        assert!(is_slug(&slug(&format!("https://h/{}", "ä/".repeat(3000)))));
    }

    #[test]
    fn secrets_stay_out_of_names_and_errors() {
        let target = Target::read("https://h/x.gguf?token=s3cret").unwrap();
        assert!(!target.slug.contains("s3cret") && !target.shown.contains("s3cret"));
        let error = Target::read("https://h/x.gguf?token=s3cret#x").unwrap_err().to_string();
        assert!(!error.contains("s3cret"), "{error}");
    }

    #[test]
    fn unknown_names_get_a_suggestion() {
        let error = Target::read("qwen3-06b").unwrap_err().to_string();
        assert!(error.contains("did you mean qwen3-0.6b"), "{error}");
        let error = Target::read("nothing-like-it-at-all").unwrap_err().to_string();
        assert!(error.contains("list --all"), "{error}");
    }
}
