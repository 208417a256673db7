//! The bench of an encoder: texts of one length or of many, in batches, as the engine computes them. No tokenizer, no
//! queue, no server.

use std::fmt;
use std::time::Instant;

use cpu::measure::{Ceilings, Numbers};
use cpu::probe::Machine;
use kernels::Compute;
use model::{EncodePass, EncodeText, Want};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::progress::Progress;
use super::report::{Format as Output, Report, count, csv, mean_and_deviation};
use super::subject::SEED;
use crate::encoders::{self, EncoderOptions, Format, LoadedEncoder};
use crate::found::Found;
use crate::term::{err, out};
use crate::{Failure, flags};

/// Tokens of the shortest and the longest text of the mix.
const MIX: (usize, usize) = (5, 512);
/// Most texts of a batch.
const MOST_TEXTS: usize = 4096;

/// Flags of the bench that are for encoders.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Encoders")]
pub(super) struct Flags {
    /// Tokens of a text, for encoders; `mix` is 5 to 512, short ones as often as long ones.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "128,512,mix", value_parser = Length::read)]
    lengths: Vec<Length>,

    /// Texts of a batch, for encoders.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,8,64")]
    texts: Vec<usize>,

    #[command(flatten)]
    encoders: flags::Encoders,
}

/// Tokens of the texts of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Each(usize),
    Mix,
}

impl Length {
    fn read(text: &str) -> Result<Length, String> {
        match text.parse() {
            _ if text == "mix" => Ok(Length::Mix),
            Ok(0) | Err(_) => Err(format!("{text:?} is neither a number of tokens nor mix")),
            Ok(tokens) => Ok(Length::Each(tokens)),
        }
    }

    fn most(self) -> usize {
        match self {
            Length::Each(tokens) => tokens,
            Length::Mix => MIX.1,
        }
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Length::Each(tokens) => write!(f, "{tokens}"),
            Length::Mix => write!(f, "mix {}-{}", MIX.0, MIX.1),
        }
    }
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
    test: String,
    /// Tokens of each text; none where they differ.
    n_tokens: Option<usize>,
    /// Texts of a batch.
    n_texts: usize,
    /// Tokens of a batch.
    batch_tokens: usize,
    samples_ns: Vec<f64>,
    avg_ns: f64,
    stddev_ns: f64,
    /// Texts a second.
    avg_texts_s: f64,
    stddev_texts_s: f64,
    /// Tokens a second.
    avg_ts: f64,
    multiply_adds_per_token: f64,
    g_multiply_adds_per_s: f64,
    peak_numbers: &'static str,
    peak_g_multiply_adds_per_s: f64,
    /// Of 1.
    peak_share: f64,
}

/// Heads of the table, with their least widths.
const HEADS: [(&str, usize); 10] = [
    ("model", 24),
    ("params", 9),
    ("format", 6),
    ("backend", 10),
    ("threads", 7),
    ("test", 14),
    ("texts/s", 18),
    ("t/s", 9),
    ("ms/batch", 9),
    ("of peak", 9),
];

/// Measures one encoder.
pub(super) struct Bench<'a> {
    pub(super) flags: &'a Flags,
    pub(super) compute_flags: &'a flags::Compute,
    pub(super) machine: &'a Machine,
    pub(super) compute: &'a Compute,
    pub(super) repetitions: usize,
}

