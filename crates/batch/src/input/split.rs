//! Cuts a stream into records, with bounded memory whatever its bytes are.

use std::io::{self, BufRead};

/// What ends a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A line feed.
    Lines,
    /// A line feed or carriage return that is not inside of a quoted field (RFC 4180).
    Quoted {
        /// What separates fields.
        delimiter: u8,
    },
}

/// A record as bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Where its first byte is in the stream.
    pub(crate) offset: u64,
    /// Bytes of the record in the stream, with what ends it.
    pub(crate) length: u64,
    /// The number of the line of text on which it begins, from 1.
    pub(crate) line: u64,
    /// Bytes of the record without what ends it; `None` if they are more than the limit.
    pub(crate) bytes: Option<Vec<u8>>,
}

/// Where a scan of fields stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Start,
    Plain,
    Quoted,
    /// After a quote inside of quotes: the end of the field, or the first half of a doubled quote.
    Closing,
}

/// Cuts a stream into records. Empty ones are left out.
pub(crate) struct Splitter<R> {
    source: R,
    rule: Rule,
    limit: usize,
    field: Field,
    offset: u64,
    line: u64,
}

impl<R: BufRead> Splitter<R> {
    pub(crate) fn new(source: R, rule: Rule, limit: usize) -> Splitter<R> {
        Splitter { source, rule, limit, field: Field::Start, offset: 0, line: 1 }
    }

    /// The next record that is not empty.
    pub(crate) fn next(&mut self) -> io::Result<Option<Piece>> {
        loop {
            match self.piece()? {
                Some(piece) if piece.bytes.as_deref().is_some_and(|bytes| self.is_empty(bytes)) => {}
                other => return Ok(other),
            }
        }
    }

    /// The stream, after the records that were read.
    pub(crate) fn into_source(self) -> R {
        self.source
    }

    fn is_empty(&self, bytes: &[u8]) -> bool {
        match self.rule {
            Rule::Lines => bytes.iter().all(u8::is_ascii_whitespace),
            Rule::Quoted { .. } => bytes.is_empty(),
        }
    }

    /// Passes over the mark of UTF-8 at the beginning of a file.
    fn skip_mark(&mut self) -> io::Result<()> {
        const MARK: &[u8] = b"\xEF\xBB\xBF";
        if self.offset == 0 && self.source.fill_buf()?.starts_with(MARK) {
            self.source.consume(MARK.len());
            self.offset = MARK.len() as u64;
        }
        Ok(())
    }

    fn piece(&mut self) -> io::Result<Option<Piece>> {
        self.skip_mark()?;
        let (offset, line) = (self.offset, self.line);
        let mut kept = Vec::new();
        let mut length = 0u64;
        loop {
            let buffer = match self.source.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if buffer.is_empty() {
                break;
            }
            let end = end_of_record(self.rule, &mut self.field, buffer);
            let taken = &buffer[..end.unwrap_or(buffer.len())];
            // Two bytes more than the limit, so that what ends a record does not count.
            let room = (self.limit + 2).saturating_sub(kept.len());
            kept.extend_from_slice(&taken[..taken.len().min(room)]);
            length += taken.len() as u64;
            self.line += taken.iter().filter(|byte| **byte == b'\n').count() as u64;
            let consumed = taken.len();
            self.source.consume(consumed);
            if end.is_some() {
                break;
            }
        }
        if length == 0 {
            return Ok(None);
        }
        self.field = Field::Start;
        self.offset += length;
        let bytes = if kept.len() as u64 == length { record(kept, self.limit) } else { None };
        Ok(Some(Piece { offset, length, line, bytes }))
    }
}

