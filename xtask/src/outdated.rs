//! Direct dependencies of the workspace with a newer version than Cargo.toml allows.
//!
//! A dry run of `cargo update` names the newest version of each unchanged dependency. If one is held back on purpose, a
//! comment above it in Cargo.toml says so, with the reason.

use crate::shell::{TaskResult, cargo, output_and_errors, root};

/// A dependency with a newer version.
#[derive(Debug, PartialEq, Eq)]
struct Outdated {
    name: String,
    /// The version in Cargo.lock.
    locked: String,
    /// The newest version.
    newest: String,
}

/// Lists outdated dependencies; fails if one has no reason in Cargo.toml.
pub fn check() -> TaskResult {
    let report = output_and_errors(&mut cargo(&["update", "--dry-run", "--verbose"]))?;
    let manifest =
        std::fs::read_to_string(root().join("Cargo.toml")).map_err(|e| format!("Cargo.toml: {e}"))?;
    let mut unexplained = Vec::new();
    for Outdated { name, locked, newest } in behind(&report) {
        match declaration(&manifest, &name) {
            None => {}
            Some(Declaration { held_back: Some(reason) }) => {
                println!("{name} {locked}, newest {newest}: {reason}")
            }
            Some(Declaration { held_back: None }) => {
                unexplained.push(format!("{name} {locked} (newest {newest})"))
            }
        }
    }
    if unexplained.is_empty() { Ok(()) } else { Err(format!("behind: {}", unexplained.join(", "))) }
}

/// Reads cargo's lines of the form `Unchanged NAME vOLD (available: vNEW)`.
fn behind(report: &str) -> Vec<Outdated> {
    let read = |line: &str| {
        let (name, rest) = line.trim().strip_prefix("Unchanged ")?.split_once(" v")?;
        let (locked, rest) = rest.split_once(" (available: v")?;
        // If the version needs a newer compiler, that follows the version.
        let newest = rest.trim_end_matches(')').split([',', ')']).next()?;
        Some(Outdated { name: name.into(), locked: locked.into(), newest: newest.into() })
    };
    report.lines().filter_map(read).collect()
}

/// The declaration of a direct dependency in the workspace's Cargo.toml.
#[derive(Debug, PartialEq, Eq)]
struct Declaration {
    /// The comment above the declaration, if it says that the dependency is held back.
    held_back: Option<String>,
}

/// The declaration of a dependency; none for an indirect one.
fn declaration(manifest: &str, name: &str) -> Option<Declaration> {
    let lines: Vec<&str> = manifest.lines().collect();
    let at = lines.iter().position(|line| line.split_once('=').is_some_and(|(key, _)| key.trim() == name))?;
    let comment: Vec<&str> = lines[..at].iter().rev().map_while(|line| line.strip_prefix("# ")).collect();
    let comment = comment.into_iter().rev().collect::<Vec<_>>().join(" ");
    Some(Declaration { held_back: comment.to_lowercase().contains("held back").then_some(comment) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_read_from_cargos_report() {
        let report = "    Updating index\n   Unchanged matchit v0.8.4 (available: v0.8.6)\n\
                      \x20  Unchanged zip v9.0.0 (available: v10.1.0, requires Rust 1.99)\nnote: to see how\n";
        let names: Vec<_> = behind(report).into_iter().map(|b| (b.name, b.locked, b.newest)).collect();
        let expected = [("matchit", "0.8.4", "0.8.6"), ("zip", "9.0.0", "10.1.0")]
            .map(|(a, b, c)| (a.into(), b.into(), c.into()));
        assert_eq!(names, expected);
    }

    #[test]
    fn a_reason_stands_above_what_is_held_back() {
        let manifest = "half = \"2\"\n# Is held back: tokenizers links it.\n# Both run.\nfancy-regex = \"0.17\"\nhyper = \"1\"\n";
        let held_back = Some("Is held back: tokenizers links it. Both run.".to_owned());
        assert_eq!(declaration(manifest, "fancy-regex"), Some(Declaration { held_back }));
        assert_eq!(declaration(manifest, "hyper"), Some(Declaration { held_back: None }));
        assert_eq!(declaration(manifest, "matchit"), None);
    }
}
