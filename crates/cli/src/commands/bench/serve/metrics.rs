//! What a run says about a server, by the definitions of `vllm bench serve` (its `calculate_metrics`).

use crate::Failure;

use super::statistics::{Sorted, deviation, mean};

/// What became of one request. Times are in seconds; `start` counts from the run's start.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    /// Index of the model that was asked.
    pub(super) model: usize,
    /// Tokens of the prompt: the server's `usage.prompt_tokens`, else what was aimed at.
    pub(super) prompt_tokens: usize,
    /// Tokens that the prompt was made to have.
    pub(super) asked_tokens: usize,
    /// Of `prompt_tokens`, those that the server had in its cache, if it says.
    pub(super) cached_tokens: usize,
    /// Tokens of the answer.
    pub(super) output_tokens: usize,
    /// Texts of a request for embeddings; 0 for others.
    pub(super) texts: usize,
    /// The server told no number of tokens: chunks stand for them.
    pub(super) counted_by_chunks: bool,
    /// When it was sent.
    pub(super) start: f64,
    /// Time between its arrival and its sending, because of `--max-concurrency`.
    pub(super) queue: f64,
    /// First chunk with choices, after sending.
    pub(super) ttft: f64,
    /// First chunk with text in it, after sending; the same unless the server first sends an empty one.
    pub(super) first_text: f64,
    /// Gaps between chunks with choices.
    pub(super) itls: Vec<f64>,
    /// Last chunk with choices, after sending.
    pub(super) latency: f64,
    /// The answer.
    pub(super) text: String,
    /// Why it failed; nothing if it did not.
    pub(super) error: Option<String>,
}

impl Outcome {
    /// (latency − TTFT) / (tokens − 1); none for an answer of at most one token.
    fn tpot(&self) -> Option<f64> {
        (self.output_tokens > 1).then(|| (self.latency - self.ttft) / (self.output_tokens - 1) as f64)
    }
}

/// Limits that a request must keep to count as good, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Goal {
    pub(super) ttft: Option<f64>,
    pub(super) tpot: Option<f64>,
    pub(super) e2el: Option<f64>,
}

impl Goal {
    /// Reads `ttft:200`, `tpot:50`, `e2el:5000`, each in its own text or separated by commas. No text, no goal.
    ///
    /// # Errors
    /// A name that is none of the three, or a value that is no time.
    pub(super) fn parse(texts: &[String]) -> Result<Option<Goal>, Failure> {
        let mut goal = Goal::default();
        for pair in texts.iter().flat_map(|text| text.split(',')).map(str::trim) {
            let (name, value) = pair.split_once(':').unwrap_or((pair, ""));
            let ms = value.trim().parse::<f64>().ok().filter(|ms| ms.is_finite() && *ms >= 0.0);
            let Some(ms) = ms else {
                return Err(Failure::usage(format!(
                    "--goodput {pair} is not NAME:MILLISECONDS, as ttft:500"
                )));
            };
            match name.trim() {
                "ttft" => goal.ttft = Some(ms),
                "tpot" => goal.tpot = Some(ms),
                "e2el" => goal.e2el = Some(ms),
                other => {
                    return Err(Failure::usage(format!("--goodput {other}: known are ttft, tpot and e2el")));
                }
            }
        }
        Ok((!texts.is_empty()).then_some(goal))
    }

    /// Whether `outcome` keeps every limit. An answer of one token has no TPOT and keeps that one.
    pub(super) fn met(&self, outcome: &Outcome) -> bool {
        let within = |limit_ms: Option<f64>, seconds: f64| limit_ms.is_none_or(|ms| seconds <= ms / 1000.0);
        outcome.error.is_none()
            && within(self.ttft, outcome.ttft)
            && within(self.tpot, outcome.tpot().unwrap_or(0.0))
            && within(self.e2el, outcome.latency)
    }
}

/// One latency over all requests that succeeded, in milliseconds.
#[derive(Clone, Debug)]
pub(super) struct Latency {
    pub(super) mean_ms: f64,
    pub(super) std_ms: f64,
    pub(super) sorted_ms: Sorted,
}

