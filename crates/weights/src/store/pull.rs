//! Pulls models into the store, verifies them, and removes them.

use std::path::Path;
use std::time::{Duration, SystemTime};

use super::lock::Lock;
use super::name::{Target, is_slug};
use super::record::{FileRecord, Record, now_s, stamp};
use super::{Error, Installed, ModelStore};
use crate::fetch::{self, Event, FetchedModel, Journal, Progress};

/// The age at which an interrupted pull is deleted: two weeks.
const STALE: Duration = Duration::from_secs(14 * 24 * 3600);

/// The result of a pull.
#[derive(Debug, Clone)]
pub struct PullOutcome {
    /// The installed model.
    pub installed: Installed,
    /// Whether the model was already installed and intact.
    pub already: bool,
    /// Bytes that were downloaded.
    pub network_bytes: u64,
}

/// The result of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoveOutcome {
    /// Bytes that were freed.
    pub bytes: u64,
}

/// Installs `model` (a catalog name or a source) unless it is installed.
///
/// With `verify`, an installed model is hashed again, and pulled again if a file is damaged.
pub fn pull(
    model: &str,
    home: &ModelStore,
    verify: bool,
    progress: &mut dyn Progress,
) -> Result<PullOutcome, Error> {
    let target = Target::read(model)?;
    let _lock = Lock::wait(&home.lock(&target.slug), &target.shown, home.limits().lock, progress)?;
    clear_stale(home, &target.slug);
    if let Some(mut installed) = Installed::open(home, &target.slug) {
        if !verify && installed.record.looks_untouched(&installed.dir) {
            return Ok(PullOutcome { installed, already: true, network_bytes: 0 });
        }
        match installed.record.verify(&installed.dir, verify, progress) {
            Ok(()) => return Ok(PullOutcome { installed, already: true, network_bytes: 0 }),
            Err(error @ (fetch::Error::Hash { .. } | fetch::Error::Size { .. })) => {
                progress.event(Event::SourceFailed { source: "the installed copy", error: &error });
            }
            Err(error) => return Err(error.into()),
        }
    }
    let mut failures = Vec::new();
    for source in &target.sources {
        let text = source.to_string();
        progress.event(Event::Source { model: &target.shown, source: &text });
        match fetch::fetch(source, &target.want, &home.partial(&target.slug), &home.config, progress) {
            Ok(delivery) => {
                let network_bytes = delivery.network_bytes;
                let installed = install(home, &target, delivery)?;
                return Ok(PullOutcome { installed, already: false, network_bytes });
            }
            Err(error) if error.is_final() => return Err(error.into()),
            Err(error) => {
                progress.event(Event::SourceFailed { source: &text, error: &error });
                failures.push((text, error));
            }
        }
    }
    Err(Error::AllFailed { model: target.shown, failures })
}

/// Moves a complete download into `models/` by one rename.
fn install(home: &ModelStore, target: &Target, delivery: FetchedModel) -> Result<Installed, Error> {
    let partial = home.partial(&target.slug);
    let files = delivery.files.into_iter().map(|file| {
        let path = partial.join(&file.name);
        let (size_bytes, modified_ns) = stamp(&path).unwrap_or_default();
        if size_bytes != file.size_bytes {
            return Err(fetch::Error::Size { file: file.name, got: size_bytes, want: file.size_bytes });
        }
        let (name, sha256, checked) = (file.name, file.sha256, file.checked);
        Ok(FileRecord { name, size_bytes, sha256, checked, modified_ns })
    });
    let files = files.collect::<Result<Vec<_>, _>>()?;
    let (model, origin) = (target.shown.clone(), delivery.origin);
    let record = Record { model, origin, file: delivery.file, files, pulled_s: now_s() };
    record.save(&partial)?;
    Journal::close(&partial)?;
    sync_dir(&partial)?;
    let place = home.model(&target.slug);
    let models = home.models();
    std::fs::create_dir_all(&models).map_err(fetch::Error::io("create", &models))?;
    if std::fs::symlink_metadata(&place).is_ok() {
        discard(home, &target.slug, &place)?;
    }
    std::fs::rename(&partial, &place).map_err(fetch::Error::io("rename", &partial))?;
    sync_dir(&models)?;
    Ok(Installed { slug: target.slug.clone(), dir: place, record })
}

