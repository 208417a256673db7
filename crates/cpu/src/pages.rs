//! Memory for weights and caches: zeroed, page-aligned, on huge pages where the system has them.
//!
//! Weights are read once a token from end to end; with 2 MiB pages that runs a third faster than with 4 KiB pages on
//! the machines measured so far (docs/performance.md). A huge page holds several of a small model's matrices, so they
//! are cut from one [`Arena`]: a mapping for each would leave most of them on small pages.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::smaps;

const HUGE: usize = 2 << 20;
/// Parts of an arena begin at multiples of this, the small page of most machines.
const PAGE: usize = 4096;

/// What backs a [`Pages`] buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// Huge pages that the administrator reserved (`vm.nr_hugepages`).
    Reserved,
    /// Transparent huge pages were asked for and the system takes the hint; see [`Backing::huge_bytes`] for what came.
    Transparent,
    /// Plain pages.
    Plain,
    /// A file's pages in the page cache, mapped; how large they are was settled when they came there.
    File,
}

impl PageKind {
    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            PageKind::Reserved => "reserved",
            PageKind::Transparent => "transparent",
            PageKind::Plain => "plain",
            PageKind::File => "mapped file",
        }
    }
}

/// What the memory of an arena or of a mapped file turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backing {
    /// What was asked for.
    pub kind: PageKind,
    /// Bytes taken from the arena, or mapped.
    pub bytes: usize,
    /// How many of them are in huge pages by the kernel's account now; none where it does not tell.
    pub huge_bytes: Option<usize>,
}

/// An anonymous mapping, unmapped when the last buffer in it is dropped.
struct Region {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a region is only an address range to unmap; its bytes are reached through `Pages` alone.
unsafe impl Send for Region {}
// SAFETY: nothing can be done with a shared region.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `bytes` zeroed bytes with further `flags`.
    fn map(bytes: usize, flags: libc::c_int) -> io::Result<Region> {
        // SAFETY: a new private anonymous mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(|| too_long(bytes))?;
        Ok(Region { base, bytes })
    }

