//! The flags of several models, and the `[[model]]` tables of a configuration file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::commands::serve::door;

#[derive(clap::Args)]
#[command(next_help_heading = "Several models")]
pub(in super::super) struct Flags {
    /// Serve every model in this folder: GGUF files, and folders with a config.json. Each is loaded when it is asked for.
    #[arg(long, value_name = "DIR")]
    pub(super) models_dir: Option<PathBuf>,

    /// Seconds between two looks at that folder: models that come, change or go are followed; 0 is never.
    #[arg(long, default_value_t = 5, value_name = "SECONDS")]
    models_poll: u16,

    /// Memory that models may take together, as 24G; those that are worth least are unloaded for others [default:
    /// four fifths of what can be had].
    #[arg(long, value_name = "BYTES", value_parser = door::bytes)]
    pub(super) model_memory: Option<u64>,

    /// Unload a model so long after its last request, as 90s or 5m [default: when its memory is wanted].
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) keep_alive: Option<Duration>,

    /// Seconds that a request waits for its model to be loaded.
    #[arg(long, default_value_t = 300, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) load_wait: u16,

    /// A `[[model]]` table of the file of `--config`, as JSON.
    #[arg(long, value_name = "JSON", hide = true, value_parser = table)]
    pub(super) model_table: Vec<Table>,
}

impl Flags {
    /// Whether there is anything that one model alone has no use for.
    pub(in super::super) fn is_used(&self) -> bool {
        self.models_dir.is_some() || !self.model_table.is_empty() || self.model_memory.is_some()
    }

    /// The time between two looks at the folder, if it is followed.
    pub(super) fn poll(&self) -> Option<Duration> {
        let seconds = self.models_dir.as_ref().map(|_| self.models_poll)?;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// The longest that a request waits for its model.
    pub(in super::super) fn load_wait(&self) -> Duration {
        Duration::from_secs(self.load_wait.into())
    }
}

/// Whether a model is the file of an ONNX model, which only a server of several models takes.
pub(in super::super) fn is_onnx(model: &str) -> bool {
    let path = Path::new(model);
    path.extension().is_some_and(|end| end == "onnx") && path.is_file()
}

/// A `[[model]]` table.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Table {
    /// Catalog name, path, or source.
    pub(super) model: String,
    /// The name that clients put into `model`, and others after it.
    #[serde(default)]
    pub(super) names: Vec<String>,
    /// Whether the model stays loaded whatever else is asked for.
    #[serde(default)]
    pub(super) pinned: bool,
    /// Whether the model is loaded at the start, not when it is asked for.
    #[serde(default)]
    pub(super) preload: bool,
    /// As `--keep-alive`.
    pub(super) keep_alive: Option<String>,
    /// As `--context`.
    pub(super) context: Option<usize>,
    /// As `--kv-memory`.
    pub(super) kv_memory: Option<String>,
}

fn table(json: &str) -> Result<Table, String> {
    let table: Table = serde_json::from_str(json).map_err(|error| format!("a [[model]] table: {error}"))?;
    let said = |error| format!("the [[model]] table of {}: {error}", table.model);
    table.keep_alive.as_deref().map(time).transpose().map_err(said)?;
    table.kv_memory.as_deref().map(door::bytes).transpose().map_err(said)?;
    Ok(table)
}

/// A time as 90, 90s, 5m or 2h; 0 is at once.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => return Err(format!("{text:?} is no time; write it as 90s, 5m or 2h")),
    };
    let number: u64 =
        digits.parse().map_err(|_| format!("{text:?} is no time; write it as 90s, 5m or 2h"))?;
    Ok(Duration::from_secs(number.saturating_mul(factor).min(u64::from(u32::MAX))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_tables_are_read() {
        assert_eq!(time("90"), Ok(Duration::from_secs(90)));
        assert_eq!(time("5m"), Ok(Duration::from_secs(300)));
        assert!(time("5 m").is_err() && time("m").is_err() && time("5d").is_err());
        let good = r#"{"model": "a.gguf", "names": ["a", "b"], "keep-alive": "5m", "pinned": true}"#;
        assert_eq!(table(good).expect("a table").names, ["a", "b"]);
        for (bad, words) in [
            (r#"{"model": "a", "keep-alive": "soon"}"#, "no time"),
            (r#"{"model": "a", "kv-memory": "2 horses"}"#, "unit"),
            (r#"{"model": "a", "colour": 1}"#, "colour"),
            (r#"{"names": ["a"]}"#, "model"),
        ] {
            let error = table(bad).expect_err(bad);
            assert!(error.contains(words), "{bad}: {error}");
        }
    }
}
