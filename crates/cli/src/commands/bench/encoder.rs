//! The bench of an encoder: texts of one length or of many, as the engine computes them. No tokenizer, no queue, no server.

mod case;

use std::time::Instant;

use cpu::measure::{Ceilings, Numbers};
use cpu::probe::Machine;
use kernels::Compute;
use model::{EncodePass, EncodeText, PackedCache, Want};
use serde::Serialize;

use super::progress::Progress;
use super::report::{Format as Output, Report, count, csv, mean_and_deviation};
use crate::encoders::{self, EncoderOptions, Format, LoadedEncoder};
use crate::found::Found;
use crate::term::{err, out};
use crate::{Failure, flags};
use case::Case;

/// Most texts of a batch.
const MOST_TEXTS: usize = 4096;
/// Fewest runs of a query, of which percentiles are told.
const LEAST_QUERIES: usize = 100;

/// Flags of the bench that are for encoders.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Encoders")]
pub(super) struct Flags {
    /// What an encoder computes: uniform-N (16,384 tokens in texts of N), mix-5-512 (256 texts of 5 to 512 tokens, as many
    /// short as long by logarithm), query-N (one text of N, its latency); may be given again [default: uniform-128,
    /// uniform-512, mix-5-512 and query-16].
    #[arg(long = "case", value_name = "CASE", value_parser = Case::read)]
    cases: Vec<Case>,

    /// Hand an encoder's texts over in batches of N, not all at once.
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    texts: Vec<usize>,

    #[command(flatten)]
    encoders: flags::Encoders,
}

/// A case, and texts of a batch if not all are handed over at once.
#[derive(Clone, Copy)]
struct Test {
    case: Case,
    batch: Option<usize>,
}

/// One test of an encoder.
#[derive(Serialize)]
struct Row {
    model: String,
    model_type: &'static str,
    model_n_params: u64,
    precision: &'static str,
    cpu_info: String,
    isa: String,
    n_threads: usize,
    case: String,
    /// Texts of a run.
    texts: usize,
    /// Texts handed over at once.
    batch: usize,
    /// Tokens of a run.
    tokens: usize,
    samples_ns: Vec<f64>,
    avg_ns: f64,
    stddev_ns: f64,
    texts_per_s: f64,
    stddev_texts_per_s: f64,
    tokens_per_s: f64,
    /// The time of a run that half of the runs of one text do not exceed.
    p50_ms: Option<f64>,
    p95_ms: Option<f64>,
    multiply_adds_per_token: f64,
    g_multiply_adds_per_s: f64,
    peak_numbers: &'static str,
    peak_g_multiply_adds_per_s: f64,
    /// The share of the peak that is used, 0 to 1.
    peak_share: f64,
}

/// Heads of the table, with their least widths.
const HEADS: [(&str, usize); 11] = [
    ("model", 24),
    ("params", 9),
    ("format", 6),
    ("backend", 10),
    ("threads", 7),
    ("case", 14),
    ("batch", 5),
    ("texts/s", 18),
    ("t/s", 9),
    ("p50 ms", 7),
    ("of peak", 9),
];

/// Measures encoders.
pub(super) struct Bench<'a> {
    pub(super) flags: &'a Flags,
    pub(super) compute_flags: &'a flags::Compute,
    pub(super) machine: &'a Machine,
    pub(super) compute: &'a Compute,
    pub(super) repetitions: usize,
}

