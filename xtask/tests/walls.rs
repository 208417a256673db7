//! The walls between the rooms, as DESIGN's table and ARCHITECTURE.md state them: who may depend on whom, and which
//! effects a room may have. Lints hold what lints can (`unsafe`, printing); this holds the rest.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Direct arrows, at most: a room and the rooms it may name.
const ARROWS: [(&str, &[&str]); 13] = [
    ("cpu", &[]),
    ("tensor", &[]),
    ("events", &[]),
    ("wire", &[]),
    ("planner", &[]),
    ("kernels", &["cpu", "tensor"]),
    ("weights", &["cpu", "tensor"]),
    ("text", &["cpu", "weights"]),
    ("model", &["cpu", "tensor", "kernels", "weights"]),
    ("engine", &["cpu", "kernels", "model", "text", "events"]),
    ("server", &["engine", "text", "model", "events", "wire"]),
    ("gateway", &["wire", "events", "planner"]),
    (
        "cli",
        &[
            "cpu", "tensor", "kernels", "weights", "text", "model", "engine", "events", "wire", "planner",
            "server", "gateway",
        ],
    ),
];

/// What must not be linked, however indirectly.
const NEVER: [(&str, &[&str]); 7] = [
    ("gateway", &["engine", "model", "kernels", "weights", "text", "cpu"]),
    ("engine", &["tokio", "axum", "hyper"]),
    ("model", &["tokio", "axum", "hyper"]),
    ("kernels", &["tokio", "ureq", "tracing"]),
    ("tensor", &["libc", "rustix", "tokio"]),
    ("wire", &["tokio", "axum", "hyper", "libc"]),
    ("planner", &["tokio", "libc", "rustix"]),
];

/// Words that stand for an effect, the rooms that may have it, and why the others may not.
const EFFECTS: [(&[&str], &[&str], &str); 6] = [
    (
        &["thread::spawn(", "thread::Builder", "thread::scope(", "rayon::"],
        &["cpu"],
        "threads are made in `cpu`, which counts and pins them",
    ),
    (&["core::arch::", "std::arch::"], &["cpu"], "intrinsics live behind the lanes of `cpu`"),
    (
        &["allow(unsafe_code)", "expect(unsafe_code)"],
        &[],
        "unsafe code lives in `cpu`, whose manifest allows it",
    ),
    (&["std::io::stdout(", "io::stdout()"], &["cli"], "only the command line writes to standard output"),
    (&["process::exit("], &["cli"], "only the command line chooses the exit code"),
    (
        &["env::var(", "env::var_os("],
        &["cli", "cpu"],
        "the environment is read by the command line (and GRISTMILL_ISA by `cpu`)",
    ),
];

/// Rooms without any clock: the time is an argument, or does not matter. (`text` has one for templates that print the
/// date, unless it is given another.)
const NO_CLOCK: [&str; 7] = ["tensor", "kernels", "model", "planner", "wire", "events", "gateway"];
/// Rooms without files and sockets.
const NO_FILES: [&str; 7] = ["tensor", "kernels", "engine", "planner", "wire", "events", "model"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is inside the workspace").to_owned()
}

