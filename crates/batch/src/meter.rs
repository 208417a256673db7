//! Keeps count of a run and shows its progress.

use crate::options::Prices;
use crate::report::{Counts, Phase, Progress, Tokens, Watcher};
use std::time::Instant;

/// The numbers of a run, shown to its watcher.
pub(crate) struct Meter {
    watcher: Watcher,
    prices: Option<Prices>,
    began: Instant,
    progress: Progress,
}

impl Meter {
    pub(crate) fn new(watcher: Watcher, prices: Option<Prices>) -> Meter {
        Meter { watcher, prices, began: Instant::now(), progress: Progress::default() }
    }

    /// Begins a phase.
    pub(crate) fn enter(&mut self, phase: Phase) {
        self.progress.phase = phase;
        self.progress.running = 0;
        self.show();
    }

    /// Takes over what earlier runs have done.
    pub(crate) fn take_over(&mut self, counts: Counts, tokens: Tokens) {
        self.progress.counts = counts;
        self.progress.tokens = tokens;
    }

    pub(crate) fn set_running(&mut self, running: usize, predicted_reuse: f64) {
        self.progress.running = running as u64;
        self.progress.predicted_reuse = predicted_reuse;
    }

    /// Counts a request that was run, whether or not it will count as finished.
    pub(crate) fn count_retries(&mut self, retries: u64) {
        self.progress.retries += retries;
    }

    /// Counts a finished request.
    pub(crate) fn count(&mut self, has_failed: bool, tokens: Tokens) {
        let counts = &mut self.progress.counts;
        *(if has_failed { &mut counts.failed } else { &mut counts.succeeded }) += 1;
        self.progress.finished_now += 1;
        add(&mut self.progress.tokens, tokens);
        add(&mut self.progress.tokens_now, tokens);
    }

    /// What was spent so far.
    pub(crate) fn cost(&self) -> Option<u64> {
        self.prices.map(|prices| cost(prices, self.progress.tokens))
    }

    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// The numbers as they are.
    pub(crate) fn progress(&self) -> Progress {
        Progress { cost: self.cost().unwrap_or(0), elapsed: self.began.elapsed(), ..self.progress }
    }

    pub(crate) fn show(&self) {
        (self.watcher)(&self.progress());
    }
}

fn add(sum: &mut Tokens, tokens: Tokens) {
    sum.prompt = sum.prompt.saturating_add(tokens.prompt);
    sum.cached = sum.cached.saturating_add(tokens.cached);
    sum.completion = sum.completion.saturating_add(tokens.completion);
}

/// What tokens cost, in millionths, rounded up.
fn cost(prices: Prices, tokens: Tokens) -> u64 {
    let fresh = tokens.prompt.saturating_sub(tokens.cached);
    let parts = [(fresh, prices.input), (tokens.cached, prices.cached), (tokens.completion, prices.output)];
    let sum: u128 = parts.iter().map(|(count, price)| u128::from(*count) * u128::from(*price)).sum();
    u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_rounded_up_once() {
        let prices = Prices { input: 1_000_000, cached: 100_000, output: 2_000_000 };
        assert_eq!(cost(prices, Tokens { prompt: 10, cached: 4, completion: 3 }), 13);
        assert_eq!(cost(prices, Tokens::default()), 0);
    }
}
