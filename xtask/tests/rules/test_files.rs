//! Rule: every test file is compiled. A crate's tests are modules of one program (`tests/main.rs`), so a file without a
//! line there would silently be left out.

use crate::sources::Tree;
use crate::workspace::{list, metadata, packages, root, sources_under, text};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[test]
fn every_file_of_tests_is_compiled() {
    let kinds = ["test", "bin", "lib", "example"];
    let compiled: BTreeSet<PathBuf> = list(&metadata()["packages"])
        .filter(|package| package["source"].is_null())
        .flat_map(|package| list(&package["targets"]))
        .filter(|target| list(&target["kind"]).any(|kind| kinds.contains(&text(kind))))
        .flat_map(|target| {
            let file = Path::new(text(&target["src_path"]));
            Tree::read(file.strip_prefix(root()).unwrap_or(file)).files
        })
        .map(|file| root().join(file))
        .map(|file| file.canonicalize().unwrap_or(file))
        .collect();
    let left_out: Vec<String> = packages()
        .iter()
        .flat_map(|folder| sources_under(&format!("{folder}/tests")))
        .filter(|file| !compiled.contains(&root().join(file).canonicalize().unwrap_or(file.clone())))
        .map(|file| file.display().to_string())
        .collect();
    assert!(left_out.is_empty(), "no program of tests has these modules:\n{}", left_out.join("\n"));
}
