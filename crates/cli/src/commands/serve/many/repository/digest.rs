//! Whether files have changed: their names, sizes and times.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Most files of a model, and folders inside one another.
const MOST_FILES: usize = 4_096;
const MOST_DEPTH: usize = 4;

/// A digest of names, sizes and times of files, and of all files in folders. A file that is not there counts as such.
pub(super) fn digest(paths: &[PathBuf]) -> Result<u64, String> {
    let mut hasher = DefaultHasher::new();
    let mut left = MOST_FILES;
    for path in paths {
        add(path, MOST_DEPTH, &mut left, &mut hasher)?;
    }
    Ok(hasher.finish())
}

fn add(path: &Path, depth: usize, left: &mut usize, hasher: &mut DefaultHasher) -> Result<(), String> {
    // What this program writes beside a model does not change it.
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if weights::packed::is_packed_name(name) {
        return Ok(());
    }
    path.hash(hasher);
    let Ok(metadata) = fs::metadata(path) else { return Ok(()) };
    *left = left.checked_sub(1).ok_or_else(|| format!("there are more than {MOST_FILES} files"))?;
    if !metadata.is_dir() {
        let time = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        (metadata.len(), time.map(|time| time.as_nanos())).hash(hasher);
        return Ok(());
    }
    if depth == 0 {
        return Err(format!("{} is more than {MOST_DEPTH} folders deep", path.display()));
    }
    let entries = fs::read_dir(path).map_err(|error| error.to_string())?;
    let mut inside: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    inside.sort();
    inside.iter().try_for_each(|path| add(path, depth - 1, left, hasher))
}

/// All files of a split model, or the only one.
pub(super) fn parts(path: &Path, name: &str) -> Vec<PathBuf> {
    let Some((head, _)) = name.split_once("-00001-of-") else { return vec![path.to_owned()] };
    let all = path.parent().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let mine = |part: &PathBuf| {
        part.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&format!("{head}-")))
    };
    let mut parts: Vec<PathBuf> = all.map(|entry| entry.path()).filter(mine).collect();
    parts.sort();
    parts
}