/// Removes a model and the files of an interrupted pull of it from the store.
///
/// `model` is a catalog name, a source, or the directory name that `list` shows; nothing outside the store is touched.
pub fn remove(model: &str, home: &ModelStore, progress: &mut dyn Progress) -> Result<RemoveOutcome, Error> {
    let slug = match Target::read(model) {
        Ok(target) => target.slug,
        Err(_) => model.to_owned(),
    };
    if !is_slug(&slug) {
        let hint = "; only models in the store are removed, by name or source".to_owned();
        return Err(Error::NotInstalled { model: model.chars().take(200).collect(), hint });
    }
    let (place, partial) = (home.model(&slug), home.partial(&slug));
    let there = |path: &Path| std::fs::symlink_metadata(path).is_ok();
    if !there(&place) && !there(&partial) {
        let names: Vec<String> =
            home.installed()?.into_iter().map(|installed| installed.record.model).collect();
        let hint = if names.is_empty() {
            "; nothing is".to_owned()
        } else {
            format!("; installed: {}", names.join(", "))
        };
        return Err(Error::NotInstalled { model: model.to_owned(), hint });
    }
    let _lock = Lock::wait(&home.lock(&slug), model, home.limits().lock, progress)?;
    let mut bytes = 0;
    for path in [place, partial] {
        if there(&path) {
            bytes += tree_bytes(&path);
            discard(home, &slug, &path)?;
        }
    }
    Ok(RemoveOutcome { bytes })
}

/// Deletes a directory; it is renamed first, so that a half-deleted model is never found.
fn discard(home: &ModelStore, slug: &str, path: &Path) -> Result<(), Error> {
    let trash = home.root().join("partial").join(format!(".old-{slug}"));
    if let Some(dir) = trash.parent() {
        std::fs::create_dir_all(dir).map_err(fetch::Error::io("create", dir))?;
    }
    remove_any(&trash)?;
    std::fs::rename(path, &trash).map_err(fetch::Error::io("rename", path))?;
    remove_any(&trash)
}

/// Removes a directory recursively, or a file or link (not its target).
fn remove_any(path: &Path) -> Result<(), Error> {
    let done = match std::fs::symlink_metadata(path) {
        Err(_) => return Ok(()),
        Ok(meta) if meta.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
    };
    done.map_err(fetch::Error::io("remove", path)).map_err(Error::from)
}

fn tree_bytes(path: &Path) -> u64 {
    let Ok(meta) = std::fs::symlink_metadata(path) else { return 0 };
    if !meta.is_dir() {
        return if meta.is_file() { meta.len() } else { 0 };
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.fold(0, |sum, entry| sum.saturating_add(tree_bytes(&entry.path())))
}

/// Deletes interrupted pulls older than [`STALE`] and the leftovers of killed removals. Errors are ignored.
fn clear_stale(home: &ModelStore, current: &str) {
    let entries = std::fs::read_dir(home.root().join("partial")).into_iter().flatten().flatten();
    for entry in entries {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let slug = name.strip_prefix(".old-").unwrap_or(&name);
        if slug == current || !is_slug(slug) || (slug == name && !is_stale(&entry.path())) {
            continue;
        }
        if let Ok(Some(_lock)) = Lock::attempt(&home.lock(slug)) {
            let _ = remove_any(&entry.path());
        }
    }
}

fn is_stale(dir: &Path) -> bool {
    let age =
        |path: &Path| SystemTime::now().duration_since(path.symlink_metadata().ok()?.modified().ok()?).ok();
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let newest = entries.filter_map(|entry| age(&entry.path())).chain(age(dir)).min();
    newest.is_some_and(|age| age > STALE)
}

fn sync_dir(dir: &Path) -> Result<(), fetch::Error> {
    std::fs::File::open(dir).and_then(|file| file.sync_all()).map_err(fetch::Error::io("sync", dir))
}
