//! Hashes of streams, taken as they pass.

use sha2::{Digest, Sha256};
use std::io::{self, Read, Write};

/// A reader or writer that hashes what passes through it.
pub(crate) struct Hashing<R> {
    inner: R,
    hash: Sha256,
    bytes: u64,
}

impl<R> Hashing<R> {
    pub(crate) fn new(inner: R) -> Hashing<R> {
        Hashing { inner, hash: Sha256::new(), bytes: 0 }
    }

    /// The number of bytes that passed.
    pub(crate) fn passed(&self) -> u64 {
        self.bytes
    }

    /// Length and hash of the bytes that passed.
    pub(crate) fn digest(self) -> Digested {
        self.into_parts().1
    }

    /// What is inside, with length and hash of the bytes that passed.
    pub(crate) fn into_parts(self) -> (R, Digested) {
        let digest = Digested { sha256: hex(&self.hash.finalize()), bytes: self.bytes };
        (self.inner, digest)
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hash.update(&buffer[..read]);
        self.bytes += read as u64;
        Ok(read)
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Length and hash of a file.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Digested {
    pub(crate) sha256: String,
    pub(crate) bytes: u64,
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(digit).collect()
}

fn digit(value: u8) -> char {
    char::from_digit(u32::from(value), 16).unwrap_or('0')
}