fn metadata() -> Value {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--all-features"])
        .current_dir(root())
        .output()
        .expect("cargo metadata runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("cargo metadata writes JSON")
}

/// Package name → names it depends on to be built and run (dev-dependencies left out).
fn graph(metadata: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let name_of: BTreeMap<&str, &str> = metadata["packages"]
        .as_array()
        .expect("packages")
        .iter()
        .map(|package| (package["id"].as_str().expect("id"), package["name"].as_str().expect("name")))
        .collect();
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in metadata["resolve"]["nodes"].as_array().expect("nodes") {
        let from = name_of[node["id"].as_str().expect("id")];
        let to = node["deps"].as_array().expect("deps").iter().filter(|dep| {
            dep["dep_kinds"]
                .as_array()
                .expect("kinds")
                .iter()
                .any(|kind| kind["kind"].as_str() != Some("dev"))
        });
        let names = to.map(|dep| name_of[dep["pkg"].as_str().expect("pkg")].to_owned());
        graph.entry(from.to_owned()).or_default().extend(names);
    }
    graph
}

#[test]
fn arrows_point_one_way() {
    let graph = graph(&metadata());
    let rooms: BTreeSet<&str> = ARROWS.iter().map(|(room, _)| *room).collect();
    let on_disk: BTreeSet<String> = fs::read_dir(root().join("crates"))
        .expect("crates/")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(on_disk, rooms.iter().map(|&room| room.to_owned()).collect(), "ARROWS lists every room");
    for (room, allowed) in ARROWS {
        let named: Vec<&String> = graph[room].iter().filter(|name| rooms.contains(name.as_str())).collect();
        for other in named {
            assert!(allowed.contains(&other.as_str()), "`{room}` must not depend on `{other}`");
        }
    }
}

#[test]
fn what_must_never_be_linked_is_not() {
    let graph = graph(&metadata());
    for (room, never) in NEVER {
        let mut reached = BTreeSet::new();
        let mut todo = vec![room.to_owned()];
        while let Some(name) = todo.pop() {
            if reached.insert(name.clone()) {
                todo.extend(graph.get(&name).into_iter().flatten().cloned());
            }
        }
        for name in never {
            assert!(!reached.contains(*name), "`{room}` must not link `{name}`, however indirectly");
        }
    }
}

/// The lines of a room's own code: not `tests/`, not `tests.rs`, nothing after the first `#[cfg(test)]`, no comments.
fn lines(room: &str) -> Vec<(String, String)> {
    fn walk(folder: &Path, out: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                walk(&path, out);
            } else if name.ends_with(".rs") && name != "tests.rs" && !name.ends_with("_tests.rs") {
                let text = fs::read_to_string(&path).expect("a source file");
                let own = text.lines().enumerate().take_while(|(_, line)| line.trim() != "#[cfg(test)]");
                let code = own.filter(|(_, line)| !line.trim_start().starts_with("//"));
                out.extend(code.map(|(n, line)| (format!("{}:{}", path.display(), n + 1), line.to_owned())));
            }
        }
    }
    let mut out = Vec::new();
    walk(&root().join("crates").join(room).join("src"), &mut out);
    out
}

fn forbid(rooms: &[&str], words: &[&str], why: &str, wrong: &mut Vec<String>) {
    for room in rooms {
        for (place, line) in lines(room) {
            // `cpu::thread::spawn` is the way to ask for a thread.
            let line = line.replace("cpu::thread::spawn(", "");
            if let Some(word) = words.iter().find(|word| line.contains(**word)) {
                wrong.push(format!("{place}: `{word}`: {why}"));
            }
        }
    }
}

#[test]
fn effects_stay_in_their_rooms() {
    let mut wrong = Vec::new();
    for (words, may, why) in EFFECTS {
        let others: Vec<&str> =
            ARROWS.iter().map(|(room, _)| *room).filter(|room| !may.contains(room)).collect();
        forbid(&others, words, why, &mut wrong);
    }
    forbid(&NO_CLOCK, &["Instant::now(", "SystemTime::now("], "this room has no clock", &mut wrong);
    forbid(
        &NO_FILES,
        &["std::fs::", "File::open(", "TcpStream", "TcpListener"],
        "this room has no files or sockets",
        &mut wrong,
    );
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_room_has_the_workspace_lints() {
    for (room, _) in ARROWS {
        let manifest =
            fs::read_to_string(root().join("crates").join(room).join("Cargo.toml")).expect("a manifest");
        let shared = manifest.contains("[lints]\nworkspace = true");
        // `cpu` restates them without `unsafe_code`.
        assert!(shared || room == "cpu", "`{room}` must take the workspace's lints");
    }
}

/// Licences that may be linked into the binary.
const LICENCES: [&str; 14] = [
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "0BSD",
    "Unicode-3.0",
    "Unlicense",
    "CC0-1.0",
    "BSL-1.0",
    "MPL-2.0",
    "CDLA-Permissive-2.0",
];

#[test]
fn licences_allow_it() {
    let metadata = metadata();
    let mut wrong = Vec::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let licence = package["license"].as_str().unwrap_or("");
        if !allowed(licence) {
            wrong.push(format!("{} {}: `{licence}`", package["name"], package["version"]));
        }
    }
    assert!(wrong.is_empty(), "licences not in the list:\n{}", wrong.join("\n"));
}

