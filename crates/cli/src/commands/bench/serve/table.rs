//! The result as `vllm bench serve` prints it, and a histogram in text.

use std::fmt::Write;

use super::metrics::{Latency, Metrics};
use super::report::Selection;
use super::statistics::Sorted;

const WIDTH: usize = 50;

/// The lines of vLLM's table: labels padded to 40, values to 10, sections between hyphens.
pub(super) fn table(metrics: &Metrics, selection: &Selection) -> String {
    let mut table = Table(String::new());
    table.heading('=', " Serving Benchmark Result ");
    table.count("Successful requests:", metrics.completed);
    table.count("Failed requests:", metrics.failed);
    if let Some(most) = selection.max_concurrency {
        table.count("Maximum request concurrency:", most);
    }
    if selection.request_rate.is_finite() {
        table.number("Request rate configured (RPS):", selection.request_rate);
    }
    table.number("Benchmark duration (s):", metrics.duration);
    table.count("Total input tokens:", metrics.input_tokens);
    if metrics.cached_tokens > 0 {
        table.count("Cached input tokens:", metrics.cached_tokens);
    }
    table.count("Total generated tokens:", metrics.output_tokens);
    table.number("Request throughput (req/s):", metrics.rate(metrics.completed));
    if let Some(good) = metrics.good {
        table.number("Request goodput (req/s):", metrics.rate(good));
    }
    table.number("Output token throughput (tok/s):", metrics.rate(metrics.output_tokens));
    table.number("Peak output token throughput (tok/s):", metrics.peak.chunks() as f64);
    table.number("Peak concurrent requests:", metrics.peak.requests as f64);
    let tokens = metrics.input_tokens + metrics.output_tokens;
    table.number("Total token throughput (tok/s):", metrics.rate(tokens));
    for metric in &selection.metrics {
        table.heading('-', metric.heading());
        table.latency(metric.label(), metric.of(metrics), &selection.percentiles);
    }
    table.0.push_str(&"=".repeat(WIDTH));
    table.0
}

struct Table(String);

impl Table {
    fn heading(&mut self, fill: char, text: &str) {
        let missing = WIDTH.saturating_sub(text.chars().count());
        let left = fill.to_string().repeat(missing / 2);
        let right = fill.to_string().repeat(missing - missing / 2);
        self.line(&format!("{left}{text}{right}"));
    }

    fn count(&mut self, label: &str, value: usize) {
        self.line(&format!("{label:<40} {value:<10}"));
    }

    fn number(&mut self, label: &str, value: f64) {
        self.line(&format!("{label:<40} {value:<10.2}"));
    }

    fn latency(&mut self, label: &str, latency: &Latency, percentiles: &[f64]) {
        self.number(&format!("Mean {label} (ms):"), latency.mean_ms);
        self.number(&format!("Median {label} (ms):"), latency.sorted_ms.median());
        for percent in percentiles {
            // 99 is P99 and 99.9 is P99.9, as in vLLM.
            self.number(&format!("P{percent} {label} (ms):"), latency.sorted_ms.percentile(*percent));
        }
    }

    fn line(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }
}

const BARS: usize = 12;
const BAR_CHARS: usize = 40;

/// How often values fall into each of twelve ranges of equal width, as bars of `#`; nothing of nothing.
pub(super) fn histogram(title: &str, values: &Sorted) -> String {
    let sorted = values.values();
    let (Some(&low), Some(&high)) = (sorted.first(), sorted.last()) else { return String::new() };
    let bars = if high > low { BARS } else { 1 };
    let width = (high - low) / bars as f64;
    let mut counts = vec![0_usize; bars];
    for value in sorted {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 to the number of bars"
        )]
        let bar = if width > 0.0 { ((value - low) / width) as usize } else { 0 };
        counts[bar.min(bars - 1)] += 1;
    }
    let most = counts.iter().copied().max().unwrap_or(1).max(1);
    let mut text = format!("{title}, {} values\n", sorted.len());
    for (bar, count) in counts.iter().enumerate() {
        let from = low + width * bar as f64;
        let hashes = "#".repeat((count * BAR_CHARS).div_ceil(most));
        // Writing into a string does not fail.
        let _ = writeln!(text, "{from:>10.1} – {:<10.1} {count:>7} {hashes}", from + width);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::metrics::Outcome;
    use super::super::report::Metric;
    use super::*;

    fn outcomes() -> Vec<Outcome> {
        let outcome = |start: f64, ttft: f64| Outcome {
            prompt_tokens: 128,
            output_tokens: 3,
            start,
            ttft,
            first_text: ttft,
            itls: vec![0.1, 0.3],
            latency: ttft + 0.4,
            ..Outcome::default()
        };
        vec![outcome(0.0, 0.5), outcome(0.25, 1.5)]
    }

    /// What vLLM's format strings give for the same numbers.
    #[test]
    fn lines_are_vllms() {
        let metrics = Metrics::of(&outcomes(), 2.0, None);
        let selection = Selection {
            metrics: vec![Metric::Ttft, Metric::Tpot],
            percentiles: vec![99.0, 99.9],
            max_concurrency: Some(4),
            request_rate: f64::INFINITY,
        };
        let expected = "\
============ Serving Benchmark Result ============
Successful requests:                     2         
Failed requests:                         0         
Maximum request concurrency:             4         
Benchmark duration (s):                  2.00      
Total input tokens:                      256       
Total generated tokens:                  6         
Request throughput (req/s):              1.00      
Output token throughput (tok/s):         3.00      
Peak output token throughput (tok/s):    3.00      
Peak concurrent requests:                2.00      
Total token throughput (tok/s):          131.00    
---------------Time to First Token----------------
Mean TTFT (ms):                          1000.00   
Median TTFT (ms):                        1000.00   
P99 TTFT (ms):                           1490.00   
P99.9 TTFT (ms):                         1499.00   
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          200.00    
Median TPOT (ms):                        200.00    
P99 TPOT (ms):                           200.00    
P99.9 TPOT (ms):                         200.00    
==================================================";
        assert_eq!(table(&metrics, &selection), expected);
    }

    #[test]
    fn a_histogram_counts_everything_once() {
        let values: Vec<f64> = (0..=120).map(f64::from).collect();
        let text = histogram("TTFT (ms)", &Sorted::new(&values));
        let counts: Vec<usize> = text
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().nth(3).unwrap().parse().unwrap())
            .collect();
        assert_eq!(counts, [10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 11]);
        assert_eq!(histogram("one", &Sorted::new(&[3.0])).lines().count(), 2);
        assert_eq!(histogram("none", &Sorted::new(&[])), "");
    }
}