impl Latency {
    fn new(seconds: impl Iterator<Item = f64>) -> Latency {
        let ms: Vec<f64> = seconds.map(|s| s * 1000.0).collect();
        Latency { mean_ms: mean(&ms), std_ms: deviation(&ms), sorted_ms: Sorted::new(&ms) }
    }
}

/// The figures of a run: all requests, and those of each model if there are several.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    pub(super) total: Metrics,
    /// By the index of the model; empty for one model.
    pub(super) by_model: Vec<Metrics>,
}

impl Figures {
    /// As [`Metrics::of`], for so many models. Rates of a model are over the whole run too, so they add up.
    pub(super) fn of(outcomes: &[Outcome], duration: f64, goal: Option<&Goal>, models: usize) -> Figures {
        let of_model = |model| Metrics::of(outcomes.iter().filter(|o| o.model == model), duration, goal);
        let by_model = if models > 1 { (0..models).map(of_model).collect() } else { Vec::new() };
        Figures { total: Metrics::of(outcomes, duration, goal), by_model }
    }
}

/// The totals of a run.
#[derive(Clone, Debug)]
pub(super) struct Metrics {
    pub(super) duration: f64,
    pub(super) completed: usize,
    pub(super) failed: usize,
    /// Requests that kept the goal; none without one.
    pub(super) good: Option<usize>,
    pub(super) input_tokens: usize,
    pub(super) cached_tokens: usize,
    pub(super) output_tokens: usize,
    /// Texts that were embedded.
    pub(super) texts: usize,
    pub(super) peak: Peak,
    pub(super) ttft: Latency,
    pub(super) tpot: Latency,
    pub(super) itl: Latency,
    pub(super) e2el: Latency,
    pub(super) first_text: Latency,
    pub(super) queue: Latency,
}

impl Metrics {
    /// `duration` is the wall time of the run in seconds, from the first arrival's clock to the last answer.
    pub(super) fn of<'a>(
        outcomes: impl IntoIterator<Item = &'a Outcome>,
        duration: f64,
        goal: Option<&Goal>,
    ) -> Metrics {
        let (done, failed): (Vec<&Outcome>, Vec<&Outcome>) =
            outcomes.into_iter().partition(|o| o.error.is_none());
        Metrics {
            duration,
            completed: done.len(),
            failed: failed.len(),
            good: goal.map(|goal| done.iter().filter(|o| goal.met(o)).count()),
            input_tokens: done.iter().map(|o| o.prompt_tokens).sum(),
            cached_tokens: done.iter().map(|o| o.cached_tokens).sum(),
            output_tokens: done.iter().map(|o| o.output_tokens).sum(),
            texts: done.iter().map(|o| o.texts).sum(),
            peak: Peak::of(&done),
            ttft: Latency::new(done.iter().map(|o| o.ttft)),
            tpot: Latency::new(done.iter().filter_map(|o| o.tpot())),
            itl: Latency::new(done.iter().flat_map(|o| o.itls.iter().copied())),
            e2el: Latency::new(done.iter().map(|o| o.latency)),
            first_text: Latency::new(done.iter().map(|o| o.first_text)),
            queue: Latency::new(done.iter().map(|o| o.queue)),
        }
    }

    /// `amount` a second of the run.
    pub(super) fn rate(&self, amount: usize) -> f64 {
        if self.duration > 0.0 { amount as f64 / self.duration } else { 0.0 }
    }
}

/// The busiest second and the busiest moment of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Peak {
    /// Chunks in each second after the first request that succeeded was sent.
    pub(super) chunks_by_second: Vec<usize>,
    /// Most requests under way at one moment.
    pub(super) requests: usize,
}

/// Seconds of a run that are plotted; a longer one is counted into its last second.
const MAX_SECONDS: usize = 1 << 20;

impl Peak {
    fn of(done: &[&Outcome]) -> Peak {
        let Some(first) = done.iter().map(|o| o.start).min_by(f64::total_cmp) else { return Peak::default() };
        let mut chunks_by_second = Vec::new();
        for outcome in done {
            let mut at = outcome.start + outcome.ttft - first;
            for gap in std::iter::once(0.0).chain(outcome.itls.iter().copied()) {
                at += gap;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "seconds of a run"
                )]
                let second = (at.max(0.0) as usize).min(MAX_SECONDS);
                if chunks_by_second.len() <= second {
                    chunks_by_second.resize(second + 1, 0);
                }
                chunks_by_second[second] += 1;
            }
        }
        Peak { chunks_by_second, requests: most_at_once(done) }
    }

    pub(super) fn chunks(&self) -> usize {
        self.chunks_by_second.iter().copied().max().unwrap_or(0)
    }
}

