//! Writing packed weights: whole or not at all.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{ALIGN, CacheKey, Error, Index, MAGIC, MatrixEntry, Problem, data_start};

/// Bytes of a write. A file system that keeps a file in large pages makes one of this size for a write that fills it, and
/// only for such a one; mapped later, it is one huge page.
const WRITE: usize = 2 << 20;

/// Writes `matrices`, of each what is known of it and its panels, to `path`: to `path` with `.part` behind it, then to disk,
/// then to its name. Where each lies is found here. What a killed process left is written over. Whoever may read `model` may
/// read the file, and nobody may write it. Takes two megabytes of memory. Returns the number of bytes.
///
/// # Errors
/// What the system says, or another process that is writing the same file.
pub fn write(
    path: &Path,
    model: &Path,
    key: CacheKey,
    matrices: Vec<(MatrixEntry, &[u8])>,
) -> Result<u64, Error> {
    let (slots, panels): (Vec<_>, Vec<_>) = matrices.into_iter().unzip();
    let index = Index { key, slots: placed(slots, &panels) };
    let written = || {
        let part = Part::begin(path)?;
        let bytes = part.fill(&index, &panels)?;
        part.finish(path, model)?;
        Ok(bytes)
    };
    written().map_err(|problem| Error { path: path.to_owned(), problem })
}

/// The slots, each with its place.
fn placed(mut slots: Vec<MatrixEntry>, panels: &[&[u8]]) -> Vec<MatrixEntry> {
    let mut end = 0_u64;
    for (slot, panels) in slots.iter_mut().zip(panels) {
        (slot.start, slot.bytes) = (end.next_multiple_of(ALIGN), panels.len() as u64);
        end = slot.start + slot.bytes;
    }
    slots
}

/// The file under its temporary name, removed on drop unless it is finished. It is locked: the system frees the lock when
/// its holder ends, however it ends.
struct Part {
    path: PathBuf,
    file: File,
    finished: bool,
}

impl Part {
    fn begin(path: &Path) -> Result<Part, Problem> {
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
        // Between opening and locking another process may have finished: then this is its file, under its own name.
        let (ours, there) = (file.metadata()?, std::fs::symlink_metadata(&path));
        if !there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
            return Err(Problem::Busy);
        }
        file.set_len(0)?;
        Ok(Part { path, file, finished: false })
    }

    fn fill(&self, index: &Index, panels: &[&[u8]]) -> Result<u64, Problem> {
        let json = serde_json::to_vec(index)?;
        let data = data_start(json.len());
        let bytes = data + index.slots.last().map_or(0, |slot| slot.start + slot.bytes);
        reserve(&self.file, bytes)?;
        let mut out = Blocks { to: &self.file, block: Vec::with_capacity(WRITE), written: 0 };
        out.put(&MAGIC)?;
        out.put(&(json.len() as u64).to_le_bytes())?;
        out.put(&Sha256::digest(&json))?;
        out.put(&json)?;
        for (slot, panels) in index.slots.iter().zip(panels) {
            out.pad_to(data + slot.start)?;
            out.put(panels)?;
        }
        out.flush()?;
        Ok(bytes)
    }

    /// To disk, and to the name that it is meant for.
    fn finish(mut self, path: &Path, model: &Path) -> Result<(), Problem> {
        let readers = std::fs::metadata(model)?.mode() & 0o444;
        self.file.sync_all()?;
        std::fs::rename(&self.path, path)?;
        self.finished = true;
        // Not before: what a killed process leaves under the temporary name must be writable.
        self.file.set_permissions(PermissionsExt::from_mode(readers | 0o400))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // The rename is on disk once the folder is; a system that cannot do this has renamed all the same.
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // The lock is still held: it is nobody else's.
        if !self.finished {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Has the file system set aside what will be written: a full disk is noticed before the work.
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes) {
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {}
        done => return done.map_err(io::Error::from),
    }
    let _ = (file, bytes);
    Ok(())
}

/// Writes whole blocks of [`WRITE`] bytes, each at a multiple of that.
struct Blocks<'a> {
    to: &'a File,
    block: Vec<u8>,
    written: u64,
}

impl Blocks<'_> {
    fn at(&self) -> u64 {
        self.written + self.block.len() as u64
    }

    fn put(&mut self, mut bytes: &[u8]) -> io::Result<()> {
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

    fn pad_to(&mut self, at: u64) -> io::Result<()> {
        while self.at() < at {
            let zeros = [0; ALIGN as usize];
            let count = usize::try_from(at - self.at()).unwrap_or(usize::MAX).min(zeros.len());
            self.put(&zeros[..count])?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.write_all(&self.block)?;
        self.written += self.block.len() as u64;
        self.block.clear();
        Ok(())
    }
}
