//! ONNX Runtime GenAI: graphs that its own builder makes of a checkpoint of the same shape, with random weights.

use super::{Bench, Case, Peer, Places, last_rate};
use crate::shell::{Done, output, output_and_errors, root};
use std::path::{Path, PathBuf};
use std::process::Command;

const SCRIPT: &str = "tools/peers/onnx_bench.py";
const ASK: &str = "import onnxruntime_genai; print(onnxruntime_genai.__version__)";

/// How many weights share a scale.
const VARIANTS: &[&[&str]] = &[&["--block", "32"], &["--block", "128"]];

struct Onnx {
    /// A Python with tools/peers/requirements-onnx.txt.
    python: PathBuf,
    places: Places,
}

pub fn peer(python: &Path, places: &Places) -> Result<Peer, String> {
    let version = output(Command::new(python).args(["-c", ASK]))?;
    Ok(Peer {
        name: "ONNX Runtime",
        title: format!("ONNX Runtime GenAI {}", version.trim()),
        variants: VARIANTS,
        bench: Box::new(Onnx { python: python.into(), places: places.clone() }),
    })
}

impl Bench for Onnx {
    fn ready(&self, case: &Case, file: &Path) -> Result<bool, String> {
        let able = weights(case).is_some();
        if able && !self.models(case).exists() {
            self.convert(case, file)?;
        }
        Ok(able)
    }

    fn rate(&self, case: &Case, _: &Path, flags: &[&str], threads: &str) -> Result<f64, String> {
        let weights = weights(case).ok_or_else(|| format!("no ONNX model for {}", case.name))?;
        let mut command = self.script("run");
        command.arg(self.models(case)).args(["--weights", weights, "--threads", threads]);
        last_rate(&output(command.args(flags).args(case.test.flags()))?)
    }
}

impl Onnx {
    fn convert(&self, case: &Case, file: &Path) -> Done {
        self.places.inspect(case, file)?;
        // Its report of how it goes is not wanted.
        output_and_errors(self.script("convert").arg(self.places.inspected(case)).arg(self.models(case)))
            .map(drop)
    }

    /// The folder of the shape's graphs.
    fn models(&self, case: &Case) -> PathBuf {
        self.places.cache.join("onnx").join(case.shape())
    }

    fn script(&self, command: &str) -> Command {
        let mut python = Command::new(&self.python);
        python.arg(root().join(SCRIPT)).arg(command);
        python
    }
}

/// The weights to compare with, where it can run the case at all.
fn weights(case: &Case) -> Option<&'static str> {
    case.qwen3_or_llama().then(|| case.integers()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_eight_and_four_bits_of_any_streams() {
        let of = |case: &str| weights(&Case::parse(case).unwrap());
        assert_eq!(of("qwen3-0.6b:q8_0/pp512"), Some("int8"));
        assert_eq!(of("llama3.2-1b:q4_k_m/tg16x4"), Some("int4"));
        assert_eq!(of("qwen3-0.6b:bf16/pp512"), None);
        assert_eq!(of("gemma3-1b:q8_0/pp512"), None);
    }
}
