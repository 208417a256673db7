//! Memory for weights and caches: zeroed, page-aligned, on huge pages where the system has them.
//!
//! Weights are read once a token from end to end; with 2 MiB pages that runs a third faster than with 4 KiB pages on
//! the machines measured so far (docs/performance.md).

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

const HUGE: usize = 2 << 20;

/// What backs a [`Pages`] buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// Transparent huge pages were asked for and the system takes the hint.
    Transparent,
    /// Plain pages.
    Plain,
}

/// An owned, zeroed buffer of bytes whose start is aligned to 2 MiB when it is at least that long, and to a page
/// otherwise.
pub struct Pages {
    /// Start and length of the whole mapping; null when the buffer is empty.
    map: Option<(NonNull<u8>, usize)>,
    start: NonNull<u8>,
    len: usize,
    kind: PageKind,
}

// SAFETY: the mapping is owned by this value alone and is plain memory.
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
            return Ok(Pages {
                map: None,
                start: NonNull::<u128>::dangling().cast(),
                len,
                kind: PageKind::Plain,
            });
        }
        let slack = if len >= HUGE { HUGE } else { 0 };
        let too_long = || io::Error::new(io::ErrorKind::OutOfMemory, format!("cannot map {len} bytes"));
        let total = len.checked_add(slack).ok_or_else(too_long)?;
        // SAFETY: a new private anonymous mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                total,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(too_long)?;
        let offset = if slack == 0 { 0 } else { base.as_ptr().align_offset(HUGE) };
        // SAFETY: `offset` is below `slack`, so the result and `len` bytes after it lie inside the mapping.
        let start = unsafe { base.add(offset) };
        let mut kind = PageKind::Plain;
        #[cfg(target_os = "linux")]
        if slack > 0 {
            // SAFETY: the range is inside our own mapping; the call is only a hint.
            let told = unsafe { libc::madvise(start.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
            if told == 0 {
                kind = PageKind::Transparent;
            }
        }
        Ok(Pages { map: Some((base, total)), start, len, kind })
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

impl Drop for Pages {
    fn drop(&mut self) {
        if let Some((base, total)) = self.map {
            // SAFETY: exactly the range that `new` mapped, and no borrow of it can outlive `self`.
            unsafe { libc::munmap(base.as_ptr().cast(), total) };
        }
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
}
