//! Packed files of models whose own folders cannot be written: `HOME/packed/STEM-DIGEST/…`, a folder for each model as its
//! files are now. Folders of models that are gone, and those that were used longest ago, make room for new ones.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::ModelStore;

/// The file of a folder that says which model it is of.
const MODEL: &str = "model";
/// Most bytes that all folders take, without the one that is written.
const MOST_BYTES: u64 = 64 << 30;
/// Most folders that are looked at.
const MOST_FOLDERS: usize = 65_536;

/// A folder of packed files.
struct Folder {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

impl ModelStore {
    /// The folder for packed files of the model at `model`, whose files have this digest; it is created and marked as used.
    /// `None` if it cannot be.
    pub fn packed_folder(&self, model: &Path, digest: &str) -> Option<PathBuf> {
        let whole = std::fs::canonicalize(model).ok()?;
        let stem = whole.file_stem().unwrap_or_default().to_string_lossy();
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '_' };
        let stem: String = stem.chars().take(64).map(plain).collect();
        let digest: String = digest.chars().take(32).filter(char::is_ascii_alphanumeric).collect();
        let all = self.root().join("packed");
        let folder = all.join(format!("{stem}-{digest}"));
        if !folder.join(MODEL).is_file() {
            std::fs::create_dir_all(&folder).ok()?;
            std::fs::write(folder.join(MODEL), whole.as_os_str().as_encoded_bytes()).ok()?;
            make_room(&all, &folder, MOST_BYTES);
        }
        // Only what is removed first depends on it.
        let _ = File::open(&folder).and_then(|folder| folder.set_modified(SystemTime::now()));
        Some(folder)
    }
}

/// Removes folders of models that are gone, then those that were used longest ago, until the rest takes `most` bytes.
fn make_room(all: &Path, keep: &Path, most: u64) {
    let mut folders = Vec::new();
    for path in entries(all).into_iter().filter(|path| path != keep) {
        if is_stale(&path) {
            remove(&path);
            continue;
        }
        let sizes = entries(&path).into_iter().filter_map(|file| Some(std::fs::metadata(file).ok()?.len()));
        let used = std::fs::metadata(&path).and_then(|metadata| metadata.modified());
        folders.push(Folder { bytes: sizes.sum(), used: used.unwrap_or(SystemTime::UNIX_EPOCH), path });
    }
    folders.sort_by_key(|folder| std::cmp::Reverse(folder.used));
    let mut total = 0_u64;
    for folder in folders {
        total = total.saturating_add(folder.bytes);
        if total > most {
            remove(&folder.path);
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.take(MOST_FOLDERS).map(|entry| entry.path()).collect()
}

/// Whether a folder is of a model that is no longer there.
fn is_stale(folder: &Path) -> bool {
    let model = std::fs::read_to_string(folder.join(MODEL));
    // One that is just being created has no name yet.
    model.is_ok_and(|model| !Path::new(&model).exists())
}

/// Removes a folder's files and the folder. A mapped file stays in use until it is unmapped.
fn remove(folder: &Path) {
    for file in entries(folder) {
        let _ = std::fs::remove_file(file);
    }
    let _ = std::fs::remove_dir(folder);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn folders_of_models_that_are_gone_or_not_used_make_room() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("home").into_os_string();
        let store = ModelStore::from_env(|name| (name == "GRISTMILL_HOME").then(|| root.clone())).unwrap();
        let model = |name: &str| {
            let path = home.path().join(name);
            std::fs::write(&path, b"a model").unwrap();
            path
        };
        let (a, b, c) = (model("a.gguf"), model("b.gguf"), model("c.gguf"));
        let of = |model: &Path, digest: &str| store.packed_folder(model, digest).unwrap();
        let (one, two) = (of(&a, "01"), of(&b, "02"));
        assert_eq!(of(&a, "01"), one);
        assert_ne!(of(&a, "03"), one, "the model has changed");
        std::fs::write(one.join("w.packed"), vec![0; 1000]).unwrap();
        std::fs::write(two.join("w.packed"), vec![0; 1000]).unwrap();
        let day = Duration::from_secs(86_400);
        File::open(&one).unwrap().set_modified(SystemTime::now() - day).unwrap();
        make_room(&home.path().join("home/packed"), Path::new("none"), 1500);
        assert!(!one.exists() && two.exists(), "used longest ago");
        std::fs::remove_file(b).unwrap();
        let three = of(&c, "04");
        assert!(!two.exists() && three.exists(), "its model is gone");
        assert!(store.packed_folder(&home.path().join("nothing"), "05").is_none());
    }
}
