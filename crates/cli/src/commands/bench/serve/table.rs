//! The result as `vllm bench serve` prints it, and a histogram in text.

use std::fmt::Write;

use super::metrics::{Figures, Metrics};
use super::report::{Metric, Selection};
use super::statistics::Sorted;

const WIDTH: usize = 50;

/// Characters of a value's column.
const VALUE: usize = 10;

/// The lines of vLLM's table: labels padded to 40, values to 10, sections between hyphens. Where there are several
/// models, each has a column after that of all.
pub(super) fn table(figures: &Figures, models: &[String], selection: &Selection) -> String {
    let mut columns = vec![Column { metrics: &figures.total, width: VALUE }];
    let of_model = |(metrics, name): (_, &String)| Column { metrics, width: name.chars().count().max(VALUE) };
    columns.extend(figures.by_model.iter().zip(models).map(of_model));
    let mut table = Table { text: String::new(), columns };
    table.heading('=', " Serving Benchmark Result ");
    if !figures.by_model.is_empty() {
        let names = std::iter::once("all").chain(models.iter().map(String::as_str));
        table.row("Model:", names.map(str::to_owned).collect());
    }
    table.count("Successful requests:", |m| m.completed);
    table.count("Failed requests:", |m| m.failed);
    if let Some(most) = selection.max_concurrency {
        table.once("Maximum request concurrency:", most.to_string());
    }
    if selection.request_rate.is_finite() {
        table.once("Request rate configured (RPS):", format!("{:.2}", selection.request_rate));
    }
    table.once("Benchmark duration (s):", format!("{:.2}", figures.total.duration));
    table.count("Total input tokens:", |m| m.input_tokens);
    if figures.total.cached_tokens > 0 {
        table.count("Cached input tokens:", |m| m.cached_tokens);
    }
    let embeds = figures.total.texts > 0;
    if embeds {
        table.count("Total texts:", |m| m.texts);
    } else {
        table.count("Total generated tokens:", |m| m.output_tokens);
    }
    table.number("Request throughput (req/s):", |m| m.rate(m.completed));
    if figures.total.good.is_some() {
        table.number("Request goodput (req/s):", |m| m.rate(m.good.unwrap_or(0)));
    }
    if embeds {
        table.number("Text throughput (texts/s):", |m| m.rate(m.texts));
    } else {
        table.number("Output token throughput (tok/s):", |m| m.rate(m.output_tokens));
        table.number("Peak output token throughput (tok/s):", |m| m.peak.chunks() as f64);
    }
    table.number("Peak concurrent requests:", |m| m.peak.requests as f64);
    table.number("Total token throughput (tok/s):", |m| m.rate(m.input_tokens + m.output_tokens));
    for metric in &selection.metrics {
        table.heading('-', metric.heading());
        table.latency(*metric, &selection.percentiles);
    }
    let width = table.width();
    table.text.push_str(&"=".repeat(width));
    table.text
}

/// The figures of one column.
struct Column<'a> {
    metrics: &'a Metrics,
    width: usize,
}

struct Table<'a> {
    text: String,
    /// All requests, then those of each model.
    columns: Vec<Column<'a>>,
}

impl Table<'_> {
    fn width(&self) -> usize {
        WIDTH + self.columns.iter().skip(1).map(|column| column.width + 1).sum::<usize>()
    }

    fn heading(&mut self, fill: char, text: &str) {
        let missing = self.width().saturating_sub(text.chars().count());
        let left = fill.to_string().repeat(missing / 2);
        let right = fill.to_string().repeat(missing - missing / 2);
        self.line(&format!("{left}{text}{right}"));
    }

    fn count(&mut self, label: &str, of: impl Fn(&Metrics) -> usize) {
        self.row(label, self.columns.iter().map(|column| of(column.metrics).to_string()).collect());
    }

    fn number(&mut self, label: &str, of: impl Fn(&Metrics) -> f64) {
        self.row(label, self.columns.iter().map(|column| format!("{:.2}", of(column.metrics))).collect());
    }

    /// What holds for the whole run.
    fn once(&mut self, label: &str, value: String) {
        self.row(label, vec![value]);
    }

    fn row(&mut self, label: &str, values: Vec<String>) {
        let mut line = format!("{label:<40}");
        for (column, value) in self.columns.iter().zip(values) {
            // Writing into a string does not fail.
            let _ = write!(line, " {value:<width$}", width = column.width);
        }
        self.line(&line);
    }

    fn latency(&mut self, metric: Metric, percentiles: &[f64]) {
        let label = metric.label();
        self.number(&format!("Mean {label} (ms):"), |m| metric.of(m).mean_ms);
        self.number(&format!("Median {label} (ms):"), |m| metric.of(m).sorted_ms.median());
        for percent in percentiles {
            // 99 is P99 and 99.9 is P99.9, as in vLLM.
            let name = format!("P{percent} {label} (ms):");
            self.number(&name, |m| metric.of(m).sorted_ms.percentile(*percent));
        }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
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
        let figures = Figures::of(&outcomes(), 2.0, None, 1);
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
        assert_eq!(table(&figures, &["m".to_owned()], &selection), expected);
    }

    #[test]
    fn models_have_columns() {
        let outcomes: Vec<Outcome> =
            outcomes().into_iter().enumerate().map(|(model, o)| Outcome { model, ..o }).collect();
        let figures = Figures::of(&outcomes, 2.0, None, 2);
        let selection = Selection {
            metrics: vec![Metric::Ttft],
            percentiles: vec![],
            max_concurrency: Some(4),
            request_rate: f64::INFINITY,
        };
        let text = table(&figures, &["small".to_owned(), "a-longer-name".to_owned()], &selection);
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        let has = |line: &str| assert!(lines.contains(&line), "{line}\n{text}");
        has("Model:                                   all        small      a-longer-name");
        has("Successful requests:                     2          1          1");
        has("Maximum request concurrency:             4");
        has("Output token throughput (tok/s):         3.00       1.50       1.50");
        has("Mean TTFT (ms):                          1000.00    500.00     1500.00");
        assert!(lines.last().is_some_and(|line| line.len() == 75), "{text}");
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
