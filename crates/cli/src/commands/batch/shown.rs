//! What a run shows: progress on standard error, the report, the plan.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use ::batch::{Outcome, Phase, Plan, Prices, Progress, Report, Stopped, Watcher};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use super::flags;
use crate::term::{clean, err, number, out};

/// Between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Shows progress.
pub(super) struct Shown {
    style: flags::ProgressStyle,
    bar: Option<ProgressBar>,
}

impl Shown {
    pub(super) fn new(style: flags::ProgressStyle) -> Shown {
        let drawn = style == flags::ProgressStyle::Auto && std::io::stderr().is_terminal();
        let bar = drawn.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("[{bar:24}] {percent} % {msg} {eta}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
            bar
        });
        Shown { style, bar }
    }

    /// What the run calls.
    pub(super) fn watcher(&self) -> Watcher {
        let (style, bar, last) = (self.style, self.bar.clone(), Mutex::new(None::<Instant>));
        Arc::new(move |progress: &Progress| match (&bar, style) {
            (Some(bar), _) => draw(bar, progress),
            (None, flags::ProgressStyle::Json) => err!("{}", progress_json(progress)),
            (None, flags::ProgressStyle::None) => {}
            (None, flags::ProgressStyle::Auto) => {
                let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                if last.is_none_or(|at| at.elapsed() >= LINE_EVERY) {
                    *last = Some(Instant::now());
                    err!("{}", line(progress));
                }
            }
        })
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn done(progress: &Progress) -> u64 {
    progress.counts.succeeded + progress.counts.failed
}

fn draw(bar: &ProgressBar, progress: &Progress) {
    if progress.phase == Phase::Running {
        bar.set_length(progress.counts.requests);
        bar.set_position(done(progress));
    }
    bar.set_message(line(progress));
}

fn line(progress: &Progress) -> String {
    let seconds = progress.elapsed.as_secs_f64().max(1e-3);
    let counts = &progress.counts;
    match progress.phase {
        Phase::Reading => format!("reading: {}", number(whole(counts.lines), "line")),
        Phase::Writing => "writing the output".to_owned(),
        Phase::Running => {
            let failed =
                if counts.failed > 0 { format!(", {} failed", counts.failed) } else { String::new() };
            format!(
                "{} of {} done{failed}, {:.0} tok/s",
                done(progress),
                number(whole(counts.requests), "request"),
                (progress.tokens_now.prompt + progress.tokens_now.completion) as f64 / seconds
            )
        }
    }
}

fn whole(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn progress_json(progress: &Progress) -> Value {
    json!({
        "phase": match progress.phase {
            Phase::Reading => "reading",
            Phase::Running => "running",
            Phase::Writing => "writing",
        },
        "lines": progress.counts.lines,
        "requests": progress.counts.requests,
        "succeeded": progress.counts.succeeded,
        "failed": progress.counts.failed,
        "running": progress.running,
        "retries": progress.retries,
        "prompt_tokens": progress.tokens.prompt,
        "cached_tokens": progress.tokens.cached,
        "completion_tokens": progress.tokens.completion,
        "cost": progress.cost as f64 / 1e6,
        "elapsed_seconds": progress.elapsed.as_secs_f64(),
    })
}

/// The report as JSON.
pub(super) fn report(report: &Report) -> Value {
    json!({
        "outcome": outcome(report.outcome),
        "lines": report.counts.lines,
        "malformed": report.counts.malformed,
        "duplicates": report.counts.duplicates,
        "requests": report.counts.requests,
        "succeeded": report.counts.succeeded,
        "failed": report.counts.failed,
        "resumed": report.resumed,
        "retries": report.retries,
        "prompt_tokens": report.tokens.prompt,
        "cached_tokens": report.tokens.cached,
        "completion_tokens": report.tokens.completion,
        "predicted_reuse": report.predicted_reuse,
        "reuse": report.tokens.reuse(),
        "cost": report.cost.map(|cost| cost as f64 / 1e6),
        "elapsed_seconds": report.elapsed.as_secs_f64(),
    })
}

fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Complete => "complete",
        Outcome::SomeFailed => "some_failed",
        Outcome::Stopped(Stopped::Cancelled) => "stopped",
        Outcome::Stopped(Stopped::Cost) => "stopped_by_cost",
        Outcome::Stopped(Stopped::Time) => "stopped_by_time",
        Outcome::Stopped(Stopped::Unavailable) => "stopped_unavailable",
    }
}

