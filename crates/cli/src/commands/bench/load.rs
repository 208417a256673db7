//! `gristmill bench load`: how long a model takes from the decision to load it until it answers, part by part, as a server
//! of several models loads it; and what memory is left after many loads.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use cpu::probe::Machine;
use cpu::usage::Meter;
use engine::encoder::{EncodeCosts, EncodeError, EncoderHandle, EncoderSetup, Job, Reply, Text, Want};
use engine::{Device, Engine, MemoryBudget, Request, Setup};
use kernels::Precision;
use model::{Model, PackedCache};
use serde::Serialize;
use text::{EncodeOptions, Special, TextOrPair};

use crate::encoders::{self, EncoderOptions};
use crate::flags::How;
use crate::found::Found;
use crate::loading::{self, LoadTimes, Wish};
use crate::store::size;
use crate::term::{err, out};
use crate::{Failure, flags, term};

/// Bytes of the KV cache of a generating model: what one of several models may get.
const KV_BYTES: u64 = 256 << 20;
/// The text of the first answer.
const FIRST: &str = "How long does a warm start take?";
/// The longest wait for the first answer.
const PATIENCE: Duration = Duration::from_secs(120);
/// Loads after which memory is measured first, of many.
const SETTLED: usize = 100;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Models to load: catalog names, paths or sources.
    #[arg(value_name = "MODEL", required = true)]
    models: Vec<String>,

    /// Loads of each kind, of which the median counts; after 200 and more the memory is told that they leave behind.
    #[arg(long, short = 'r', value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,

    /// Do not measure cold loads, which pack the weights anew.
    #[arg(long)]
    warm_only: bool,

    /// Print one JSON array.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    encoders: flags::Encoders,

    #[command(flatten)]
    compute: flags::Compute,

    #[command(flatten)]
    kv: flags::Kv,

    #[command(flatten)]
    packed: flags::Packed,
}

/// The times of a load in milliseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Times {
    /// Opening the files, reading the spec.
    open_ms: f64,
    /// The digest of the files, the format, the memory.
    plan_ms: f64,
    tokenizer_ms: f64,
    weights_ms: f64,
    buffers_ms: f64,
    /// The engine and its thread.
    start_ms: f64,
    /// All of these; a decoder's tokenizer and weights go side by side.
    ready_ms: f64,
    /// The first answer after that.
    first_answer_ms: f64,
    unload_ms: f64,
}

