//! Pairs of answers for calibration: the larger model is asked beside the small one, in the background, for a share of
//! requests.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::StatusCode;
use http_body_util::{BodyExt, Limited};
use translation::{Framing, Scanner, ScannerOptions};

use crate::calibrate::Pair;
use crate::cascade::{Margins, agree};
use crate::exchange::request::Exchange;

/// Comparisons at once; further ones are left out.
const MOST: usize = 4;
/// Bytes of an answer that are compared.
const COMPARED: usize = 256 << 10;

static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// A place among the comparisons that run.
struct Place;

impl Place {
    fn take() -> Option<Place> {
        let before = RUNNING.fetch_add(1, Ordering::Relaxed);
        let place = Place;
        (before < MOST).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Exchange {
    /// Asks the larger model too, and notes whether it says the same.
    pub(super) fn compare(&self, margins: &Margins, text: &str) {
        let Some(cascade) = self.cascading.get() else { return };
        let (Some(margin), Some(path)) = (margins.of_all(), cascade.settings.pairs.clone()) else { return };
        let Some(place) = Place::take() else { return };
        let mut asked = self.asked.clone();
        asked.model = cascade.larger.name().to_owned();
        asked.stream = false;
        asked.limit = None;
        let exchange = Exchange::new(self.shared.clone(), self.snapshot.clone(), asked, self.context.clone());
        let exchange = Box::new(exchange);
        let dialect = self.asked.api.dialect;
        let (text, tokens, limit) = (text.to_owned(), margins.tokens(), cascade.settings.pairs_bytes);
        tokio::spawn(async move {
            let answer = exchange.answer().await;
            if answer.status() != StatusCode::OK {
                return;
            }
            let Ok(body) = Limited::new(answer.into_body(), COMPARED * 8).collect().await else { return };
            let options = ScannerOptions { collect_bytes: COMPARED, ..ScannerOptions::default() };
            let mut scanner = Scanner::new(dialect, Framing::Json, options);
            if scanner.feed(&body.to_bytes()).is_err() {
                return;
            }
            let pair = Pair { margin, agrees: agree(&text, &scanner.state().text), tokens };
            let written = tokio::task::spawn_blocking(move || append(&path, &pair, limit)).await;
            if let Ok(Err(error)) = written {
                tracing::warn!(%error, "a pair for calibration was not written");
            }
            drop(place);
        });
    }
}

/// Adds a line to a file that has room for it. Lines are short enough for one write, which is not torn.
fn append(path: &Path, pair: &Pair, limit: u64) -> std::io::Result<()> {
    let line = serde_json::to_string(pair)? + "\n";
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
    if file.metadata()?.len() + line.len() as u64 > limit {
        return Ok(());
    }
    file.write_all(line.as_bytes())
}
