//! Where a template is written anew: the text so far, and the line it is on.

/// Where an expression stands, which says what needs brackets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// A filter may follow.
    Filtered,
    /// `.name`, `[…]` or `(…)` may follow.
    Called,
}

pub(super) struct Writer {
    pub(super) out: String,
    /// The line that is being written, from 1.
    pub(super) line: usize,
}

impl Writer {
    pub(super) fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// Goes on to a line of the source; only where white space means nothing.
    pub(super) fn skip_to(&mut self, line: u16) {
        while self.line < usize::from(line) {
            self.out.push('\n');
            self.line += 1;
        }
    }
}
