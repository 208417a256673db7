//! Tests on real models and published vocabularies, which are downloaded outside the checkout.
//!
//! Such a test is ignored by default, lives in a file `tests/models_*.rs`, and declares its files:
//! `#[ignore = "needs: gristmill pull NAME"]` (or several names), or `needs tools/fixtures/fetch_vocabularies.py`. The
//! downloads are read from these attributes.

use crate::ci;
use crate::program::Program;
use crate::shell::{TaskResult, call, root};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const PULL: &str = "gristmill pull ";
const VOCABULARIES: &str = "tools/fixtures/fetch_vocabularies.py";

/// The models and vocabularies that the ignored tests need.
#[derive(Default)]
struct Needs {
    models: BTreeSet<String>,
    vocabularies: bool,
}

/// Downloads the files of the ignored tests; existing ones are only checked.
pub fn pull(program: &Program) -> TaskResult {
    let mut needs = Needs::default();
    collect(&root().join("crates"), &mut needs)?;
    if needs.vocabularies {
        eprintln!("{VOCABULARIES}");
        call(Command::new("python3").arg(VOCABULARIES).current_dir(root()))?;
    }
    for name in needs.models {
        eprintln!("{PULL}{name}");
        call(&mut program.command(&["pull", &name]))?;
    }
    Ok(())
}

/// Runs the ignored tests that need a model.
pub fn tests() -> TaskResult {
    let mut command = ci::tests_of(&["--workspace"]);
    if ci::nextest() {
        command.args(["--run-ignored", "only", "-E", "test(/^models_/)"]);
    } else {
        // One test at a time: each computes on all CPUs, and two would delay each other at every barrier.
        command.args(["--tests", "--", "--ignored", "--test-threads", "1", "models_"]);
    }
    call(&mut command)
}

fn collect(folder: &Path, needs: &mut Needs) -> TaskResult {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            collect(&path, needs)?;
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            let text =
                std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            for line in text.lines().filter(|line| line.trim_start().starts_with("#[ignore")) {
                needs.vocabularies |= line.contains(VOCABULARIES);
                let Some((_, rest)) = line.split_once(PULL) else { continue };
                let list = rest.split(['"', ')', ';']).next().unwrap_or_default();
                let name = |word: &&str| word.contains(|c: char| c.is_ascii_digit() || c == '-');
                needs.models.extend(list.split([' ', ',']).filter(name).map(str::to_owned));
            }
        }
    }
    Ok(())
}
