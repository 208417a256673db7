//! Predictions beside measurements. The read bandwidth and the main peak are those measured beside each test; the other peaks keep
//! the proportion to it that is measured now.

use planner::step::{Ceilings, Roofline};
use serde::Serialize;

use super::args::Args;
use super::predict::{decode_seconds, prefill_seconds};
use crate::Failure;
use crate::commands::plan::bench_files::{Bench, Row};
use crate::commands::plan::models::{self, Looked};
use crate::commands::plan::report::{Report, percent};
use crate::commands::plan::session::Session;
use crate::term::number;

#[derive(Serialize)]
struct Answer {
    rows: Vec<Held>,
    /// Of the errors' sizes.
    median_error: f64,
    worst_error: f64,
    /// Tests that are neither a prompt nor decoding alone.
    left_out: usize,
}

#[derive(Serialize)]
struct Held {
    model: String,
    test: String,
    read_gb_per_s: f64,
    measured_tokens_per_s: f64,
    predicted_tokens_per_s: f64,
    /// Predicted over measured, less one.
    error: f64,
}

pub(super) fn run(args: &Args, session: &Session<'_>) -> Result<(), Failure> {
    let here = args.source.here()?;
    let mut rows: Vec<Held> = Vec::new();
    let mut left_out = 0;
    for path in &args.against {
        let Bench::Rows(measured) = Bench::read(path)? else {
            return Err(Failure::new(format!("{} is not of `gristmill bench -o json`", path.display())));
        };
        for row in measured {
            match held(args, &row, &here.ceilings)? {
                Some(held) => rows.push(held),
                None => left_out += 1,
            }
        }
    }
    let mut errors: Vec<f64> = rows.iter().map(|row| row.error.abs()).collect();
    errors.sort_by(f64::total_cmp);
    let middle = |at: usize| errors.get(at).copied().unwrap_or(0.0);
    let median_error = (middle(errors.len() / 2) + middle(errors.len().saturating_sub(1) / 2)) / 2.0;
    let answer = Answer { median_error, worst_error: errors.last().copied().unwrap_or(0.0), rows, left_out };
    let mut report = Report::new("plan fit", "Predicted beside measured");
    say(&answer, &mut report);
    session.finish(&report, &answer)
}

fn look(args: &Args, row: &Row, tier: cpu::Tier) -> Result<Looked, Failure> {
    let kv = args.kv.dtype(tier);
    if model::shapes::parse(&row.model).is_ok() {
        return models::shape(&row.model, tier, kv);
    }
    models::file(&row.model, tier, kv)
}

/// None for a test that mixes prompts and decoding.
fn held(args: &Args, row: &Row, here: &Ceilings) -> Result<Option<Held>, Failure> {
    let Some(read) = row.ceiling_gb_per_s.filter(|_| row.n_prompt == 0 || row.n_gen == 0) else {
        return Ok(None);
    };
    let tier: cpu::Tier = row
        .isa
        .parse()
        .map_err(|_| Failure::new(format!("{}: no tier is called `{}`", row.test, row.isa)))?;
    let beside = row.peak_g_multiply_adds_per_s;
    // What the cores gave then, over what they give now: it holds for all three peaks.
    let then = match row.peak_numbers.as_str() {
        "bf16" => beside / here.bf16_g_per_s,
        "f32" => beside / here.f32_g_per_s,
        _ => beside / here.int8_g_per_s,
    };
    let ceilings = Ceilings {
        tier: row.isa.clone(),
        read_gb_per_s: read,
        int8_g_per_s: here.int8_g_per_s * then,
        bf16_g_per_s: here.bf16_g_per_s * then,
        f32_g_per_s: here.f32_g_per_s * then,
    };
    let roofline = Roofline::new(look(args, row, tier)?.work, ceilings)?;
    let chunk = engine::Limits::default().prefill_chunk;
    let seconds = if row.n_gen == 0 {
        prefill_seconds(&roofline, row.n_prompt, chunk, row.n_depth)
    } else {
        let step = |token| decode_seconds(&roofline, row.n_streams as u32, row.n_depth + token);
        (0..row.n_gen).map(step).sum()
    };
    let tokens = (row.n_streams * (row.n_prompt + row.n_gen)) as f64;
    let predicted = tokens / seconds;
    Ok(Some(Held {
        model: row.model.clone(),
        test: row.test.clone(),
        read_gb_per_s: read,
        measured_tokens_per_s: row.avg_ts,
        predicted_tokens_per_s: predicted,
        error: predicted / row.avg_ts - 1.0,
    }))
}

fn say(answer: &Answer, report: &mut Report) {
    let rows = answer.rows.iter().map(|row| {
        vec![
            row.model.clone(),
            row.test.clone(),
            format!("{:.1}", row.read_gb_per_s),
            format!("{:.1}", row.measured_tokens_per_s),
            format!("{:.1}", row.predicted_tokens_per_s),
            format!("{:+.1} %", row.error * 100.0),
        ]
    });
    report.table(
        "",
        &["model", "test", "read GB/s", "measured t/s", "predicted t/s", "error"],
        rows.collect(),
    );
    let left_out = match answer.left_out {
        0 => String::new(),
        1 => " 1 test that mixes prompts and decoding was left out.".to_owned(),
        some => format!(" {some} tests that mix prompts and decoding were left out."),
    };
    report.text(format!(
        "{}: median error {}, worst {}.{left_out}",
        number(answer.rows.len(), "test"),
        percent(answer.median_error),
        percent(answer.worst_error)
    ));
}
