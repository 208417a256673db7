//! What a file would take in memory, counted before anything is decoded.
//!
//! A file of a few megabytes can hold millions of empty messages, each a hundred times as large once decoded. This walk
//! over the encoded bytes allocates nothing, and refuses such files, nested ones and cut ones with the numbers.

use crate::error::Error;
use crate::options::Options;
use crate::proto::{AttributeProto, NodeProto, TensorProto, ValueInfoProto};

/// Messages inside messages: an inner graph is three levels below its node.
const MAX_DEPTH: usize = 48;

/// A message, as far as its fields matter here.
#[derive(Clone, Copy)]
enum Kind {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    /// Values of a sparse tensor.
    Sparse,
    /// A message of strings and numbers.
    Small,
}

/// What a field of a message takes.
enum Field {
    Message(Kind),
    /// A string that is copied, or one of many byte strings.
    Text,
    /// A text, or a type: nested messages of a few bytes each.
    Types,
    /// Numbers of this many bytes each, packed as variable-length integers.
    Integers(usize),
    /// Numbers of a fixed length, as many bytes in memory as in the file.
    Fixed,
    /// Nothing: a window of the file, or a field that is not read.
    Free,
}

fn field(kind: Kind, number: u64) -> Field {
    match (kind, number) {
        (Kind::Model, 7) | (Kind::Attribute, 6 | 11) => Field::Message(Kind::Graph),
        (Kind::Model, 8 | 14 | 25) | (Kind::Graph, 11 | 12) | (Kind::Tensor, 13) => {
            Field::Message(Kind::Small)
        }
        (Kind::Graph, 1) => Field::Message(Kind::Node),
        (Kind::Graph, 5) | (Kind::Attribute, 5 | 10) | (Kind::Sparse, 1) => Field::Message(Kind::Tensor),
        (Kind::Graph, 15) => Field::Message(Kind::Sparse),
        (Kind::Node, 5) => Field::Message(Kind::Attribute),
        (Kind::Node, 1..=4 | 7)
        | (Kind::Attribute, 1 | 9)
        | (Kind::Tensor, 6 | 8)
        | (Kind::Model, 2 | 3)
        | (Kind::Graph, 2) => Field::Text,
        (Kind::Small, _) => Field::Types,
        (Kind::Attribute, 8) | (Kind::Tensor, 1 | 7 | 11) => Field::Integers(8),
        (Kind::Tensor, 5) => Field::Integers(4),
        (Kind::Attribute, 7) | (Kind::Tensor, 4 | 10) => Field::Fixed,
        _ => Field::Free,
    }
}

/// Bytes of a decoded message, without its fields; half of a growing list may be empty.
fn size(kind: Kind) -> u64 {
    let bytes = match kind {
        Kind::Node => size_of::<NodeProto>(),
        Kind::Attribute => size_of::<AttributeProto>(),
        Kind::Tensor | Kind::Sparse => size_of::<TensorProto>(),
        Kind::Model | Kind::Graph | Kind::Small => 2 * size_of::<ValueInfoProto>(),
    };
    2 * bytes as u64
}

/// Bytes of a text or type beside its own length: its place in a list, and an allocation.
const TEXT: u64 = 96;

struct Scan<'a> {
    options: &'a Options,
    bytes: u64,
    nodes: u64,
}

/// Checks a whole file; returns the bytes of memory that it takes once decoded.
pub(crate) fn scan(file: &[u8], options: &Options) -> Result<u64, Error> {
    let mut scan = Scan { options, bytes: 0, nodes: 0 };
    scan.message(file, Kind::Model, 0)?;
    Ok(scan.bytes)
}

