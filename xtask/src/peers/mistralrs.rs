//! mistral.rs, which reads the GGUF file, with a tokenizer.json in the same folder.

use super::{Bench, Case, Peer, Python, last_rate};
use crate::shell::output;
use std::path::Path;

const SCRIPT: &str = "tools/peers/mistralrs_bench.py";
const VERSION_CODE: &str = "from importlib.metadata import version; print(version('mistralrs'))";

/// The only variant: the defaults are the fastest.
const VARIANTS: &[&[&str]] = &[&[]];

/// mistral.rs in a Python with tools/peers/requirements-mistralrs.txt.
struct MistralRs(Python);

pub fn peer(python: Python) -> Result<Peer, String> {
    let version = python.ask(VERSION_CODE)?;
    Ok(Peer {
        name: "mistral.rs",
        title: format!("mistral.rs {version}"),
        variants: VARIANTS,
        bench: Box::new(MistralRs(python)),
    })
}

impl Bench for MistralRs {
    fn ready(&self, case: &Case, file: &Path) -> Result<bool, String> {
        let able = able(case);
        if able {
            self.0.paths.inspect(case, file)?;
        }
        Ok(able)
    }

    fn rate(&self, case: &Case, file: &Path, flags: &[&str], threads: &str) -> Result<f64, String> {
        let mut command = self.0.script(SCRIPT);
        command.arg(file).arg(self.0.paths.inspected(case));
        command.args(["--threads", threads]).args(flags).args(case.test.flags());
        last_rate(&output(&mut command)?)
    }
}

/// Whether mistral.rs was tested with such a case: it fails for several streams.
fn able(case: &Case) -> bool {
    case.test.is_of_one_stream() && case.qwen3_or_llama()
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
