//! `gristmill bench`: how fast a model runs here, and how far that is from what the machine can do.
//! `docs/bench.md` is its manual.
//!
//! The tests and the columns are llama-bench's, so that figures stand side by side. The forward pass is driven
//! directly: no tokenizer, no sampling, no server.

mod encoder;
mod kernels;
mod load;
mod progress;
mod report;
mod runner;
mod serve;
mod subject;
mod test;
pub(crate) mod tune;

use std::path::{Path, PathBuf};

use cpu::measure::Ceilings;

use crate::term::err;
use crate::{Failure, flags, loading, store};
use progress::Progress;
use report::{Format, Report, Row};
use runner::Runner;
use subject::{Either, Subject};

/// Measures prefill (pp) and decode (tg) as llama-bench does, and says how far each is from the machine's limits.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,

    /// Models to measure: catalog names, paths or sources; also names of published shapes, as qwen3-4b:q4_k_m.
    #[arg(value_name = "MODEL")]
    models: Vec<String>,

    /// A published shape with random weights, NAME:FORMAT [format: q4_k_m unless given]; may be given again.
    #[arg(long = "shape", value_name = "SHAPE")]
    shapes: Vec<String>,

    /// Write the shape to a GGUF file instead of measuring it, for other programs.
    #[arg(long, value_name = "FILE", requires = "shapes", conflicts_with = "models")]
    write: Option<PathBuf>,

    /// Prompt tokens to compute; 0 for no such test.
    #[arg(long, short = 'p', value_name = "N,…", value_delimiter = ',', default_value = "512")]
    prompt: Vec<usize>,

    /// Tokens to generate; 0 for no such test.
    #[arg(long = "gen", short = 'n', value_name = "N,…", value_delimiter = ',', default_value = "128")]
    generate: Vec<usize>,

    /// Streams that run together. Above 1: generation of all at once, and prompts and generation mixed as a server
    /// does.
    #[arg(long, short = 'b', value_name = "N,…", value_delimiter = ',', default_value = "1")]
    streams: Vec<usize>,

    /// Tokens that each stream holds before the test begins.
    #[arg(long, short = 'd', value_name = "N,…", value_delimiter = ',', default_value = "0")]
    depth: Vec<usize>,

    #[command(flatten)]
    encoders: encoder::Flags,

    /// Runs of each test, after one to warm up.
    #[arg(long, short = 'r', value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,

    /// How to print.
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "md")]
    output: Format,

    /// The same as `--output json`.
    #[arg(long, conflicts_with = "output")]
    json: bool,

    #[command(flatten)]
    compute: flags::Compute,

    #[command(flatten)]
    prompts: flags::Prompts,

    #[command(flatten)]
    kv: flags::Kv,

    #[command(flatten)]
    packed: flags::Packed,
}

#[derive(clap::Subcommand)]
enum What {
    /// Measure matrix products alone: each format, tier and number of rows, on one thread, weights in cache.
    Kernels(kernels::Args),
    /// Measure how long models take to load, part by part: cold, packing their weights, and warm, from packed files.
    Load(load::Args),
    /// Put load on a server with the OpenAI API and measure it, by the definitions of `vllm bench serve`.
    Serve(Box<serve::Args>),
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    match args.what {
        Some(What::Kernels(args)) => return kernels::run(&args),
        Some(What::Load(args)) => return load::run(&args),
        Some(What::Serve(args)) => return serve::run(&args),
        None => {}
    }
    let machine = cpu::probe::detect();
    let (tier, threads) = (args.compute.tier()?, args.compute.threads(&machine)?);
    let compute = loading::compute(&machine, tier, threads, args.prompts)?;
    if let Some(file) = &args.write {
        return match &args.shapes[..] {
            [shape] => write(shape, file, &compute.pool),
            shapes => Err(Failure::usage(format!("--write takes one --shape, not {}", shapes.len()))),
        };
    }
    let tests = test::list(&args.prompt, &args.generate, &args.streams, &args.depth)?;
    let subjects = Subject::all(&args.models, &args.shapes)?;
    compute.pool.pin_caller();
    let mut ceilings = Ceilings::new(&machine, tier, threads);
    let mut report = Report::begin(if args.json { Format::Json } else { args.output });
    for subject in subjects {
        let subject = match subject.encoder()? {
            Either::Other(subject) => subject,
            Either::Encoder(found) => {
                let bench = encoder::Bench {
                    flags: &args.encoders,
                    compute_flags: &args.compute,
                    machine: &machine,
                    compute: &compute,
                    repetitions: args.repetitions.into(),
                };
                bench.run(*found, &mut ceilings, &mut report)?;
                continue;
            }
        };
        let progress = Progress::new();
        let chunk = engine::Limits::default().prefill_chunk;
        let kv = args.kv.dtype(tier);
        let mut runner =
            Runner::load(&subject, &machine, &compute, kv, &tests, chunk, args.packed, &progress)?;
        for test in &tests {
            let measured = runner.measure(test, args.repetitions.into(), &mut ceilings, &progress)?;
            let row = Row::new(test, &measured, &runner, &machine);
            progress.quiet(|| report.add(row));
        }
    }
    report.end()
}

/// Writes the shape `text` to `file`.
fn write(text: &str, file: &Path, pool: &cpu::Pool) -> Result<(), Failure> {
    let (shape, recipe) = subject::shape(text)?;
    let opened = shape.open(recipe, subject::SEED, pool)?;
    let metadata = opened.metadata().gguf().cloned().unwrap_or_default();
    let tensors: Vec<weights::Tensor<'_>> =
        opened.tensors().filter_map(|tensor| opened.tensor(tensor.name)).collect();
    let bytes = tensors.iter().map(|tensor| tensor.bytes.len() as u64).sum();
    weights::gguf::write(file, &metadata, &tensors)
        .map_err(|error| Failure::new(format!("cannot write {}: {error}", file.display())))?;
    err!("{}: {} of random weights in {}", shape.label(recipe), store::size(bytes), file.display());
    Ok(())
}
