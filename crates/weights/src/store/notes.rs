//! Notes: small files with measurements of a model on this machine, `HOME/notes/KIND/STEM-HASH.json`. A lost note only
//! costs a new measurement.

use std::path::{Path, PathBuf};

use super::{Error, ModelStore};
use crate::fetch;

/// The largest note that is read, in bytes.
const MOST_BYTES: u64 = 1 << 20;

impl ModelStore {
    /// The path of the note of this kind about the model at `model`, whether it exists or not. `kind` is a plain word.
    pub fn note_path(&self, kind: &str, model: &Path) -> PathBuf {
        let whole = std::fs::canonicalize(model).unwrap_or_else(|_| model.to_owned());
        // FNV-1a (Fowler, Noll, Vo) distinguishes models of one name; the note's content reveals a collision.
        let hash =
            whole.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            });
        let stem = whole.file_stem().unwrap_or_default().to_string_lossy();
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '_' };
        let stem: String = stem.chars().take(64).map(plain).collect();
        self.root().join("notes").join(kind).join(format!("{stem}-{hash:016x}.json"))
    }

    /// The content of the note; `None` if there is none that can be read.
    pub fn note(&self, kind: &str, model: &Path) -> Option<Vec<u8>> {
        let path = self.note_path(kind, model);
        let short = std::fs::metadata(&path).ok()?.len() <= MOST_BYTES;
        if short { std::fs::read(&path).ok() } else { None }
    }

    /// Writes the note atomically, and returns its path.
    ///
    /// # Errors
    /// A folder or file that cannot be written.
    pub fn write_note(&self, kind: &str, model: &Path, bytes: &[u8]) -> Result<PathBuf, Error> {
        let path = self.note_path(kind, model);
        let folder = path.parent().unwrap_or(self.root());
        std::fs::create_dir_all(folder).map_err(fetch::Error::io("create", folder))?;
        fetch::write_whole(&path, bytes)?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_of_one_model_and_one_kind() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("home").into_os_string();
        let home = ModelStore::from_env(|name| (name == "GRISTMILL_HOME").then(|| root.clone())).unwrap();
        let (a, b) = (dir.path().join("x y/m.gguf"), dir.path().join("z/m.gguf"));
        assert_eq!(home.note("tuned", &a), None);
        let path = home.write_note("tuned", &a, b"one").unwrap();
        assert!(path.starts_with(dir.path().join("home/notes/tuned")));
        assert_eq!(home.note("tuned", &a).unwrap(), b"one");
        assert_eq!(home.note("tuned", &b), None);
        assert_eq!(home.note("other", &a), None);
        home.write_note("tuned", &a, b"two").unwrap();
        assert_eq!(home.note("tuned", &a).unwrap(), b"two");
        std::fs::write(path, vec![b' '; MOST_BYTES as usize + 1]).unwrap();
        assert_eq!(home.note("tuned", &a), None, "too long");
    }
}
