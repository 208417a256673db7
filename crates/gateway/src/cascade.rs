//! How sure a small model is of its answer, read from the log-probabilities of its stream while it comes.
//!
//! The margin of a token is the log-probability of the likeliest token less that of the second, in nats. A text is as
//! sure as its worst window: one hesitant passage in a long answer does not vanish in its mean.

use std::collections::VecDeque;

use serde::Deserialize;

/// Largest margin of a token: a ratio of 22,026. Servers write minus infinity in different ways (OpenAI: −9999).
const MOST: f64 = 10.0;
/// Most bytes of a line of a stream; a longer one is not read.
const LINE_BYTES: usize = 1 << 20;

/// The margins of a stream in the chat dialect.
#[derive(Debug)]
pub(crate) struct Margins {
    window: usize,
    recent: VecDeque<f64>,
    sum: f64,
    tokens: u64,
    worst: Option<f64>,
    line: Vec<u8>,
    too_long: bool,
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: u64,
    logprobs: Option<Logprobs>,
}

#[derive(Deserialize)]
struct Logprobs {
    content: Option<Vec<Token>>,
}

#[derive(Deserialize)]
struct Token {
    #[serde(default)]
    top_logprobs: Vec<Top>,
}

#[derive(Deserialize)]
struct Top {
    logprob: f64,
}

impl Margins {
    /// No tokens yet; windows of so many.
    pub(crate) fn new(window: usize) -> Margins {
        Margins {
            window: window.max(1),
            recent: VecDeque::new(),
            sum: 0.0,
            tokens: 0,
            worst: None,
            line: Vec::new(),
            too_long: false,
        }
    }

    /// Reads bytes of a stream of events.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.too_long |= self.line.len() + part.len() > LINE_BYTES;
            if !self.too_long {
                self.line.extend_from_slice(part);
            }
            if part.last() == Some(&b'\n') {
                let line = std::mem::take(&mut self.line);
                if !std::mem::take(&mut self.too_long) {
                    self.line(&line);
                }
                self.line = line;
                self.line.clear();
            }
        }
    }

    fn line(&mut self, line: &[u8]) {
        let Some(data) = line.strip_prefix(b"data:") else { return };
        let Ok(chunk) = serde_json::from_slice::<Chunk>(data) else { return };
        let first = chunk.choices.into_iter().filter(|choice| choice.index == 0);
        for token in first.filter_map(|choice| choice.logprobs?.content).flatten() {
            self.token(margin(&token));
        }
    }

    fn token(&mut self, margin: f64) {
        self.tokens += 1;
        self.sum += margin;
        self.recent.push_back(margin);
        if self.recent.len() > self.window {
            self.sum -= self.recent.pop_front().unwrap_or_default();
        }
        if self.recent.len() == self.window {
            let mean = self.sum / self.window as f64;
            self.worst = Some(self.worst.map_or(mean, |worst| worst.min(mean)));
        }
    }

    /// Tokens with log-probabilities.
    pub(crate) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Mean margin of the worst full window.
    pub(crate) fn worst(&self) -> Option<f64> {
        self.worst
    }

    /// Mean margin of the worst window of a text that has ended: of all of a text that is shorter than a window. None
    /// without log-probabilities.
    pub(crate) fn of_all(&self) -> Option<f64> {
        self.worst.or_else(|| (self.tokens > 0).then(|| self.sum / self.tokens as f64))
    }
}

fn margin(token: &Token) -> f64 {
    let mut best = [f64::NEG_INFINITY; 2];
    for top in &token.top_logprobs {
        if top.logprob > best[0] {
            best = [top.logprob, best[0]];
        } else if top.logprob > best[1] {
            best[1] = top.logprob;
        }
    }
    let margin = best[0] - best[1];
    // A single candidate leaves nothing to waver about.
    if margin.is_finite() { margin.clamp(0.0, MOST) } else { MOST }
}

/// Whether two answers say the same: letters alike but for case, runs of white space as one, no point at the end.
pub(crate) fn agree(one: &str, other: &str) -> bool {
    let normal = |text: &str| {
        let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
        words.join(" ").trim_end_matches(['.', '!', '?']).to_owned()
    };
    normal(one) == normal(other)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

    use super::*;

    fn chunk(margins: &[f64]) -> String {
        let token = |margin: &f64| {
            serde_json::json!({"token": "x", "logprob": -0.1, "top_logprobs": [
            {"token": "x", "logprob": -0.1}, {"token": "y", "logprob": -0.1 - margin}]})
        };
        let content: Vec<_> = margins.iter().map(token).collect();
        let choice =
            serde_json::json!({"index": 0, "delta": {"content": "x"}, "logprobs": {"content": content}});
        format!("data: {}\n\n", serde_json::json!({"choices": [choice]}))
    }

    fn near(value: Option<f64>, expected: f64) {
        assert!((value.unwrap() - expected).abs() < 1e-9, "{value:?} {expected}");
    }

    #[test]
    fn the_worst_window_counts_however_the_bytes_are_cut() {
        let stream: String =
            [&[4.0, 4.0][..], &[1.0], &[0.0, 2.0, 9.0]].iter().map(|part| chunk(part)).collect();
        for size in [1, 7, 1000] {
            let mut margins = Margins::new(3);
            for part in stream.as_bytes().chunks(size) {
                margins.feed(part);
            }
            assert_eq!(margins.tokens(), 6);
            near(margins.worst(), 1.0);
            near(margins.of_all(), 1.0);
        }
    }

    #[test]
    fn a_short_text_is_judged_as_a_whole() {
        let mut margins = Margins::new(16);
        assert_eq!(margins.of_all(), None);
        margins.feed(chunk(&[1.0, 2.0]).as_bytes());
        assert_eq!(margins.worst(), None);
        near(margins.of_all(), 1.5);
    }

    #[test]
    fn hostile_lines_are_left_out() {
        let mut margins = Margins::new(1);
        margins.feed(
            b"data: {\"choices\":[{\"logprobs\":{\"content\":[{\"top_logprobs\":[{\"logprob\":-1}]}]}}]}\n",
        );
        near(margins.worst(), MOST);
        margins.feed(b"data: {\"choices\":7}\ndata: [DONE]\n: comment\n");
        for _ in 0..3 {
            margins.feed(&vec![b'x'; LINE_BYTES]);
            assert!(margins.line.len() <= LINE_BYTES);
        }
        margins.feed(b"\n");
        margins.feed(chunk(&[9999.0, 0.5]).as_bytes());
        assert_eq!(margins.tokens(), 3);
        near(margins.worst(), 0.5);
    }

    #[test]
    fn answers_agree_but_for_case_and_space() {
        assert!(agree(" Card  arrival.\n", "card arrival"));
        assert!(!agree("card arrival", "card arrived"));
    }
}
