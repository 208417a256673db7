//! Finds marks in a text that arrives character by character, holding back a possible beginning of one.

/// A streaming search for several marks. White space before a mark belongs to the mark.
#[derive(Debug)]
pub(crate) struct Seeker {
    marks: Vec<&'static str>,
    /// White space that may precede a mark.
    blank: String,
    /// Text that may be the beginning of a mark.
    held: String,
    keep_space: bool,
    /// The last mark that was found, with the white space before it.
    found: String,
}

impl Seeker {
    pub(crate) fn new(marks: &[&'static str]) -> Seeker {
        Seeker {
            marks: marks.to_vec(),
            blank: String::new(),
            held: String::new(),
            keep_space: false,
            found: String::new(),
        }
    }

    /// A search for one mark; white space before it is text.
    pub(crate) fn exact(mark: &'static str) -> Seeker {
        Seeker { keep_space: true, ..Seeker::new(&[mark]) }
    }

    /// A search for several marks; white space before them is text.
    pub(crate) fn exact_any(marks: &[&'static str]) -> Seeker {
        Seeker { keep_space: true, ..Seeker::new(marks) }
    }

    /// The text before, with what may be the beginning of a mark.
    pub(crate) fn held_after(&self, text: &str) -> String {
        format!("{text}{}", self.held)
    }

    /// Processes a character; returns the index of the mark that it completes. Text before marks is appended to `out`.
    pub(crate) fn put(&mut self, letter: char, out: &mut String) -> Option<usize> {
        self.held.push(letter);
        loop {
            if let Some(found) = self.marks.iter().position(|mark| *mark == self.held) {
                self.found = std::mem::take(&mut self.blank);
                self.found.push_str(&std::mem::take(&mut self.held));
                return Some(found);
            }
            // Also true if nothing is held.
            if self.marks.iter().any(|mark| mark.starts_with(&self.held)) {
                return None;
            }
            let first = self.held.remove(0);
            if first.is_whitespace() && !self.keep_space {
                self.blank.push(first);
            } else {
                out.push_str(&self.blank);
                self.blank.clear();
                out.push(first);
            }
        }
    }

    /// Takes the last mark with the white space before it, to be emitted as text if no call follows.
    pub(crate) fn found(&mut self) -> String {
        std::mem::take(&mut self.found)
    }

    /// Ends the text, and appends what was held back to `out`; with `trim`, without trailing white space.
    pub(crate) fn finish(&mut self, trim: bool, out: &mut String) {
        if !self.held.is_empty() || !trim {
            out.push_str(&self.blank);
        }
        out.push_str(&self.held);
        self.blank.clear();
        self.held.clear();
    }
}