/// Over half-open intervals: one that ends when another begins does not overlap it.
fn most_at_once(done: &[&Outcome]) -> usize {
    let ends = done.iter().map(|o| (o.start + o.latency, -1_i64));
    let mut moments: Vec<(f64, i64)> = done.iter().map(|o| (o.start, 1)).chain(ends).collect();
    moments.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut now = 0;
    let most = moments.iter().map(|(_, step)| {
        now += step;
        now
    });
    usize::try_from(most.max().unwrap_or(0)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(start: f64, ttft: f64, itls: &[f64], output_tokens: usize) -> Outcome {
        let latency = ttft + itls.iter().sum::<f64>();
        Outcome {
            prompt_tokens: 10,
            output_tokens,
            start,
            ttft,
            first_text: ttft,
            itls: itls.to_vec(),
            latency,
            ..Outcome::default()
        }
    }

    fn failed() -> Outcome {
        Outcome { error: Some("429".to_owned()), prompt_tokens: 10, ..Outcome::default() }
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    }

    #[test]
    fn definitions() {
        let outcomes = [
            // Three tokens in two chunks: TPOT by tokens, ITL by chunk.
            outcome(0.0, 0.5, &[0.2], 3),
            outcome(0.1, 0.3, &[0.1, 0.3], 3),
            // One token: no TPOT.
            outcome(0.2, 0.4, &[], 1),
            failed(),
        ];
        let metrics = Metrics::of(&outcomes, 2.0, None);
        assert_eq!((metrics.completed, metrics.failed, metrics.good), (3, 1, None));
        assert_eq!((metrics.input_tokens, metrics.output_tokens), (30, 7));
        close(metrics.rate(metrics.output_tokens), 3.5);
        close(metrics.ttft.mean_ms, 400.0);
        close(metrics.tpot.mean_ms, (100.0 + 200.0) / 2.0);
        assert_eq!(metrics.itl.sorted_ms.values().len(), 3);
        close(metrics.itl.mean_ms, 200.0);
        close(metrics.e2el.mean_ms, (700.0 + 700.0 + 400.0) / 3.0);
    }

    #[test]
    fn goodput() {
        let goal = |text: &str| Goal::parse(&[text.to_owned()]).unwrap().unwrap();
        let one_token = outcome(0.0, 0.4, &[], 1);
        let slow = outcome(0.0, 0.4, &[1.0], 2);
        assert!(goal("ttft:400,tpot:10").met(&one_token));
        assert!(!goal("ttft:399").met(&one_token));
        assert!(goal("ttft:400,tpot:1000.5").met(&slow) && !goal("tpot:999").met(&slow));
        assert!(!goal("e2el:1399").met(&slow) && goal("e2el:1401").met(&slow));
        assert!(!goal("ttft:1000").met(&failed()));
        let metrics = Metrics::of(&[one_token, slow, failed()], 4.0, Some(&goal("tpot:500")));
        close(metrics.rate(metrics.good.unwrap()), 0.25);
        assert_eq!(Goal::parse(&[]).unwrap(), None);
        for bad in ["ttft", "ttft:", "ttft:fast", "itl:5", "ttft:-1", "ttft:inf"] {
            assert_eq!(Goal::parse(&[bad.to_owned()]).unwrap_err().code, 2, "{bad}");
        }
    }

    #[test]
    fn peaks() {
        let outcomes = [
            outcome(5.0, 0.5, &[0.25, 0.25, 0.5], 4),
            outcome(5.5, 0.25, &[1.0], 2),
            // Begins when the first ends: never at once with it.
            outcome(6.5, 0.25, &[], 1),
        ];
        let metrics = Metrics::of(&outcomes, 2.0, None);
        assert_eq!(metrics.peak.chunks_by_second, [3, 4]);
        assert_eq!((metrics.peak.chunks(), metrics.peak.requests), (4, 2));
        assert_eq!(Metrics::of(&[failed()], 1.0, None).peak, Peak::default());
    }
}
