//! The model store: resolves a catalog name, source or path to a model on disk, pulling it if necessary.
//!
//! ```text
//! HOME/models/NAME/…            a complete model and its record.json; created by one rename
//! HOME/partial/NAME/…           an unfinished or interrupted pull
//! HOME/locks/NAME               lock file, held while NAME is pulled or removed
//! HOME/notes/KIND/…             measurements of a model on this machine
//! HOME/packed/…                 packed files of models whose folders cannot be written
//! ```
//!
//! Models in `models/` are complete and verified. The record of a model has the size, modification time and hash of
//! each file. Opening an installed model compares sizes and times only, which takes microseconds; hashing takes a
//! second for each gigabyte.
//!
//! The store reads no environment variables except through [`ModelStore::from_env`], starts no threads, and downloads
//! nothing on its own.

mod error;
mod lock;
mod name;
mod notes;
mod packed;
mod pull;
mod record;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::catalog::{Catalog, Entry};
use crate::fetch::{self, FetchConfig, Hub, Limits, Progress, PythonInterpreters};

pub use error::Error;
pub use pull::{PullOutcome, RemoveOutcome, pull, remove};
pub(crate) use record::NAME as RECORD_NAME;
pub use record::{FileRecord, Record};

use name::Target;

/// The model of `gristmill serve` when none is named.
pub const DEFAULT_MODEL: &str = "smollm2-135m-instruct";

/// The directory of installed models, and the configuration of downloads.
#[derive(Debug, Clone)]
pub struct ModelStore {
    root: PathBuf,
    config: FetchConfig,
}

impl ModelStore {
    /// A store at `root` with the given download configuration.
    pub fn new(root: impl Into<PathBuf>, config: FetchConfig) -> ModelStore {
        ModelStore { root: root.into(), config }
    }

    /// The store that the environment names: `GRISTMILL_HOME`, else `$XDG_CACHE_HOME/gristmill`, else
    /// `~/.cache/gristmill`. Call it as `ModelStore::from_env(|name| std::env::var_os(name))`.
    pub fn from_env(env: impl Fn(&str) -> Option<OsString>) -> Result<ModelStore, Error> {
        let set = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        // The XDG base directory specification: relative paths are ignored.
        let cache = set("XDG_CACHE_HOME").filter(|path| path.is_absolute());
        let root = set("GRISTMILL_HOME")
            .or_else(|| cache.map(|cache| cache.join("gristmill")))
            .or_else(|| set("HOME").map(|home| home.join(".cache/gristmill")))
            .ok_or(Error::NoHome)?;
        let root = std::path::absolute(&root).map_err(fetch::Error::io("find", &root))?;
        let (hub, pythons) = (Hub::from_env(&env), PythonInterpreters::from_env(&env));
        let config = FetchConfig { hub, pythons, limits: Limits::default(), trust: set("SSL_CERT_FILE") };
        Ok(ModelStore { root, config })
    }

    /// The same store with other timeouts and retries.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> ModelStore {
        self.config.limits = limits;
        self
    }

    /// The root directory of the store.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The timeouts and retries of downloads.
    pub fn limits(&self) -> Limits {
        self.config.limits
    }

    fn models(&self) -> PathBuf {
        self.root.join("models")
    }

    fn model(&self, slug: &str) -> PathBuf {
        self.models().join(slug)
    }

    fn partial(&self, slug: &str) -> PathBuf {
        self.root.join("partial").join(slug)
    }

    fn lock(&self, slug: &str) -> PathBuf {
        self.root.join("locks").join(slug)
    }

    /// The installed models, sorted by name. Directories without a readable record are left out.
    pub fn installed(&self) -> Result<Vec<Installed>, Error> {
        let dir = self.models();
        let entries = match std::fs::read_dir(&dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(fetch::Error::io("list", &dir))?,
        };
        let mut found: Vec<Installed> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|slug| name::is_slug(slug))
            .filter_map(|slug| Installed::open(self, &slug))
            .collect();
        found.sort_by(|a, b| a.record.model.cmp(&b.record.model));
        Ok(found)
    }

    /// The installed model that `model` (a catalog name or a source) means.
    pub fn find(&self, model: &str) -> Option<Installed> {
        let slug = match Target::read(model) {
            Ok(target) => target.slug,
            Err(_) => model.to_owned(),
        };
        if !name::is_slug(&slug) {
            return None;
        }
        Installed::open(self, &slug)
    }
}

