//! Which class of jobs is asked for work next.

use jobs::Class;

/// Turns of a class among those that have work.
const WEIGHTS: [i64; 3] = [16, 4, 1];

/// What each class is owed. Over time a class with work gets its share of 16 : 4 : 1 turns, evenly spread, and none starves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Credits([i64; 3]);

impl Credits {
    /// The class whose turn it is, of those that may have work.
    pub(crate) fn next(&self, open: &[Class]) -> Option<Class> {
        open.iter().copied().max_by_key(|class| {
            let at = *class as usize;
            (self.0[at] + WEIGHTS[at], std::cmp::Reverse(at))
        })
    }

    /// A class of those that may have work was served.
    pub(crate) fn served(&mut self, class: Class, open: &[Class]) {
        for other in open {
            let at = *other as usize;
            self.0[at] += WEIGHTS[at];
            self.0[class as usize] -= WEIGHTS[at];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Class; 3] = [Class::Interactive, Class::Default, Class::Batch];

    fn turns(open: &[Class], count: usize) -> [usize; 3] {
        let mut credits = Credits::default();
        let mut turns = [0; 3];
        for _ in 0..count {
            let class = credits.next(open).unwrap();
            credits.served(class, open);
            turns[class as usize] += 1;
        }
        turns
    }

    #[test]
    fn classes_are_served_by_their_weights() {
        assert_eq!(turns(&ALL, 2_100), [1_600, 400, 100]);
        assert_eq!(turns(&ALL[1..], 50), [0, 40, 10]);
        assert_eq!(turns(&ALL[2..], 5), [0, 0, 5]);
        assert_eq!(Credits::default().next(&[]), None);
    }

    #[test]
    fn the_first_turn_is_the_most_urgent_ones() {
        assert_eq!(Credits::default().next(&ALL), Some(Class::Interactive));
    }
}
