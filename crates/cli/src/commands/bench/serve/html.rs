//! The result as one HTML page that needs nothing else: no script, no other file.

use std::fmt::Write;

use super::metrics::{Figures, Metrics, Outcome};
use super::plot::{Plot, number};
use super::report::{Metric, Selection, Setting};
use crate::svg::escaped;

/// Rows of the timeline; the first so many requests are drawn.
const MAX_ROWS: usize = 400;
/// Seconds that are drawn one by one.
const MAX_BARS: usize = 600;
/// Failures that are listed.
const MAX_ERRORS: usize = 20;

const STYLE: &str = "\
:root { color-scheme: light dark; --ink: #1d2329; --dim: #66707a; --grid: #e2e6ea; --paper: #fff; --a: #2f6fde;
  --b: #e08a1e; --c: #b9c2cc; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ec; --dim: #98a2ad; --grid: #30373e; --paper: #15191d;
  --a: #6ea0ff; --b: #f0a94b; --c: #56616c; } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 980px; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.05rem; margin: 2rem 0 .4rem; }
p, .dim { color: var(--dim); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .9rem .2rem 0; text-align: left; border-bottom: 1px solid var(--grid); font-weight: normal; }
th { color: var(--dim); } td.n { text-align: right; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(340px, 1fr)); gap: 1rem; }
svg { width: 100%; height: auto; } svg text { font-size: 11px; fill: var(--dim); }
.grid { stroke: var(--grid); } .mark { stroke: var(--dim); stroke-dasharray: 3 3; }
.curve { fill: none; stroke: var(--a); stroke-width: 1.8; } .under { fill: none; stroke: var(--b); stroke-width: 1.8; }
.bar, .decode { fill: var(--a); } .wait { fill: var(--b); } .queue { fill: var(--c); } .failed { fill: #d23b3b; }
";

/// The page.
pub(super) fn page(
    setting: &Setting,
    selection: &Selection,
    figures: &Figures,
    outcomes: &[Outcome],
) -> String {
    let metrics = &figures.total;
    let title = format!("{} · {}", setting.models.join(", "), setting.dataset);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{0}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
        escaped(&title)
    );
    page.push_str(&about(setting, selection));
    page.push_str(&totals(metrics));
    page.push_str(&by_model(setting, figures));
    page.push_str(&latencies(metrics, &selection.percentiles));
    page.push_str("<h2>Share of requests (ITL: of gaps) within a time</h2>\n<div class=\"plots\">\n");
    for metric in [Metric::Ttft, Metric::Tpot, Metric::Itl, Metric::E2el] {
        page.push_str(&distribution(metric, metrics));
    }
    page.push_str("</div>\n");
    page.push_str(&over_time(metrics, outcomes));
    page.push_str(&timeline(metrics, outcomes));
    page.push_str(&errors(outcomes));
    page.push_str("</body>\n</html>\n");
    page
}

fn about(setting: &Setting, selection: &Selection) -> String {
    let rate = match selection.request_rate {
        rate if rate.is_finite() => format!("{} requests/s, burstiness {}", number(rate), setting.burstiness),
        _ => "all at once".to_owned(),
    };
    let most =
        selection.max_concurrency.map_or_else(|| "no limit".to_owned(), |most| format!("{most} at a time"));
    let label = setting.label.as_deref().map(|label| format!("{label} · ")).unwrap_or_default();
    let text = format!(
        "{label}{} · {} · {} prompts · {rate} · {most} · seed {} · {} UTC",
        setting.base_url, setting.backend, setting.num_prompts, setting.seed, setting.date
    );
    format!("<p>{}</p>\n", escaped(&text))
}

fn totals(metrics: &Metrics) -> String {
    let mut rows = vec![
        ("Requests", format!("{} answered, {} failed", metrics.completed, metrics.failed)),
        ("Duration", format!("{:.2} s", metrics.duration)),
        (
            "Tokens",
            format!(
                "{} in ({} of them cached), {} out",
                metrics.input_tokens, metrics.cached_tokens, metrics.output_tokens
            ),
        ),
        ("Requests a second", format!("{:.2}", metrics.rate(metrics.completed))),
        ("Output tokens a second", format!("{:.2}", metrics.rate(metrics.output_tokens))),
        ("All tokens a second", format!("{:.2}", metrics.rate(metrics.input_tokens + metrics.output_tokens))),
        (
            "Peaks",
            format!(
                "{} chunks in a second, {} requests at once",
                metrics.peak.chunks(),
                metrics.peak.requests
            ),
        ),
    ];
    if let Some(good) = metrics.good {
        rows.push(("Goodput", format!("{:.2} requests a second ({good} in all)", metrics.rate(good))));
    }
    let rows: String =
        rows.iter().map(|(name, value)| format!("<tr><th>{name}</th><td>{value}</td></tr>\n")).collect();
    format!("<table>\n{rows}</table>\n")
}

