//! Rates from what was measured: the JSON of `gristmill bench` and of `bench serve` (vllm's keys), and a server's metrics.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use planner::Money;
use planner::cost::OperatingPoint;
use planner::fleet::quantile;
use serde::Deserialize;
use serde_json::Value;

use crate::Failure;

/// A longer file is no bench's.
const MOST_BYTES: u64 = 256 << 20;

/// A row of `gristmill bench -o json`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Row {
    pub(super) model: String,
    pub(super) test: String,
    pub(super) isa: String,
    pub(super) n_prompt: usize,
    pub(super) n_gen: usize,
    pub(super) n_depth: usize,
    pub(super) n_streams: usize,
    pub(super) avg_ns: f64,
    pub(super) avg_ts: f64,
    pub(super) output_ts: Option<f64>,
    pub(super) ceiling_gb_per_s: Option<f64>,
    pub(super) peak_numbers: String,
    pub(super) peak_g_multiply_adds_per_s: f64,
}

/// One load of `bench serve`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Served {
    #[serde(default)]
    completed: f64,
    total_input_tokens: f64,
    total_output_tokens: f64,
    pub(super) request_throughput: f64,
    pub(super) output_throughput: f64,
    p95_e2el_ms: Option<f64>,
    /// Seconds, of each request.
    #[serde(default)]
    latencies: Vec<f64>,
    #[serde(default)]
    ttfts: Vec<f64>,
    #[serde(default)]
    itls: Vec<Vec<f64>>,
}

/// A file of any of them.
pub(super) enum Bench {
    Rows(Vec<Row>),
    /// What steps took in a server, as a plan keeps it.
    Steps(String),
    Served(String, Box<Served>),
}

/// The text of a small file, or of standard input for `-`.
pub(super) fn read_text(path: &Path) -> Result<String, Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("cannot read {}: {error}", path.display()));
    let mut text = String::new();
    let length = if path == Path::new("-") {
        std::io::stdin().take(MOST_BYTES + 1).read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_string(&mut text))
    };
    if length.map_err(failed)? as u64 > MOST_BYTES {
        return Err(Failure::new(format!("{} is longer than {MOST_BYTES} bytes", path.display())));
    }
    Ok(text)
}

impl Bench {
    /// # Errors
    /// A file that is neither, with what it lacks.
    pub(super) fn read(path: &Path) -> Result<Bench, Failure> {
        let text = read_text(path)?;
        let bad = |error: serde_json::Error| {
            Failure::new(format!("{} is no bench's JSON: {error}", path.display()))
        };
        if text.trim().is_empty() {
            return Err(Failure::new(format!("{} is empty", path.display())));
        }
        if !text.trim_start().starts_with(['[', '{']) && text.contains(STEPS) {
            let points = steps_served(&text);
            let lacks = || Failure::new(format!("{} tells of too few steps: {STEPS}", path.display()));
            return points.map(Bench::Steps).ok_or_else(lacks);
        }
        let value: Value = serde_json::from_str(&text).map_err(bad)?;
        if value.is_array() {
            let rows: Vec<Row> = serde_json::from_value(value).map_err(bad)?;
            if rows.is_empty() {
                return Err(Failure::new(format!("{} is empty", path.display())));
            }
            return Ok(Bench::Rows(rows));
        }
        let served: Served = serde_json::from_value(value).map_err(bad)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Bench::Served(name, Box::new(served)))
    }

    /// Fields of a plan that it measured.
    pub(super) fn settings(&self) -> Vec<(String, String)> {
        let mut settings = Vec::new();
        let mut put = |field: &str, value: Option<f64>| {
            if let Some(value) = value.filter(|value| value.is_finite()) {
                settings.push((field.to_owned(), format!("{value:.3}")));
            }
        };
        match self {
            Bench::Rows(rows) => {
                let best = |of: &dyn Fn(&Row) -> Option<f64>| rows.iter().filter_map(of).reduce(f64::max);
                put("own.tokens_per_s", best(&|row| row.output_ts.filter(|_| row.n_prompt == 0)));
                put("own.prompt_tokens_per_s", best(&|row| (row.n_gen == 0).then_some(row.avg_ts)));
                if let Some(steps) = steps(rows) {
                    settings.push(("fleet.step_ms".to_owned(), steps));
                }
            }
            Bench::Steps(points) => settings.push(("fleet.step_ms".to_owned(), points.clone())),
            Bench::Served(_, served) => {
                put("own.tokens_per_s", Some(served.output_throughput));
                let each = |total: f64| (served.completed >= 1.0).then(|| (total / served.completed).round());
                for (field, total) in [
                    ("work.input_tokens", served.total_input_tokens),
                    ("work.output_tokens", served.total_output_tokens),
                ] {
                    if let Some(tokens) = each(total) {
                        settings.push((field.to_owned(), format!("{tokens:.0}")));
                    }
                }
            }
        }
        settings
    }

    /// What a served load was, for the selection rule.
    ///
    /// # Errors
    /// A file without latencies.
    pub(super) fn point(&self, price_per_hour: Money) -> Option<Result<OperatingPoint, Failure>> {
        let Bench::Served(name, served) = self else { return None };
        let point = served.p95_ms().map(|p95_ms| OperatingPoint {
            name: name.clone(),
            price_per_hour,
            requests_per_s: served.request_throughput,
            p95_ms,
        });
        let missing = || Failure::new(format!("{name}: neither p95_e2el_ms nor latencies are in the file"));
        Some(point.ok_or_else(missing))
    }
}

