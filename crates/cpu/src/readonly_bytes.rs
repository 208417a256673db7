//! Read-only bytes.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::{Map, Pages};

/// Read-only bytes, to which it derefs: a buffer that has been filled, or a part of a mapped file.
pub struct ReadonlyBytes(Memory);

enum Memory {
    Buffer(Pages),
    /// The range lies inside the file.
    File(Arc<Map>, Range<usize>),
    /// As a file's, of which nothing was brought into memory.
    OnDisk(Arc<Map>, Range<usize>),
}

impl Pages {
    /// The buffer, read-only from now on.
    #[must_use]
    pub fn freeze(self) -> ReadonlyBytes {
        ReadonlyBytes(Memory::Buffer(self))
    }
}

impl ReadonlyBytes {
    /// The bytes `range` of a mapped file, which stays mapped as long as they exist; none if the range is outside it.
    /// What [`Map`] says of files that are cut short applies.
    #[must_use]
    pub fn of_file(map: &Arc<Map>, range: Range<usize>) -> Option<ReadonlyBytes> {
        map.get(range.clone())?;
        Some(ReadonlyBytes(Memory::File(Arc::clone(map), range)))
    }

    /// As [`ReadonlyBytes::of_file`], for bytes that are read from the disk when they are used, or shortly before by
    /// [`ReadonlyBytes::read_ahead`].
    #[must_use]
    pub fn on_disk(map: &Arc<Map>, range: Range<usize>) -> Option<ReadonlyBytes> {
        map.get(range.clone())?;
        Some(ReadonlyBytes(Memory::OnDisk(Arc::clone(map), range)))
    }

    /// Asks the system to read the bytes soon if they are on the disk; otherwise does nothing. Does not wait.
    pub fn read_ahead(&self) {
        if let Memory::OnDisk(map, range) = &self.0 {
            map.read_ahead(range.clone());
        }
    }
}

impl Deref for ReadonlyBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Memory::Buffer(pages) => pages,
            Memory::File(map, range) | Memory::OnDisk(map, range) => &map[range.clone()],
        }
    }
}

impl fmt::Debug for ReadonlyBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = matches!(self.0, Memory::File(..) | Memory::OnDisk(..));
        f.debug_struct("Frozen").field("len", &self.len()).field("file", &file).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_file_outlives_what_it_was_cut_from() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bytes");
        let bytes: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let map = Arc::new(Map::open(&path).unwrap());
        let part = ReadonlyBytes::of_file(&map, 4096..70_000).unwrap();
        assert!(ReadonlyBytes::of_file(&map, 99_999..100_001).is_none());
        #[expect(clippy::reversed_empty_ranges, reason = "what a damaged file may ask for")]
        let backwards = ReadonlyBytes::of_file(&map, 9..3);
        assert!(backwards.is_none());
        let later = ReadonlyBytes::on_disk(&map, 10..99).unwrap();
        assert!(ReadonlyBytes::on_disk(&map, 99_999..100_001).is_none());
        drop(map);
        assert_eq!(&*part, &bytes[4096..70_000]);
        later.read_ahead();
        part.read_ahead();
        assert_eq!(&*later, &bytes[10..99]);
    }

    #[test]
    fn a_buffer_keeps_its_bytes() {
        let mut pages = Pages::new(5000).unwrap();
        pages.fill(3);
        let frozen = pages.freeze();
        assert!(frozen.len() == 5000 && frozen.iter().all(|&byte| byte == 3));
    }
}
