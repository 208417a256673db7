//! What an encoder's numbers depend on, as a short text: the model's files, the format, the tier, the numerics.

use std::path::{Path, PathBuf};

use cpu::Tier;
use sha2::{Digest, Sha256};
use weights::Opened;

use super::Format;
use crate::Failure;

/// Raised when the same weights on the same tier give other numbers than before: kernels, pooling, heads.
const NUMERICS: u32 = 2;
/// Bytes of a file beside the weights that are read.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// Files beside the weights.
const MAX_FILES: usize = 256;

/// The digest of a model's files: sizes, headers and 64 samples of the tensors of each, and the settings and vocabularies
/// beside them. The same files give the same digest wherever they are, whenever they were copied.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn digest(path: &Path, opened: &Opened) -> Result<String, Failure> {
    let mut hasher = Sha256::new();
    for key in opened.file_keys().unwrap_or_default() {
        hasher.update(format!("{} {}\n", key.bytes, key.sha256));
    }
    if path.is_dir() {
        for file in settings(path)? {
            let name = file.strip_prefix(path).unwrap_or(&file).to_string_lossy().into_owned();
            let cannot =
                |error: std::io::Error| Failure::new(format!("cannot read {}: {error}", file.display()));
            if std::fs::metadata(&file).map_err(cannot)?.len() > MAX_FILE_BYTES {
                continue;
            }
            hasher.update(format!("{name}\n"));
            hasher.update(Sha256::digest(std::fs::read(&file).map_err(cannot)?));
        }
    }
    Ok(hex(&hasher.finalize()[..8]))
}

/// The fingerprint, as `3f2a9c0d11e85b47.int8.avx2.2`.
pub(super) fn of(digest: &str, format: Format, tier: Tier) -> String {
    format!("{digest}.{}.{tier}.{NUMERICS}", format.name())
}

/// Settings and vocabularies of a directory and of its folders, by name.
fn settings(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    let mut folders = vec![dir.to_owned()];
    folders.extend(list(dir)?.into_iter().filter(|path| path.is_dir()));
    for folder in folders {
        files.extend(list(&folder)?.into_iter().filter(|path| path.is_file() && matters(path)));
        if files.len() > MAX_FILES {
            return Err(Failure::new(format!(
                "{} has more than {MAX_FILES} files of settings",
                dir.display()
            )));
        }
    }
    files.sort();
    Ok(files)
}

fn list(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let cannot = |error: std::io::Error| Failure::new(format!("cannot read {}: {error}", dir.display()));
    std::fs::read_dir(dir)
        .map_err(cannot)?
        .map(|entry| entry.map(|entry| entry.path()).map_err(cannot))
        .collect()
}

/// Whether vectors depend on a file beside the weights. The store's own record is not one.
fn matters(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let kind = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    name == "vocab.txt" || kind == "model" || (kind == "json" && name != "record.json")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_those_that_vectors_depend_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("1_Pooling")).expect("a folder");
        for name in [
            "config.json",
            "1_Pooling/config.json",
            "vocab.txt",
            "README.md",
            "record.json",
            "model.safetensors",
        ] {
            std::fs::write(at(name), b"{}").expect("a file");
        }
        let found = settings(folder.path()).expect("files");
        let names: Vec<_> =
            found.iter().map(|path| path.strip_prefix(folder.path()).expect("inside")).collect();
        assert_eq!(names, ["1_Pooling/config.json", "config.json", "vocab.txt"].map(Path::new));
        assert_eq!(of("ab", Format::Bf16, Tier::Scalar), "ab.bf16.scalar.2");
    }
}