/// A model in the store.
#[derive(Debug, Clone)]
pub struct Installed {
    /// The name of the model's directory.
    pub slug: String,
    /// The path of the model's directory.
    pub dir: PathBuf,
    /// The record that was written when the model was pulled.
    pub record: Record,
}

impl Installed {
    fn open(home: &ModelStore, slug: &str) -> Option<Installed> {
        let dir = home.model(slug);
        // A symbolic link could lead outside the store.
        let real = std::fs::symlink_metadata(&dir).is_ok_and(|meta| meta.is_dir());
        let record = if real { Record::load(&dir)? } else { return None };
        Some(Installed { slug: slug.to_owned(), dir, record })
    }

    /// The path to open: the GGUF file, or the directory.
    pub fn path(&self) -> PathBuf {
        self.record.file.as_ref().map_or_else(|| self.dir.clone(), |file| self.dir.join(file))
    }

    /// The size of all files, in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.record.files.iter().fold(0, |sum, file| sum.saturating_add(file.size_bytes))
    }

    /// The catalog entry of this model, if there is one.
    pub fn entry(&self) -> Option<&'static Entry> {
        Catalog::embedded().find(&self.record.model)
    }
}

/// Checks that [`resolve`] could open or pull MODEL, without contacting its source.
///
/// # Errors
/// A path that does not exist, a malformed source, or a name that is not in the catalog.
pub fn known(model: &str) -> Result<(), Error> {
    match local(model) {
        Some(path) => path.map(|_| ()),
        None => Target::read(model).map(|_| ()),
    }
}

/// Resolves MODEL to a path that can be opened, pulling the model if it is not installed.
///
/// MODEL is a catalog name, a path to a GGUF or a Hugging Face directory, or a source (`hf:`, `py:`, `http(s)://`).
/// A catalog name comes before a file of that name in the current directory; write `./name` for the file.
pub fn resolve(model: &str, home: &ModelStore, progress: &mut dyn Progress) -> Result<PathBuf, Error> {
    if let Some(path) = local(model) {
        return path;
    }
    let target = Target::read(model)?;
    let installed = Installed::open(home, &target.slug);
    if let Some(installed) = installed.as_ref().filter(|one| one.record.looks_untouched(&one.dir)) {
        return Ok(installed.path());
    }
    match pull(model, home, false, progress) {
        // A store on a read-only file system cannot be locked, and needs no lock.
        Err(Error::Fetch(fetch::Error::Io { source, .. }))
            if is_read_only(&source) && installed.is_some() =>
        {
            let installed = installed.expect("the guard has just looked");
            installed.record.check(&installed.dir, progress)?;
            Ok(installed.path())
        }
        done => done.map(|pulled| pulled.installed.path()),
    }
}

fn is_read_only(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem | std::io::ErrorKind::PermissionDenied)
}

/// The path that `model` names, or an error if it looks like a path and does not exist; `None` if it is no path.
fn local(model: &str) -> Option<Result<PathBuf, Error>> {
    if fetch::ModelSource::has_source_prefix(model) || Catalog::embedded().find(model).is_some() {
        return None;
    }
    let path = PathBuf::from(model);
    if path.exists() {
        return Some(Ok(path));
    }
    let looks = model.contains(['/', '\\'])
        || model.starts_with('.')
        || path.extension().is_some_and(|e| e == "gguf");
    looks.then_some(Err(Error::NoSuchPath { path }))
}