    /// On reserved huge pages, if enough of them are free: the kernel sets them aside at once or refuses.
    #[cfg(target_os = "linux")]
    fn reserved(bytes: usize) -> Option<Region> {
        let whole = bytes.checked_next_multiple_of(HUGE)?;
        Region::map(whole, libc::MAP_HUGETLB | libc::MAP_HUGE_2MB).ok()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `map` mapped, and no buffer in it is left.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

fn too_long(bytes: usize) -> io::Error {
    io::Error::new(io::ErrorKind::OutOfMemory, format!("cannot map {bytes} bytes"))
}

/// An owned, zeroed buffer of bytes whose start is aligned to 2 MiB when it is at least that long, and to a page
/// otherwise; one from an [`Arena`] is aligned to a page.
pub struct Pages {
    /// None when the buffer is empty.
    region: Option<Arc<Region>>,
    start: NonNull<u8>,
    len: usize,
    kind: PageKind,
}

// SAFETY: the bytes are owned by this value alone and are plain memory.
unsafe impl Send for Pages {}
// SAFETY: shared access only reads.
unsafe impl Sync for Pages {}

impl Pages {
    /// Reserves `len` zeroed bytes; physical memory is taken as they are first written.
    ///
    /// # Errors
    /// When the system has no such address range left.
    pub fn new(len: usize) -> io::Result<Pages> {
        if len == 0 {
            let start = NonNull::<u128>::dangling().cast();
            return Ok(Pages { region: None, start, len, kind: PageKind::Plain });
        }
        #[cfg(target_os = "linux")]
        if len >= HUGE
            && let Some(region) = Region::reserved(len)
        {
            let start = region.base;
            return Ok(Pages { region: Some(Arc::new(region)), start, len, kind: PageKind::Reserved });
        }
        let slack = if len >= HUGE { HUGE } else { 0 };
        let total = len.checked_add(slack).ok_or_else(|| too_long(len))?;
        let region = Region::map(total, libc::MAP_NORESERVE)?;
        let offset = if slack == 0 { 0 } else { region.base.as_ptr().align_offset(HUGE) };
        // SAFETY: `offset` is below `slack`, so the result and `len` bytes after it lie inside the mapping.
        let start = unsafe { region.base.add(offset) };
        let mut kind = PageKind::Plain;
        #[cfg(target_os = "linux")]
        if slack > 0 {
            // The mapping reaches a huge page beyond the start, so the last bytes may have a huge page too.
            let whole = len.next_multiple_of(HUGE).min(total - offset);
            // SAFETY: the range is inside our own mapping; the call is only a hint.
            let told = unsafe { libc::madvise(start.as_ptr().cast(), whole, libc::MADV_HUGEPAGE) };
            if told == 0 {
                kind = PageKind::Transparent;
            }
        }
        Ok(Pages { region: Some(Arc::new(region)), start, len, kind })
    }

    /// What backs the buffer.
    pub fn kind(&self) -> PageKind {
        self.kind
    }

    /// The bytes as `f32` values; a trailing part shorter than four bytes is left out.
    pub fn as_f32(&self) -> &[f32] {
        // SAFETY: the start is page-aligned, every bit pattern is a valid f32, and the length stays inside.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.len / 4) }
    }

    /// The bytes as writable `f32` values.
    pub fn as_f32_mut(&mut self) -> &mut [f32] {
        // SAFETY: as in `as_f32`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.len / 4) }
    }

    /// The bytes as `u16` values; a trailing odd byte is left out.
    pub fn as_u16(&self) -> &[u16] {
        // SAFETY: as in `as_f32`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.len / 2) }
    }

    /// The bytes as writable `u16` values.
    pub fn as_u16_mut(&mut self) -> &mut [u16] {
        // SAFETY: as in `as_f32`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.len / 2) }
    }
}

impl Deref for Pages {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` and `len` describe initialised (zeroed) memory that lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("len", &self.len).field("kind", &self.kind).finish()
    }
}

/// One mapping that buffers are cut from, one after another.
pub struct Arena {
    whole: Pages,
    used: usize,
}

impl Arena {
    /// An arena for buffers of these lengths, taken in any order.
    ///
    /// # Errors
    /// When the system has no such address range left.
    pub fn new(lengths: impl Iterator<Item = usize>) -> io::Result<Arena> {
        let mut total = 0usize;
        for len in lengths {
            let room = len.checked_next_multiple_of(PAGE).and_then(|room| total.checked_add(room));
            total = room.ok_or_else(|| too_long(usize::MAX))?;
        }
        Ok(Arena { whole: Pages::new(total)?, used: 0 })
    }

    /// The next `len` zeroed bytes; beyond what the arena was made for, a mapping of their own.
    ///
    /// # Errors
    /// As [`Pages::new`], beyond what the arena was made for.
    pub fn take(&mut self, len: usize) -> io::Result<Pages> {
        if len == 0 || len > self.whole.len - self.used {
            return Pages::new(len);
        }
        let region = self.whole.region.clone();
        // SAFETY: `used` bytes from the start are inside the arena's buffer, and so are the `len` after them.
        let start = unsafe { self.whole.start.add(self.used) };
        // Every buffer is cut from behind those before it, and the arena itself hands out no bytes: no two overlap.
        self.used = (self.used + len).next_multiple_of(PAGE).min(self.whole.len);
        Ok(Pages { region, start, len, kind: self.whole.kind })
    }

    /// What the bytes taken so far are backed by. Looks at the kernel's account of this process, which takes
    /// milliseconds: not for the token path.
    #[must_use]
    pub fn backing(&self) -> Backing {
        let start = self.whole.start.as_ptr().addr();
        let huge_bytes = match self.whole.kind {
            PageKind::Reserved => Some(self.used),
            PageKind::Transparent | PageKind::Plain | PageKind::File => smaps::huge_bytes(start, self.used),
        };
        Backing { kind: self.whole.kind, bytes: self.used, huge_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroed_aligned_and_writable() {
        for len in [0, 1, 4096, HUGE - 1, HUGE, 3 * HUGE + 5] {
            let mut pages = Pages::new(len).unwrap();
            assert_eq!(pages.len(), len);
            assert!(pages.iter().all(|&b| b == 0));
            if len >= HUGE {
                assert_eq!(pages.as_ptr().align_offset(HUGE), 0);
            }
            if let Some(last) = pages.last_mut() {
                *last = 7;
            }
            assert_eq!(pages.as_f32().len(), len / 4);
        }
        assert!(Pages::new(usize::MAX - 4096).is_err());
    }

    #[test]
    fn an_arena_hands_out_each_byte_once_and_outlives_its_maker() {
        let lengths = [3, 0, 4096, HUGE, 70_000, 1];
        let mut arena = Arena::new(lengths.into_iter()).unwrap();
        let mut parts: Vec<Pages> = lengths.iter().map(|&len| arena.take(len).unwrap()).collect();
        let beyond = arena.take(HUGE).unwrap();
        assert_eq!(arena.backing().bytes, lengths.map(|len| len.next_multiple_of(PAGE)).iter().sum());
        drop(arena);
        for (i, part) in parts.iter_mut().enumerate() {
            assert_eq!(part.as_ptr().align_offset(if part.is_empty() { 1 } else { PAGE }), 0);
            assert!(part.iter().all(|&byte| byte == 0), "part {i} is nobody else's");
            part.fill(i as u8 + 1);
        }
        for (i, (part, len)) in parts.iter().zip(lengths).enumerate() {
            assert_eq!(part.len(), len);
            assert!(part.iter().all(|&byte| byte == i as u8 + 1));
        }
        assert!(beyond.len() == HUGE && beyond.iter().all(|&byte| byte == 0));
        assert!(Arena::new([usize::MAX, 1].into_iter()).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_in_huge_pages_is_what_was_written() {
        let mut arena = Arena::new([8 * HUGE].into_iter()).unwrap();
        let mut part = arena.take(8 * HUGE).unwrap();
        part.fill(1);
        let backing = arena.backing();
        assert_eq!(backing.bytes, 8 * HUGE);
        assert!(backing.huge_bytes.is_some_and(|huge| huge <= backing.bytes));
    }
}