impl Bench<'_> {
    /// Measures one encoder.
    ///
    /// # Errors
    /// A model that cannot be loaded, a case that does not fit it.
    pub(super) fn run(
        &self,
        found: Found,
        ceilings: &mut Ceilings,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let (label, positions, parameters) =
            (found.name.clone(), found.spec.context, found.spec.parameters());
        let tests = self.tests()?;
        let longest = tests.iter().map(|test| test.case.longest()).max().unwrap_or(1);
        if longest > positions {
            return Err(Failure::usage(format!("a text of {longest} tokens: {label} can do {positions}")));
        }
        let progress = Progress::new();
        progress.stage(&format!("{label}: loading"));
        let format = self.flags.encoders.encoder_format;
        let context = Some(longest.max(2));
        let options = EncoderOptions {
            compute: self.compute_flags,
            format,
            context,
            shared: false,
            packed: PackedCache::Off,
        };
        let planned = encoders::plan(found, &options)?;
        let loaded = planned.load_with(self.compute, &mut |share| {
            progress.detail(&format!("{label}: loading, {:.0} %", 100.0 * share));
        })?;
        progress.quiet(|| loaded.remarks.iter().for_each(|remark| err!("{remark}")));
        let mut runner = Runner::new(&loaded, self.compute)?;
        for (at, test) in tests.into_iter().enumerate() {
            progress.stage(&format!("{label}: {}", test.case));
            let row = self.measure(&mut runner, test, ceilings)?;
            let row = Row { model: label.clone(), model_n_params: parameters, ..row };
            progress.quiet(|| print(report.format, &row, at == 0));
            report.keep(&row);
        }
        Ok(())
    }

    fn tests(&self) -> Result<Vec<Test>, Failure> {
        let Flags { cases, texts, .. } = self.flags;
        if let Some(texts) = texts.iter().find(|texts| !(1..=MOST_TEXTS).contains(*texts)) {
            return Err(Failure::usage(format!("--texts {texts} is outside 1..={MOST_TEXTS}")));
        }
        let cases = if cases.is_empty() { &Case::USUAL[..] } else { cases };
        let mut tests = Vec::new();
        for &case in cases {
            if texts.is_empty() || case.is_query() {
                tests.push(Test { case, batch: None });
            } else {
                tests.extend(texts.iter().map(|&batch| Test { case, batch: Some(batch) }));
            }
        }
        Ok(tests)
    }

    fn measure(
        &self,
        runner: &mut Runner<'_>,
        Test { case, batch }: Test,
        ceilings: &mut Ceilings,
    ) -> Result<Row, Failure> {
        let texts = case.texts(runner.loaded.model.spec.vocab);
        let batch = batch.unwrap_or(texts.len()).min(texts.len());
        let numbers = match runner.loaded.format {
            Format::Int8 => Numbers::Int8,
            Format::Bf16 => Numbers::Bf16,
            Format::F32 => Numbers::F32,
        };
        let repetitions =
            if case.is_query() { self.repetitions.max(LEAST_QUERIES) } else { self.repetitions };
        let mut run = || texts.chunks(batch).try_for_each(|batch| runner.encode(batch));
        run()?;
        let before = ceilings.peak(numbers);
        let mut samples_ns = Vec::with_capacity(repetitions);
        for _ in 0..repetitions {
            let began = Instant::now();
            run()?;
            samples_ns.push(began.elapsed().as_nanos() as f64);
        }
        let peak = before.max(ceilings.peak(numbers));
        let spec = &runner.loaded.model.spec;
        let work: u64 = texts.iter().map(|text| spec.encode_multiply_adds(text.len())).sum();
        let tokens: usize = texts.iter().map(Vec::len).sum();
        let rates: Vec<f64> = samples_ns.iter().map(|ns| 1e9 * texts.len() as f64 / ns).collect();
        let ((avg_ns, stddev_ns), (texts_per_s, stddev_texts_per_s)) =
            (mean_and_deviation(&samples_ns), mean_and_deviation(&rates));
        let rate = work as f64 / avg_ns;
        let percentile = |share| case.is_query().then(|| percentile(&samples_ns, share) / 1e6);
        Ok(Row {
            model: String::new(),
            model_type: spec.family,
            model_n_params: 0,
            precision: runner.loaded.format.name(),
            cpu_info: self.machine.model_name.clone(),
            isa: self.compute.tier.to_string(),
            n_threads: self.compute.pool.threads(),
            case: case.to_string(),
            texts: texts.len(),
            batch,
            tokens,
            p50_ms: percentile(0.5),
            p95_ms: percentile(0.95),
            samples_ns,
            avg_ns,
            stddev_ns,
            texts_per_s,
            stddev_texts_per_s,
            tokens_per_s: 1e9 * tokens as f64 / avg_ns,
            multiply_adds_per_token: work as f64 / tokens as f64,
            g_multiply_adds_per_s: rate,
            peak_numbers: numbers.name(),
            peak_g_multiply_adds_per_s: peak,
            peak_share: rate / peak,
        })
    }
}

