//! OpenVINO GenAI, with its own graphs of the same shape and the nearest weight format to the file's.

use super::{Bench, Case, Peer, Python, last_rate};
use crate::shell::{TaskResult, output};
use std::path::{Path, PathBuf};

const SCRIPT: &str = "tools/peers/openvino_bench.py";

/// Variants: the attention backend, and the number of activations that share a scale in int8 products.
const VARIANTS: &[&[&str]] =
    &[&["--attention", "PA"], &["--attention", "PA", "--group", "128"], &["--attention", "SDPA"]];

/// Memory of a conversion, in bytes a weight: three times f16.
const MEMORY: f64 = 6.0;

/// Prints the version, without the build number after the dash.
const VERSION_CODE: &str = "import openvino_genai; print(openvino_genai.__version__.split('-')[0])";

/// OpenVINO GenAI in a Python with tools/peers/requirements.txt.
struct OpenVino(Python);

pub fn peer(python: Python) -> Result<Peer, String> {
    let version = python.ask(VERSION_CODE)?;
    Ok(Peer {
        name: "OpenVINO",
        title: format!("OpenVINO GenAI {version}"),
        variants: VARIANTS,
        bench: Box::new(OpenVino(python)),
    })
}

impl Bench for OpenVino {
    fn ready(&self, case: &Case, file: &Path) -> Result<bool, String> {
        let able = weights(case).is_some();
        if able && !self.models(case).exists() {
            self.0.paths.check_memory(case, file, MEMORY)?;
            self.convert(case)?;
        }
        Ok(able)
    }

    fn rate(&self, case: &Case, _: &Path, flags: &[&str], threads: &str) -> Result<f64, String> {
        let weights = weights(case).ok_or_else(|| format!("no OpenVINO model for {}", case.name))?;
        let mut command = self.0.script(SCRIPT);
        command.arg("run").arg(self.models(case).join(weights)).args(["--threads", threads]).args(flags);
        command.args(case.test.flags());
        last_rate(&output(&mut command)?)
    }
}

impl OpenVino {
    /// Converts the shape's graphs from a temporary f16 file.
    fn convert(&self, case: &Case) -> TaskResult {
        let file = self.0.paths.file(&format!("{}:f16", case.shape()))?;
        // The progress report is discarded.
        output(self.0.script(SCRIPT).arg("convert").arg(&file).arg(self.models(case)))?;
        std::fs::remove_file(&file).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// The folder of the shape's graphs.
    fn models(&self, case: &Case) -> PathBuf {
        self.0.paths.cache.join("openvino").join(case.shape())
    }
}

/// The weight format to compare with, if the case can run: one stream of a family that its GGUF reader supports.
fn weights(case: &Case) -> Option<&'static str> {
    let known = ["qwen", "llama"].iter().any(|family| case.shape().contains(family));
    (known && case.test.is_of_one_stream()).then(|| case.integers()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_eight_and_four_bits_of_one_stream() {
        let of = |case: &str| weights(&Case::parse(case).unwrap());
        assert_eq!(of("qwen3-0.6b:q8_0/pp512"), Some("int8"));
        assert_eq!(of("llama3.2-1b:q4_k_m/tg64"), Some("int4"));
        assert_eq!(of("qwen3-0.6b:q4_0/pp512"), Some("int4"));
        for case in
            ["qwen3-0.6b:bf16/pp512", "qwen3-0.6b:q8_0/tg32x4", "gemma3-1b:q8_0/pp512", "qwen3-0.6b/pp512"]
        {
            assert_eq!(of(case), None, "{case}");
        }
    }
}
