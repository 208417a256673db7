//! Read-only file mappings.

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::path::Path;

/// Ranges are dropped in pieces of the largest page size in common use, so that every system accepts them.
const GRANULE: usize = 64 << 10;

/// A whole file mapped read-only. Derefs to its bytes.
///
/// The file must not be truncated while it is mapped: the pages past its new end would fault (SIGBUS). Model files are
/// written whole under a temporary name and renamed, so this holds for every file the store makes.
#[derive(Debug)]
pub struct Map {
    /// None for an empty file, which cannot be mapped.
    pages: Option<memmap2::Mmap>,
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
        let file = File::open(path)?;
        if file.metadata()?.len() == 0 {
            return Ok(Map { pages: None });
        }
        // SAFETY: the mapping is read-only and private to this value; that the file keeps its length and bytes while
        // it is mapped is the caller's part, stated above.
        let pages = unsafe { memmap2::Mmap::map(&file)? };
        Ok(Map { pages: Some(pages) })
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
        map.drop_pages();
        assert_eq!(&*map, &bytes[..]);
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
