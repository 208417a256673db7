//! mistral.rs: it reads the file itself, with a tokenizer.json beside it.

use super::{Bench, Case, Peer, Places, last_rate};
use crate::shell::{output, root};
use std::path::{Path, PathBuf};
use std::process::Command;

const SCRIPT: &str = "tools/peers/mistralrs_bench.py";
const ASK: &str = "from importlib.metadata import version; print(version('mistralrs'))";

/// Its defaults are its fastest.
const VARIANTS: &[&[&str]] = &[&[]];

struct MistralRs {
    /// A Python with tools/peers/requirements-mistralrs.txt.
    python: PathBuf,
    places: Places,
}

pub fn peer(python: &Path, places: &Places) -> Result<Peer, String> {
    let version = output(Command::new(python).args(["-c", ASK]))?;
    Ok(Peer {
        name: "mistral.rs",
        title: format!("mistral.rs {}", version.trim()),
        variants: VARIANTS,
        bench: Box::new(MistralRs { python: python.into(), places: places.clone() }),
    })
}

impl Bench for MistralRs {
    fn ready(&self, case: &Case, file: &Path) -> Result<bool, String> {
        let able = able(case);
        if able {
            self.places.inspect(case, file)?;
        }
        Ok(able)
    }

    fn rate(&self, case: &Case, file: &Path, flags: &[&str], threads: &str) -> Result<f64, String> {
        let mut command = Command::new(&self.python);
        command.arg(root().join(SCRIPT)).arg(file).arg(self.places.inspected(case));
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
