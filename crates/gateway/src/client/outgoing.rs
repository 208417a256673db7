//! A request as it is written: the bytes of its head and its body.

use bytes::{Buf, Bytes};

use std::io::IoSlice;

/// A request, or what of it is still to be written.
pub(crate) struct Outgoing {
    head: Bytes,
    body: Bytes,
    begun: bool,
}

impl Outgoing {
    /// A request whose body is JSON. `lines` are header lines, each with its end.
    pub(crate) fn post(path: &str, lines: &[&[u8]], body: Bytes) -> Outgoing {
        let length = format!("content-length: {}\r\n\r\n", body.len());
        Outgoing { head: head("POST ", path, lines, &length), body, begun: false }
    }

    /// A request without a body.
    pub(crate) fn get(path: &str, lines: &[&[u8]]) -> Outgoing {
        Outgoing { head: head("GET ", path, lines, "\r\n"), body: Bytes::new(), begun: false }
    }

    /// Whether any of it was written.
    pub(super) fn is_begun(&self) -> bool {
        self.begun
    }

    /// Whether all of it was written.
    pub(super) fn is_written(&self) -> bool {
        self.head.is_empty() && self.body.is_empty()
    }

    /// What is to be written next.
    pub(super) fn slices(&self) -> [IoSlice<'_>; 2] {
        if self.head.is_empty() {
            return [IoSlice::new(&self.body), IoSlice::new(&[])];
        }
        [IoSlice::new(&self.head), IoSlice::new(&self.body)]
    }

    /// Notes that so many bytes were written.
    pub(super) fn written(&mut self, count: usize) {
        self.begun |= count > 0;
        let of_head = count.min(self.head.len());
        self.head.advance(of_head);
        self.body.advance((count - of_head).min(self.body.len()));
    }
}

fn head(method: &str, path: &str, lines: &[&[u8]], end: &str) -> Bytes {
    let version: &[u8] = b" HTTP/1.1\r\n";
    let size = lines.iter().map(|line| line.len()).sum::<usize>();
    let mut head = Vec::with_capacity(method.len() + path.len() + version.len() + size + end.len());
    for part in [method.as_bytes(), path.as_bytes(), version] {
        head.extend_from_slice(part);
    }
    lines.iter().for_each(|line| head.extend_from_slice(line));
    head.extend_from_slice(end.as_bytes());
    Bytes::from(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_written_in_parts() {
        let mut request = Outgoing::post("/v1/x", &[b"host: a\r\n"], Bytes::from_static(b"{}"));
        let mut written = Vec::new();
        while !request.is_written() {
            let next = request.slices()[0].to_vec();
            let count = next.len().min(7);
            written.extend_from_slice(&next[..count]);
            request.written(count);
            assert!(request.is_begun());
        }
        assert_eq!(written, b"POST /v1/x HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}");
    }
}