/// Whether an SPDX expression of ORs and ANDs (and the old `A/B`) can be met from [`LICENCES`].
fn allowed(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    let mut depth = 0;
    for operator in [" AND ", " OR "] {
        let mut parts = Vec::new();
        let mut start = 0;
        for (at, c) in expression.char_indices() {
            depth += i32::from(c == '(') - i32::from(c == ')');
            if depth == 0 && expression[at..].starts_with(operator) {
                parts.push(&expression[start..at]);
                start = at + operator.len();
            }
        }
        if !parts.is_empty() {
            parts.push(&expression[start..]);
            return if operator == " OR " {
                parts.into_iter().any(allowed)
            } else {
                parts.into_iter().all(allowed)
            };
        }
    }
    let one = expression.trim();
    match one.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        Some(inner) => allowed(inner),
        None => LICENCES.contains(&one),
    }
}

#[test]
fn licence_expressions_are_read_as_written() {
    assert!(allowed("MIT OR GPL-3.0"));
    assert!(!allowed("MIT AND GPL-3.0"));
    assert!(allowed("(MIT OR GPL-3.0) AND Unicode-3.0"));
    assert!(!allowed("(MIT OR Apache-2.0) AND GPL-3.0"));
    assert!(allowed("MIT/Apache-2.0"));
    assert!(!allowed(""));
}

/// Crates that are linked in two or more major versions because their users have not met yet. Shorten this list; a new
/// name in it needs a reason that a reader would accept.
const DUPLICATES: [&str; 7] = [
    "base64",    // 0.13: tokenizers, for a sentencepiece normalizer's table
    "getrandom", // 0.2: ring; 0.3: ahash in tokenizers; 0.4: tempfile
    "hashbrown", // minijinja and indexmap
    "r-efi",     // getrandom, on UEFI only
    "rand_core", // tokenizers
    "syn",       // compile time only
    "winnow",    // toml's reader and writer
];

#[test]
fn no_new_duplicate_major_versions() {
    let metadata = metadata();
    let graph = metadata["resolve"]["nodes"].as_array().expect("nodes");
    // Only what the program links on this machine's kind: reachable from `cli` through normal dependencies.
    let by_id: BTreeMap<&str, &Value> =
        graph.iter().map(|node| (node["id"].as_str().expect("id"), node)).collect();
    let packages: BTreeMap<&str, (&str, &str)> = metadata["packages"]
        .as_array()
        .expect("packages")
        .iter()
        .map(|p| {
            (
                p["id"].as_str().expect("id"),
                (p["name"].as_str().expect("name"), p["version"].as_str().expect("version")),
            )
        })
        .collect();
    let start = packages.iter().find(|(_, (name, _))| *name == "cli").map(|(id, _)| *id).expect("cli");
    let (mut reached, mut todo) = (BTreeSet::new(), vec![start]);
    while let Some(id) = todo.pop() {
        if !reached.insert(id) {
            continue;
        }
        for dep in by_id[id]["deps"].as_array().expect("deps") {
            let linked = dep["dep_kinds"].as_array().expect("kinds").iter().any(|kind| {
                kind["kind"].is_null()
                    && kind["target"].as_str().is_none_or(|target| !target.contains("windows"))
            });
            if linked {
                todo.push(dep["pkg"].as_str().expect("pkg"));
            }
        }
    }
    let mut majors: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for id in reached {
        let (name, version) = packages[id];
        let mut parts = version.split('.');
        let (major, minor) = (parts.next().unwrap_or("0"), parts.next().unwrap_or("0"));
        let major = if major == "0" { format!("0.{minor}") } else { major.to_owned() };
        majors.entry(name).or_default().insert(major);
    }
    let duplicates: Vec<String> = majors
        .iter()
        .filter(|(name, versions)| versions.len() > 1 && !DUPLICATES.contains(name))
        .map(|(name, versions)| {
            format!("{name}: {}", versions.iter().cloned().collect::<Vec<_>>().join(", "))
        })
        .collect();
    assert!(duplicates.is_empty(), "linked more than once:\n{}", duplicates.join("\n"));
}
