//! Rule: effects (threads, clock, files, sockets, environment, standard output) only in the crates that may have them.

use crate::crates::RULES;
use crate::sources::Tree;
use crate::workspace::root;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// An effect of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Clock,
    Environment,
    ExitCode,
    Files,
    Intrinsics,
    Sockets,
    StandardOutput,
    Threads,
    Unsafe,
}

/// An effect, the paths that have it, and why it is restricted.
const EFFECTS: &[(Effect, &[&str], &str)] = &[
    (
        Effect::Threads,
        &["std::thread::spawn", "std::thread::Builder", "std::thread::scope", "rayon", "rten::ThreadPool"],
        "threads are made in `cpu`, which counts and pins them",
    ),
    (
        Effect::Intrinsics,
        &["core::arch", "std::arch"],
        "intrinsics live behind the capability tokens of `cpu`",
    ),
    (
        Effect::StandardOutput,
        &["std::io::stdout", "std::io::Stdout"],
        "only the command line writes to standard output",
    ),
    (Effect::ExitCode, &["std::process::exit"], "only the command line chooses the exit code"),
    (
        Effect::Environment,
        &["std::env"],
        "the environment is read by the command line (and GRISTMILL_ISA by `cpu`)",
    ),
    (
        Effect::Clock,
        &["std::time::Instant::now", "std::time::SystemTime::now"],
        "time is an argument here, or does not matter",
    ),
    (Effect::Files, &["std::fs", "tokio::fs", "rustix::fs", "memmap2", "tempfile"], "no files here"),
    (
        Effect::Sockets,
        &["std::net::TcpStream", "std::net::TcpListener", "std::net::UdpSocket", "tokio::net"],
        "no sockets here",
    ),
];

/// Exceptions: uses of an effect that the crate may not have, by file, start of the path and reason. An unused
/// exception fails the test.
const EXCEPTIONS: &[(&str, &str, &str)] = &[(
    "crates/onnx/src/neural_threads.rs",
    "rten::ThreadPool",
    "`rten` computes on threads of rayon only; one pool for the process, of the size that the caller gives",
)];

/// The sources of every crate: the crate's name and the tree of its root file.
pub fn trees() -> &'static [(&'static str, Tree)] {
    static TREES: LazyLock<Vec<(&str, Tree)>> = LazyLock::new(read);
    &TREES
}

fn read() -> Vec<(&'static str, Tree)> {
    let roots = |name: &str| {
        let folder = PathBuf::from("crates").join(name).join("src");
        ["lib.rs", "main.rs"]
            .map(|file| folder.join(file))
            .into_iter()
            .filter(|file| root().join(file).is_file())
    };
    RULES.iter().flat_map(|rule| roots(rule.name).map(|file| (rule.name, Tree::read(&file)))).collect()
}

fn starts_with(path: &[String], start: &str) -> bool {
    let mut names = path.iter();
    start.split("::").all(|part| names.next().is_some_and(|name| name == part))
}

/// A path in a crate's code that has an effect.
struct Found {
    effect: Effect,
    start: &'static str,
    why: &'static str,
    file: PathBuf,
    line: usize,
    path: Vec<String>,
}

fn found(tree: &Tree) -> Vec<Found> {
    let mut all = Vec::new();
    for (index, module) in tree.modules.iter().enumerate() {
        for named in tree.named(index).into_iter().filter(|named| !named.inside) {
            for &(effect, starts, why) in EFFECTS {
                if let Some(start) = starts.iter().find(|start| starts_with(&named.path, start)) {
                    let (file, path) = (tree.files[module.file].clone(), named.path.clone());
                    all.push(Found { effect, start, why, file, line: named.line, path });
                }
            }
        }
    }
    all
}

#[test]
fn effects_stay_in_their_crates() {
    let mut wrong = BTreeSet::new();
    let mut excused = BTreeSet::new();
    for (name, tree) in trees() {
        let rule = RULES.iter().find(|rule| rule.name == *name).expect("a row of the table");
        let found = found(tree);
        for one in found.iter().filter(|one| !rule.effects.contains(&one.effect)) {
            match exception(&one.file, &one.path) {
                Some(exception) => drop(excused.insert(exception)),
                None => {
                    let path = one.path.join("::");
                    let Found { start, why, line, file, .. } = one;
                    wrong.insert(format!("{}:{line}: `{path}` ({start}): {why}", file.display()));
                }
            }
        }
        let by_path = |effect: &&Effect| EFFECTS.iter().any(|(other, ..)| other == *effect);
        for effect in rule.effects.iter().filter(by_path) {
            if !found.iter().any(|one| one.effect == *effect) {
                wrong.insert(format!("`{name}` has no {effect:?} any more: remove it from its row of RULES"));
            }
        }
    }
    for (index, (file, start, _)) in EXCEPTIONS.iter().enumerate() {
        if !excused.contains(&index) {
            wrong.insert(format!("{file} names `{start}` no more: remove it from EXCEPTIONS"));
        }
    }
    let wrong: Vec<String> = wrong.into_iter().collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn exception(file: &Path, path: &[String]) -> Option<usize> {
    EXCEPTIONS.iter().position(|(place, start, _)| Path::new(place) == file && starts_with(path, start))
}

#[test]
fn unsafe_code_is_let_in_nowhere() {
    let mut wrong = Vec::new();
    for (name, tree) in trees() {
        let rule = RULES.iter().find(|rule| rule.name == *name).expect("a row of the table");
        if rule.effects.contains(&Effect::Unsafe) {
            continue;
        }
        for module in &tree.modules {
            for word in ["allow", "expect"] {
                for line in module.lines_with(&[word, "(", "unsafe_code"]) {
                    wrong.push(format!("{}:{line}", tree.files[module.file].display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "unsafe code lives in `cpu`, whose manifest allows it:\n{}", wrong.join("\n"));
}

#[test]
fn every_crate_has_the_workspace_lints() {
    for rule in RULES {
        let manifest = root().join("crates").join(rule.name).join("Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).expect("a manifest");
        let shared = manifest.contains("[lints]\nworkspace = true");
        // `cpu` restates them without `unsafe_code`.
        assert!(
            shared || rule.effects.contains(&Effect::Unsafe),
            "`{}` must take the workspace's lints",
            rule.name
        );
    }
}
