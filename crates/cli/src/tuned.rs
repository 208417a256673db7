//! What `gristmill tune` found for a model on this machine, as it is kept and used.

use std::path::{Path, PathBuf};

use cpu::Tier;
use cpu::probe::Machine;
use serde::{Deserialize, Serialize};

use crate::{Failure, details, store, term};

const KIND: &str = "tuned";
/// A note of another version is not read.
const VERSION: u32 = 1;
/// Steps of a prompt that can be used; a note that says otherwise is damaged.
const CHUNKS: std::ops::RangeInclusive<usize> = 16..=4096;

/// Which weights, on which CPU: a note is of use for just these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Setting {
    pub(crate) weight_bytes: u64,
    pub(crate) cpu: String,
    pub(crate) tier: String,
    /// Threads that the probe allowed.
    pub(crate) threads: usize,
}

/// The fastest of what was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tuned {
    version: u32,
    pub(crate) setting: Setting,
    pub(crate) decode_threads: usize,
    pub(crate) prefill_threads: usize,
    /// Most prompt rows in a step.
    pub(crate) prefill_chunk: usize,
    /// Everything measured.
    pub(crate) tried: Vec<Tried>,
    /// When, seconds since 1970.
    pub(crate) at_s: u64,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tried {
    /// As bench names it.
    pub(crate) test: String,
    pub(crate) threads: usize,
    pub(crate) prefill_chunk: usize,
    /// Of the fastest run.
    pub(crate) tokens_per_s: f64,
    pub(crate) runs: usize,
    /// How far the middle run is above the fastest, as a share; none with fewer than three runs.
    #[serde(default)]
    pub(crate) spread: Option<f64>,
    /// Share of the threads' time in which they waited for a CPU, over all candidates of the test.
    #[serde(default)]
    pub(crate) waited: Option<f64>,
}

impl Setting {
    pub(crate) fn of(opened: &weights::Opened, machine: &Machine, tier: Tier) -> Setting {
        Setting {
            weight_bytes: details::tensor_bytes(opened),
            cpu: machine.model_name.clone(),
            tier: tier.to_string(),
            threads: machine.threads,
        }
    }
}

impl Tuned {
    pub(crate) fn new(setting: Setting, best: (usize, usize, usize), tried: Vec<Tried>, at_s: u64) -> Tuned {
        let (decode_threads, prefill_threads, prefill_chunk) = best;
        Tuned { version: VERSION, setting, decode_threads, prefill_threads, prefill_chunk, tried, at_s }
    }

    /// What was found for the model at `path`, if it was in this setting.
    pub(crate) fn find(path: &Path, setting: &Setting) -> Option<Tuned> {
        let tuned: Tuned = serde_json::from_slice(&store::home().ok()?.note(KIND, path)?).ok()?;
        let threads = [tuned.decode_threads, tuned.prefill_threads];
        let sound = threads.iter().all(|n| (1..=1024).contains(n)) && CHUNKS.contains(&tuned.prefill_chunk);
        (sound && tuned.version == VERSION && tuned.setting == *setting).then_some(tuned)
    }

    /// Keeps it for the model at `path`, and says where.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn keep(&self, path: &Path) -> Result<PathBuf, Failure> {
        let text = serde_json::to_vec_pretty(self).expect("strings and numbers always serialize");
        Ok(store::home()?.write_note(KIND, path, &text)?)
    }

    /// Threads that the pool needs.
    pub(crate) fn most_threads(&self) -> usize {
        self.decode_threads.max(self.prefill_threads)
    }

    /// Has an engine run so.
    pub(crate) fn apply(&self, limits: &mut engine::Limits) {
        limits.threads = engine::Threads { decode: self.decode_threads, prefill: self.prefill_threads };
        limits.prefill_chunk = self.prefill_chunk;
    }

    /// `2 threads for prompts, 1 to decode, steps of 512`.
    pub(crate) fn say(&self) -> String {
        let Tuned { decode_threads, prefill_threads, prefill_chunk, .. } = self;
        let threads = term::number(*prefill_threads, "thread");
        format!("{threads} for prompts, {decode_threads} to decode, steps of {prefill_chunk}")
    }
}
