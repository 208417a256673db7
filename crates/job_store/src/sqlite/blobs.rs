//! Bytes beside the database: large bodies by their hash, files by their id. Each is written whole under a temporary name,
//! synchronized, and renamed; its row comes afterwards. What a crash leaves without a row is found and deleted.

use super::place::failed;
use crate::backend::Keep;
use crate::error::StoreError;
use crate::rows::sha256_hex;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where large bodies lie, and where files do.
pub(crate) const ROOTS: [&str; 2] = ["blobs", "files"];

/// Where bytes lie that are not whole.
const PARTS: &str = "part";

/// Files of one folder that one look for leftovers sees.
const LOOKED: usize = 10_000;

/// The bytes of a store.
#[derive(Debug)]
pub(crate) struct Blobs {
    dir: PathBuf,
    pins: Mutex<HashMap<String, usize>>,
    counter: AtomicU64,
}

/// Keeps a place from being deleted until a row names it.
#[derive(Debug)]
pub(crate) struct Pin {
    blobs: Arc<Blobs>,
    place: String,
}

impl Keep for Pin {}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pins = self.blobs.pins();
        if let Some(count) = pins.get_mut(&self.place) {
            *count -= 1;
            if *count == 0 {
                pins.remove(&self.place);
            }
        }
    }
}

impl Blobs {
    /// Opens the folder. What was not whole when the process ended is deleted.
    pub(crate) fn open(dir: &Path) -> Result<Blobs, StoreError> {
        let parts = dir.join(PARTS);
        if parts.exists() {
            fs::remove_dir_all(&parts).map_err(|error| failed(&parts, &error))?;
        }
        for folder in [PARTS, ROOTS[0], ROOTS[1]] {
            let folder = dir.join(folder);
            fs::create_dir_all(&folder).map_err(|error| failed(&folder, &error))?;
        }
        sync_folder(dir)?;
        Ok(Blobs { dir: dir.to_owned(), pins: Mutex::default(), counter: AtomicU64::new(0) })
    }

    fn pins(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pin(self: &Arc<Self>, place: &str) -> Pin {
        *self.pins().entry(place.to_owned()).or_default() += 1;
        Pin { blobs: self.clone(), place: place.to_owned() }
    }

    /// Keeps large bytes by their hash. Returns their place.
    pub(crate) fn keep(self: &Arc<Self>, bytes: &[u8]) -> Result<(String, Pin), StoreError> {
        let hash = sha256_hex(bytes);
        let place = format!("{}/{}/{hash}", ROOTS[0], &hash[..2]);
        let pin = self.pin(&place);
        let path = self.dir.join(&place);
        let is_there = fs::metadata(&path).is_ok_and(|found| found.len() == bytes.len() as u64);
        if !is_there {
            let part =
                self.dir.join(PARTS).join(format!("body-{}", self.counter.fetch_add(1, Ordering::Relaxed)));
            let written = write_synced(&part, bytes);
            if let Err(error) = written.and_then(|()| self.rename(&part, &path)) {
                let _ = fs::remove_file(&part);
                return Err(error);
            }
        }
        // Also if another call has only just renamed it.
        sync_parent(&path)?;
        Ok((place, pin))
    }

    /// Renames a file into a folder that may not be there yet.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        if let Some(folder) = to.parent()
            && !folder.exists()
        {
            fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
            sync_parent(folder)?;
        }
        fs::rename(from, to).map_err(|error| failed(to, &error))
    }

    /// The bytes at a place.
    pub(crate) fn load(&self, place: &str) -> Result<Vec<u8>, StoreError> {
        let path = self.dir.join(place);
        fs::read(&path).map_err(|error| failed(&path, &error))
    }

    fn part(&self, id: &str) -> PathBuf {
        self.dir.join(PARTS).join(format!("file-{id}"))
    }

    /// Writes bytes of a file that is not sealed; what was there after `offset` is forgotten.
    pub(crate) fn write(&self, id: &str, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.part(id);
        let named = |error| failed(&path, &error);
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(named)?;
        let length = file.metadata().map_err(named)?.len();
        if length < offset {
            return Err(StoreError::Conflict(format!("the file {id} has {length} bytes, not {offset}")));
        }
        file.set_len(offset).and_then(|()| file.write_all_at(bytes, offset)).map_err(named)
    }

