//! Compressed bodies: `content-encoding: gzip` or `deflate`, undone within the bounds of plain ones.

use std::io::{Read, Write};

use axum::http::{HeaderMap, header};
use flate2::Compression;
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};
use wire::Fault;

/// How a body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Not at all.
    Identity,
    /// RFC 1952.
    Gzip,
    /// RFC 1950, or the bare RFC 1951 that some clients send under the same name.
    Deflate,
}

/// Bytes that are decompressed at a time.
const PIECE: usize = 16 << 10;

impl Encoding {
    /// What the head says.
    ///
    /// # Errors
    /// 415 for a way, or a stack of ways, that is not undone here.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Encoding, Fault> {
        let mut found = Encoding::Identity;
        for value in headers.get_all(header::CONTENT_ENCODING) {
            let text = value.to_str().unwrap_or("not ASCII");
            for word in text.split(',').map(str::trim) {
                let encoding = match word.to_ascii_lowercase().as_str() {
                    "" | "identity" => continue,
                    "gzip" | "x-gzip" => Encoding::Gzip,
                    "deflate" => Encoding::Deflate,
                    _ => return Err(Fault::content_encoding(text)),
                };
                if found != Encoding::Identity {
                    return Err(Fault::content_encoding(text));
                }
                found = encoding;
            }
        }
        Ok(found)
    }

    /// The body as it was before: at most `limit` bytes, each of which `grow` was told of before it is kept.
    ///
    /// # Errors
    /// When it is not so compressed, or larger than the limit, or `grow` refuses.
    pub(crate) fn undo(
        self,
        bytes: Vec<u8>,
        limit: usize,
        mut grow: impl FnMut(usize) -> Result<(), Fault>,
    ) -> Result<Vec<u8>, Fault> {
        let mut reader: Box<dyn Read + '_> = match self {
            Encoding::Identity => return Ok(bytes),
            Encoding::Gzip => Box::new(MultiGzDecoder::new(bytes.as_slice())),
            Encoding::Deflate if is_zlib(&bytes) => Box::new(ZlibDecoder::new(bytes.as_slice())),
            Encoding::Deflate => Box::new(DeflateDecoder::new(bytes.as_slice())),
        };
        let mut out = Vec::new();
        let mut piece = [0; PIECE];
        loop {
            let read = reader.read(&mut piece).map_err(|error| self.broken(&error))?;
            let Some(new) = piece.get(..read).filter(|new| !new.is_empty()) else { return Ok(out) };
            if out.len() + new.len() > limit {
                let mut fault = Fault::too_large(limit);
                fault.message.push_str(", decompressed");
                return Err(fault);
            }
            grow(new.len())?;
            out.extend_from_slice(new);
        }
    }

    fn broken(self, error: &std::io::Error) -> Fault {
        let name = if self == Encoding::Gzip { "gzip" } else { "deflate" };
        Fault::body(format!("content-encoding is {name}, but the body is not valid {name}: {error}"))
    }
}

/// Bytes below which compression is not worth its header.
const WORTH: usize = 256;

/// The way of compression that a client takes for an answer: `gzip` or `deflate`, whichever it names first; none if it
/// names neither.
pub fn accepted(headers: &HeaderMap) -> Option<&'static str> {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).find_map(|word| {
        let (name, weight) = word.split_once(';').unwrap_or((word, ""));
        let refused = weight.trim().strip_prefix("q=").is_some_and(|q| q.trim().parse() == Ok(0.0_f32));
        let name = ["gzip", "deflate"].into_iter().find(|known| name.trim().eq_ignore_ascii_case(known));
        name.filter(|_| !refused)
    })
}

/// The bytes compressed in this way, and whether they are: short ones are left as they are.
pub fn compressed(bytes: Vec<u8>, way: Option<&'static str>) -> (Vec<u8>, Option<&'static str>) {
    let Some(way) = way.filter(|_| bytes.len() >= WORTH) else { return (bytes, None) };
    let level = Compression::fast();
    // Writing into memory does not fail.
    let done = if way == "gzip" {
        let mut out = GzEncoder::new(Vec::new(), level);
        out.write_all(&bytes).and_then(|()| out.finish())
    } else {
        let mut out = ZlibEncoder::new(Vec::new(), level);
        out.write_all(&bytes).and_then(|()| out.finish())
    };
    done.map_or((bytes, None), |done| (done, Some(way)))
}

