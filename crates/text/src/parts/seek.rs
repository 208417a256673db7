//! Finds marks in a text that comes letter by letter, holding back what may be the beginning of one.

/// Looks for the first of some marks. Space before a mark belongs to the mark.
#[derive(Debug)]
pub(crate) struct Seeker {
    marks: Vec<&'static str>,
    /// Space that a mark may follow.
    blank: String,
    /// The beginning of a mark, perhaps.
    held: String,
    keep_space: bool,
    /// The mark found last, with the space before it.
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

    /// Looks for one mark; space before it is text.
    pub(crate) fn exact(mark: &'static str) -> Seeker {
        Seeker { keep_space: true, ..Seeker::new(&[mark]) }
    }

    /// Takes a letter; returns which mark it completes. Text that is before any mark goes to `out`.
    pub(crate) fn put(&mut self, letter: char, out: &mut String) -> Option<usize> {
        self.held.push(letter);
        loop {
            if let Some(found) = self.marks.iter().position(|mark| *mark == self.held) {
                self.found = std::mem::take(&mut self.blank);
                self.found.push_str(&std::mem::take(&mut self.held));
                return Some(found);
            }
            // True of an empty text too.
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

    /// The mark found last, with the space before it: for one that turns out to mark nothing.
    pub(crate) fn found(&mut self) -> String {
        std::mem::take(&mut self.found)
    }

    /// The end of the text: what was held back, without space at its end if it is to be trimmed.
    pub(crate) fn finish(&mut self, trim: bool, out: &mut String) {
        if !self.held.is_empty() || !trim {
            out.push_str(&self.blank);
        }
        out.push_str(&self.held);
        self.blank.clear();
        self.held.clear();
    }
}
