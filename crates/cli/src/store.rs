//! The model store as the commands see it: where it is, and what a pull looks like on the terminal.
//!
//! A pull draws a bar on a terminal and writes plain lines elsewhere, always to standard error: standard output
//! belongs to the command's own answer.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use weights::catalog::Catalog;
use weights::fetch::{Event, Progress};
use weights::store::ModelStore;

use crate::Failure;
use crate::term::{clean, err};

/// How often a plain line is written while bytes arrive.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// Files below this size get no line of their own.
const QUIET_BYTES: u64 = 1 << 20;

/// The store that the environment names.
///
/// # Errors
/// No variable says where it is.
pub(crate) fn home() -> Result<ModelStore, Failure> {
    Ok(ModelStore::from_env(|name| std::env::var_os(name))?)
}

/// The path of MODEL (catalog name, path, or source), pulled first if it is not there.
///
/// # Errors
/// No such model, or every source of it failed.
#[allow(dead_code, reason = "for every command that opens a model; not each build has one")]
pub(crate) fn resolve(model: &str) -> Result<PathBuf, Failure> {
    weights::store::resolve(model, &home()?, &mut Watch::new()).map_err(|error| unknown(model, error))
}

/// Whether MODEL is a published shape and nothing that can be opened: files, sources and the catalog's names come first.
pub(crate) fn is_shape(model: &str) -> bool {
    let name = model.split_once(':').map_or(model, |(name, _)| name);
    let known = || model::shapes::all().iter().any(|shape| shape.name == name);
    !Path::new(model).exists() && Catalog::embedded().find(model).is_none() && known()
}

/// The failure of finding a model; of a shape, that it is one.
pub(crate) fn unknown(model: &str, error: weights::store::Error) -> Failure {
    if !matches!(error, weights::store::Error::Unknown { .. }) || !is_shape(model) {
        return error.into();
    }
    let name = model.split_once(':').map_or(model, |(name, _)| name);
    let there = match Catalog::embedded().find(name) {
        Some(entry) => format!("the catalog's {}", entry.name),
        None => "a model file, or a source such as hf:ORG/NAME".to_owned(),
    };
    Failure::new(format!(
        "{model} is a published shape, a model's measures without its weights: plan fit, bench and tune take it. Here a \
         model with weights is needed: {there}"
    ))
}

/// Shows a pull.
pub(crate) struct Watch {
    terminal: bool,
    bar: Option<ProgressBar>,
    total: Option<u64>,
    line: Instant,
}

impl Watch {
    pub(crate) fn new() -> Watch {
        Watch { terminal: std::io::stderr().is_terminal(), bar: None, total: None, line: Instant::now() }
    }

    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| err!("{text}")),
            None => err!("{text}"),
        }
    }

    fn begin(&mut self, file: &str, total: Option<u64>, done: u64) {
        self.end();
        self.total = total;
        self.line = Instant::now();
        if !self.terminal {
            if total.is_some_and(|total| total < QUIET_BYTES) {
                return;
            }
            let resumed = if done > 0 { format!(", going on from {}", size(done)) } else { String::new() };
            let whole = total.map_or(String::new(), |total| format!(" ({})", size(total)));
            err!("{file}{whole}{resumed}");
            return;
        }
        let template = match total {
            Some(_) => "{msg} [{bar:24}] {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {eta}",
            None => "{msg} {spinner} {decimal_bytes} {decimal_bytes_per_sec}",
        };
        let style = ProgressStyle::with_template(template);
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
        bar.set_message(clean(&short(file)));
        bar.reset_eta();
        bar.set_position(done);
        self.bar = Some(bar);
    }

    fn bytes(&mut self, file: &str, done: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        } else if !self.terminal && self.line.elapsed() >= LINE_EVERY {
            self.line = Instant::now();
            match self.total.filter(|&total| total > 0) {
                Some(total) => {
                    let percent = u128::from(done) * 100 / u128::from(total);
                    err!("{file}: {} of {} ({percent} %)", size(done), size(total));
                }
                None => err!("{file}: {}", size(done)),
            }
        }
    }

    fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end();
    }
}

impl Progress for Watch {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Source { model, source } => self.say(&format!("pulling {model} from {source}")),
            Event::SourceFailed { source, error } => {
                self.end();
                self.say(&format!("  {source} failed: {error}"));
            }
            Event::Begin { file, total_bytes, resumed_bytes } => self.begin(file, total_bytes, resumed_bytes),
            Event::Bytes { file, done_bytes } => self.bytes(file, done_bytes),
            Event::Retry { reason, pause_ms, .. } => {
                self.say(&format!("  {reason}; again in {:.1} s", pause_ms as f64 / 1000.0));
            }
            Event::Waiting { model, waited_s: 0 } => {
                self.say(&format!("another process is pulling {model}; waiting for it"));
            }
            Event::Waiting { model, waited_s } => {
                self.say(&format!("still waiting for {model} after {waited_s} s"))
            }
            Event::Verify { file, total_bytes } if total_bytes >= 64 << 20 => {
                self.say(&format!("checking {file} ({})", size(total_bytes)));
            }
            Event::End { .. } => self.end(),
            _ => {}
        }
    }
}

/// The end of a long name, which tells more than its beginning.
fn short(name: &str) -> String {
    const WIDTH: usize = 40;
    let length = name.chars().count();
    if length <= WIDTH {
        return name.to_owned();
    }
    format!("…{}", name.chars().skip(length - WIDTH + 1).collect::<String>())
}

/// Bytes for the eye, in powers of 1000 as disks and downloads are measured.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1000.0;
    let mut unit = 0;
    // 999.95 would be written as 1000.0.
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_readable() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (999_949, "999.9 kB"),
            (999_960, "1.0 MB"),
            (98_362_432, "98.4 MB"),
            (1_117_320_768, "1.1 GB"),
            (u64::MAX, "18446.7 PB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn long_names_keep_their_end() {
        let name = format!("{}q4_k_m.gguf", "é".repeat(60));
        let short = short(&name);
        assert_eq!(short.chars().count(), 40);
        assert!(short.ends_with("q4_k_m.gguf"));
    }
}
