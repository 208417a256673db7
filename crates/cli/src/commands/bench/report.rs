//! The table: llama-bench's columns, then ours.

use std::time::{SystemTime, UNIX_EPOCH};

use cpu::probe::Machine;
use serde::Serialize;
use serde_json::Value;

use super::runner::{Measured, Runner};
use super::test::Test;
use crate::term::out;
use crate::{Failure, term};

/// How rows are printed.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// A table in Markdown.
    Md,
    /// Comma-separated values, a line of names first.
    Csv,
    /// An array of objects, with every sample.
    Json,
}

/// One test of one model. The first part has llama-bench's names and meanings.
#[derive(Serialize)]
pub(super) struct Row {
    build_commit: &'static str,
    cpu_info: String,
    backends: &'static str,
    model_filename: String,
    model_type: String,
    /// Bytes of the tensors as a file holds them.
    model_size: u64,
    model_n_params: u64,
    n_ubatch: usize,
    n_threads: usize,
    type_k: &'static str,
    type_v: &'static str,
    n_prompt: usize,
    n_gen: usize,
    n_depth: usize,
    test_time: String,
    avg_ns: f64,
    stddev_ns: f64,
    avg_ts: f64,
    stddev_ts: f64,
    samples_ns: Vec<f64>,
    samples_ts: Vec<f64>,
    model: String,
    test: String,
    isa: String,
    n_streams: usize,
    /// Generated tokens a second, all streams together; none without generation.
    output_ts: Option<f64>,
    /// Milliseconds to the first token, the mean of streams and runs; none without a prompt.
    ttft_ms: Option<f64>,
    /// Weights, keys and values read for each token.
    bytes_per_token: f64,
    read_gb_per_s: f64,
    ceiling_gb_per_s: Option<f64>,
    /// Of 1.
    read_share: Option<f64>,
    multiply_adds_per_token: f64,
    g_multiply_adds_per_s: f64,
    peak_numbers: &'static str,
    peak_g_multiply_adds_per_s: f64,
    /// Of 1.
    peak_share: f64,
    /// How fast the file's weights were read and packed.
    load_gb_per_s: f64,
    /// Bytes of packed weights, and how many of them are in huge pages where the system tells.
    packed_bytes: usize,
    huge_page_bytes: Option<usize>,
    huge_pages: &'static str,
}

impl Row {
    pub(super) fn new(test: &Test, measured: &Measured, runner: &Runner<'_>, machine: &Machine) -> Row {
        let (about, reading, compute) = (&runner.about, &runner.reading, runner.compute);
        let backing = runner.model.backing();
        let kv = runner.kv_dtype().name();
        let samples_ns: Vec<f64> = measured.samples.iter().map(|s| s.took.as_nanos() as f64).collect();
        let tokens = test.tokens() as f64;
        let samples_ts: Vec<f64> = samples_ns.iter().map(|ns| 1e9 * tokens / ns).collect();
        let (avg_ns, stddev_ns) = mean_and_deviation(&samples_ns);
        let (avg_ts, stddev_ts) = mean_and_deviation(&samples_ts);
        let first: Vec<f64> =
            measured.samples.iter().filter_map(|s| Some(s.first_token?.as_secs_f64() * 1e3)).collect();
        let output = test.generate as f64 / (test.prompt + test.generate) as f64;
        let (read, done) = (measured.work.bytes as f64 / avg_ns, measured.work.multiply_adds as f64 / avg_ns);
        Row {
            build_commit: env!("CARGO_PKG_VERSION"),
            cpu_info: machine.model_name.clone(),
            backends: "CPU",
            model_filename: about.file.clone(),
            model_type: about.kind.clone(),
            model_size: about.bytes,
            model_n_params: about.parameters,
            n_ubatch: engine::Limits::default().prefill_chunk,
            n_threads: compute.pool.threads(),
            type_k: kv,
            type_v: kv,
            n_prompt: test.prompt,
            n_gen: test.generate,
            n_depth: test.depth,
            test_time: utc(measured.began),
            avg_ns,
            stddev_ns,
            avg_ts,
            stddev_ts,
            samples_ns,
            samples_ts,
            model: about.label.clone(),
            test: test.to_string(),
            isa: compute.tier.to_string(),
            n_streams: test.streams,
            output_ts: (test.generate > 0).then_some(avg_ts * output),
            ttft_ms: (!first.is_empty()).then(|| mean_and_deviation(&first).0),
            bytes_per_token: measured.work.bytes as f64 / tokens,
            read_gb_per_s: read,
            ceiling_gb_per_s: measured.read_gb_per_s,
            read_share: measured.read_gb_per_s.map(|ceiling| read / ceiling),
            multiply_adds_per_token: measured.work.multiply_adds as f64 / tokens,
            g_multiply_adds_per_s: done,
            peak_numbers: about.numbers.name(),
            peak_g_multiply_adds_per_s: measured.peak,
            peak_share: done / measured.peak,
            load_gb_per_s: reading.gb_per_s(),
            packed_bytes: backing.bytes,
            huge_page_bytes: backing.huge_bytes,
            huge_pages: backing.kind.name(),
        }
    }

