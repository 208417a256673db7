//! The body of an answer, taken out of the bytes of its connection as they come.

use super::head::Framing;

/// Most bytes of a chunk's extensions, and of the trailers of a body.
const MOST_ASIDE: usize = 16 << 10;

/// A body under way.
#[derive(Debug)]
pub(super) enum Decoder {
    /// A body whose length is known: bytes still to come.
    Length(u64),
    Chunked {
        place: Place,
        /// Bytes of the present chunk that are to come.
        left: u64,
        /// Bytes since the last data: sizes, extensions, trailers.
        aside: usize,
    },
    /// All that comes.
    Close,
}

/// A place in a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Before the digits of a size.
    Size,
    /// After some digits.
    Digits,
    /// After the digits.
    Extension,
    /// The size's line has its carriage return.
    SizeEnd,
    Data,
    /// After the data.
    DataEnd,
    /// After the data's carriage return.
    DataLineEnd,
    /// At the beginning of a trailer, or of the last line.
    Trailer,
    /// In a trailer.
    InTrailer,
    /// After the last carriage return.
    LastEnd,
    Over,
}

impl Decoder {
    pub(super) fn new(framing: Framing) -> Decoder {
        match framing {
            Framing::Length(length) => Decoder::Length(length),
            Framing::Chunked => Decoder::Chunked { place: Place::Size, left: 0, aside: 0 },
            Framing::Close => Decoder::Close,
        }
    }

    /// Whether the body has ended; one that ends with its connection has not.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Decoder::Length(left) => *left == 0,
            Decoder::Chunked { place, .. } => *place == Place::Over,
            Decoder::Close => false,
        }
    }

    /// Adds to `out` what of `bytes` is the body, and says how many were taken: all of them unless the body is over.
    ///
    /// # Errors
    /// What is no chunked body.
    pub(super) fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<usize, &'static str> {
        match self {
            Decoder::Length(left) => {
                let count = most(bytes.len(), *left);
                out.extend_from_slice(&bytes[..count]);
                *left -= count as u64;
                Ok(count)
            }
            Decoder::Close => {
                out.extend_from_slice(bytes);
                Ok(bytes.len())
            }
            Decoder::Chunked { place, left, aside } => {
                let mut at = 0;
                while at < bytes.len() && *place != Place::Over {
                    if *place == Place::Data {
                        let count = most(bytes.len() - at, *left);
                        out.extend_from_slice(&bytes[at..at + count]);
                        (at, *left, *aside) = (at + count, *left - count as u64, 0);
                        if *left == 0 {
                            *place = Place::DataEnd;
                        }
                        continue;
                    }
                    *aside += 1;
                    if *aside > MOST_ASIDE {
                        return Err("the answer's body has more beside its data than it may");
                    }
                    *place = place.next(bytes[at], left)?;
                    at += 1;
                }
                Ok(at)
            }
        }
    }
}

fn most(count: usize, left: u64) -> usize {
    usize::try_from(left).unwrap_or(usize::MAX).min(count)
}

impl Place {
    /// The place after a byte that is no data. `left` is the size of the chunk, as far as it is read.
    fn next(self, byte: u8, left: &mut u64) -> Result<Place, &'static str> {
        let wrong = "the answer's body is no chunked body";
        Ok(match (self, byte) {
            (Place::Size | Place::Digits, _) if byte.is_ascii_hexdigit() => {
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                let shifted = left.checked_mul(16).ok_or("a chunk of the answer is too large")?;
                *left = shifted + u64::from(digit);
                Place::Digits
            }
            (Place::Digits | Place::Extension, b'\r') => Place::SizeEnd,
            (Place::Digits, b';' | b' ' | b'\t') => Place::Extension,
            (Place::Extension, b'\n') => return Err(wrong),
            (Place::Extension, _) => Place::Extension,
            (Place::SizeEnd, b'\n') if *left == 0 => Place::Trailer,
            (Place::SizeEnd, b'\n') => Place::Data,
            (Place::DataEnd, b'\r') => Place::DataLineEnd,
            (Place::DataLineEnd, b'\n') => Place::Size,
            (Place::Trailer, b'\r') => Place::LastEnd,
            (Place::LastEnd, b'\n') => Place::Over,
            (Place::InTrailer, b'\n') => Place::Trailer,
            (Place::Trailer | Place::InTrailer, _) => Place::InTrailer,
            _ => return Err(wrong),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The body and what lies behind it, of bytes that come in parts of `each`.
    fn read(framing: Framing, bytes: &[u8], each: usize) -> Result<(Vec<u8>, usize, bool), &'static str> {
        let (mut decoder, mut out, mut behind) = (Decoder::new(framing), Vec::new(), 0);
        for part in bytes.chunks(each.max(1)) {
            behind += part.len() - decoder.feed(part, &mut out)?;
        }
        Ok((out, behind, decoder.is_over()))
    }

    #[test]
    fn chunks_are_joined() {
        let body = b"4\r\nWiki\r\n6 ;x=\"y\"\r\npedia \r\nE\r\nin \r\n\r\nchunks.\r\n0\r\nTrailer: a\r\n\r\nHTTP/1.1";
        for each in 1..body.len() {
            let (out, behind, over) = read(Framing::Chunked, body, each).unwrap();
            assert_eq!((out.as_slice(), behind, over), (&b"Wikipedia in \r\n\r\nchunks."[..], 8, true));
        }
    }

    #[test]
    fn a_length_is_kept() {
        assert_eq!(read(Framing::Length(3), b"abcd", 2), Ok((b"abc".to_vec(), 1, true)));
        assert_eq!(read(Framing::Length(5), b"abcd", 2), Ok((b"abcd".to_vec(), 0, false)));
        assert_eq!(read(Framing::Close, b"abcd", 3), Ok((b"abcd".to_vec(), 0, false)));
    }

    #[test]
    fn bytes_that_are_no_chunk_are_refused() {
        let endless = format!("1;{}", "x".repeat(MOST_ASIDE));
        let empty = format!("0\r\n{}", "a: b\r\n".repeat(MOST_ASIDE));
        for wrong in [
            "x\r\n",
            "\r\n",
            "-1\r\n",
            "1\n",
            "1\r\nab",
            "1\r\na\n",
            "1\rx",
            "fffffffffffffffff\r\n",
            "1;\n",
            &endless,
            &empty,
        ] {
            assert!(read(Framing::Chunked, wrong.as_bytes(), 7).is_err(), "{wrong:.40}");
        }
    }

    proptest! {
        #[test]
        fn what_is_chunked_is_read(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..9), each in 1..50_usize) {
            let mut bytes = Vec::new();
            for part in &parts {
                bytes.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
                bytes.extend_from_slice(part);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(b"0\r\n\r\n");
            prop_assert_eq!(read(Framing::Chunked, &bytes, each), Ok((parts.concat(), 0, true)));
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let (mut decoder, mut out) = (Decoder::new(Framing::Chunked), Vec::new());
            if let Ok(taken) = decoder.feed(&bytes, &mut out) {
                prop_assert!(taken == bytes.len() || decoder.is_over());
            }
        }
    }
}
