//! Writes packed caches atomically.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{ALIGN, CacheKey, Error, Index, MAGIC, MatrixEntry, Problem, data_start};

/// What a file holds: its magic, its index, and its sections with their offsets from the first.
pub(super) struct Content<'a> {
    pub(super) magic: [u8; 8],
    pub(super) index: &'a [u8],
    pub(super) sections: &'a [(u64, &'a [u8])],
}

/// Bytes of a write. File systems with large folios use one of 2 MiB only for a write that fills it; when the file is
/// mapped, it is one huge page.
const WRITE: usize = 2 << 20;

/// Writes `matrices` (index entry and panels) to `path`, and returns the number of bytes. Offsets are assigned here.
///
/// The data goes to `path` with `.part` appended, is synced and renamed; the part file of a killed process is
/// overwritten. The file is read-only, and readable by those who may read `model`. Takes 2 MiB of memory.
///
/// # Errors
/// The system's error, or [`Problem::Busy`] if another process is writing the same file.
pub fn write(
    path: &Path,
    model: &Path,
    key: CacheKey,
    matrices: Vec<(MatrixEntry, &[u8])>,
) -> Result<u64, Error> {
    let (slots, panels): (Vec<_>, Vec<_>) = matrices.into_iter().unzip();
    let index = Index { key, slots: placed(slots, &panels) };
    let sections: Vec<_> = index.slots.iter().map(|slot| slot.start).zip(panels).collect();
    let written = serde_json::to_vec(&index).map_err(Problem::from).and_then(|json| {
        write_content(path, model, &Content { magic: MAGIC, index: &json, sections: &sections })
    });
    written.map_err(|problem| Error { path: path.to_owned(), problem })
}

/// Writes a whole file, and returns its length in bytes.
pub(super) fn write_content(path: &Path, model: &Path, content: &Content<'_>) -> Result<u64, Problem> {
    let part = Part::begin(path)?;
    let bytes = part.fill(content)?;
    part.finish(path, model)?;
    Ok(bytes)
}

/// The entries with their offsets and lengths.
fn placed(mut slots: Vec<MatrixEntry>, panels: &[&[u8]]) -> Vec<MatrixEntry> {
    let mut end = 0_u64;
    for (slot, panels) in slots.iter_mut().zip(panels) {
        (slot.start, slot.bytes) = (end.next_multiple_of(ALIGN), panels.len() as u64);
        end = slot.start + slot.bytes;
    }
    slots
}

/// The locked file under its temporary name, removed on drop unless it is finished. The system frees the lock if the
/// process dies.
pub(super) struct Part {
    path: PathBuf,
    file: File,
    finished: bool,
}

impl Part {
    pub(super) fn begin(path: &Path) -> Result<Part, Problem> {
        let mut name = path.file_name().ok_or(Problem::NotAFile)?.to_owned();
        name.push(".part");
        let path = path.with_file_name(name);
        if std::fs::symlink_metadata(&path).is_ok_and(|there| !there.is_file()) {
            return Err(Problem::NotAFile);
        }
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        let no_links = rustix::fs::OFlags::NOFOLLOW.bits();
        let file = options.custom_flags(no_links.cast_signed()).open(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Problem::Busy),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        // Between opening and locking another process may have finished and renamed the file that was opened here.
        let (ours, there) = (file.metadata()?, std::fs::symlink_metadata(&path));
        if !there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
            return Err(Problem::Busy);
        }
        file.set_len(0)?;
        Ok(Part { path, file, finished: false })
    }

    fn fill(&self, content: &Content<'_>) -> Result<u64, Problem> {
        let Content { magic, index, sections } = content;
        let data = data_start(index.len());
        let bytes = data + sections.last().map_or(0, |(start, section)| start + section.len() as u64);
        reserve(&self.file, bytes)?;
        let mut out = Blocks::new(&self.file);
        out.put(&header(*magic, index))?;
        out.put(index)?;
        for (start, section) in *sections {
            out.pad_to(data + start)?;
            out.put(section)?;
        }
        out.flush()?;
        Ok(bytes)
    }

    /// The file, to be written.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Syncs the file and renames it to `path`.
    pub(super) fn finish(mut self, path: &Path, model: &Path) -> Result<(), Problem> {
        let readers = std::fs::metadata(model)?.mode() & 0o444;
        self.file.sync_all()?;
        std::fs::rename(&self.path, path)?;
        self.finished = true;
        // After the rename: a part file that a killed process leaves must stay writable.
        self.file.set_permissions(PermissionsExt::from_mode(readers | 0o400))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Makes the rename durable; where a directory cannot be synced, the rename has still happened.
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // The lock is still held, so no other process uses the file.
        if !self.finished {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Allocates the file's space on disk, so that a full disk is noticed before writing.
pub(super) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes) {
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {}
        done => return done.map_err(io::Error::from),
    }
    let _ = (file, bytes);
    Ok(())
}

/// What a file begins with: its magic, and the length and sum of its index.
pub(super) fn header(magic: [u8; 8], index: &[u8]) -> Vec<u8> {
    let length = (index.len() as u64).to_le_bytes();
    [&magic[..], &length, Sha256::digest(index).as_slice()].concat()
}

/// A writer of whole, aligned blocks of [`WRITE`] bytes.
pub(super) struct Blocks<W> {
    to: W,
    block: Vec<u8>,
    written: u64,
}

impl<W: Write> Blocks<W> {
    pub(super) fn new(to: W) -> Blocks<W> {
        Blocks { to, block: Vec::with_capacity(WRITE), written: 0 }
    }

    fn at(&self) -> u64 {
        self.written + self.block.len() as u64
    }

    pub(super) fn put(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(WRITE - self.block.len()));
            self.block.extend_from_slice(now);
            if self.block.len() == WRITE {
                self.flush()?;
            }
            bytes = later;
        }
        Ok(())
    }

    pub(super) fn pad_to(&mut self, at: u64) -> io::Result<()> {
        while self.at() < at {
            let zeros = [0; ALIGN as usize];
            let count = usize::try_from(at - self.at()).unwrap_or(usize::MAX).min(zeros.len());
            self.put(&zeros[..count])?;
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.to.write_all(&self.block)?;
        self.written += self.block.len() as u64;
        self.block.clear();
        Ok(())
    }
}