/// A row a model, if there are several.
fn by_model(setting: &Setting, figures: &Figures) -> String {
    if figures.by_model.is_empty() {
        return String::new();
    }
    let mut table = "<h2>By model</h2>\n<table>\n<tr><th></th><th>answered</th><th>failed</th>\
         <th>output tokens a second</th><th>median TTFT (ms)</th><th>median TPOT (ms)</th><th>median E2EL (ms)</th></tr>\n"
        .to_owned();
    for (name, metrics) in setting.models.iter().zip(&figures.by_model) {
        let medians = [Metric::Ttft, Metric::Tpot, Metric::E2el].map(|m| m.of(metrics).sorted_ms.median());
        let counts = [metrics.completed, metrics.failed].map(|count| count.to_string());
        let numbers = [metrics.rate(metrics.output_tokens)].into_iter().chain(medians);
        let cells = counts.into_iter().chain(numbers.map(|number| format!("{number:.2}")));
        let cells: String = cells.map(|cell| format!("<td class=\"n\">{cell}</td>")).collect();
        let _ = writeln!(table, "<tr><th>{}</th>{cells}</tr>", escaped(name));
    }
    table.push_str("</table>\n");
    table
}

fn latencies(metrics: &Metrics, percentiles: &[f64]) -> String {
    let mut table =
        "<h2>Latencies in milliseconds</h2>\n<table>\n<tr><th></th><th>mean</th><th>median</th>".to_owned();
    for percent in percentiles {
        let _ = write!(table, "<th>p{percent}</th>");
    }
    table.push_str("<th>deviation</th></tr>\n");
    for metric in [Metric::Ttft, Metric::Tpot, Metric::Itl, Metric::E2el, Metric::ClientQueueTime] {
        let latency = metric.of(metrics);
        let middle = percentiles.iter().map(|percent| latency.sorted_ms.percentile(*percent));
        let values = [latency.mean_ms, latency.sorted_ms.median()].into_iter().chain(middle);
        let _ = write!(table, "<tr><th>{}</th>", metric.label());
        for value in values.chain([latency.std_ms]) {
            let _ = write!(table, "<td class=\"n\">{value:.2}</td>");
        }
        table.push_str("</tr>\n");
    }
    table.push_str("</table>\n");
    table
}

/// The empirical distribution function of a latency.
fn distribution(metric: Metric, metrics: &Metrics) -> String {
    let sorted = &metric.of(metrics).sorted_ms;
    let values = sorted.values();
    let count = values.len();
    let label = format!("{} (ms)", metric.label());
    let mut plot = Plot::new(values.last().copied().unwrap_or(0.0), 100.0, &label, "%");
    let share = |index: usize| 100.0 * (index + 1) as f64 / count as f64;
    let points: Vec<(f64, f64)> = values.iter().enumerate().map(|(index, ms)| (*ms, share(index))).collect();
    if count > 0 {
        plot.line("curve", &points);
        plot.mark(sorted.median(), &format!("median {}", number(sorted.median())));
    }
    plot.done()
}

fn over_time(metrics: &Metrics, outcomes: &[Outcome]) -> String {
    let chunks = &metrics.peak.chunks_by_second;
    let seconds = chunks.len().min(MAX_BARS);
    let most = chunks.iter().take(seconds).copied().max().unwrap_or(0);
    let mut plot = Plot::wide(200.0, seconds as f64, most as f64, "second", "chunks");
    for (second, count) in chunks.iter().take(seconds).enumerate() {
        plot.area("bar", (second as f64 + 0.05, second as f64 + 0.95), (0.0, *count as f64));
    }
    let mut text = format!("<h2>Chunks in each second</h2>\n{}", plot.done());
    let first = outcomes.iter().filter(|o| o.error.is_none()).map(|o| o.start).min_by(f64::total_cmp);
    let first = first.unwrap_or(0.0);
    let mut moments: Vec<(f64, f64)> = Vec::new();
    for outcome in outcomes.iter().filter(|o| o.error.is_none()) {
        moments.push((outcome.start - first, 1.0));
        moments.push((outcome.start + outcome.latency - first, -1.0));
    }
    moments.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut now = 0.0;
    let mut steps = vec![(0.0, 0.0)];
    for (at, change) in moments {
        steps.push((at, now));
        now += change;
        steps.push((at, now));
    }
    let end = steps.last().map_or(0.0, |step| step.0);
    let mut plot = Plot::wide(160.0, end, metrics.peak.requests as f64, "second", "requests");
    plot.line("under", &steps);
    let _ = write!(text, "<h2>Requests under way</h2>\n{}", plot.done());
    text
}

