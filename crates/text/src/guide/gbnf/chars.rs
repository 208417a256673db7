//! Character sets as ranges of code points.

/// Ranges of code points, ascending and disjoint, without surrogates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Chars(Vec<(u32, u32)>);

const LAST: u32 = char::MAX as u32;

impl Chars {
    pub(super) fn all() -> Chars {
        Chars::of(vec![(0, LAST)])
    }

    pub(super) fn one(c: char) -> Chars {
        Chars(vec![(c as u32, c as u32)])
    }

    /// The union of ranges in any order; reversed ranges are empty.
    pub(super) fn of(mut ranges: Vec<(u32, u32)>) -> Chars {
        ranges.sort_unstable();
        let mut joined: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (low, high) in ranges.into_iter().filter(|(low, high)| low <= high) {
            match joined.last_mut() {
                Some((_, end)) if low <= end.saturating_add(1) => *end = (*end).max(high),
                _ => joined.push((low, high)),
            }
        }
        let halves =
            joined.into_iter().flat_map(|(low, high)| [(low, high.min(0xD7FF)), (low.max(0xE000), high)]);
        Chars(halves.filter(|(low, high)| low <= high).collect())
    }

    pub(super) fn negated(&self) -> Chars {
        let mut next = 0;
        let mut ranges = Vec::with_capacity(self.0.len() + 1);
        for &(low, high) in &self.0 {
            if low > next {
                ranges.push((next, low - 1));
            }
            next = high + 1;
        }
        if next <= LAST {
            ranges.push((next, LAST));
        }
        Chars::of(ranges)
    }

    /// Adds `others`; returns whether the set has grown.
    pub(super) fn add(&mut self, others: &Chars) -> bool {
        if others.0.iter().all(|range| self.holds(*range)) {
            return false;
        }
        *self = Chars::of([self.0.as_slice(), &others.0].concat());
        true
    }

    fn holds(&self, (low, high): (u32, u32)) -> bool {
        let at = self.0.partition_point(|range| range.1 < low);
        self.0.get(at).is_some_and(|range| range.0 <= low && high <= range.1)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn meets(&self, other: &Chars) -> bool {
        self.0.iter().any(|&(low, high)| {
            let at = other.0.partition_point(|range| range.1 < low);
            other.0.get(at).is_some_and(|range| range.0 <= high)
        })
    }

    /// The character of a set with one (printable) character.
    pub(super) fn single(&self) -> Option<char> {
        match self.0.as_slice() {
            // Control characters must be escaped.
            [(low, high)] if low == high && !matches!(low, 0..0x20 | 0x7F) => char::from_u32(*low),
            _ => None,
        }
    }

    /// The set as a character class of a regular expression, between slashes.
    pub(super) fn regex(&self) -> String {
        let ranges = self.0.iter().map(|(low, high)| format!("\\x{{{low:X}}}-\\x{{{high:X}}}"));
        format!("[{}]", ranges.collect::<String>())
    }
}