/// A part's name, and how to get at its time.
type Part = (&'static str, fn(&mut Times) -> &mut f64);

const PARTS: [Part; 9] = [
    ("open", |times| &mut times.open_ms),
    ("plan", |times| &mut times.plan_ms),
    ("tokenizer", |times| &mut times.tokenizer_ms),
    ("weights", |times| &mut times.weights_ms),
    ("buffers", |times| &mut times.buffers_ms),
    ("start", |times| &mut times.start_ms),
    ("ready", |times| &mut times.ready_ms),
    ("answer", |times| &mut times.first_answer_ms),
    ("unload", |times| &mut times.unload_ms),
];

/// The loads of a model.
#[derive(Serialize)]
struct Row {
    model: String,
    /// `cold` or `warm`.
    kind: &'static str,
    /// How packed files come into memory.
    packed_cache: String,
    loads: usize,
    /// The medians.
    #[serde(flatten)]
    median: Times,
    /// The shortest time of each part: what a machine that does nothing else needs.
    shortest: Times,
    /// Resident and anonymous memory after 100 loads and after all.
    memory: Option<[Memory; 2]>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Memory {
    loads: usize,
    resident_bytes: u64,
    anonymous_bytes: u64,
}

/// What all loads have in common.
struct Bench<'a> {
    args: &'a Args,
    machine: Machine,
    device: Device,
    meter: Meter,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let machine = cpu::probe::detect();
    let (tier, threads) = (args.compute.tier()?, args.compute.threads(&machine)?);
    let compute = loading::compute(&machine, tier, threads, flags::Prompts::default())?;
    let limit = machine.memory_available_bytes.min(machine.memory_limit_bytes);
    let device = Device::new(compute, MemoryBudget::new(limit));
    let bench = Bench { args, meter: Meter::new(&machine), machine, device };
    let mut rows = Vec::new();
    if !args.json {
        let heads = PARTS.map(|(name, _)| format!("{name:>10}"));
        out!("{:<32}{:<6}{}  ms, medians", "model", "kind", heads.join(""));
    }
    for model in &args.models {
        if !args.warm_only {
            rows.push(bench.row(model, "cold", PackedCache::Off)?);
        }
        let cache = args.packed.cache_of_several();
        if cache != PackedCache::Off {
            // The first load writes what the others start from.
            let (_, is_packed) = bench.load(model, cache)?;
            if !is_packed {
                bench.load(model, cache)?;
            }
            rows.push(bench.row(model, "warm", cache)?);
        }
    }
    if args.json { term::json(&rows) } else { Ok(()) }
}

impl Bench<'_> {
    fn row(&self, model: &str, kind: &'static str, cache: PackedCache) -> Result<Row, Failure> {
        let loads = usize::from(self.args.repetitions);
        let mut all = Vec::new();
        let mut first = None;
        for at in 1..=loads {
            let (times, is_packed) = self.load(model, cache)?;
            if cache != PackedCache::Off && !is_packed {
                err!("{model}: nothing was loaded from packed files; the lines above say why");
            }
            all.push(times);
            if at == SETTLED && loads >= 2 * SETTLED {
                first = Some(self.memory(at));
            }
        }
        let (mut median, mut shortest) = (Times::default(), Times::default());
        for (_, part) in PARTS {
            let mut values: Vec<f64> = all.iter_mut().map(|times| *part(times)).collect();
            values.sort_by(f64::total_cmp);
            (*part(&mut median), *part(&mut shortest)) = (values[values.len() / 2], values[0]);
        }
        let memory = first.map(|first| [first, self.memory(loads)]);
        let packed_cache = format!("{cache:?}").to_lowercase();
        let row = Row { model: model.to_owned(), kind, packed_cache, loads, median, shortest, memory };
        if !self.args.json {
            row.print();
        }
        Ok(row)
    }

    fn memory(&self, loads: usize) -> Memory {
        let used = self.meter.read();
        let (resident, anonymous) = (used.resident_bytes, used.anonymous_bytes);
        Memory {
            loads,
            resident_bytes: resident.unwrap_or_default(),
            anonymous_bytes: anonymous.unwrap_or_default(),
        }
    }

    /// Loads a model, has it answer, and unloads it; also whether it came from packed files.
    fn load(&self, model: &str, cache: PackedCache) -> Result<(Times, bool), Failure> {
        let began = Instant::now();
        let found = Found::find(model)?;
        let open_ms = ms(began);
        let (mut times, parts) = if found.encodes() {
            self.encoder(found, cache, began)?
        } else {
            self.decoder(found, cache, began)?
        };
        times.open_ms = open_ms;
        times.plan_ms -= open_ms;
        times.tokenizer_ms = parts.tokenizer.as_secs_f64() * 1e3;
        times.weights_ms = parts.weights.as_secs_f64() * 1e3;
        times.buffers_ms = parts.buffers.as_secs_f64() * 1e3;
        Ok((times, parts.is_packed))
    }

    fn encoder(
        &self,
        found: Found,
        packed: PackedCache,
        began: Instant,
    ) -> Result<(Times, LoadTimes), Failure> {
        let format = self.args.encoders.encoder_format;
        let compute = &self.args.compute;
        let options = EncoderOptions { compute, format, context: None, shared: true, packed };
        let planned = encoders::plan(found, &options)?;
        let plan_ms = ms(began);
        let loaded = planned.load_with(&self.single_threaded()?, &mut |_| ())?;
        loaded.remarks.iter().for_each(|remark| err!("{remark}"));
        let (parts, loaded_at) = (loaded.times, Instant::now());
        let want = want(&loaded.model).ok_or_else(|| Failure::new("the model has no output"))?;
        let setup = EncoderSetup::new("bench", encoders::limits(loaded.facts.max_tokens));
        let encoding = loaded.start(&self.device, setup)?;
        let (start_ms, ready_ms, ready) = (ms(loaded_at), ms(began), Instant::now());
        let input = encoding.text.encode(&TextOrPair::Text(FIRST), &EncodeOptions::new(64))?;
        let text = Text { tokens: input.tokens, types: input.types, skip: 0 };
        answer(&encoding.engine, want, text)?;
        let (first_answer_ms, answered) = (ms(ready), Instant::now());
        encoding.engine.drain(PATIENCE);
        drop(encoding);
        let times = Times { plan_ms, start_ms, ready_ms, first_answer_ms, ..Times::default() };
        Ok((Times { unload_ms: ms(answered), ..times }, parts))
    }

    fn decoder(
        &self,
        found: Found,
        packed: PackedCache,
        began: Instant,
    ) -> Result<(Times, LoadTimes), Failure> {
        let name = found.name.clone();
        let speculate = flags::Speculate { speculate: How::Auto, draft_model: None, draft_tokens: 8 };
        let wish = Wish {
            model: &name,
            compute: &self.args.compute,
            precision: Precision::Fast,
            prompts: flags::Prompts::default(),
            kv: self.args.kv,
            context: None,
            max_running: self.machine.threads,
            speculate: &speculate,
            packed,
            kv_room: Some(KV_BYTES),
        };
        let planned = loading::plan_found(found, &wish)?;
        let plan_ms = ms(began);
        let loaded = planned.load_with(self.single_threaded()?, &mut |_| ())?;
        loaded.remarks.iter().for_each(|remark| err!("{remark}"));
        let (parts, loaded_at) = (loaded.times, Instant::now());
        let setup = Setup::new(loaded.tokenizer.clone(), loaded.limits);
        let handle = Engine::start_on(&self.device, loaded.model, loaded.draft, setup)?;
        let (start_ms, ready_ms, ready) = (ms(loaded_at), ms(began), Instant::now());
        let prompt = loaded.tokenizer.encode(FIRST, Special::Plain, true)?;
        let (outbox, events) = channel();
        let request = Request { prompt, max_tokens: Some(1), ..Request::default() };
        let ticket = handle.submit(request, Box::new(outbox))?;
        ended(&events)?;
        let (first_answer_ms, answered) = (ms(ready), Instant::now());
        drop((ticket, events));
        handle.drain(PATIENCE);
        drop((handle, loaded.tokenizer, loaded.template));
        let times = Times { plan_ms, start_ms, ready_ms, first_answer_ms, ..Times::default() };
        Ok((Times { unload_ms: ms(answered), ..times }, parts))
    }

    /// Kernels to load with, as a server of several models does.
    fn single_threaded(&self) -> Result<kernels::Compute, Failure> {
        let compute = self.device.single_threaded();
        compute.map_err(|error| Failure::new(format!("no kernels to load with: {error}")))
    }
}

