//! ONNX Runtime GenAI, with graphs that its builder makes from a checkpoint of the same shape with random weights.

use super::{Bench, Case, Peer, Python, last_rate};
use crate::shell::{TaskResult, output, output_and_errors};
use std::path::{Path, PathBuf};

const SCRIPT: &str = "tools/peers/onnx_bench.py";
const VERSION_CODE: &str = "import onnxruntime_genai; print(onnxruntime_genai.__version__)";

/// Memory of a conversion, in bytes a weight: the builder computes in f32, and the checkpoint is in bfloat16.
const MEMORY: f64 = 8.0;

/// Variants by block size: the number of weights that share a scale.
const VARIANTS: &[&[&str]] = &[&["--block", "32"], &["--block", "128"]];

/// ONNX Runtime GenAI in a Python with tools/peers/requirements-onnx.txt.
struct Onnx(Python);

pub fn peer(python: Python) -> Result<Peer, String> {
    let version = python.ask(VERSION_CODE)?;
    Ok(Peer {
        name: "ONNX Runtime",
        title: format!("ONNX Runtime GenAI {version}"),
        variants: VARIANTS,
        bench: Box::new(Onnx(python)),
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
        let mut command = self.0.script(SCRIPT);
        command.arg("run").arg(self.models(case)).args(["--weights", weights, "--threads", threads]);
        last_rate(&output(command.args(flags).args(case.test.flags()))?)
    }
}

impl Onnx {
    fn convert(&self, case: &Case, file: &Path) -> TaskResult {
        self.0.paths.check_memory(case, file, MEMORY)?;
        // The progress report is discarded.
        output_and_errors(
            self.0.script(SCRIPT).arg("convert").arg(self.0.paths.inspected(case)).arg(self.models(case)),
        )
        .map(drop)
    }

    /// The folder of the shape's graphs.
    fn models(&self, case: &Case) -> PathBuf {
        self.0.paths.cache.join("onnx").join(case.shape())
    }
}

/// The weight format to compare with, if the case can run.
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