    /// Makes the bytes of a file durable at their place, if they are as many as they should be.
    pub(crate) fn seal(self: &Arc<Self>, file: &jobs::File) -> Result<(String, Pin), StoreError> {
        let part = self.part(&file.id);
        if file.bytes == 0 {
            self.write(&file.id, 0, &[])?;
        }
        let written = fs::metadata(&part).map_or(0, |found| found.len());
        if written != file.bytes {
            return Err(crate::ops::files::wrong_length(file, written));
        }
        File::open(&part).and_then(|part| part.sync_all()).map_err(|error| failed(&part, &error))?;
        let place = file_place(file);
        let pin = self.pin(&place);
        let path = self.dir.join(&place);
        self.rename(&part, &path)?;
        sync_parent(&path)?;
        Ok((place, pin))
    }

    /// Takes a sealed file back, because its row could not be written.
    pub(crate) fn unseal(&self, id: &str, place: &str) {
        // What is left is found and deleted later.
        let _ = fs::rename(self.dir.join(place), self.part(id));
    }

    /// Forgets the bytes of a file that is not sealed.
    pub(crate) fn discard(&self, id: &str) -> Result<(), StoreError> {
        let path = self.part(id);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(&path, &error)),
            _ => Ok(()),
        }
    }

    /// Bytes at a place, from `offset` on.
    pub(crate) fn read(&self, place: &str, offset: u64, most: usize) -> Result<Vec<u8>, StoreError> {
        let path = self.dir.join(place);
        let named = |error| failed(&path, &error);
        let file = match File::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(StoreError::NotFound("file"));
            }
            file => file.map_err(named)?,
        };
        let length = file.metadata().map_err(named)?.len();
        let rest = usize::try_from(length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; rest.min(most)];
        file.read_exact_at(&mut bytes, offset).map_err(named)?;
        Ok(bytes)
    }

    /// Deletes what lies at a place, unless somebody is about to name it or `is_named` says that a row does.
    pub(crate) fn delete(
        &self,
        place: &str,
        is_named: impl FnOnce(&str) -> Result<bool, StoreError>,
    ) -> Result<bool, StoreError> {
        // While the pins are locked, nobody begins to name it.
        let pins = self.pins();
        if pins.contains_key(place) || is_named(place)? {
            return Ok(false);
        }
        let path = self.dir.join(place);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(&path, &error)),
            _ => Ok(true),
        }
    }

    /// Places in the folders of one hash byte.
    pub(crate) fn places(&self, byte: u8) -> Vec<String> {
        let mut places = Vec::new();
        for root in ROOTS {
            let folder = format!("{root}/{byte:02x}");
            let Ok(entries) = fs::read_dir(self.dir.join(&folder)) else { continue };
            for entry in entries.flatten().take(LOOKED) {
                places.push(format!("{folder}/{}", entry.file_name().to_string_lossy()));
            }
        }
        places
    }

    /// Deletes files that were begun and not gone on with since `before`, in Unix milliseconds.
    pub(crate) fn drop_stale_parts(&self, before: i64) {
        let Ok(entries) = fs::read_dir(self.dir.join(PARTS)) else { return };
        for entry in entries.flatten().take(LOOKED) {
            let changed = entry.metadata().and_then(|found| found.modified()).ok();
            let changed = changed.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
            let is_stale =
                changed.is_some_and(|time| i64::try_from(time.as_millis()).is_ok_and(|at| at < before));
            if is_stale {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// The place of a file tells its content too, so that a new one of the same id does not overwrite an old one.
fn file_place(file: &jobs::File) -> String {
    let hash = sha256_hex(file.id.as_bytes());
    let content = sha256_hex(file.sha256.as_bytes());
    format!("{}/{}/{}.{}", ROOTS[1], &hash[..2], file.id, &content[..16])
}

fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|error| failed(path, &error))
}

pub(crate) fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    File::open(folder).and_then(|file| file.sync_all()).map_err(|error| failed(folder, &error))
}

fn sync_parent(path: &Path) -> Result<(), StoreError> {
    path.parent().map_or(Ok(()), sync_folder)
}
