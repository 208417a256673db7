//! Read-only file mappings.

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::path::Path;
use std::time::SystemTime;

use crate::{Backing, PageKind, Pool, smaps};

/// Ranges are dropped in pieces of the largest page size in common use, so that every system accepts them.
const GRANULE: usize = 64 << 10;

/// A thread's part of a file that is brought into memory: large pages are whole in it.
const PART: usize = 16 << 20;

/// A whole file mapped read-only. Derefs to its bytes.
///
/// The file must not be truncated while it is mapped: the pages past its new end would fault (SIGBUS). Model files are
/// written whole under a temporary name and renamed, so this holds for every file the store makes.
#[derive(Debug)]
pub struct Map {
    /// None for an empty file, which cannot be mapped.
    pages: Option<memmap2::Mmap>,
    modified: Option<SystemTime>,
}

impl Map {
    /// Maps the regular file at `path`.
    ///
    /// # Errors
    /// Whatever the system says on opening or mapping; `InvalidInput` for anything but a regular file.
    pub fn open(path: &Path) -> io::Result<Map> {
        // Looked at before opening: opening a pipe would wait for a writer that may never come.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Map::of(&File::open(path)?)
    }

    /// Maps a file that is open already.
    ///
    /// # Errors
    /// Whatever the system says.
    pub fn of(file: &File) -> io::Result<Map> {
        let metadata = file.metadata()?;
        let modified = metadata.modified().ok();
        if metadata.len() == 0 {
            return Ok(Map { pages: None, modified });
        }
        // SAFETY: the mapping is read-only and private to this value; that the file keeps its length and bytes while
        // it is mapped is the caller's part, stated above.
        let pages = unsafe { memmap2::Mmap::map(file)? };
        Ok(Map { pages: Some(pages), modified })
    }

    /// When the file had been changed last as it was mapped; none where the system does not tell.
    #[must_use]
    pub fn modified(&self) -> Option<SystemTime> {
        self.modified
    }

    /// Brings the whole file into memory and maps it there, on the threads of `pool`: what is read of it afterwards waits
    /// for no disk and takes no faults. Asks for huge pages where the file comes from the disk; what is in the page
    /// cache already stays in pages of the size that it has. A system that cannot do this does nothing.
    ///
    /// # Errors
    /// When the file has become shorter, or the disk fails.
    pub fn populate(&self, pool: &Pool) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if let Some(pages) = &self.pages {
            use memmap2::Advice;
            // A system without such pages refuses the hint.
            let _ = pages.advise(Advice::HugePage);
            let failed = std::sync::Mutex::new(None);
            pool.run(pages.len().div_ceil(PART), &|part| {
                let start = part * PART;
                let brought = pages.advise_range(Advice::PopulateRead, start, PART.min(pages.len() - start));
                // Before Linux 5.14 there is no such call.
                if let Err(error) = brought
                    && error.raw_os_error() != Some(libc::EINVAL)
                {
                    *failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(error);
                }
            });
            let failed = failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
            return failed.map_or(Ok(()), Err);
        }
        let _ = pool;
        Ok(())
    }

    /// Asks the system to read `range` (bytes) of the file soon, without waiting for it. A system that does not is no error:
    /// the bytes are read when they are used.
    pub fn read_ahead(&self, range: Range<usize>) {
        let Some(pages) = &self.pages else { return };
        let start = range.start.min(pages.len());
        let end = range.end.min(pages.len());
        if start < end {
            let _ = pages.advise_range(memmap2::Advice::WillNeed, start, end - start);
        }
    }

    /// What the file is backed by. Looks at the kernel's account of this process, as [`crate::Arena::backing`].
    #[must_use]
    pub fn backing(&self) -> Backing {
        let huge_bytes = smaps::huge_bytes(self.as_ptr().addr(), self.len());
        Backing { kind: PageKind::File, bytes: self.len(), huge_bytes }
    }

    /// Gives the resident pages of the file back to the system; the next read fetches them again.
    pub fn drop_pages(&self) {
        self.drop_range(0..self.len());
    }

    /// As [`Map::drop_pages`], for `range` (bytes) up to a multiple of 64 KiB: what is behind that stays, for who reads
    /// on, and is dropped with the next range, which begins as far back.
    pub fn drop_range(&self, range: Range<usize>) {
        let Some(pages) = &self.pages else { return };
        let down = |at: usize| at - at % GRANULE;
        let start = down(range.start.min(pages.len()));
        // The last page of the file may be dropped though the file ends inside it.
        let end = if range.end >= pages.len() { pages.len() } else { down(range.end) };
        if start >= end {
            return;
        }
        // SAFETY: the mapping is of a file and read-only, so dropped pages are read again from the file unchanged.
        // A refusal by the system leaves the pages where they are, which is no error.
        let _ =
            unsafe { pages.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, end - start) };
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.pages.as_deref().unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_file_before_and_after_dropping_its_pages() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bytes");
        let bytes: Vec<u8> = (0..300_000u32).map(|i| ((i * 31) >> 3) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let map = Map::open(&path).unwrap();
        assert_eq!(&*map, &bytes[..]);
        map.drop_range(10..100_000);
        map.drop_range(5..6);
        map.drop_range(usize::MAX - 1..usize::MAX);
        map.read_ahead(4097..200_000);
        map.read_ahead(usize::MAX - 1..usize::MAX);
        map.drop_pages();
        assert_eq!(&*map, &bytes[..]);
    }

    #[test]
    fn a_file_is_brought_into_memory_and_one_cut_short_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bytes");
        let len = 2 * PART + 5000;
        std::fs::write(&path, vec![7; len]).unwrap();
        let pool = Pool::new(2, None).unwrap();
        let map = Map::open(&path).unwrap();
        map.populate(&pool).unwrap();
        assert!(map.modified().is_some() && map.iter().all(|&byte| byte == 7));
        let backing = map.backing();
        assert_eq!((backing.kind, backing.bytes), (PageKind::File, len));
        assert!(backing.huge_bytes.is_none_or(|huge| huge <= len));
        #[cfg(target_os = "linux")]
        {
            File::options().write(true).open(&path).unwrap().set_len(PART as u64).unwrap();
            // An error where reading would be a signal; silence on systems that bring nothing.
            let _ = map.populate(&pool);
        }
    }

    #[test]
    fn an_empty_file_is_empty_and_a_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("empty");
        std::fs::write(&path, b"").unwrap();
        let map = Map::open(&path).unwrap();
        assert!(map.is_empty());
        map.drop_pages();
        assert!(Map::open(dir.path()).is_err());
        assert!(Map::open(&dir.path().join("absent")).is_err());
    }
}
