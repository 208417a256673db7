//! Rule: files of a crate do not import each other in cycles. One file of a cycle cannot be understood, tested or moved
//! without all others.
//!
//! `cycles.txt` lists the remaining cycles. It only gets shorter: `GRISTMILL_BLESS=1` rewrites it after files were
//! renamed or a cycle was broken, and fails if more files of a crate are in cycles than before.

use crate::effects::trees;
use crate::sources::Tree;
use crate::workspace::root;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The list of cycles, in the folder of this file.
const LIST: &str = "xtask/tests/rules/cycles.txt";

/// Files that reach each other through imports: a strongly connected component.
type Group = BTreeSet<String>;

/// The files that a file imports, with a line and a path as evidence.
fn edges(tree: &Tree) -> BTreeMap<(usize, usize), String> {
    let mut edges = BTreeMap::new();
    for (index, module) in tree.modules.iter().enumerate() {
        for named in tree.named(index) {
            if let Some(to) = tree.defined_in(&named).filter(|to| *to != module.file) {
                edges.entry((module.file, to)).or_insert_with(|| {
                    format!("{}:{}: {}", tree.files[module.file].display(), named.line, named.path.join("::"))
                });
            }
        }
    }
    edges
}

/// The strongly connected components of two or more files.
fn groups(count: usize, edges: &BTreeMap<(usize, usize), String>) -> Vec<BTreeSet<usize>> {
    let reach = |from: usize| {
        let mut reached = BTreeSet::new();
        let mut todo = vec![from];
        while let Some(at) = todo.pop() {
            for &(_, to) in edges.keys().filter(|(start, _)| *start == at) {
                if reached.insert(to) {
                    todo.push(to);
                }
            }
        }
        reached
    };
    let reached: Vec<BTreeSet<usize>> = (0..count).map(reach).collect();
    let together = |at: usize| {
        (0..count).filter(|&other| reached[at].contains(&other) && reached[other].contains(&at)).collect()
    };
    let groups: BTreeSet<BTreeSet<usize>> =
        (0..count).map(together).filter(|group: &BTreeSet<usize>| group.len() > 1).collect();
    groups.into_iter().collect()
}

fn found() -> (Vec<Group>, BTreeMap<String, Vec<String>>) {
    let mut all = Vec::new();
    let mut evidence: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (_, tree) in trees() {
        let edges = edges(tree);
        for group in groups(tree.files.len(), &edges) {
            let name = |file: &usize| tree.files[*file].display().to_string();
            for ((from, to), place) in
                edges.iter().filter(|((from, to), _)| group.contains(from) && group.contains(to))
            {
                evidence.entry(name(from)).or_default().push(format!("  {} because of {place}", name(to)));
            }
            all.push(group.iter().map(name).collect());
        }
    }
    all.sort();
    (all, evidence)
}

fn listed() -> Vec<Group> {
    let text = fs::read_to_string(root().join(LIST)).expect("the list of circles");
    let groups = text.split("\n\n").map(|group| {
        group.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(str::to_owned).collect()
    });
    groups.filter(|group: &Group| !group.is_empty()).collect()
}

/// Number of files in cycles, by crate.
fn by_crate(groups: &[Group]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for file in groups.iter().flatten() {
        *counts.entry(file.split("/src/").next().unwrap_or_default().to_owned()).or_default() += 1;
    }
    counts
}

#[test]
fn files_import_each_other_in_no_new_circle() {
    let (found, evidence) = found();
    let listed = listed();
    if std::env::var_os("GRISTMILL_BLESS").is_some() {
        bless(&found, &listed);
        return;
    }
    let mut wrong = Vec::new();
    for group in &found {
        if listed.contains(group) {
            continue;
        }
        let near = listed.iter().find(|old| group.is_subset(old));
        let what = if near.is_some() {
            "A circle got smaller: shorten its list"
        } else {
            "These files import each other in a circle that is not listed: open it"
        };
        let files: Vec<String> = group
            .iter()
            .map(|file| {
                let reasons =
                    if near.is_some() { String::new() } else { format!("\n{}", evidence[file].join("\n")) };
                format!("{file}{reasons}")
            })
            .collect();
        wrong.push(format!("{what}\n{}", files.join("\n")));
    }
    for file in listed.iter().flatten() {
        if !found.iter().any(|group| group.contains(file)) {
            wrong.push(format!("{file} is in no circle any more: remove it"));
        }
    }
    assert!(
        wrong.is_empty(),
        "\n{}\n\nThe list is {LIST}; GRISTMILL_BLESS=1 writes it if no crate has more files in circles than before",
        wrong.join("\n\n")
    );
}

fn bless(found: &[Group], listed: &[Group]) {
    let (now, before) = (by_crate(found), by_crate(listed));
    for (name, count) in &now {
        let old = before.get(name).copied().unwrap_or(0);
        assert!(*count <= old, "{name}: {count} files are in circles, {old} were; open the new one");
    }
    let mut text = String::from(
        "# Files that import each other in circles, a group a paragraph (cycles.rs). Shorten it; add nothing.\n",
    );
    for group in found {
        let lines: Vec<&str> = group.iter().map(String::as_str).collect();
        let _ = write!(text, "\n{}\n", lines.join("\n"));
    }
    fs::write(root().join(LIST), text).expect("the list is written");
}

/// Lists the imports of all cycles: `cargo test -p xtask --test rules -- --ignored --nocapture circles_in_detail`.
#[test]
#[ignore = "prints what the test above goes by"]
fn circles_in_detail() {
    let (found, evidence) = found();
    for group in found {
        println!("\n{} files", group.len());
        for file in group {
            println!("{file}\n{}", evidence[&file].join("\n"));
        }
    }
    assert!(Path::new(LIST).is_relative());
}
