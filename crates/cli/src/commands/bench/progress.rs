//! What a bench says while it runs, always on standard error: a spinner on a terminal, plain lines elsewhere.

use std::time::Duration;

use indicatif::ProgressBar;

use crate::term::{clean, err};

pub(super) struct Progress {
    /// Hidden where standard error is no terminal.
    spinner: ProgressBar,
}

impl Progress {
    pub(super) fn new() -> Progress {
        let spinner = ProgressBar::new_spinner();
        spinner.enable_steady_tick(Duration::from_millis(100));
        Progress { spinner }
    }

    /// A new stage: a line of its own where there is no spinner.
    pub(super) fn stage(&self, text: &str) {
        if self.spinner.is_hidden() {
            err!("{text}");
        }
        self.detail(text);
    }

    /// How far the stage is: seen on a terminal only.
    pub(super) fn detail(&self, text: &str) {
        self.spinner.set_message(clean(text));
    }

    /// Prints without tearing the spinner.
    pub(super) fn quiet(&self, print: impl FnOnce()) {
        self.spinner.suspend(print);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.spinner.finish_and_clear();
    }
}
