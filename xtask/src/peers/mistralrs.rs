//! mistral.rs: it reads the file itself, with a tokenizer.json beside it.

use super::{Bench, Case, Test, last_rate, parse};
use crate::shell::{output, root};
use std::path::{Path, PathBuf};
use std::process::Command;

const SCRIPT: &str = "tools/peers/mistralrs_bench.py";
const ASK: &str = "from importlib.metadata import version; print(version('mistralrs'))";

/// Its defaults are its fastest.
pub const VARIANTS: &[&[&str]] = &[&[]];

pub struct MistralRs {
    /// A Python with tools/peers/requirements-mistralrs.txt.
    python: PathBuf,
    /// What version it has.
    pub version: String,
    ours: PathBuf,
}

impl Bench for MistralRs {
    fn ready(&self, case: &Case, _: &Path) -> Result<bool, String> {
        Ok(able(case))
    }

    fn rate(&self, case: &Case, file: &Path, flags: &[&str], threads: &str) -> Result<f64, String> {
        let inspected = parse(&output(Command::new(&self.ours).arg("inspect").arg(file).arg("--json"))?)?;
        let metadata = &inspected["metadata"];
        let key = format!("{}.vocab_size", metadata["general.architecture"].as_str().unwrap_or_default());
        let vocabulary = metadata[&key].as_u64().ok_or_else(|| format!("{} has no {key}", file.display()))?;
        let mut command = Command::new(&self.python);
        command.arg(root().join(SCRIPT)).arg(file).args(["--vocabulary", &vocabulary.to_string()]);
        command.args(["--threads", threads]).args(flags);
        match case.test {
            Test::Prompt(tokens) => command.args(["--prompt", &tokens.to_string()]),
            Test::Decode { steps, .. } => command.args(["--generate", &steps.to_string()]),
        };
        last_rate(&output(&mut command)?)
    }
}

impl MistralRs {
    pub fn new(python: &Path, ours: &Path) -> Result<MistralRs, String> {
        let version = output(Command::new(python).args(["-c", ASK]))?.trim().to_owned();
        Ok(MistralRs { python: python.into(), version, ours: ours.into() })
    }
}

/// Whether it was seen to run such a case: it fails for several streams.
fn able(case: &Case) -> bool {
    let alone = matches!(case.test, Test::Prompt(_) | Test::Decode { streams: 1, .. });
    alone && case.qwen3_or_llama()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_one_stream_of_the_families_that_were_tried() {
        let of = |case: &str| able(&Case::parse(case).unwrap());
        assert!(of("qwen3-0.6b:q4_k_m/pp512") && of("llama3.2-1b:q8_0/tg64"));
        assert!(!of("qwen3-0.6b:q4_k_m/tg32x4") && !of("gemma3-1b:q4_k_m/pp512"));
    }
}