/// Whether two bytes of a zlib header stand first: the method 8, and a checksum.
fn is_zlib(bytes: &[u8]) -> bool {
    match bytes {
        [method, flags, ..] => method & 15 == 8 && (u16::from(*method) << 8 | u16::from(*flags)) % 31 == 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use flate2::write::DeflateEncoder;

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut out = GzEncoder::new(Vec::new(), Compression::best());
        out.write_all(text).unwrap();
        out.finish().unwrap()
    }

    fn plain(encoding: Encoding, bytes: Vec<u8>, limit: usize) -> Result<Vec<u8>, Fault> {
        let mut told = 0;
        let out = encoding.undo(bytes, limit, |more| {
            told += more;
            Ok(())
        })?;
        assert!(encoding == Encoding::Identity || told == out.len());
        Ok(out)
    }

    #[test]
    fn said_badly_a_compressed_body_is_read() {
        let text = b"{\"prompt\": \"a\"}".repeat(3_000);
        assert_eq!(plain(Encoding::Gzip, gzip(&text), 1 << 20).unwrap(), text);
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
        zlib.write_all(&text).unwrap();
        assert_eq!(plain(Encoding::Deflate, zlib.finish().unwrap(), 1 << 20).unwrap(), text);
        let mut bare = DeflateEncoder::new(Vec::new(), Compression::fast());
        bare.write_all(&text).unwrap();
        assert_eq!(plain(Encoding::Deflate, bare.finish().unwrap(), 1 << 20).unwrap(), text);
        assert_eq!(plain(Encoding::Identity, text.clone(), 1).unwrap(), text);
    }

    #[test]
    fn answers_are_compressed_as_clients_ask() {
        let of = |words: &'static str| {
            accepted(&[(header::ACCEPT_ENCODING, HeaderValue::from_static(words))].into_iter().collect())
        };
        assert_eq!(
            [of("gzip"), of("br, Deflate;q=0.5"), of("gzip;q=0"), of("*")],
            [Some("gzip"), Some("deflate"), None, None]
        );
        let text = b"0, ".repeat(1_000);
        for (way, encoding) in [("gzip", Encoding::Gzip), ("deflate", Encoding::Deflate)] {
            let (bytes, how) = compressed(text.clone(), Some(way));
            assert!(how == Some(way) && bytes.len() < text.len() / 10);
            assert_eq!(plain(encoding, bytes, 1 << 20).unwrap(), text);
        }
        assert_eq!(compressed(b"short".to_vec(), Some("gzip")), (b"short".to_vec(), None));
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let bomb = gzip(&vec![b' '; 64 << 20]);
        assert!(bomb.len() < 100_000, "{}", bomb.len());
        let fault = plain(Encoding::Gzip, bomb.clone(), 4 << 20).unwrap_err();
        assert_eq!((fault.status, fault.message.contains("4194304")), (413, true));
        let mut kept = 0;
        let refused = Encoding::Gzip.undo(bomb, usize::MAX, |more| {
            kept += more;
            if kept > 1 << 20 { Err(Fault::busy("full", 1)) } else { Ok(()) }
        });
        assert_eq!(refused.unwrap_err().status, 429);
    }

    #[test]
    fn what_is_broken_or_unknown_is_named() {
        for bytes in
            [b"{}".to_vec(), gzip(b"{}")[..12].to_vec(), Vec::new(), [gzip(b"{}"), b"x".to_vec()].concat()]
        {
            let fault = plain(Encoding::Gzip, bytes, 1 << 20).unwrap_err();
            assert!(fault.status == 400 && fault.message.contains("gzip"), "{fault}");
        }
        let of = |words: &'static str| {
            let headers = [(header::CONTENT_ENCODING, HeaderValue::from_static(words))];
            Encoding::of(&headers.into_iter().collect())
        };
        assert_eq!(of("X-GZIP").unwrap(), Encoding::Gzip);
        assert_eq!(of("identity, deflate").unwrap(), Encoding::Deflate);
        for unknown in ["br", "zstd", "gzip, gzip", "gzip, br"] {
            let fault = of(unknown).unwrap_err();
            assert!(fault.status == 415 && fault.message.contains("gzip, deflate"), "{fault}");
        }
    }
}