/// Where a record ends in `buffer`, behind the byte that ends it.
fn end_of_record(rule: Rule, field: &mut Field, buffer: &[u8]) -> Option<usize> {
    let Rule::Quoted { delimiter } = rule else {
        return buffer.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
    };
    for (at, byte) in buffer.iter().enumerate() {
        *field = match (*field, *byte) {
            (Field::Start | Field::Closing, b'"') => Field::Quoted,
            (Field::Quoted, b'"') => Field::Closing,
            (Field::Quoted, _) => Field::Quoted,
            (_, b'\n' | b'\r') => return Some(at + 1),
            (_, byte) if byte == delimiter => Field::Start,
            _ => Field::Plain,
        };
    }
    None
}

/// A record without what ends it; `None` if it is longer than `limit`.
pub(crate) fn record(mut bytes: Vec<u8>, limit: usize) -> Option<Vec<u8>> {
    for ending in *b"\n\r" {
        if bytes.last() == Some(&ending) {
            bytes.pop();
        }
    }
    (bytes.len() <= limit).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::BufReader;

    fn pieces(input: &[u8], rule: Rule, limit: usize, buffer: usize) -> Vec<Piece> {
        let mut splitter = Splitter::new(BufReader::with_capacity(buffer, input), rule, limit);
        std::iter::from_fn(|| splitter.next().unwrap()).collect()
    }

    fn texts(input: &[u8], rule: Rule) -> Vec<String> {
        let text = |piece: Piece| String::from_utf8(piece.bytes.unwrap()).unwrap();
        pieces(input, rule, 100, 3).into_iter().map(text).collect()
    }

    const CSV: Rule = Rule::Quoted { delimiter: b',' };

    #[test]
    fn lines_end_with_line_feeds_and_empty_ones_are_left_out() {
        assert_eq!(texts(b"\xEF\xBB\xBFa\r\n\n  \nb\nc", Rule::Lines), ["a", "b", "c"]);
        assert_eq!(texts(b"", Rule::Lines), [""; 0]);
    }

    #[test]
    fn quoted_fields_hold_line_feeds_and_doubled_quotes() {
        assert_eq!(texts(b"a,\"b\nc\"\r\nd,\"e\"\"\n\"\rf", CSV), ["a,\"b\nc\"", "d,\"e\"\"\n\"", "f"]);
    }

    #[test]
    fn a_quote_inside_of_a_plain_field_is_a_letter() {
        assert_eq!(texts(b"5\" disk\nnext", CSV), ["5\" disk", "next"]);
    }

    #[test]
    fn lines_of_text_are_counted_through_quoted_fields() {
        let lines: Vec<u64> =
            pieces(b"a\n\"b\n\n\"\nc\n", CSV, 9, 2).iter().map(|piece| piece.line).collect();
        assert_eq!(lines, [1, 2, 5]);
    }

    #[test]
    fn abuse_a_line_beyond_the_limit_is_not_kept() {
        let found = pieces(b"12345\n123456\r\n123456789\n1\n", Rule::Lines, 5, 4);
        let kept: Vec<bool> = found.iter().map(|piece| piece.bytes.is_some()).collect();
        assert_eq!(kept, [true, false, false, true]);
        assert_eq!((found[2].offset, found[2].length), (14, 10));
    }

    #[test]
    fn abuse_a_quote_that_is_never_closed_takes_the_rest_in_bounded_memory() {
        let mut input = b"a,\"".to_vec();
        input.resize(1 << 20, b'\n');
        let found = pieces(&input, CSV, 1000, 4096);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].bytes, None);
    }

    proptest! {
        #[test]
        fn the_size_of_the_buffer_does_not_matter(input in "[a,\"\r\n]{0,60}", buffer in 1usize..8) {
            for rule in [Rule::Lines, CSV] {
                prop_assert_eq!(pieces(input.as_bytes(), rule, 7, buffer), pieces(input.as_bytes(), rule, 7, 4096));
            }
        }

        #[test]
        fn pieces_lie_one_behind_another(input in "[a,\"\r\n]{0,60}") {
            let mut end = 0;
            for piece in pieces(input.as_bytes(), CSV, 7, 4) {
                prop_assert!(piece.offset >= end);
                end = piece.offset + piece.length;
            }
            prop_assert!(end <= input.len() as u64);
        }
    }
}
