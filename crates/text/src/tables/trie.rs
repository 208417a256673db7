//! A vocabulary as a trie of bytes: ids by text, and all pieces that a text begins with, in one walk.
//!
//! Nodes are numbered breadth first, so that the children of a node are one range, ascending by their bytes. A node is a
//! byte, an id (or [`NONE`]), and the number of its first child; its last child comes before the first of the next node.

use std::collections::VecDeque;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::bytes::{Table, TableBytes, TablePlace, TableWriter, number};

/// The id of a node that ends no piece.
const NONE: u32 = u32::MAX;
/// Children that are searched one after another.
const FEW: usize = 12;

/// The places of a trie's tables.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct TrieTables {
    nodes: usize,
    /// The first child of each node, `[nodes + 1]`.
    first: TablePlace,
    /// The byte of each node, `[nodes]`.
    label: TablePlace,
    /// The id of each node, `[nodes]`.
    id: TablePlace,
}

impl TrieTables {
    /// Writes the trie of a vocabulary, whose texts are distinct.
    ///
    /// # Errors
    /// Returns `None` if it has more nodes than 32 bits count.
    pub(crate) fn write(mut vocabulary: Vec<(&[u8], u32)>, out: &mut TableWriter) -> Option<TrieTables> {
        vocabulary.sort_unstable();
        let (mut first, mut label, mut id) = (Vec::new(), vec![0_u8], Vec::new());
        // The pieces below each node, in breadth-first order.
        let mut queue = VecDeque::from([(0..vocabulary.len(), 0)]);
        while let Some((pieces, depth)) = queue.pop_front() {
            first.push(u32::try_from(label.len()).ok()?);
            let mut at = pieces.start;
            let ends = vocabulary[pieces.clone()].first().filter(|(text, _)| text.len() == depth);
            id.push(ends.map_or(NONE, |(_, id)| *id));
            at += usize::from(ends.is_some());
            while at < pieces.end {
                let byte = vocabulary[at].0[depth];
                let same = vocabulary[at..pieces.end].iter().take_while(|(text, _)| text[depth] == byte);
                let end = at + same.count();
                label.push(byte);
                queue.push_back((at..end, depth + 1));
                at = end;
            }
        }
        first.push(u32::try_from(label.len()).ok()?);
        Some(TrieTables {
            nodes: label.len(),
            first: out.put_numbers(&first),
            label: out.put(&label),
            id: out.put_numbers(&id),
        })
    }
}

/// A trie in a packed tokenizer.
#[derive(Clone)]
pub(crate) struct Trie {
    first: Table,
    label: Table,
    id: Table,
    nodes: usize,
    /// Ids are below it.
    ids: u32,
}

/// A walk down a trie, one byte at a time.
#[derive(Clone, Copy)]
pub(crate) struct TrieWalk<'a> {
    first: &'a [u8],
    label: &'a [u8],
    id: &'a [u8],
    node: usize,
    ids: u32,
}

impl Trie {
    /// The trie at these places; `None` if they are not in the file, or not of its size.
    pub(crate) fn open(bytes: &TableBytes, tables: &TrieTables, vocab: usize) -> Option<Trie> {
        let TrieTables { nodes, first, label, id } = *tables;
        Some(Trie {
            first: Table::new(bytes, first, nodes.checked_add(1)?.checked_mul(4)?)?,
            label: Table::new(bytes, label, nodes)?,
            id: Table::new(bytes, id, nodes.checked_mul(4)?)?,
            nodes,
            ids: u32::try_from(vocab).ok()?,
        })
    }

    /// A walk from the root.
    pub(crate) fn walk(&self) -> TrieWalk<'_> {
        let (first, label, id) = (self.first.bytes(), self.label.bytes(), self.id.bytes());
        TrieWalk { first, label, id, node: 0, ids: self.ids }
    }

    /// The id of a text.
    pub(crate) fn get(&self, text: &str) -> Option<u32> {
        let mut walk = self.walk();
        text.bytes().all(|byte| walk.step(byte)).then(|| walk.id())?
    }

    /// Calls `visit` with each text, as far as it is UTF-8.
    pub(crate) fn each(&self, visit: &mut impl FnMut(&str)) {
        let mut text = Vec::new();
        let mut open: Vec<(Range<usize>, usize)> = vec![(0..1, 0)];
        // A damaged table could lead to a node over and over.
        let mut left = self.nodes;
        while let Some((nodes, depth)) = open.last_mut() {
            let Some(node) = nodes.next().filter(|_| left > 0) else {
                open.pop();
                continue;
            };
            left -= 1;
            let depth = *depth;
            let walk = TrieWalk { node, ..self.walk() };
            text.truncate(depth.saturating_sub(1));
            if depth > 0 {
                text.extend(walk.label.get(node));
            }
            if walk.id().is_some()
                && let Ok(text) = std::str::from_utf8(&text)
            {
                visit(text);
            }
            open.push((walk.children(), depth + 1));
        }
    }
}

impl TrieWalk<'_> {
    fn children(&self) -> Range<usize> {
        let child = |at| number(self.first, at).unwrap_or(0) as usize;
        child(self.node)..child(self.node + 1)
    }

    /// Goes on to the child of a byte; false if there is none.
    pub(crate) fn step(&mut self, byte: u8) -> bool {
        let children = self.children();
        let Some(labels) = self.label.get(children.clone()) else { return false };
        let at = if labels.len() <= FEW {
            labels.iter().position(|label| *label == byte)
        } else {
            labels.binary_search(&byte).ok()
        };
        self.node = children.start + at.unwrap_or(0);
        at.is_some()
    }

    /// The id of the text that was walked.
    pub(crate) fn id(&self) -> Option<u32> {
        number(self.id, self.node).filter(|id| *id < self.ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weights::packed::BundleBytes;

    #[test]
    fn texts_have_their_ids_and_others_have_none() {
        let texts = ["", "a", "ab", "abc", "b", "é", "éa", "日本", "##s", "zz"];
        let pieces = texts.iter().zip(0..).map(|(text, id)| (text.as_bytes(), id)).collect();
        let mut out = TableWriter::default();
        let tables = TrieTables::write(pieces, &mut out).unwrap();
        let bytes = std::sync::Arc::new(BundleBytes::from(out.into_data()));
        let trie = Trie::open(&bytes, &tables, 9).unwrap();
        for (text, id) in texts.iter().zip(0..) {
            assert_eq!(trie.get(text), (id < 9).then_some(id), "{text}");
        }
        for text in ["ac", "abcd", "z", "\u{c3}", "日"] {
            assert_eq!(trie.get(text), None, "{text}");
        }
        let mut all = Vec::new();
        trie.each(&mut |text| all.push(text.to_owned()));
        all.sort();
        let mut want = texts[..9].to_vec();
        want.sort_unstable();
        assert_eq!(all, want);
        let short = TrieTables { nodes: tables.nodes + 1, ..tables };
        assert!(Trie::open(&bytes, &short, 9).is_none());
    }

    #[test]
    fn any_bytes_end_the_walk() {
        let tables = TrieTables {
            nodes: 15,
            first: TableWriter::default().put(&[0; 64]),
            label: TableWriter::default().put(&[0; 15]),
            id: TableWriter::default().put(&[0; 60]),
        };
        for fill in [0_u8, 1, 0xff] {
            let trie =
                Trie::open(&std::sync::Arc::new(BundleBytes::from(vec![fill; 64])), &tables, 9).unwrap();
            let _ = trie.get("abc");
            let mut count = 0;
            trie.each(&mut |_| count += 1);
            assert!(count <= 15);
        }
    }
}