/// The sample that this share of the samples does not exceed.
fn percentile(samples: &[f64], share: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a count")]
    let at = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(at.saturating_sub(1)).copied().unwrap_or_default()
}

/// Prints a row; `first` prints the heads before it.
fn print(format: Output, row: &Row, first: bool) {
    match format {
        Output::Md => {
            if first {
                line(HEADS.map(|(head, _)| head.to_owned()));
                line(HEADS.map(|(_, width)| "-".repeat(width)));
            }
            line([
                row.model.clone(),
                count(row.model_n_params),
                row.precision.to_owned(),
                format!("CPU {}", row.isa),
                row.n_threads.to_string(),
                row.case.clone(),
                row.batch.to_string(),
                format!("{:.2} ± {:.2}", row.texts_per_s, row.stddev_texts_per_s),
                format!("{:.0}", row.tokens_per_s),
                row.p50_ms.map_or_else(|| "–".to_owned(), |ms| format!("{ms:.2}")),
                format!("{:.0} % {}", 100.0 * row.peak_share, row.peak_numbers),
            ]);
        }
        Output::Csv => csv(row, first),
        Output::Json => {}
    }
}

fn line(cells: [String; 11]) {
    let padded = cells.iter().zip(HEADS).enumerate().map(|(at, (cell, (_, width)))| {
        if at == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
    });
    out!("| {} |", padded.collect::<Vec<_>>().join(" | "));
}

/// Encodes texts in steps as large as the engine's.
struct Runner<'a> {
    loaded: &'a LoadedEncoder,
    compute: &'a Compute,
    pass: EncodePass,
    want: Want,
    out: Vec<f32>,
}

impl<'a> Runner<'a> {
    fn new(loaded: &'a LoadedEncoder, compute: &'a Compute) -> Result<Runner<'a>, Failure> {
        let heads = &loaded.heads;
        let want = if heads.dense.is_some() {
            Want::Dense
        } else if heads.classifier.is_some() {
            Want::Logits
        } else if heads.tokens.is_some() {
            Want::Tokens
        } else if heads.sparse {
            Want::Sparse
        } else {
            Want::TokenLogits
        };
        let kv = loaded.format.kv_dtype(compute.tier);
        let pass = EncodePass::new(&loaded.model.spec, loaded.step_tokens(), kv)?;
        Ok(Runner { loaded, compute, pass, want, out: Vec::new() })
    }

    fn encode(&mut self, texts: &[Vec<u32>]) -> Result<(), Failure> {
        let (model, budget) = (&self.loaded.model, self.pass.step_tokens());
        let mut rest = texts;
        while !rest.is_empty() {
            let mut tokens = 0;
            let fits = rest.iter().take_while(|text| {
                tokens += text.len();
                tokens <= budget
            });
            let (step, later) = rest.split_at(fits.count().max(1));
            let step: Vec<EncodeText<'_>> =
                step.iter().map(|tokens| EncodeText { tokens, types: &[], skip: 0 }).collect();
            model.begin(&mut self.pass, &step)?;
            while model.advance(self.compute, &mut self.pass) {}
            for text in 0..step.len() {
                model.output(self.compute, &self.pass, text, self.want, &mut self.out)?;
            }
            rest = later;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let samples: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!((percentile(&samples, 0.5), percentile(&samples, 0.95)), (50.0, 95.0));
        assert_eq!(percentile(&[7.0], 0.5), 7.0);
    }
}
