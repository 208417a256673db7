//! The configurations that the manual shows: each is read as it stands there.

use gateway::read_config;

#[test]
fn every_configuration_of_the_manual_is_accepted() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    let mut count = 0;
    for entry in std::fs::read_dir(docs).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "md") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for block in text.split("```toml\n").skip(1) {
            let block = block.split("```").next().unwrap_or_default();
            if block.starts_with("# gateway.toml") {
                count += 1;
                read_config(block).unwrap_or_else(|error| panic!("{}: {error}\n{block}", path.display()));
            }
        }
    }
    assert!(count >= 2, "{count}");
}

/// Every key of the configuration's tables stands in the manual.
#[test]
fn the_manual_names_every_setting() {
    let source = include_str!("../src/config/mod.rs");
    let manual = include_str!("../../../docs/gateway.md");
    let mut missing = Vec::new();
    for line in source.lines().filter_map(|line| line.strip_prefix("    pub ")) {
        let Some((name, _)) = line.split_once(": ") else { continue };
        let is_list = ["upstreams", "models", "keys", "teams", "budgets"].contains(&name);
        if !is_list && !name.contains(' ') && !manual.contains(name) {
            missing.push(name);
        }
    }
    assert!(missing.is_empty(), "docs/gateway.md does not name {missing:?}");
}
