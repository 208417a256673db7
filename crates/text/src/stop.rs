//! Stop strings over streamed text.

/// Finds the first stop string in text that arrives in pieces, and holds back what may yet become one.
///
/// What is held back never exceeds the longest stop string, whatever the length of the stream.
#[derive(Clone, Debug, Default)]
pub struct Stops {
    stops: Vec<String>,
    held: String,
    stopped: bool,
}

/// What a [`Stops::push`] makes of a piece of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Text that is certainly before any stop string.
    pub emit: String,
    /// Whether a stop string was met; all text after it is swallowed.
    pub stopped: bool,
}

impl Stops {
    /// A matcher for these strings; empty ones are ignored.
    pub fn new(stops: Vec<String>) -> Stops {
        let stops = stops.into_iter().filter(|stop| !stop.is_empty()).collect();
        Stops { stops, held: String::new(), stopped: false }
    }

    /// Takes the next piece of text. The stop string itself is never emitted; of several, the one that is complete
    /// first counts (then the longest), so that the result does not depend on how the text was cut into pieces.
    pub fn push(&mut self, text: &str) -> Found {
        if self.stopped {
            return Found { emit: String::new(), stopped: true };
        }
        if self.stops.is_empty() {
            return Found { emit: text.to_owned(), stopped: false };
        }
        self.held.push_str(text);
        if let Some(at) = earliest(&self.held, &self.stops) {
            self.stopped = true;
            self.held.truncate(at);
            return Found { emit: std::mem::take(&mut self.held), stopped: true };
        }
        let rest = self.held.split_off(self.held.len() - self.possible());
        Found { emit: std::mem::replace(&mut self.held, rest), stopped: false }
    }

    /// The text still held back, once the stream has ended without a stop string.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Bytes at the end of what is held that begin some stop string.
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

/// Where the stop string that is complete first begins.
fn earliest<S: AsRef<str>>(text: &str, stops: &[S]) -> Option<usize> {
    let found =
        stops.iter().filter_map(|stop| text.find(stop.as_ref()).map(|at| (at + stop.as_ref().len(), at)));
    found.min().map(|(_, at)| at)
}

#[cfg(test)]
mod tests {
    use super::Stops;
    use proptest::prelude::*;

    fn all(stops: &[&str], pieces: &[&str]) -> (String, bool) {
        let mut matcher = Stops::new(stops.iter().map(|s| s.to_string()).collect());
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
            let cut = super::earliest(&whole, &stops);
            let (text, stopped) = all(&stops, &pieces.iter().map(String::as_str).collect::<Vec<_>>());
            prop_assert_eq!(stopped, cut.is_some());
            prop_assert_eq!(&text, &whole[..cut.unwrap_or(whole.len())]);
        }
    }
}
