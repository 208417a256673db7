//! The output of the template rewriter: the text so far, and its line.

/// The context of an expression, which decides whether it needs brackets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// A filter may follow.
    Filtered,
    /// `.name`, `[…]` or `(…)` may follow.
    Called,
}

pub(super) struct Writer {
    pub(super) out: String,
    /// The current line of the output, from 1.
    pub(super) line: usize,
}

impl Writer {
    pub(super) fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// Advances to a line of the source; only where white space has no effect.
    pub(super) fn skip_to(&mut self, line: u16) {
        while self.line < usize::from(line) {
            self.out.push('\n');
            self.line += 1;
        }
    }
}
