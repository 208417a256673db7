//! mistral.rs: it reads the file itself, with a tokenizer.json beside it.

use super::{Bench, Case, Peer, Python, last_rate};
use crate::shell::output;
use std::path::Path;

const SCRIPT: &str = "tools/peers/mistralrs_bench.py";
const ASK: &str = "from importlib.metadata import version; print(version('mistralrs'))";

/// Its defaults are its fastest.
const VARIANTS: &[&[&str]] = &[&[]];

/// Of a Python with tools/peers/requirements-mistralrs.txt.
struct MistralRs(Python);

pub fn peer(python: Python) -> Result<Peer, String> {
    let version = python.ask(ASK)?;
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
            self.0.places.inspect(case, file)?;
        }
        Ok(able)
    }

    fn rate(&self, case: &Case, file: &Path, flags: &[&str], threads: &str) -> Result<f64, String> {
        let mut command = self.0.script(SCRIPT);
        command.arg(file).arg(self.0.places.inspected(case));
        command.args(["--threads", threads]).args(flags).args(case.test.flags());
        last_rate(&output(&mut command)?)
    }
}

/// Whether it was seen to run such a case: it fails for several streams.
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