impl Row {
    fn print(&self) {
        let mut median = self.median;
        let cells = PARTS.map(|(_, part)| format!("{:>10.2}", part(&mut median)));
        out!("{:<32}{:<6}{}", term::clean(&self.model), self.kind, cells.join(""));
        for Memory { loads, resident_bytes, anonymous_bytes } in self.memory.iter().flatten() {
            let (resident, anonymous) = (size(*resident_bytes), size(*anonymous_bytes));
            out!("    after {loads} loads: {resident} resident, {anonymous} of it anonymous");
        }
    }
}

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// An output that the model has.
fn want(model: &Model) -> Option<Want> {
    let heads = model.spec.encoder.as_deref()?;
    let all = [
        (heads.dense.is_some(), Want::Dense),
        (heads.classifier.is_some(), Want::Logits),
        (heads.token_classifier.is_some(), Want::TokenLogits),
        (heads.sparse.is_some(), Want::Sparse),
        (heads.multi_vector.is_some(), Want::Tokens),
    ];
    all.into_iter().find(|(has, _)| *has).map(|(_, want)| want)
}

/// Tells when a job is done.
struct Done(Sender<Result<(), EncodeError>>);

impl Reply for Done {
    fn text(&mut self, _index: usize, _values: &[f32]) {}

    fn done(&mut self, outcome: Result<(), EncodeError>, _costs: EncodeCosts) {
        let _ = self.0.send(outcome);
    }
}

/// Has a text encoded.
fn answer(engine: &EncoderHandle, want: Want, text: Text) -> Result<(), Failure> {
    let (sender, receiver) = channel();
    let reply = Box::new(Done(sender));
    let job = Job { client: 0, want, texts: vec![text], deadline: None, reply };
    let ticket = engine.submit(job).map_err(|refused| Failure::new(refused.to_string()))?;
    let outcome =
        receiver.recv_timeout(PATIENCE).map_err(|error| Failure::new(format!("no answer: {error}")));
    drop(ticket);
    outcome?.map_err(|error| Failure::new(error.to_string()))
}

/// Waits for the end of a request.
fn ended(events: &Receiver<engine::Event>) -> Result<(), Failure> {
    loop {
        match events.recv_timeout(PATIENCE) {
            Ok(_) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => return Err(Failure::new("no answer")),
        }
    }
}