/// The report as a sentence.
pub(super) fn sentence(report: &Report) -> String {
    if report.already_complete {
        return "the output is complete already; --force-new begins again".to_owned();
    }
    let counts = &report.counts;
    let seconds = report.elapsed.as_secs_f64();
    let tokens = report.tokens.prompt + report.tokens.completion;
    let mut text = format!(
        "{} in {seconds:.1} s: {} answered, {} failed",
        number(whole(counts.lines), "line"),
        counts.succeeded,
        counts.failed + counts.malformed
    );
    if counts.duplicates > 0 {
        text += &format!(", {} computed once with another", number(whole(counts.duplicates), "line"));
    }
    if report.resumed > 0 {
        text += &format!(", {} of an earlier run", report.resumed);
    }
    text += &format!(
        "; {} of prompts ({:.0} % from the cache, {:.0} % predicted) and {} of answers",
        number(whole(report.tokens.prompt), "token"),
        report.tokens.reuse() * 100.0,
        report.predicted_reuse * 100.0,
        report.tokens.completion
    );
    if report.resumed == 0 && seconds > 0.0 {
        text += &format!(", {:.0} tok/s", tokens as f64 / seconds);
    }
    if let Some(cost) = report.cost {
        text += &format!("; cost {:.4}", cost as f64 / 1e6);
    }
    if let Outcome::Stopped(_) = report.outcome {
        text += "; stopped before the end, the same command goes on";
    }
    text
}

/// Seconds that a plan takes at these rates.
fn seconds(plan: &Plan, rates: Option<(f64, f64)>) -> Option<f64> {
    let (prompt, answer) = rates?;
    let read = plan.prompt_tokens as f64 * (1.0 - plan.predicted_reuse) / prompt.max(1e-9);
    Some(read + plan.max_completion_tokens as f64 / answer.max(1e-9))
}

/// The most that a plan costs.
fn cost(plan: &Plan, prices: Option<Prices>) -> Option<f64> {
    let prices = prices?;
    let of = |tokens: u64, price: u64| tokens as f64 * price as f64 / 1e12;
    Some(of(plan.prompt_tokens, prices.input) + of(plan.max_completion_tokens, prices.output))
}

/// The plan as JSON.
pub(super) fn plan_json(plan: &Plan, prices: Option<Prices>, rates: Option<(f64, f64)>) -> Value {
    json!({
        "lines": plan.counts.lines,
        "malformed": plan.counts.malformed,
        "duplicates": plan.counts.duplicates,
        "requests": plan.counts.requests,
        "bytes": plan.bytes,
        "prompt_tokens": plan.prompt_tokens,
        "estimated": plan.estimated,
        "max_completion_tokens": plan.max_completion_tokens,
        "unlimited": plan.unlimited,
        "predicted_reuse": plan.predicted_reuse,
        "seconds": seconds(plan, rates),
        "cost_at_most": cost(plan, prices),
        "faults": plan.faults.iter().map(|(line, fault)| json!({"line": line, "message": fault})).collect::<Vec<_>>(),
    })
}

/// The plan on the terminal.
pub(super) fn plan(name: &str, plan: &Plan, prices: Option<Prices>, rates: Option<(f64, f64)>) {
    let counts = &plan.counts;
    out!("{}: {}, {}", clean(name), number(whole(counts.lines), "line"), crate::store::size(plan.bytes));
    out!(
        "  {} to compute; {} the same as an earlier one, {} cannot be read",
        number(whole(counts.requests), "request"),
        counts.duplicates,
        counts.malformed
    );
    let about = if plan.estimated { "about " } else { "" };
    out!(
        "  {about}{} of prompts, {:.0} % of them shared with a neighbour",
        number(whole(plan.prompt_tokens), "token"),
        plan.predicted_reuse * 100.0
    );
    let unlimited = match plan.unlimited {
        0 => String::new(),
        some => format!(", and {} without a limit", number(whole(some), "request")),
    };
    out!("  at most {} of answers{unlimited}", number(whole(plan.max_completion_tokens), "token"));
    if let Some(seconds) = seconds(plan, rates) {
        out!("  about {:.0} s at these rates", seconds);
    }
    if let Some(cost) = cost(plan, prices) {
        out!("  at most {cost:.4} at these prices");
    }
    for (line, fault) in &plan.faults {
        out!("  line {line}: {}", clean(fault));
    }
}
