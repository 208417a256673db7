//! Buffers aligned to cache lines.

use std::ops::{Deref, DerefMut};

/// Bytes of a cache line, and of the widest register.
const LINE: usize = 64;

/// `len` values aligned to a cache line. Allocators put large buffers 16 bytes behind the start of a page, where every
/// access of a full register touches two lines: loading rows into AMX tiles takes twice as long
/// (docs/lab/amx-tiles.md#decision-36).
pub struct AlignedVec<T> {
    room: Vec<T>,
    from: usize,
    len: usize,
}

impl<T: Copy + Default> AlignedVec<T> {
    /// A buffer of `len` values, each its type's default.
    #[must_use]
    pub fn new(len: usize) -> AlignedVec<T> {
        const { assert!(size_of::<T>() > 0 && LINE.is_multiple_of(size_of::<T>())) };
        let spare = LINE / size_of::<T>();
        let room = vec![T::default(); len + spare];
        // An allocator that aligns below a value's size may leave no such place.
        let from = room.as_ptr().align_offset(LINE);
        AlignedVec { room, from: if from < spare { from } else { 0 }, len }
    }
}

impl<T> Deref for AlignedVec<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        &self.room[self.from..][..self.len]
    }
}

impl<T> DerefMut for AlignedVec<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.room[self.from..][..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_any_size_begin_at_a_line() {
        for len in [0, 1, 15, 16, 1_000, 1 << 20] {
            let (mut floats, quads) = (AlignedVec::<f32>::new(len), AlignedVec::<[i8; 4]>::new(len));
            assert_eq!((floats.as_ptr().addr() % LINE, quads.as_ptr().addr() % LINE), (0, 0), "{len} values");
            assert_eq!((floats.len(), quads.len()), (len, len));
            floats.fill(1.0);
            assert!(quads.iter().all(|quad| *quad == [0; 4]));
        }
    }
}