impl Bench<'_> {
    /// # Errors
    /// A model that cannot be loaded, a test that does not fit it.
    pub(super) fn run(
        &self,
        found: Found,
        ceilings: &mut Ceilings,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let (label, positions) = (found.name.clone(), found.spec.context);
        let parameters = found.spec.parameters();
        for (length, texts) in self.tests() {
            let most = length.most();
            if most > positions {
                return Err(Failure::usage(format!("texts of {most} tokens: {label} can do {positions}")));
            }
            if !(1..=MOST_TEXTS).contains(&texts) {
                return Err(Failure::usage(format!("--texts {texts} is outside 1..={MOST_TEXTS}")));
            }
        }
        let progress = Progress::new();
        progress.stage(&format!("{label}: loading"));
        let context = self.flags.lengths.iter().map(|length| length.most()).max();
        let format = self.flags.encoders.encoder_format;
        let options = EncoderOptions { compute: self.compute_flags, format, context, shared: false };
        let planned = encoders::plan(found, &options)?;
        let loaded = planned.load_with(self.compute, &mut |share| {
            progress.detail(&format!("{label}: loading, {:.0} %", 100.0 * share));
        })?;
        progress.quiet(|| loaded.remarks.iter().for_each(|remark| err!("{remark}")));
        let mut runner = Runner::new(&loaded, self.compute)?;
        for (at, (length, texts)) in self.tests().enumerate() {
            progress.stage(&format!("{label}: {length} x{texts}"));
            let row = self.measure(&mut runner, (length, texts), ceilings)?;
            let row = Row { model: label.clone(), model_n_params: parameters, ..row };
            progress.quiet(|| print(report.format, &row, at == 0));
            report.keep(&row);
        }
        Ok(())
    }

    fn tests(&self) -> impl Iterator<Item = (Length, usize)> {
        self.flags.lengths.iter().flat_map(|length| self.flags.texts.iter().map(|texts| (*length, *texts)))
    }

    fn measure(
        &self,
        runner: &mut Runner<'_>,
        (length, texts): (Length, usize),
        ceilings: &mut Ceilings,
    ) -> Result<Row, Failure> {
        let batch = batch(length, texts, runner.loaded.model.spec.vocab);
        let numbers = match runner.loaded.format {
            Format::Int8 => Numbers::Int8,
            Format::Bf16 => Numbers::Bf16,
            Format::F32 => Numbers::F32,
        };
        runner.encode(&batch)?;
        let before = ceilings.peak(numbers);
        let mut samples_ns = Vec::with_capacity(self.repetitions);
        for _ in 0..self.repetitions {
            let began = Instant::now();
            runner.encode(&batch)?;
            samples_ns.push(began.elapsed().as_nanos() as f64);
        }
        let peak = before.max(ceilings.peak(numbers));
        let spec = &runner.loaded.model.spec;
        let work: u64 = batch.iter().map(|text| spec.encode_multiply_adds(text.len())).sum();
        let tokens: usize = batch.iter().map(Vec::len).sum();
        let rates: Vec<f64> = samples_ns.iter().map(|ns| 1e9 * texts as f64 / ns).collect();
        let ((avg_ns, stddev_ns), (avg_texts_s, stddev_texts_s)) =
            (mean_and_deviation(&samples_ns), mean_and_deviation(&rates));
        let rate = work as f64 / avg_ns;
        Ok(Row {
            model: String::new(),
            model_type: spec.family,
            model_n_params: 0,
            precision: runner.loaded.format.name(),
            cpu_info: self.machine.model_name.clone(),
            isa: self.compute.tier.to_string(),
            n_threads: self.compute.pool.threads(),
            test: format!("{length} x{texts}"),
            n_tokens: if let Length::Each(tokens) = length { Some(tokens) } else { None },
            n_texts: texts,
            batch_tokens: tokens,
            samples_ns,
            avg_ns,
            stddev_ns,
            avg_texts_s,
            stddev_texts_s,
            avg_ts: 1e9 * tokens as f64 / avg_ns,
            multiply_adds_per_token: work as f64 / tokens as f64,
            g_multiply_adds_per_s: rate,
            peak_numbers: numbers.name(),
            peak_g_multiply_adds_per_s: peak,
            peak_share: rate / peak,
        })
    }
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
                row.test.clone(),
                format!("{:.2} ± {:.2}", row.avg_texts_s, row.stddev_texts_s),
                format!("{:.0}", row.avg_ts),
                format!("{:.2}", row.avg_ns / 1e6),
                format!("{:.0} % {}", 100.0 * row.peak_share, row.peak_numbers),
            ]);
        }
        Output::Csv => csv(row, first),
        Output::Json => {}
    }
}

fn line(cells: [String; 10]) {
    let padded = cells.iter().zip(HEADS).enumerate().map(|(at, (cell, (_, width)))| {
        if at == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
    });
    out!("| {} |", padded.collect::<Vec<_>>().join(" | "));
}

/// The texts of a test, the same ones in each run.
fn batch(length: Length, texts: usize, vocab: usize) -> Vec<Vec<u32>> {
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let text = |at: usize| {
        let tokens = match length {
            Length::Each(tokens) => tokens,
            // Evenly spread, in an order that is not by length.
            Length::Mix => MIX.0 + (at * 7919 % texts) * (MIX.1 - MIX.0) / (texts - 1).max(1),
        };
        (0..tokens).map(|_| random.random_range(0..vocab as u32)).collect()
    };
    (0..texts).map(text).collect()
}

/// Encodes batches in steps as large as the engine's.
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
    fn a_mix_is_even_and_the_same_each_time() {
        let lengths = |texts| -> Vec<usize> { batch(Length::Mix, texts, 100).iter().map(Vec::len).collect() };
        let mut all = lengths(64);
        assert_ne!(all, {
            let mut sorted = all.clone();
            sorted.sort_unstable();
            sorted
        });
        all.sort_unstable();
        assert_eq!((all[0], all[63], all.iter().sum::<usize>() / 64), (5, 512, 258));
        assert_eq!(lengths(1), [5]);
        assert_eq!(batch(Length::Each(3), 2, 100), batch(Length::Each(3), 2, 100));
    }

    #[test]
    fn lengths_are_numbers_or_the_mix() {
        assert_eq!((Length::read("128"), Length::read("mix")), (Ok(Length::Each(128)), Ok(Length::Mix)));
        assert!(Length::read("0").is_err() && Length::read("long").is_err());
    }
}
