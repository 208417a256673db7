//! How far a run over many texts is: a bar on a terminal, now and then a plain line elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::term::err;

/// Between two plain lines.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Shows texts and, of a file, the share of its bytes.
pub(crate) struct TextProgress {
    bar: Option<ProgressBar>,
    total_bytes: Option<u64>,
    began: Instant,
    line: Instant,
    first: Option<u64>,
}

impl TextProgress {
    /// Progress through an input of `total_bytes`, if that is known.
    pub(crate) fn new(total_bytes: Option<u64>) -> TextProgress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(total_bytes, ProgressDrawTarget::stderr());
            let template = match total_bytes {
                Some(_) => "[{bar:24}] {percent} % {msg} {eta}",
                None => "{spinner} {msg}",
            };
            let style = ProgressStyle::with_template(template);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
            bar
        });
        TextProgress { bar, total_bytes, began: Instant::now(), line: Instant::now(), first: None }
    }

    /// Shows that `texts` are done, which end after `bytes` of the input.
    pub(crate) fn set(&mut self, texts: u64, bytes: u64) {
        let first = *self.first.get_or_insert(texts);
        let rate = (texts - first) as f64 / self.began.elapsed().as_secs_f64().max(1e-3);
        if let Some(bar) = &self.bar {
            bar.set_position(bytes);
            bar.set_message(format!("{texts} texts, {rate:.0}/s"));
        } else if self.line.elapsed() >= LINE_EVERY {
            self.line = Instant::now();
            match self.total_bytes.filter(|total| *total > 0) {
                Some(total) => {
                    err!("{texts} texts, {rate:.0}/s, {} %", 100 * u128::from(bytes) / u128::from(total))
                }
                None => err!("{texts} texts, {rate:.0}/s"),
            }
        }
    }
}

impl Drop for TextProgress {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
