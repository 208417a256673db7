//! `model.toml`: the settings of a model, and its probes.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use service::probe::Probe;
use wire::oip::VersionPolicy;

use crate::commands::serve::door;
use crate::commands::serve::many::flags::time;

/// The file of a model's settings.
pub(super) const SETTINGS: &str = "model.toml";
/// Most bytes of that file.
const SETTINGS_BYTES: u64 = 64 << 10;
/// Most probes of a model, and tokens of an answer to one.
const MOST_PROBES: usize = 32;
const PROBE_TOKENS: usize = 32;

/// What `model.toml` says.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in super::super) struct Settings {
    /// The names of the model in place of its folder's.
    pub(in super::super) names: Vec<String>,
    pub(in super::super) pinned: bool,
    pub(in super::super) preload: bool,
    pub(in super::super) keep_alive: Option<Duration>,
    pub(in super::super) context: Option<usize>,
    pub(in super::super) kv_memory: Option<u64>,
    /// What another generation must answer before it takes over.
    pub(in super::super) probes: Vec<Probe>,
    /// The versions that are served; none is as `config.pbtxt` says, or the highest.
    pub(in super::super) versions: Option<VersionPolicy>,
}

/// `model.toml` as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Written {
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    pinned: bool,
    #[serde(default)]
    preload: bool,
    keep_alive: Option<String>,
    context: Option<usize>,
    kv_memory: Option<String>,
    version: Option<u64>,
    versions: Option<WrittenVersions>,
    latest: Option<usize>,
    #[serde(default)]
    probe: Vec<WrittenProbe>,
}

/// `versions = "all"` or `versions = [1, 3]`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum WrittenVersions {
    Word(String),
    Numbers(Vec<u64>),
}

/// A `[[probe]]` table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct WrittenProbe {
    chat: Option<String>,
    prompt: Option<String>,
    text: Option<String>,
    contains: Option<String>,
    max_tokens: Option<usize>,
    near: Option<String>,
    cosine: Option<f32>,
    label: Option<String>,
}

/// What the folder's `model.toml` says.
pub(super) fn read(folder: &Path) -> Result<Settings, String> {
    let Some(text) = small_text(&folder.join(SETTINGS), SETTINGS_BYTES)? else {
        return Ok(Settings::default());
    };
    parse(&text).map_err(|why| format!("{SETTINGS}: {why}"))
}

/// The text of a file of at most so many bytes; none if there is no such file.
pub(in super::super) fn small_text(path: &Path, most: u64) -> Result<Option<String>, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let Ok(metadata) = fs::metadata(path) else { return Ok(None) };
    if metadata.len() > most {
        return Err(format!("{name} has {} bytes; the limit is {most}", metadata.len()));
    }
    fs::read_to_string(path).map(Some).map_err(|error| format!("{name}: {error}"))
}

impl Written {
    fn versions(&self) -> Result<Option<VersionPolicy>, String> {
        let policy = match (self.version, &self.versions, self.latest) {
            (None, None, None) => return Ok(None),
            (Some(version), None, None) => VersionPolicy::Specific(vec![version]),
            (None, Some(WrittenVersions::Word(word)), None) if word == "all" => VersionPolicy::All,
            (None, Some(WrittenVersions::Numbers(numbers)), None) if !numbers.is_empty() => {
                VersionPolicy::Specific(numbers.clone())
            }
            (None, None, Some(latest @ 1..)) => VersionPolicy::Latest(latest),
            _ => {
                return Err(
                    "one of version = N, versions = \"all\", versions = [1, 3] and latest = N (at least \
                            1) says which versions are served"
                        .into(),
                );
            }
        };
        Ok(Some(policy))
    }
}

fn parse(text: &str) -> Result<Settings, String> {
    let written: Written = toml::from_str(text).map_err(|error| error.to_string())?;
    if written.probe.len() > MOST_PROBES {
        return Err(format!("{} probes; the limit is {MOST_PROBES}", written.probe.len()));
    }
    let numbered = |(index, probe): (usize, WrittenProbe)| {
        probe.read().map_err(|why| format!("probe {}: {why}", index + 1))
    };
    let versions = written.versions()?;
    Ok(Settings {
        names: written.names,
        pinned: written.pinned,
        preload: written.preload || written.pinned,
        keep_alive: written.keep_alive.as_deref().map(time).transpose()?,
        context: written.context,
        kv_memory: written.kv_memory.as_deref().map(door::bytes).transpose()?,
        probes: written.probe.into_iter().enumerate().map(numbered).collect::<Result<_, _>>()?,
        versions,
    })
}

impl WrittenProbe {
    fn read(self) -> Result<Probe, String> {
        let WrittenProbe { chat, prompt, text, contains, max_tokens, near, cosine, label } = self;
        let max_tokens = max_tokens.unwrap_or(PROBE_TOKENS);
        match (chat, prompt, text, contains, near, cosine, label) {
            (Some(message), None, None, Some(contains), None, None, None) => {
                Ok(Probe::Chat { message, contains, max_tokens })
            }
            (None, Some(prompt), None, Some(contains), None, None, None) => {
                Ok(Probe::Continue { prompt, contains, max_tokens })
            }
            (None, None, Some(text), None, Some(near), Some(cosine), None) => {
                Ok(Probe::Near { texts: [text, near], cosine })
            }
            (None, None, Some(text), None, None, None, Some(label)) => Ok(Probe::Label { text, label }),
            _ => {
                Err("a probe has chat and contains, prompt and contains, text, near and cosine, or text and \
                      label"
                    .into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_probes_are_read_or_refused_by_name() {
        let text = "pinned = true\nkeep-alive = \"5m\"\n[[probe]]\nchat = \"2+2?\"\ncontains = \"4\"\n\
                    [[probe]]\ntext = \"a\"\nnear = \"b\"\ncosine = 0.5\n";
        let settings = parse(text).expect("settings");
        assert!(settings.pinned && settings.preload && settings.versions.is_none());
        let four = Probe::Chat { message: "2+2?".into(), contains: "4".into(), max_tokens: PROBE_TOKENS };
        let near = Probe::Near { texts: ["a".into(), "b".into()], cosine: 0.5 };
        assert_eq!(settings.probes, [four, near]);
        for (good, policy) in [
            ("version = 2", VersionPolicy::Specific(vec![2])),
            ("versions = \"all\"", VersionPolicy::All),
            ("versions = [1, 3]", VersionPolicy::Specific(vec![1, 3])),
            ("latest = 2", VersionPolicy::Latest(2)),
        ] {
            assert_eq!(parse(good).expect(good).versions, Some(policy));
        }
        for (bad, words) in [
            ("version = 1\nlatest = 2", "which versions"),
            ("latest = 0", "which versions"),
            ("versions = \"some\"", "which versions"),
            ("colour = 1", "colour"),
            ("keep-alive = \"soon\"", "no time"),
            ("[[probe]]\nchat = \"a\"\nlabel = \"b\"", "probe 1: a probe has"),
            ("[[probe]]\ntext = \"a\"\ncosine = 1.0", "probe 1"),
        ] {
            let error = parse(bad).expect_err(bad);
            assert!(error.contains(words), "{bad}: {error}");
        }
    }
}
