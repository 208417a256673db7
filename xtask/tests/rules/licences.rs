//! Rules for linked packages: allowed licences, and no package in two major versions without a reason.

use crate::workspace::{list, metadata, text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

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

/// Packages that only fuzz targets link, which are not distributed.
const FUZZING: [&str; 1] = ["libfuzzer-sys"];

#[test]
fn licences_allow_it() {
    let mut wrong = Vec::new();
    for package in list(&metadata()["packages"]) {
        let licence = package["license"].as_str().unwrap_or("");
        if !allowed(licence) && !FUZZING.contains(&text(&package["name"])) {
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

/// Crates that are linked in two or more major versions because their dependents require different ones. This list
/// should get shorter; a new entry needs a good reason.
const DUPLICATES: [&str; 10] = [
    "base64",            // 0.13: tokenizers, for a sentencepiece normalizer's table; 0.22: tonic
    "fallible-iterator", // 0.2: tokio-postgres; 0.3: rusqlite
    "getrandom",         // 0.2: ring; 0.3: ahash in tokenizers; 0.4: tempfile
    "hashbrown",         // minijinja and indexmap
    "r-efi",             // getrandom, on UEFI only
    "rand",              // 0.9: tokenizers; 0.10: tokio-postgres, for its SCRAM
    "rand_core",         // tokenizers
    "syn",               // compile time only
    "wasi",              // whoami in tokio-postgres, on WASI only
    "winnow",            // toml's reader and writer
];

#[test]
fn no_new_duplicate_major_versions() {
    let metadata = metadata();
    // Only what the program links on this machine's kind: reachable from `cli` through normal dependencies.
    let by_id: BTreeMap<&str, &Value> =
        list(&metadata["resolve"]["nodes"]).map(|node| (text(&node["id"]), node)).collect();
    let packages: BTreeMap<&str, (&str, &str)> = list(&metadata["packages"])
        .map(|p| (text(&p["id"]), (text(&p["name"]), text(&p["version"]))))
        .collect();
    let start = packages.iter().find(|(_, (name, _))| *name == "cli").map(|(id, _)| *id).expect("cli");
    let (mut reached, mut todo) = (BTreeSet::new(), vec![start]);
    while let Some(id) = todo.pop() {
        if !reached.insert(id) {
            continue;
        }
        for dep in list(&by_id[id]["deps"]) {
            let linked = list(&dep["dep_kinds"]).any(|kind| {
                kind["kind"].is_null()
                    && kind["target"].as_str().is_none_or(|target| !target.contains("windows"))
            });
            if linked {
                todo.push(text(&dep["pkg"]));
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