/// One row a request: waiting for a place, then for the first token, then decoding.
fn timeline(metrics: &Metrics, outcomes: &[Outcome]) -> String {
    let mut shown: Vec<&Outcome> = outcomes.iter().collect();
    shown.sort_by(|a, b| a.start.total_cmp(&b.start));
    shown.truncate(MAX_ROWS);
    let rows = shown.len() as f64;
    let end = shown.iter().map(|o| o.start + o.latency).fold(0.0, f64::max).min(metrics.duration);
    let mut plot = Plot::wide((rows * 5.0 + 60.0).clamp(120.0, 1600.0), end, rows, "second", "request");
    for (row, outcome) in shown.iter().enumerate() {
        let y = (row as f64 + 0.15, row as f64 + 0.85);
        let (sent, first) = (outcome.start, outcome.start + outcome.ttft);
        if outcome.queue > 0.001 {
            plot.area("queue", (sent - outcome.queue, sent), y);
        }
        if outcome.error.is_some() {
            plot.area("failed", (sent, (sent + outcome.latency).max(first)), y);
            continue;
        }
        plot.area("wait", (sent, first), y);
        plot.area("decode", (first, sent + outcome.latency), y);
    }
    let left_out = outcomes.len() - shown.len();
    let more = if left_out > 0 { format!(" The last {left_out} are left out.") } else { String::new() };
    format!(
        "<h2>Requests in time</h2>\n<p>Grey: held back by the limit of requests at once. Orange: sent, no token yet. \
         Blue: decoding. Red: failed.{more}</p>\n{}",
        plot.done()
    )
}

fn errors(outcomes: &[Outcome]) -> String {
    let mut failed = outcomes.iter().filter_map(|o| o.error.as_deref()).peekable();
    if failed.peek().is_none() {
        return String::new();
    }
    let rows: String =
        failed.take(MAX_ERRORS).map(|error| format!("<tr><td>{}</td></tr>\n", escaped(error))).collect();
    format!("<h2>Failures (at most {MAX_ERRORS})</h2>\n<table>\n{rows}</table>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_of(outcomes: &[Outcome]) -> String {
        let setting = Setting {
            date: "19700101-000000".to_owned(),
            label: Some("<script>alert(1)</script>".to_owned()),
            backend: "openai",
            models: vec!["a & b".to_owned(), "<i>c".to_owned()],
            tokenizer: None,
            base_url: "http://127.0.0.1:1".to_owned(),
            dataset: "random",
            num_prompts: outcomes.len(),
            seed: 0,
            burstiness: 1.0,
        };
        let selection = Selection {
            metrics: vec![],
            percentiles: vec![99.0],
            max_concurrency: Some(2),
            request_rate: f64::INFINITY,
        };
        let figures = Figures::of(outcomes, 3.0, None, 2);
        page(&setting, &selection, &figures, outcomes)
    }

    #[test]
    fn one_page_that_needs_nothing_else() {
        let good = Outcome {
            output_tokens: 3,
            ttft: 0.5,
            itls: vec![0.25, 0.25],
            latency: 1.0,
            ..Outcome::default()
        };
        let bad = Outcome { error: Some("503: <b>full</b>".to_owned()), start: 0.5, ..Outcome::default() };
        let page = page_of(&[good, bad]);
        assert_eq!(page.matches("<svg").count(), 7);
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
        assert_eq!(
            (page.matches("class=\"failed\"").count(), page.matches("class=\"wait\"").count()),
            (1, 1)
        );
        assert!(
            page.contains("a &amp; b, &lt;i&gt;c · random")
                && page.contains("<th>&lt;i&gt;c</th><td")
                && page.contains("503: &lt;b&gt;full")
        );
        for outside in ["<script", "http-equiv", "src=", "href=", "url(", "@import", "NaN", "inf\""] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn a_run_without_answers_has_a_page_too() {
        let bad = Outcome { error: Some("refused".to_owned()), ..Outcome::default() };
        let page = page_of(&[bad]);
        assert!(!page.contains("NaN") && page.contains("refused"));
        assert!(page_of(&[]).ends_with("</html>\n"));
    }
}
