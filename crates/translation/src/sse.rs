//! Server-sent events cut out of bytes as they arrive (WHATWG HTML, "Server-sent events").

use std::borrow::Cow;

/// An event of an answer, or the answer, is longer than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer, or an event of it, is longer than {limit} bytes")]
pub struct EventTooLong {
    /// The limit in bytes.
    pub limit: usize,
}

/// Cuts bytes into events. Holds at most one event that has not ended.
#[derive(Debug, Clone)]
pub(crate) struct EventCutter {
    held: Vec<u8>,
    limit: usize,
    /// Whether the line that has begun has bytes.
    in_line: bool,
}

impl EventCutter {
    pub(crate) fn new(limit: usize) -> EventCutter {
        EventCutter { held: Vec::new(), limit, in_line: false }
    }

    /// Calls `each` with every event that ends in `bytes`: its raw bytes up to the empty line's end. Raw events and what
    /// is held, joined, are the bytes that came.
    pub(crate) fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) -> Result<(), EventTooLong> {
        let (mut event, mut line) = (0, 0);
        while let Some(found) = memchr::memchr2(b'\n', b'\r', bytes.get(line..).unwrap_or_default()) {
            let at = line + found;
            let pair = bytes.get(at) == Some(&b'\r') && bytes.get(at + 1) == Some(&b'\n');
            let empty = !self.in_line && found == 0;
            // The second half of a line's end whose first half came before.
            let half = empty && bytes.get(at) == Some(&b'\n') && at == 0 && self.held.last() == Some(&b'\r');
            line = at + 1 + usize::from(pair);
            self.in_line = false;
            if empty && !half {
                self.emit(bytes.get(event..line).unwrap_or_default(), &mut each)?;
                event = line;
            }
        }
        let rest = bytes.get(event..).unwrap_or_default();
        self.in_line |= line < bytes.len();
        self.fits(rest.len())?;
        self.held.extend_from_slice(rest);
        Ok(())
    }

    fn fits(&self, more: usize) -> Result<(), EventTooLong> {
        if self.held.len().saturating_add(more) > self.limit {
            return Err(EventTooLong { limit: self.limit });
        }
        Ok(())
    }

    fn emit(&mut self, end: &[u8], each: &mut impl FnMut(&[u8])) -> Result<(), EventTooLong> {
        self.fits(end.len())?;
        if self.held.is_empty() {
            each(end);
            return Ok(());
        }
        self.held.extend_from_slice(end);
        each(&self.held);
        self.held.clear();
        if self.held.capacity() > 64 << 10 {
            self.held.shrink_to(4 << 10);
        }
        Ok(())
    }

    /// What came after the last event's end: an event whose empty line is missing.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        self.in_line = false;
        std::mem::take(&mut self.held)
    }
}

/// The fields of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SseEvent<'a> {
    /// `event:`
    pub(crate) name: Option<&'a [u8]>,
    /// The lines of `data:`, joined by newlines.
    pub(crate) data: Option<Cow<'a, [u8]>>,
    /// Whether a line is none of the format's fields and no comment.
    pub(crate) foreign: bool,
}

/// Reads a raw event. Unlike browsers, clients of these APIs also take an event whose last line has no end.
pub(crate) fn parse(raw: &[u8]) -> SseEvent<'_> {
    let mut event = SseEvent { name: None, data: None, foreign: false };
    let mut rest = raw.strip_prefix(b"\xef\xbb\xbf").unwrap_or(raw);
    while !rest.is_empty() {
        let end = memchr::memchr2(b'\n', b'\r', rest);
        let line = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        rest = end.and_then(|end| rest.get(end + 1..)).unwrap_or_default();
        let colon = memchr::memchr(b':', line);
        let value = colon.and_then(|at| line.get(at + 1..)).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match line.get(..colon.unwrap_or(line.len())).unwrap_or_default() {
            b"data" => {
                event.data = Some(match event.data.take() {
                    None => Cow::Borrowed(value),
                    Some(before) => Cow::Owned([&before, &b"\n"[..], value].concat()),
                });
            }
            b"event" => event.name = Some(value),
            b"" | b"id" | b"retry" => {}
            _ => event.foreign = true,
        }
    }
    event
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn events(pieces: &[&[u8]]) -> (Vec<Vec<u8>>, Vec<u8>) {
        let mut cutter = EventCutter::new(1 << 20);
        let mut out = Vec::new();
        for piece in pieces {
            cutter.feed(piece, |raw| out.push(raw.to_vec())).unwrap();
        }
        (out, cutter.rest())
    }

    #[test]
    fn line_ends_of_all_kinds_end_events() {
        for text in [
            "data: a\n\ndata: b\ndata:c\n\n",
            "data: a\r\n\r\ndata: b\r\ndata:c\r\n\r\n",
            "data: a\r\rdata: b\rdata:c\r\r",
        ] {
            let (raw, rest) = events(&[text.as_bytes()]);
            let data: Vec<_> = raw.iter().filter_map(|raw| parse(raw).data.map(Cow::into_owned)).collect();
            assert_eq!((data, rest), (vec![b"a".to_vec(), b"b\nc".to_vec()], Vec::new()), "{text:?}");
        }
        let event = parse(b": ping\nevent: error\ndata\nid: 4\n\n");
        assert_eq!(
            (event.name, event.data.as_deref(), event.foreign),
            (Some(&b"error"[..]), Some(&b""[..]), false)
        );
        assert!(parse(b"{\"error\": 1}\n\n").foreign);
    }

    #[test]
    fn events_over_the_limit_are_refused() {
        let mut cutter = EventCutter::new(100);
        let mut fed = 0;
        let refused = loop {
            match cutter.feed(b"0123456789", |_| ()) {
                Ok(()) => fed += 10,
                Err(error) => break error,
            }
        };
        assert_eq!((fed, refused.limit, cutter.held.len()), (100, 100, 100));
        let long = [b"data: ".to_vec(), vec![b'x'; 100], b"\n\n".to_vec()].concat();
        assert!(EventCutter::new(100).feed(&long, |_| ()).is_err());
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same_data(text in "(data: ?[a-c]{0,3}|event: x|:|\n|\r\n|\r){0,20}", cuts in proptest::collection::vec(0_usize..60, 0..6)) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            let (raw, rest) = events(&pieces);
            prop_assert_eq!([raw.concat(), rest.clone()].concat(), bytes);
            let data = |raw: &[Vec<u8>], rest: &[u8]| -> Vec<Vec<u8>> {
                raw.iter().map(Vec::as_slice).chain([rest]).filter_map(|raw| parse(raw).data.map(Cow::into_owned)).collect()
            };
            let (once, once_rest) = events(&[bytes]);
            prop_assert_eq!(data(&raw, &rest), data(&once, &once_rest));
        }
    }
}
