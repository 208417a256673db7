//! The merges of a byte-pair model as a hash table: a pair of ids → its rank and the id that it becomes.

use serde::{Deserialize, Serialize};

use super::bytes::{Table, TableBytes, TablePlace, TableWriter};

/// The left id of an empty slot.
const EMPTY: u32 = u32::MAX;
/// Bytes of a slot: left, right, rank and joint id, 32 bits each.
const SLOT: usize = 16;
/// The most slots that are looked at for a pair.
const MAX_PROBES: usize = 1024;

/// A merge: the pair, its rank, and the id that it becomes.
pub(crate) type Merge = (u32, u32, u32, u32);

/// The place of a merge table.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct MergePlace {
    /// Slots; a power of two.
    slots: usize,
    /// The most slots that a pair lies behind the one of its hash.
    probes: usize,
    table: TablePlace,
}

/// The merges of a packed byte-pair model.
#[derive(Clone)]
pub(crate) struct MergeTable {
    table: Table,
    slots: usize,
    probes: usize,
    /// Ids are below it.
    ids: u32,
}

/// The first slot of a pair, of a power of two.
fn slot(left: u32, right: u32, slots: usize) -> usize {
    let key = u64::from(left) << 32 | u64::from(right);
    // Fibonacci hashing: the high bits of the product depend on all bits of the pair.
    let hash = (key ^ (key >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> 32) as usize & (slots - 1)
}

/// Writes a table of merges, whose pairs are distinct; `None` if they cannot be placed.
pub(crate) fn merge_table(merges: &[Merge], out: &mut TableWriter) -> Option<MergePlace> {
    let slots = (merges.len().checked_mul(2)?).next_power_of_two().max(2);
    let mut table = vec![[EMPTY; 4]; slots];
    let mut probes = 1;
    for (left, right, rank, id) in merges {
        let from = slot(*left, *right, slots);
        let behind = (0..slots.min(MAX_PROBES)).find(|at| table[(from + at) % slots][0] == EMPTY)?;
        probes = probes.max(behind + 1);
        table[(from + behind) % slots] = [*left, *right, *rank, *id];
    }
    let numbers: Vec<u32> = table.into_iter().flatten().collect();
    Some(MergePlace { slots, probes, table: out.put_numbers(&numbers) })
}

impl MergeTable {
    /// The table at this place; `None` if it is not in the file, or not of its size.
    pub(crate) fn open(bytes: &TableBytes, place: &MergePlace, vocab: usize) -> Option<MergeTable> {
        let MergePlace { slots, probes, table } = *place;
        if !slots.is_power_of_two() || probes > MAX_PROBES.min(slots) {
            return None;
        }
        let table = Table::new(bytes, table, slots.checked_mul(SLOT)?)?;
        Some(MergeTable { table, slots, probes, ids: u32::try_from(vocab).ok()? })
    }

    /// The rank of a pair and the id that it becomes.
    pub(crate) fn get(&self, left: u32, right: u32) -> Option<(u32, u32)> {
        let table = self.table.bytes();
        let from = slot(left, right, self.slots);
        for at in 0..self.probes {
            let start = ((from + at) & (self.slots - 1)) * SLOT;
            let slot = table.get(start..)?.first_chunk::<SLOT>()?;
            let number = |at: usize| u32::from_le_bytes([slot[at], slot[at + 1], slot[at + 2], slot[at + 3]]);
            let found = number(0);
            if found == EMPTY {
                return None;
            }
            if found == left && number(4) == right {
                return Some((number(8), number(12))).filter(|(_, id)| *id < self.ids);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weights::packed::BundleBytes;

    #[test]
    fn each_pair_is_found_and_no_other() {
        let merges: Vec<Merge> = (0..5000).map(|at| (at * 7 % 5000, at % 61, at, at + 1)).collect();
        let mut out = TableWriter::default();
        let place = merge_table(&merges, &mut out).unwrap();
        let bytes = std::sync::Arc::new(BundleBytes::from(out.into_data()));
        let table = MergeTable::open(&bytes, &place, 5000).unwrap();
        for (left, right, rank, id) in merges {
            assert_eq!(table.get(left, right), (id < 5000).then_some((rank, id)));
            assert_eq!(table.get(left, right + 61), None);
        }
        assert!(MergeTable::open(&bytes, &MergePlace { slots: 3, ..place }, 9).is_none());
        assert!(MergeTable::open(&bytes, &MergePlace { slots: place.slots * 2, ..place }, 9).is_none());
        let none = merge_table(&[], &mut TableWriter::default()).unwrap();
        assert_eq!((none.slots, none.probes), (2, 1));
    }

    #[test]
    fn a_full_table_ends_the_search() {
        let place = MergePlace { slots: 4, probes: 4, table: TableWriter::default().put(&[1; 64]) };
        let table =
            MergeTable::open(&std::sync::Arc::new(BundleBytes::from(vec![1; 64])), &place, 9).unwrap();
        assert_eq!(table.get(3, 4), None);
    }
}
