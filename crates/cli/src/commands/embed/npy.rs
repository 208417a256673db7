//! A NumPy file of float32 `[rows, columns]`, format version 1.0. The head has a fixed length, so that the number of rows
//! can be written when it is known.

use std::io::{Seek, SeekFrom, Write};

/// Bytes of the head. The format asks for a multiple of 64.
const HEAD_BYTES: usize = 128;
/// Magic, version, and the length of the text that follows.
const PREFIX: &[u8] = b"\x93NUMPY\x01\x00";

/// The head of an array.
pub(super) fn head(rows: u64, columns: usize) -> Vec<u8> {
    let text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}");
    let mut head = PREFIX.to_vec();
    head.extend(u16::try_from(HEAD_BYTES - PREFIX.len() - 2).unwrap_or_default().to_le_bytes());
    head.extend(text.as_bytes());
    head.resize(HEAD_BYTES - 1, b' ');
    head.push(b'\n');
    head
}

/// Writes the head again at the start of `to`, now that the number of rows is known.
///
/// # Errors
/// As the file says.
pub(super) fn set_rows(to: &mut (impl Write + Seek), rows: u64, columns: usize) -> std::io::Result<()> {
    to.seek(SeekFrom::Start(0))?;
    to.write_all(&head(rows, columns))?;
    to.seek(SeekFrom::End(0)).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_has_one_length_for_all_shapes() {
        for (rows, columns) in [(0, 1), (3, 384), (u64::MAX, 65_536)] {
            let head = head(rows, columns);
            assert_eq!((head.len(), head.last()), (128, Some(&b'\n')));
            assert_eq!(&head[..10], b"\x93NUMPY\x01\x00\x76\x00");
            let text = String::from_utf8(head[10..].to_vec()).unwrap();
            assert!(text.contains(&format!("'shape': ({rows}, {columns}), }}")), "{text}");
        }
    }
}
