//! Matches stop strings in streamed text.

/// A streaming matcher of stop strings, which holds back text that may be the beginning of one.
///
/// It never holds back more than the longest stop string.
#[derive(Clone, Debug, Default)]
pub struct StopMatcher {
    stops: Vec<String>,
    held: String,
    /// Index in `stops` of the stop string that was found.
    met: Option<usize>,
    keep: bool,
}

/// The result of [`StopMatcher::push`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopScan {
    /// Text that is certainly not part of a stop string.
    pub emit: String,
    /// Whether a stop string was found; text after it is discarded.
    pub stopped: bool,
}

impl StopMatcher {
    /// A matcher for these strings; empty ones are ignored.
    pub fn new(stops: Vec<String>) -> StopMatcher {
        let stops = stops.into_iter().filter(|stop| !stop.is_empty()).collect();
        StopMatcher { stops, ..StopMatcher::default() }
    }

    /// Sets whether the stop string that is found is emitted as the end of the text.
    #[must_use]
    pub fn keeping(self, keep: bool) -> StopMatcher {
        StopMatcher { keep, ..self }
    }

    /// The stop string that was found.
    pub fn met(&self) -> Option<&str> {
        self.stops.get(self.met?).map(String::as_str)
    }

    /// Returns the held text and `text` without searching `text`: for text in which stop strings do not count.
    pub fn pass(&mut self, text: &str) -> String {
        let mut all = std::mem::take(&mut self.held);
        all.push_str(text);
        all
    }

    /// Searches the next piece of text. The stop string itself is emitted only with [`StopMatcher::keeping`]. Of
    /// several stop strings the one that is complete first counts (then the longest), so that the result does not
    /// depend on how the text is split into pieces.
    pub fn push(&mut self, text: &str) -> StopScan {
        if self.met.is_some() {
            return StopScan { emit: String::new(), stopped: true };
        }
        if self.stops.is_empty() {
            return StopScan { emit: text.to_owned(), stopped: false };
        }
        self.held.push_str(text);
        if let Some(found) = earliest(&self.held, &self.stops) {
            self.met = Some(found.stop);
            self.held.truncate(if self.keep { found.end } else { found.start });
            return StopScan { emit: std::mem::take(&mut self.held), stopped: true };
        }
        let rest = self.held.split_off(self.held.len() - self.possible());
        StopScan { emit: std::mem::replace(&mut self.held, rest), stopped: false }
    }

    /// The text still held back, once the stream has ended without a stop string.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// The length of the longest suffix of the held text that begins a stop string, in bytes.
    fn possible(&self) -> usize {
        let held = self.held.as_bytes();
        let longest = |stop: &String| {
            let most = (stop.len() - 1).min(held.len());
            (1..=most).rev().find(|&len| held.ends_with(&stop.as_bytes()[..len])).unwrap_or(0)
        };
        // A prefix of valid UTF-8 that ends inside a character cannot be the end of valid UTF-8, so this is a boundary.
        self.stops.iter().map(longest).max().unwrap_or(0)
    }
}

/// An occurrence of a stop string, ordered by its end.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    end: usize,
    start: usize,
    stop: usize,
}

/// The occurrence that is complete first.
fn earliest<S: AsRef<str>>(text: &str, stops: &[S]) -> Option<Place> {
    let found = stops.iter().map(AsRef::as_ref).enumerate().filter_map(|(stop, word)| {
        text.find(word).map(|start| Place { end: start + word.len(), start, stop })
    });
    found.min()
}

#[cfg(test)]
mod tests {
    use super::StopMatcher;
    use proptest::prelude::*;

    fn all(stops: &[&str], pieces: &[&str]) -> (String, bool) {
        let mut matcher = StopMatcher::new(stops.iter().map(|s| s.to_string()).collect());
        let mut text = String::new();
        for piece in pieces {
            let found = matcher.push(piece);
            text.push_str(&found.emit);
            if found.stopped {
                return (text, true);
            }
        }
        text.push_str(&matcher.finish());
        (text, false)
    }

    #[test]
    fn a_stop_across_pieces_is_found_and_not_shown() {
        assert_eq!(all(&["\n\nUser:"], &["Hi\n", "\nUs", "er: more"]), ("Hi".into(), true));
        assert_eq!(all(&["\n\nUser:"], &["Hi\n", "\nUs", "ual"]), ("Hi\n\nUsual".into(), false));
    }

    #[test]
    fn the_first_complete_of_several_counts() {
        assert_eq!(all(&["bcd", "c"], &["ab", "cd"]), ("ab".into(), true));
        assert_eq!(all(&["bcd", "c"], &["a", "b", "c", "d"]), ("ab".into(), true));
        assert_eq!(all(&["bc", "c"], &["abcd"]), ("a".into(), true));
    }

    #[test]
    fn self_overlapping_prefixes_are_held() {
        assert_eq!(all(&["aab"], &["a", "a", "a", "b"]), ("a".into(), true));
    }

    #[test]
    fn what_is_passed_is_not_looked_at() {
        let mut stops = StopMatcher::new(vec!["ab".into()]);
        assert_eq!(stops.push("xa").emit, "x");
        assert_eq!(stops.pass("bab"), "abab");
        assert_eq!(stops.push("ab").emit, "");
        assert_eq!(stops.met(), Some("ab"));
    }

    #[test]
    fn empty_stops_do_nothing() {
        assert_eq!(all(&[""], &["abc"]), ("abc".into(), false));
    }

    proptest! {
        #[test]
        fn equals_a_search_over_the_whole_text(
            pieces in proptest::collection::vec("[abé]{0,4}", 0..12),
            stops in proptest::collection::vec("[abé]{1,4}", 0..3),
        ) {
            let whole: String = pieces.concat();
            let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
            let found = super::earliest(&whole, &stops);
            let (cut, end) = found.as_ref().map_or((whole.len(), whole.len()), |found| (found.start, found.end));
            let (text, stopped) = all(&stops, &pieces.iter().map(String::as_str).collect::<Vec<_>>());
            prop_assert_eq!(stopped, found.is_some());
            prop_assert_eq!(&text, &whole[..cut]);
            let mut keeping = StopMatcher::new(stops.iter().map(|stop| (*stop).to_owned()).collect()).keeping(true);
            let mut text: String = pieces.iter().map(|piece| keeping.push(piece).emit).collect();
            text.push_str(&keeping.finish());
            prop_assert_eq!(&text, &whole[..end]);
            prop_assert_eq!(keeping.met(), found.map(|found| stops[found.stop]));
        }
    }
}
