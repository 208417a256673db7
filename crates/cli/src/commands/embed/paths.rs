//! The files beside one that is being written.

use std::path::{Path, PathBuf};

/// `FILE.part`.
pub(super) fn part_of(path: &Path) -> PathBuf {
    with_end(path, ".part")
}

/// The path with something after its name.
pub(super) fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}
