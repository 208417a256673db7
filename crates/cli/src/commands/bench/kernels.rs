//! `gristmill bench kernels`: matrix products alone, so that a kernel's change is seen without a model around it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use cpu::measure::{self, Ceilings, RoundTrip};
use cpu::probe::Machine;
use cpu::{Pool, Tier};
use kernels::{Activations, Compute, Matrix, Precision};
use serde::Serialize;
use tensor::Dtype;

use super::progress::Progress;
use super::subject::numbers;
use crate::term::out;
use crate::{Failure, flags, loading, term};

/// Weight rows and columns: in f32 a megabyte, which the second cache of today's CPUs holds.
const SHAPE: (usize, usize) = (256, 1024);
/// Rows of activations: one stream's decode to a chunk of a prompt.
const ROWS: [usize; 7] = [1, 2, 4, 8, 16, 64, 512];
/// From so many on they are of a prompt.
const PROMPT: usize = 64;
/// The best of so many passes of at least this time counts.
const PASSES: usize = 5;
const PASS: Duration = Duration::from_millis(10);

#[derive(clap::Args)]
pub(super) struct Args {
    /// Formats to measure [default: all].
    #[arg(long, value_name = "FORMAT,…", value_delimiter = ',')]
    formats: Vec<Dtype>,

    /// Instruction tiers to measure [default: all that this machine has].
    #[arg(long, value_name = "TIER,…", value_delimiter = ',')]
    isa: Vec<Tier>,

    /// Print one JSON array.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    prompts: flags::Prompts,
}

#[derive(Serialize)]
struct Row {
    format: String,
    isa: String,
    rows: usize,
    g_multiply_adds_per_s: f64,
    peak_numbers: &'static str,
    peak_g_multiply_adds_per_s: f64,
    /// Of 1.
    peak_share: f64,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let machine = cpu::probe::detect();
    let available = Tier::available();
    if let Some(lacking) = args.isa.iter().find(|tier| !available.contains(tier)) {
        let names: Vec<String> = available.iter().map(ToString::to_string).collect();
        return Err(Failure::usage(format!(
            "this machine lacks --isa {lacking}; it has: {}",
            names.join(", ")
        )));
    }
    let tiers = if args.isa.is_empty() { available } else { args.isa.clone() };
    let formats = if args.formats.is_empty() { Dtype::ALL.to_vec() } else { args.formats.clone() };
    let progress = Progress::new();
    if !args.json {
        let trip = round_trip(&machine)?;
        let (threads, best, median) = (trip.threads, trip.best_us, trip.median_us);
        let text = format!(
            "a round of {} that find nothing to do: {best:.2} µs at best, {median:.2} in the middle",
            term::number(threads, "thread")
        );
        progress.quiet(|| out!("{text}"));
        let rows = ROWS.map(|rows| format!("{:>14}", format!("{rows} rows")));
        progress
            .quiet(|| out!("{:<8}{:<9}{}  G multiply-adds/s, % of peak", "format", "tier", rows.join("")));
    }
    let mut all = Vec::new();
    for &tier in &tiers {
        let pool = Pool::new(1, machine.pin_cpus().as_deref())
            .map_err(|error| Failure::new(format!("cannot start a compute thread: {error}")))?;
        let prompt_tiles = args.prompts.prompt_tiles;
        let compute = Compute { prompt_tiles, ..Compute::new(tier, pool) };
        compute.pool.pin_caller();
        let ceilings = Ceilings::new(&machine, tier, 1);
        for &dtype in &formats {
            progress.stage(&format!("{dtype} on {tier}"));
            let peak = ceilings.peak(numbers(dtype));
            let rows = products(&compute, dtype, peak)?;
            if !args.json {
                let cells = rows.iter().map(|row| {
                    let share = format!("{:.1} {:>3.0} %", row.g_multiply_adds_per_s, 100.0 * row.peak_share);
                    format!("{share:>14}")
                });
                let cells: String = cells.collect();
                progress.quiet(|| out!("{:<8}{:<9}{cells}", dtype.name(), tier.name()));
            }
            all.extend(rows);
        }
    }
    drop(progress);
    if args.json { term::json(&all) } else { Ok(()) }
}

/// What handing a job to all of the machine's threads costs: a forward pass does it five times a layer.
fn round_trip(machine: &Machine) -> Result<RoundTrip, Failure> {
    let compute = loading::compute(machine, machine.tier, machine.threads, flags::Prompts::default())?;
    compute.pool.pin_caller();
    Ok(measure::round_trip(&compute.pool))
}

/// One format on one tier, at every number of rows.
fn products(compute: &Compute, dtype: Dtype, peak: f64) -> Result<Vec<Row>, Failure> {
    let (outputs, cols) = SHAPE;
    let weights: Vec<f32> = (0..outputs * cols).map(|i| wave(i) * 0.02).collect();
    let mut bytes = Vec::new();
    tensor::format::quantize(dtype, &weights, &mut bytes)?;
    let matrix = Matrix::pack(compute, dtype, outputs, cols, &bytes, Precision::Fast)?;
    let most = ROWS[ROWS.len() - 1];
    let mut activations = Activations::new(most, cols);
    let mut out = cpu::AlignedVec::new(most * outputs);
    let mut row = |rows: usize| {
        let x: Vec<f32> = (0..rows * cols).map(|i| wave(3 * i + 1)).collect();
        let answers = if rows < PROMPT { rows } else { 0 };
        activations.set(compute, &x, cols, matrix.activations(), answers);
        let out = &mut out[..rows * outputs];
        let products = (rows * outputs * cols) as f64;
        let rate =
            best(products, || kernels::matmul(compute, black_box(&matrix), &activations, black_box(out)));
        Row {
            format: dtype.to_string(),
            isa: compute.tier.to_string(),
            rows,
            g_multiply_adds_per_s: rate,
            peak_numbers: numbers(dtype).name(),
            peak_g_multiply_adds_per_s: peak,
            peak_share: rate / peak,
        }
    };
    Ok(ROWS.iter().map(|&rows| row(rows)).collect())
}

/// The best pass's multiply-adds a nanosecond.
fn best(products: f64, mut work: impl FnMut()) -> f64 {
    work();
    let mut best = 0.0_f64;
    for _ in 0..PASSES {
        let (start, mut done) = (Instant::now(), 0.0);
        while start.elapsed() < PASS {
            work();
            done += products;
        }
        best = best.max(done / start.elapsed().as_nanos() as f64);
    }
    best
}

/// Uneven numbers from -1 to 1.
fn wave(i: usize) -> f32 {
    (i as f32 * 0.618_034).fract().mul_add(2.0, -1.0)
}