impl Scan<'_> {
    fn message(&mut self, mut bytes: &[u8], kind: Kind, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            let what = "levels of nested messages";
            return Err(Error::Limit { what, value: depth as u64, limit: MAX_DEPTH as u64 });
        }
        if matches!(kind, Kind::Node) {
            self.nodes += 1;
            let (value, limit) = (self.nodes, self.options.max_nodes as u64);
            if value > limit {
                return Err(Error::Limit { what: "nodes of the graph", value, limit });
            }
        }
        self.add(size(kind))?;
        while !bytes.is_empty() {
            let tag = varint(&mut bytes)?;
            let number = tag >> 3;
            match tag & 7 {
                0 => {
                    varint(&mut bytes)?;
                    // One of many numbers that are not packed; or a single field, which is part of the message.
                    self.add(16)?;
                }
                1 => drop(take(&mut bytes, 8)?),
                2 => {
                    let length = varint(&mut bytes)?;
                    let inner = take(&mut bytes, length)?;
                    self.inner(inner, field(kind, number), depth)?;
                }
                5 => {
                    take(&mut bytes, 4)?;
                    self.add(8)?;
                }
                wire => return Err(Error::Format(format!("a field of the unknown kind {wire}"))),
            }
        }
        Ok(())
    }

    fn inner(&mut self, bytes: &[u8], field: Field, depth: usize) -> Result<(), Error> {
        match field {
            Field::Message(kind) => self.message(bytes, kind, depth + 1),
            Field::Text => self.add(TEXT + bytes.len() as u64),
            // A dimension of two bytes takes some forty.
            Field::Types => self.add(TEXT + 24 * bytes.len() as u64),
            Field::Integers(width) => {
                let numbers = bytes.iter().filter(|&&byte| byte < 0x80).count();
                self.add((numbers * width) as u64)
            }
            Field::Fixed => self.add(bytes.len() as u64),
            Field::Free => Ok(()),
        }
    }

    fn add(&mut self, bytes: u64) -> Result<(), Error> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes <= self.options.max_bytes {
            return Ok(());
        }
        let (value, limit) = (self.bytes, self.options.max_bytes);
        Err(Error::Limit { what: "bytes of memory for the graph", value, limit })
    }
}

/// A variable-length integer at the start of `bytes`, which is moved past it.
fn varint(bytes: &mut &[u8]) -> Result<u64, Error> {
    let mut value = 0u64;
    for (at, &byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * at).min(63);
        if byte < 0x80 {
            *bytes = &bytes[at + 1..];
            return Ok(value);
        }
    }
    Err(Error::Format("a number that is cut off or has more than 64 bits".to_owned()))
}

/// The next `length` bytes, past which `bytes` is moved.
fn take<'a>(bytes: &mut &'a [u8], length: u64) -> Result<&'a [u8], Error> {
    let left = bytes.len();
    let split = usize::try_from(length).ok().and_then(|length| bytes.split_at_checked(length));
    let Some((taken, rest)) = split else {
        return Err(Error::Format(format!(
            "a field of {length} bytes where {left} are left: the file is cut short, or is none"
        )));
    };
    *bytes = rest;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_nested_or_would_grow_is_refused() {
        let options = Options { max_bytes: 1 << 20, max_nodes: 10, ..Options::default() };
        assert!(scan(&[], &options).is_ok());
        assert!(matches!(scan(&[0x3a, 5, 0], &options), Err(Error::Format(text)) if text.contains('5')));
        assert!(matches!(scan(&[0x3b], &options), Err(Error::Format(_))));
        assert!(matches!(scan(&[0xff; 11], &options), Err(Error::Format(_))));
        // A graph of 20 empty nodes.
        let nodes: Vec<u8> = [0x0a, 0].repeat(20);
        let model = [&[0x3a, nodes.len() as u8][..], &nodes].concat();
        assert!(matches!(scan(&model, &options), Err(Error::Limit { value: 11, limit: 10, .. })));
        // 60,000 empty imports of operators.
        let wide = [0x42, 0].repeat(60_000);
        assert!(matches!(scan(&wide, &options), Err(Error::Limit { limit: 1_048_576, .. })));
    }

    #[test]
    fn graphs_inside_graphs_end_at_the_limit() {
        let mut graph: Vec<u8> = Vec::new();
        let wrap = |tag: u8, inner: &[u8]| {
            let mut out = vec![tag];
            let mut length = inner.len();
            while length >= 0x80 {
                out.push(length as u8 | 0x80);
                length >>= 7;
            }
            out.push(length as u8);
            [out, inner.to_vec()].concat()
        };
        for _ in 0..40 {
            graph = wrap(0x0a, &wrap(0x2a, &wrap(0x32, &graph)));
        }
        let found = scan(&wrap(0x3a, &graph), &Options::default());
        assert!(matches!(found, Err(Error::Limit { limit: 48, .. })), "{found:?}");
    }
}