    /// Cells of the Markdown table.
    fn cells(&self) -> [String; 12] {
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
        [
            self.model.clone(),
            binary(self.model_size),
            count(self.model_n_params),
            format!("{} {}", self.backends, self.isa),
            self.n_threads.to_string(),
            self.test.clone(),
            format!("{:.2} ± {:.2}", self.avg_ts, self.stddev_ts),
            or_dash(self.output_ts.map(|rate| format!("{rate:.2}"))),
            or_dash(self.ttft_ms.map(|ms| format!("{ms:.0}"))),
            format!("{:.1}", self.bytes_per_token / 1e6),
            or_dash(self.read_share.map(|share| format!("{:.0} %", 100.0 * share))),
            format!("{:.0} % {}", 100.0 * self.peak_share, self.peak_numbers),
        ]
    }
}

/// Heads of the Markdown table, with their least widths.
const HEADS: [(&str, usize); 12] = [
    ("model", 24),
    ("size", 10),
    ("params", 9),
    ("backend", 10),
    ("threads", 7),
    ("test", 16),
    ("t/s", 16),
    ("out t/s", 8),
    ("ttft ms", 8),
    ("MB/token", 8),
    ("of read", 7),
    ("of peak", 9),
];

/// Rows on their way to standard output.
pub(super) struct Report {
    pub(super) format: Format,
    rows: Vec<Value>,
}

impl Report {
    pub(super) fn begin(format: Format) -> Report {
        Report { format, rows: Vec::new() }
    }

    /// Prints the row, or keeps it for the end.
    pub(super) fn add(&mut self, row: Row) {
        let first = self.rows.is_empty();
        match self.format {
            Format::Md => {
                if first {
                    line(HEADS.map(|(head, _)| head.to_owned()));
                    let mut rules = HEADS.map(|(_, width)| "-".repeat(width - 1) + ":");
                    rules[0] = "-".repeat(HEADS[0].1);
                    line(rules);
                }
                line(row.cells());
            }
            Format::Csv => csv(&row, first),
            Format::Json => {}
        }
        self.keep(&row);
    }

    /// Keeps a row for the end, which is printed already unless the format is JSON.
    pub(super) fn keep(&mut self, row: &impl Serialize) {
        self.rows.push(serde_json::to_value(row).unwrap_or_default());
    }

    pub(super) fn end(self) -> Result<(), Failure> {
        match self.format {
            Format::Json => term::json(&self.rows),
            Format::Md | Format::Csv => Ok(()),
        }
    }
}

fn line(cells: [String; 12]) {
    let padded: Vec<String> = cells
        .iter()
        .zip(HEADS)
        .enumerate()
        .map(
            |(i, (cell, (_, width)))| {
                if i == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            },
        )
        .collect();
    out!("| {} |", padded.join(" | "));
}

/// Prints a row as comma-separated values, the names before the first.
pub(super) fn csv(row: &impl Serialize, first: bool) {
    let columns = columns(row);
    if first {
        out!("{}", columns.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(","));
    }
    out!("{}", columns.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(","));
}

/// Names and values of all columns but the lists of samples. Texts are quoted, as llama-bench quotes them.
fn columns(row: &impl Serialize) -> Vec<(String, String)> {
    let Ok(Value::Object(columns)) = serde_json::to_value(row) else { return Vec::new() };
    let shown = |value: &Value| match value {
        Value::String(text) => format!("\"{}\"", text.replace('"', "\"\"")),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    columns.iter().filter(|(_, value)| !value.is_array()).map(|(name, v)| (name.clone(), shown(v))).collect()
}

/// Mean and sample deviation, as llama-bench has them.
pub(super) fn mean_and_deviation(samples: &[f64]) -> (f64, f64) {
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    if samples.len() < 2 {
        return (mean, 0.0);
    }
    let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    (mean, (squares / (n - 1.0)).sqrt())
}

/// `2.32 GiB`, llama-bench's way.
fn binary(bytes: u64) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    if mib >= 1024.0 { format!("{:.2} GiB", mib / 1024.0) } else { format!("{mib:.2} MiB") }
}

/// `4.02 B`, llama-bench's way.
pub(super) fn count(parameters: u64) -> String {
    let millions = parameters as f64 / 1e6;
    if millions >= 1000.0 { format!("{:.2} B", millions / 1000.0) } else { format!("{millions:.2} M") }
}

/// `2026-11-21T08:38:02Z`.
fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (mut day, of_day) = (seconds / 86_400, seconds % 86_400);
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn deviations_are_those_of_a_sample() {
        assert_eq!(mean_and_deviation(&[3.0]), (3.0, 0.0));
        assert_eq!(mean_and_deviation(&[1.0, 3.0]), (2.0, 2f64.sqrt()));
    }

    #[test]
    fn sizes_and_times_are_written_as_llama_bench_does() {
        assert_eq!(binary(390_757_888), "372.66 MiB");
        assert_eq!(binary(2_490_368_000), "2.32 GiB");
        assert_eq!((count(596_049_920), count(4_022_468_096)), ("596.05 M".to_owned(), "4.02 B".to_owned()));
        let at = |seconds| utc(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_798_761_599), "2026-12-31T23:59:59Z");
    }
}
