//! The models on this machine: from what a user calls a model to a path that can be opened.
//!
//! ```text
//! HOME/models/NAME/…            a whole model and its record.json; appears by one rename
//! HOME/partial/NAME/…           a pull under way, or what a killed one left to go on from
//! HOME/locks/NAME               held while NAME is pulled or removed
//! HOME/notes/KIND/…             what this machine measured of a model
//! ```
//!
//! A model is in `models/` whole and checked or not at all. Its record keeps size, time and hash of each file: opening
//! an installed model looks at sizes and times only, so it costs microseconds and not a second for each gigabyte.
//!
//! Deliberately absent: the environment (a [`ModelStore`] is told by its maker), threads, and a cache that fetches anything
//! nobody asked for.

mod error;
mod lock;
mod name;
mod notes;
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

/// The model that `gristmill serve` takes when none is named.
pub const DEFAULT_MODEL: &str = "smollm2-135m-instruct";

/// Where models are kept, and what pulling may use.
#[derive(Debug, Clone)]
pub struct ModelStore {
    root: PathBuf,
    config: FetchConfig,
}

impl ModelStore {
    /// A home at `root` with everything outside given.
    pub fn new(root: impl Into<PathBuf>, config: FetchConfig) -> ModelStore {
        ModelStore { root: root.into(), config }
    }

    /// The home that the environment names: `GRISTMILL_HOME`, else `$XDG_CACHE_HOME/gristmill`, else
    /// `~/.cache/gristmill`. Call it as `ModelStore::from_env(|name| std::env::var_os(name))`.
    pub fn from_env(env: impl Fn(&str) -> Option<OsString>) -> Result<ModelStore, Error> {
        let set = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        // The XDG rules say that a relative path is to be ignored.
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

    /// The same home with other timeouts and retries.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> ModelStore {
        self.config.limits = limits;
        self
    }

    /// Directory that everything is below.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Timeouts and retries.
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

    /// What is installed, by name. Directories without a readable record are left out.
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
    /// Its directory's name.
    pub slug: String,
    /// Its directory.
    pub dir: PathBuf,
    /// What was written down when it arrived.
    pub record: Record,
}

impl Installed {
    fn open(home: &ModelStore, slug: &str) -> Option<Installed> {
        let dir = home.model(slug);
        // A link in place of the directory would lead outside.
        let real = std::fs::symlink_metadata(&dir).is_ok_and(|meta| meta.is_dir());
        let record = if real { Record::load(&dir)? } else { return None };
        Some(Installed { slug: slug.to_owned(), dir, record })
    }

    /// What to open: the GGUF, or the directory.
    pub fn path(&self) -> PathBuf {
        self.record.file.as_ref().map_or_else(|| self.dir.clone(), |file| self.dir.join(file))
    }

    /// Bytes of its files.
    pub fn size_bytes(&self) -> u64 {
        self.record.files.iter().fold(0, |sum, file| sum.saturating_add(file.size_bytes))
    }

    /// The catalog's entry for it, if it has one.
    pub fn entry(&self) -> Option<&'static Entry> {
        Catalog::embedded().find(&self.record.model)
    }
}

/// Whether MODEL is something that [`resolve`] could open or pull, without looking whether its source answers.
///
/// # Errors
/// A path that is not there, a source that is not well-formed, a name that the catalog does not have.
pub fn known(model: &str) -> Result<(), Error> {
    match local(model) {
        Some(path) => path.map(|_| ()),
        None => Target::read(model).map(|_| ()),
    }
}

/// From MODEL to a path that can be opened, pulling what is not there yet.
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
        // A store on a read-only disk cannot take a lock, nor does it need one.
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

/// The path that `model` is, when it is one.
fn local(model: &str) -> Option<Result<PathBuf, Error>> {
    if fetch::ModelSource::is_meant(model) || Catalog::embedded().find(model).is_some() {
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
