//! Rule: dependencies between crates are exactly those of the table of the crates, and the code uses each of them.

use crate::crates::RULES;
use crate::sources::first_names;
use crate::workspace::{list, metadata, packages, root, text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Dependencies that are unused by code or declared twice: package, dependency, reason.
const EXCUSED: &[(&str, &str, &str)] = &[
    (
        "cli",
        "opentelemetry_otlp",
        "declared for the tests too, so that with the feature `otlp` nothing but this crate is compiled again",
    ),
    (
        "fuzz",
        "cc",
        "declared for a feature, so that with `libfuzzer` nothing but this package is compiled again",
    ),
];

/// A dependency declared by a package's manifest.
struct Declared<'a> {
    /// The dependency's name in code.
    name: String,
    for_tests: bool,
    features: BTreeSet<&'a str>,
}

impl Declared<'_> {
    /// Whether tests get from this dependency all that they get from `other`.
    fn serves(&self, other: &Declared) -> bool {
        !self.for_tests && self.name == other.name && other.features.is_subset(&self.features)
    }
}

fn declared(package: &Value) -> impl Iterator<Item = Declared<'_>> {
    list(&package["dependencies"]).map(|dependency| Declared {
        name: dependency["rename"].as_str().unwrap_or(text(&dependency["name"])).replace('-', "_"),
        for_tests: dependency["kind"].as_str() == Some("dev"),
        features: list(&dependency["features"]).map(text).collect(),
    })
}

fn package(name: &str) -> &'static Value {
    list(&metadata()["packages"])
        .find(|package| text(&package["name"]) == name && package["source"].is_null())
        .unwrap_or_else(|| panic!("no package {name} in the workspace"))
}

#[test]
fn the_table_lists_every_crate() {
    let on_disk: BTreeSet<String> =
        packages().iter().filter_map(|folder| folder.strip_prefix("crates/").map(str::to_owned)).collect();
    let listed: BTreeSet<String> = RULES.iter().map(|rule| rule.name.to_owned()).collect();
    assert_eq!(on_disk, listed, "RULES lists every crate");
}

#[test]
fn crates_depend_on_what_the_table_says() {
    let mut wrong = Vec::new();
    for rule in RULES {
        let ours = |for_tests: bool| -> BTreeSet<String> {
            declared(package(rule.name))
                .filter(|one| one.for_tests == for_tests && RULES.iter().any(|rule| rule.name == one.name))
                .map(|one| one.name)
                .collect()
        };
        let table =
            |names: &[&str]| -> BTreeSet<String> { names.iter().map(|&name| name.to_owned()).collect() };
        for (what, declared, stated) in [
            ("depends", ours(false), table(rule.depends)),
            ("tests_depend", ours(true), table(rule.tests_depend)),
        ] {
            if declared != stated {
                wrong.push(format!(
                    "`{}`: its manifest has {declared:?}, `{what}` of its row {stated:?}",
                    rule.name
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn dependencies_are_named_by_the_code() {
    let mut wrong = Vec::new();
    let mut excused = BTreeSet::new();
    for folder in packages() {
        let name = folder.rsplit('/').next().unwrap_or_default();
        // The programs of `fuzz` lie in a folder of their own.
        let code = first_names(&["src", "targets"].map(|part| format!("{folder}/{part}")));
        let tests =
            first_names(&["src", "tests", "examples", "benches"].map(|part| format!("{folder}/{part}")));
        let all: Vec<Declared> = declared(package(name)).collect();
        for one in &all {
            let fault = if !(if one.for_tests { &tests } else { &code }).contains(&one.name) {
                "names it nowhere"
            } else if one.for_tests && all.iter().any(|other| other.serves(one)) {
                "its tests have it from its dependencies already"
            } else {
                continue;
            };
            match EXCUSED.iter().position(|(package, what, _)| *package == name && *what == one.name) {
                Some(index) => drop(excused.insert(index)),
                None => wrong.push(format!("`{name}` declares `{}`: {fault}", one.name)),
            }
        }
    }
    for (index, (package, what, _)) in EXCUSED.iter().enumerate() {
        if !excused.contains(&index) {
            wrong.push(format!("`{package}` and `{what}` need no excuse: remove it from EXCUSED"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Checks that every entry of the workspace's dependencies is used by a package.
#[test]
fn the_workspace_declares_nothing_that_no_crate_takes() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace's manifest");
    let rows = manifest.lines().skip_while(|line| *line != "[workspace.dependencies]").skip(1);
    let rows = rows.take_while(|line| !line.starts_with('[')).filter(|line| !line.starts_with('#'));
    let names: BTreeSet<&str> = rows.filter_map(|row| row.split_once(" = ")).map(|(name, _)| name).collect();
    let taken: BTreeSet<&str> = packages()
        .iter()
        .flat_map(|folder| {
            list(&package(folder.rsplit('/').next().unwrap_or_default())["dependencies"])
                .map(|one| text(&one["name"]))
        })
        .collect();
    let idle: Vec<_> = names.difference(&taken).collect();
    assert!(idle.is_empty(), "no crate takes {idle:?}");
}

/// Package name → names of its normal and build dependencies.
fn graph() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = metadata();
    let name_of: BTreeMap<&str, &str> =
        list(&metadata["packages"]).map(|package| (text(&package["id"]), text(&package["name"]))).collect();
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in list(&metadata["resolve"]["nodes"]) {
        let to = list(&node["deps"])
            .filter(|dep| list(&dep["dep_kinds"]).any(|kind| kind["kind"].as_str() != Some("dev")));
        let names = to.map(|dep| name_of[text(&dep["pkg"])].to_owned());
        graph.entry(name_of[text(&node["id"])].to_owned()).or_default().extend(names);
    }
    graph
}

#[test]
fn what_must_never_be_linked_is_not() {
    let graph = graph();
    for rule in RULES {
        let mut reached = BTreeSet::new();
        let mut todo = vec![rule.name.to_owned()];
        while let Some(name) = todo.pop() {
            if reached.insert(name.clone()) {
                todo.extend(graph.get(&name).into_iter().flatten().cloned());
            }
        }
        for name in rule.never_links {
            assert!(!reached.contains(*name), "`{}` must not link `{name}`, however indirectly", rule.name);
        }
    }
}
