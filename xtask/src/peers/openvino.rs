//! OpenVINO GenAI: it reads a graph of its own, of the same shape, with the weights that come nearest to the file's.

use super::{Bench, Case, Peer, Python, last_rate};
use crate::shell::{Done, output};
use std::path::{Path, PathBuf};

const SCRIPT: &str = "tools/peers/openvino_bench.py";

/// How it attends, and how many activations share a scale where the CPU multiplies in int8.
const VARIANTS: &[&[&str]] =
    &[&["--attention", "PA"], &["--attention", "PA", "--group", "128"], &["--attention", "SDPA"]];

/// Bytes that a conversion takes for each weight: three times those of f16.
const MEMORY: f64 = 6.0;

/// What comes after the dash is its build.
const ASK: &str = "import openvino_genai; print(openvino_genai.__version__.split('-')[0])";

/// Of a Python with tools/peers/requirements.txt.
struct OpenVino(Python);

pub fn peer(python: Python) -> Result<Peer, String> {
    let version = python.ask(ASK)?;
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
            self.0.places.room(case, file, MEMORY)?;
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
    /// Makes the shape's graphs out of a file in f16, which is not kept.
    fn convert(&self, case: &Case) -> Done {
        let file = self.0.places.file(&format!("{}:f16", case.shape()))?;
        // Its report of how it goes is not wanted.
        output(self.0.script(SCRIPT).arg("convert").arg(&file).arg(self.models(case)))?;
        std::fs::remove_file(&file).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// The folder of the shape's graphs.
    fn models(&self, case: &Case) -> PathBuf {
        self.0.places.cache.join("openvino").join(case.shape())
    }
}

/// The weights to compare with, where it can run the case at all: one stream of a family that its reader of GGUF knows.
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
