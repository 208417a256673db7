//! The workspace, from `cargo metadata`.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The project's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is inside the workspace").to_owned()
}

/// `cargo metadata`, with all features.
pub fn metadata() -> &'static Value {
    static METADATA: LazyLock<Value> = LazyLock::new(|| {
        let out = Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1", "--locked", "--all-features"])
            .current_dir(root())
            .output()
            .expect("cargo metadata runs");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        serde_json::from_slice(&out.stdout).expect("cargo metadata writes JSON")
    });
    &METADATA
}

/// The elements of a JSON array.
pub fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().expect("a list").iter()
}

/// The text of a JSON string.
pub fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// The folders of the workspace's packages, from the root: `crates/cpu`, …, `fuzz`, `xtask`.
pub fn packages() -> Vec<String> {
    let mut folders: Vec<String> = fs::read_dir(root().join("crates"))
        .expect("crates/")
        .map(|entry| format!("crates/{}", entry.expect("an entry").file_name().to_string_lossy()))
        .filter(|folder| root().join(folder).join("Cargo.toml").is_file())
        .collect();
    folders.sort();
    folders.extend(["fuzz", "xtask"].map(str::to_owned));
    folders
}

/// The `.rs` files under a folder, from the root, sorted; none if there is no such folder.
pub fn sources_under(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![PathBuf::from(folder)];
    while let Some(folder) = todo.pop() {
        for entry in fs::read_dir(root().join(&folder)).into_iter().flatten().flatten() {
            let path = folder.join(entry.file_name());
            if entry.path().is_dir() {
                todo.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