impl Served {
    /// As written, else of the requests: where vllm writes no latencies, they are first tokens and gaps.
    fn p95_ms(&self) -> Option<f64> {
        let mut seconds = self.latencies.clone();
        if seconds.is_empty() {
            let sum = |(first, gaps): (&f64, &Vec<f64>)| first + gaps.iter().sum::<f64>();
            seconds = self.ttfts.iter().zip(&self.itls).map(sum).collect();
        }
        seconds.sort_by(f64::total_cmp);
        self.p95_e2el_ms.or_else(|| quantile(&seconds, 0.95).map(|seconds| seconds * 1e3))
    }
}

/// `[[rows, ms], …]` of the steps that a bench ran: rows that decode together, prompts that are one step, and the chunks that
/// longer ones are cut into.
fn steps(rows: &[Row]) -> Option<String> {
    /// Rows of a step of a prompt, as the engine cuts it.
    const CHUNK: f64 = 256.0;
    let mut points = Vec::new();
    for row in rows {
        let streams = row.n_streams as f64;
        if row.n_prompt == 0 && row.n_gen > 0 {
            points.push((streams, row.avg_ns / 1e6 / row.n_gen as f64, 1.0));
        } else if row.n_gen == 0 && row.n_depth == 0 && row.n_streams == 1 && row.n_prompt > 0 {
            let rows = CHUNK.min(row.n_prompt as f64);
            points.push((rows, rows / row.avg_ts * 1e3, 1.0));
        }
    }
    // Of as many rows, those that decode come first and stay.
    written(points)
}

/// The metric of a server that counts steps by their rows; beside it `…_rows` and `…_seconds`.
const STEPS: &str = "gristmill_steps";
/// Steps of a class that are enough to tell what they take.
const ENOUGH: f64 = 5.0;

/// The same from a server's `/metrics`: the mean rows and the mean time of each class of steps.
fn steps_served(text: &str) -> Option<String> {
    let mut classes: BTreeMap<&str, [f64; 3]> = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.strip_prefix(STEPS)) {
        let kinds = ["_total{", "_rows_total{", "_seconds_total{"];
        let kind = kinds.iter().position(|kind| line.starts_with(kind));
        let (Some(kind), Some((labels, value))) = (kind, line.rsplit_once("} ")) else { continue };
        let class = labels.split_once("rows_up_to=\"").and_then(|(_, rest)| rest.split('"').next());
        let value = value.split(' ').next().and_then(|value| value.parse::<f64>().ok());
        let (Some(class), Some(value)) = (class, value) else { continue };
        // Of several models or machines: all of their steps.
        classes.entry(class).or_default()[kind] += value;
    }
    let known = classes.into_values().filter(|[steps, ..]| *steps >= ENOUGH);
    written(known.map(|[steps, rows, seconds]| (rows / steps, seconds / steps * 1e3, steps)).collect())
}

/// Points (rows, milliseconds, weight) as a plan keeps them; none of none.
fn written(points: Vec<(f64, f64, f64)>) -> Option<String> {
    let points = planner::fleet::isotonic_regression(points);
    let shown: Vec<String> = points.iter().map(|(rows, ms)| format!("[{rows:.2}, {ms:.3}]")).collect();
    (!shown.is_empty()).then(|| format!("[{}]", shown.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_metrics_tell_what_steps_take() {
        let class = |up_to: &str, steps: u32, rows: u32, seconds: f64| {
            let labels = format!("{{model_name=\"m\",rows_up_to=\"{up_to}\"}}");
            format!(
                "{STEPS}_total{labels} {steps}\n{STEPS}_rows_total{labels} {rows}\n{STEPS}_seconds_total{labels} {seconds}\n"
            )
        };
        let text = ["# HELP gristmill_steps_total Steps\n".to_owned(), class("1", 10, 10, 0.1)].concat()
            + &class("256", 20, 5000, 10.0)
            + &class("8", 4, 30, 1.0);
        assert_eq!(steps_served(&text).as_deref(), Some("[[1.00, 10.000], [250.00, 500.000]]"));
        assert_eq!(steps_served(&class("1", 4, 4, 1.0)), None, "too few of them");
    }
}
