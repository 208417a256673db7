//! Ours beside other engines: the same file (for OpenVINO, vLLM and ONNX Runtime the same shape), the same cores, in turn.
//!
//! Both drift with the machine, by a fifth within the hour, so that only pairs count: each round runs ours and then every
//! variant of each peer, and a ratio is of two runs of one round. A peer is as fast as its best variant (repacking on or off).
//! One that cannot run a case is a dash in its line, and so is one that fails in it, which is told.
//!
//! What no peer's bench measures follows in a table of its own ([`alone`]).

mod alone;
mod llama;
mod mistralrs;
mod onnx;
mod openvino;
pub mod start;
mod vllm;

use crate::shell::{Done, call, cargo, output, root, write_whole};
use llama::Llama;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const PAGE: &str = "docs/performance.md";
const BEGIN: &str = "<!-- written by `cargo xtask peers`: begin -->";
const END: &str = "<!-- end -->";

pub const HELP: &str = "\
usage: cargo xtask peers [FLAGS] [CASE...]

  A case is SHAPE:FORMAT/TEST: qwen3-0.6b:q4_k_m/pp512, …/tg64, …/tg32x4 (streams decoded together after prompts of 128). A shape has
  random weights; NAME/TEST is a model of `gristmill pull`: qwen2.5-coder-1.5b-instruct/tg64.
  With @avx2 behind it, ours with --isa avx2 beside a llama.cpp built without AVX-512. `alone` is what ours does by itself: the
  published workload, depth, start (beside llama-server) and memory of the 4B shape. Without cases, all of the tables in
  docs/performance.md.

  --rounds N       rounds of ours and theirs (5)
  --threads N      threads of each program (2)
  --llama DIR      folder with llama-bench, llama-batched-bench and llama-server of llama.cpp; built from llama-cpp-python's sources
                   if left out
  --llama-avx2 DIR folder with the first two, built without AVX-512; built likewise if left out and a case wants it
  --ik DIR         folder with those of ik_llama.cpp; left out of the comparison if not given
  --openvino PYTHON
                   a Python with tools/peers/requirements.txt: OpenVINO GenAI in int8 beside q8_0, in int4 beside q4_0 and q4_k_m
  --vllm PYTHON    a Python with tools/peers/requirements-vllm.txt: vLLM's CPU backend beside bf16, with ZenDNN and without
  --mistralrs PYTHON
                   a Python with tools/peers/requirements-mistralrs.txt: mistral.rs, one stream
  --onnx PYTHON    a Python with tools/peers/requirements-onnx.txt: ONNX Runtime GenAI in int8 beside q8_0, in int4 beside q4_0 and
                   q4_k_m
  --write          put the tables into docs/performance.md
";

/// The table of docs/performance.md.
const CASES: [&str; 23] = [
    "qwen3-0.6b:q4_k_m/pp512",
    "qwen3-0.6b:q8_0/pp512",
    "qwen3-0.6b:q4_0/pp512",
    "qwen3-0.6b:bf16/pp512",
    "llama3.2-1b:q4_k_m/pp512",
    "llama3.2-1b:q8_0/pp512",
    "qwen3-4b:q4_k_m/pp512",
    "qwen3-0.6b:q4_k_m/tg64",
    "qwen3-0.6b:bf16/tg32",
    "llama3.2-1b:q4_k_m/tg64",
    "qwen3-4b:q4_k_m/tg32",
    "qwen3-0.6b:q4_k_m/tg32x4",
    "qwen3-0.6b:q4_k_m/tg32x8",
    "qwen3-0.6b:bf16/tg16x4",
    "qwen3-4b:q4_k_m/tg16x4",
    "qwen3-4b:q4_k_m/tg16x8",
    "qwen2.5-coder-1.5b-instruct/pp512",
    "qwen2.5-coder-1.5b-instruct/tg64",
    "qwen2.5-coder-1.5b-instruct/tg32x4",
    "gemma3-270m/pp512",
    "qwen3-0.6b:q4_k_m/pp512@avx2",
    "qwen3-0.6b:q8_0/pp512@avx2",
    "qwen3-0.6b:q4_k_m/tg64@avx2",
];
/// A model that is read in a moment.
const SMALLEST: &str = "smollm2-135m-instruct";
/// Behind a case: without AVX-512, ours and theirs.
const AVX2: &str = "@avx2";
/// The word for what ours does by itself.
const ALONE: &str = "alone";

/// The peers that are Python packages, in the table's order: the flag that names a Python with the package, and what makes one of it.
const PACKAGES: [(&str, Make); 4] = [
    ("--openvino", openvino::peer),
    ("--vllm", vllm::peer),
    ("--mistralrs", mistralrs::peer),
    ("--onnx", onnx::peer),
];

/// Makes a peer of the Python that has it.
type Make = fn(Python) -> Result<Peer, String>;

/// Tokens that each stream of a test with several holds before.
const BEFORE: usize = 128;

/// What is run: a prompt, or steps of one token for each stream.
#[derive(Clone, Copy)]
enum Test {
    Prompt(usize),
    Decode { steps: usize, streams: usize },
}

impl Test {
    fn is_of_one_stream(self) -> bool {
        matches!(self, Test::Prompt(_) | Test::Decode { streams: 1, .. })
    }

    /// As the scripts in tools/peers take it. Those of peers that run one stream know no others.
    fn flags(self) -> Vec<String> {
        match self {
            Test::Prompt(tokens) => vec!["--prompt".into(), tokens.to_string()],
            Test::Decode { steps, streams } => {
                let mut flags = vec!["--generate".into(), steps.to_string()];
                if streams > 1 {
                    let (streams, before) = (streams.to_string(), BEFORE.to_string());
                    flags.extend(["--streams".into(), streams, "--before".into(), before]);
                }
                flags
            }
        }
    }
}

struct Case {
    /// SHAPE:FORMAT of random weights, or the name of a model that can be pulled.
    model: String,
    test: Test,
    /// Whether it is without AVX-512.
    avx2: bool,
    name: String,
}

impl Case {
    fn parse(text: &str) -> Result<Case, String> {
        let wrong = || {
            format!(
                "`{text}` is no case: SHAPE:FORMAT or NAME, then /pp512, /tg64 or /tg32x4, and perhaps {AVX2}"
            )
        };
        let case = text.strip_suffix(AVX2);
        let avx2 = case.is_some();
        let (model, test) = case.unwrap_or(text).split_once('/').ok_or_else(wrong)?;
        let number = |text: &str| text.parse::<usize>().ok().filter(|n| *n > 0).ok_or_else(wrong);
        let test = match test.split_at_checked(2) {
            Some(("pp", n)) => Test::Prompt(number(n)?),
            Some(("tg", n)) => {
                let (steps, streams) = n.split_once('x').unwrap_or((n, "1"));
                Test::Decode { steps: number(steps)?, streams: number(streams)? }
            }
            _ => return Err(wrong()),
        };
        Ok(Case { model: model.to_owned(), test, avx2, name: text.to_owned() })
    }

    /// Nothing for a model that is no shape of random weights: peers that have a graph or weights of their own know none.
    fn shape(&self) -> &str {
        self.model.split_once(':').map_or("", |(shape, _)| shape)
    }

    /// Whether the shape is of one of the families that tools/peers/checkpoint.py knows and mistral.rs was tried with.
    fn qwen3_or_llama(&self) -> bool {
        ["qwen3-", "llama"].iter().any(|family| self.shape().starts_with(family))
    }

    /// What comes nearest to the file's weights where weights are integers of one width.
    fn integers(&self) -> Option<&'static str> {
        match self.format() {
            "q8_0" => Some("int8"),
            "q4_0" | "q4_k_m" => Some("int4"),
            _ => None,
        }
    }

    fn format(&self) -> &str {
        self.model.split_once(':').map_or("", |(_, format)| format)
    }
}

/// A program to compare with, and the flags to try it with.
struct Peer {
    name: &'static str,
    /// With its version, for the table's head.
    title: String,
    variants: &'static [&'static [&'static str]],
    bench: Box<dyn Bench>,
}

/// How a peer is measured.
trait Bench {
    /// Whether it can run the case, of which `file` has the shape; makes what it needs for that.
    fn ready(&self, case: &Case, file: &Path) -> Result<bool, String>;

    /// Whether it can be had without AVX-512 on a CPU that has it. Most take what instructions there are.
    fn without_avx512(&self) -> bool {
        false
    }

    /// Tokens a second.
    fn rate(&self, case: &Case, file: &Path, flags: &[&str], threads: &str) -> Result<f64, String>;
}

/// Where things are.
#[derive(Clone)]
struct Places {
    /// Our program.
    ours: PathBuf,
    /// What peers are built in and shapes are written to.
    cache: PathBuf,
}

impl Places {
    fn new() -> Result<Places, String> {
        Ok(Places { cache: cache()?, ours: ours()? })
    }

    /// The file that all programs read: of a shape, `SHAPE:FORMAT`, with random weights, or of a model that is pulled.
    fn file(&self, model: &str) -> Result<PathBuf, String> {
        if !model.contains(':') {
            // What it says has no place among the lines of a table.
            output(Command::new(&self.ours).args(["pull", model]))?;
            let inspected = parse(&output(Command::new(&self.ours).args(["inspect", model, "--json"]))?)?;
            let path = inspected["path"].as_str();
            return path.map(PathBuf::from).ok_or_else(|| format!("no file of {model}"));
        }
        let file = self.cache.join(format!("{}.gguf", model.replace(':', "-")));
        if !file.exists() {
            call(Command::new(&self.ours).args(["bench", "--shape", model, "--write"]).arg(&file))?;
        }
        Ok(file)
    }

    /// What `gristmill inspect --json` says of the case's file: what the scripts in tools/peers are told of a shape.
    fn inspected(&self, case: &Case) -> PathBuf {
        self.cache.join(format!("{}.json", case.shape()))
    }

    /// Writes [`Places::inspected`], and gives what it says.
    fn inspect(&self, case: &Case, file: &Path) -> Result<String, String> {
        let inspected = output(Command::new(&self.ours).arg("inspect").arg(file).arg("--json"))?;
        write_whole(&self.inspected(case), &inspected)?;
        Ok(inspected)
    }

    /// An error where less memory is free than `each` bytes for every weight of the case's shape: what a conversion takes
    /// beyond that, the machine may end it for, and others with it.
    fn room(&self, case: &Case, file: &Path, each: f64) -> Done {
        let need = each * number(&parse(&self.inspect(case, file)?)?, "parameters")?;
        let told = std::fs::read_to_string("/proc/meminfo").map_err(|e| format!("/proc/meminfo: {e}"))?;
        let free = available(&told).ok_or("/proc/meminfo does not say what is available")?;
        if need <= free {
            return Ok(());
        }
        let (shape, need, free) = (case.shape(), need / 1e9, free / 1e9);
        Err(format!("to convert {shape} takes {need:.0} GB of memory, and {free:.0} are free"))
    }
}

/// A Python that has a peer's package.
struct Python {
    path: PathBuf,
    places: Places,
}

impl Python {
    /// The last line of what `code` prints: what comes before is the libraries'.
    fn ask(&self, code: &str) -> Result<String, String> {
        let said = output(Command::new(&self.path).args(["-c", code]))?;
        Ok(said.lines().last().unwrap_or_default().to_owned())
    }

    /// Runs a script of the project's.
    fn script(&self, script: &str) -> Command {
        let mut command = Command::new(&self.path);
        command.arg(root().join(script));
        command
    }
}

struct Options {
    rounds: usize,
    threads: String,
    llama: Option<PathBuf>,
    ik: Option<PathBuf>,
    /// The Pythons of [`PACKAGES`].
    pythons: [Option<PathBuf>; PACKAGES.len()],
    llama_avx2: Option<PathBuf>,
    write: bool,
    cases: Vec<Case>,
    /// Whether what ours does by itself is measured, too.
    alone: bool,
}

impl Options {
    fn parse(args: &[&str]) -> Result<Options, String> {
        let mut options = Options {
            rounds: 5,
            threads: "2".into(),
            llama: None,
            ik: None,
            pythons: Default::default(),
            llama_avx2: None,
            write: false,
            cases: Vec::new(),
            alone: false,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().copied().ok_or_else(|| format!("{arg} needs a value\n{HELP}"));
            let number = |text: &str| text.parse::<usize>().ok().filter(|n| (1..=1000).contains(n));
            match *arg {
                "--rounds" => {
                    let text = value()?;
                    options.rounds = number(text).ok_or_else(|| format!("--rounds {text}: 1 to 1000"))?;
                }
                "--threads" => {
                    let text = value()?;
                    number(text).ok_or_else(|| format!("--threads {text}: 1 to 1000"))?;
                    options.threads = text.into();
                }
                "--llama" => options.llama = Some(value()?.into()),
                "--ik" => options.ik = Some(value()?.into()),
                "--llama-avx2" => options.llama_avx2 = Some(value()?.into()),
                "--write" => options.write = true,
                flag if flag.starts_with('-') => {
                    let package = PACKAGES.iter().position(|(name, _)| *name == flag);
                    let python = package.and_then(|package| options.pythons.get_mut(package));
                    *python.ok_or_else(|| format!("`{flag}` is no flag\n{HELP}"))? = Some(value()?.into());
                }
                ALONE => options.alone = true,
                case => options.cases.push(Case::parse(case)?),
            }
        }
        if options.cases.is_empty() && !options.alone {
            options.cases = CASES.into_iter().map(Case::parse).collect::<Result<_, _>>()?;
            options.alone = true;
        }
        Ok(options)
    }
}

pub fn run(args: &[&str]) -> Done {
    let options = Options::parse(args)?;
    let places = Places::new()?;
    let llama = match &options.llama {
        Some(folder) => folder.clone(),
        None => llama::build(&places.cache, false)?,
    };
    let mut tables = Vec::new();
    let peers = peers(&options, &places, &llama)?;
    if !options.cases.is_empty() {
        tables.push(beside(&options, &places, &peers)?);
    }
    if options.alone {
        let table = alone::table(&places, &llama, options.rounds, &options.threads)?;
        println!("{table}");
        tables.push(table);
    }
    if options.write { publish(&places.ours, &tables.join("\n\n"), &peers, args) } else { Ok(()) }
}

/// The table of ours beside theirs, each line of which is printed when it is known.
fn beside(options: &Options, places: &Places, peers: &[Peer]) -> Result<String, String> {
    let mut table = String::from("| case | Gristmill, t/s | of read · of peak |");
    peers
        .iter()
        .for_each(|peer| _ = write!(table, " {} t/s, best flags | Gristmill / {0}, spread |", peer.name));
    table.push_str("\n|---|---|---|");
    peers.iter().for_each(|_| table.push_str("---|---|"));
    for case in &options.cases {
        let file = places.file(&case.model)?;
        let line = compare(&places.ours, peers, case, &file, options)?;
        println!("{line}");
        table.push('\n');
        table.push_str(&line);
    }
    Ok(table)
}

fn peers(options: &Options, places: &Places, llama: &Path) -> Result<Vec<Peer>, String> {
    let avx2 = match &options.llama_avx2 {
        Some(folder) => Some(folder.clone()),
        None if options.cases.iter().any(|case| case.avx2) => Some(llama::build(&places.cache, true)?),
        None => None,
    };
    let mut peers = vec![Peer {
        name: "llama.cpp",
        title: format!("llama.cpp of {}", llama::PACKAGE),
        variants: llama::LLAMA,
        bench: Box::new(Llama { folder: llama.to_owned(), avx2 }),
    }];
    if let Some(folder) = &options.ik {
        peers.push(Peer {
            name: "ik_llama.cpp",
            title: llama::commit(folder, &places.file(SMALLEST)?)
                .map_or("ik_llama.cpp".into(), |commit| format!("ik_llama.cpp {commit}")),
            variants: llama::IK,
            bench: Box::new(Llama { folder: folder.clone(), avx2: None }),
        });
    }
    for (python, (_, make)) in options.pythons.iter().zip(PACKAGES) {
        if let Some(python) = python {
            peers.push(make(Python { path: python.clone(), places: places.clone() })?);
        }
    }
    Ok(peers)
}

/// How a variant of a peer did: what stands in the table for its fastest, and is told of each.
struct Beside {
    flags: String,
    /// Tokens a second, the median of the rounds.
    rate: f64,
    /// Ours by theirs in each round, the lowest first.
    ratios: Vec<f64>,
}

impl Beside {
    fn of(flags: &[&str], ours: &[f64], theirs: &[f64]) -> Beside {
        let mut ratios: Vec<f64> = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
        ratios.sort_by(f64::total_cmp);
        Beside { flags: flags.join(" "), rate: median(&mut theirs.to_vec()), ratios }
    }
}

impl std::fmt::Display for Beside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = |i: usize| self.ratios.get(i).copied().unwrap_or(f64::NAN);
        let last = self.ratios.len().saturating_sub(1);
        let (low, middle, high) = (at(0), at(self.ratios.len() / 2), at(last));
        let flags =
            if self.flags.is_empty() { "its defaults".to_owned() } else { format!("`{}`", self.flags) };
        write!(f, "{:.1} ({flags}) | **{middle:.2}** ({low:.2}–{high:.2})", self.rate)
    }
}

/// The rates of a peer's variants in a case, of each round. None where it cannot run the case, or failed in it.
struct Rates(Vec<Vec<f64>>);

impl Rates {
    fn ready(peer: &Peer, case: &Case, file: &Path) -> Rates {
        let able = match peer.bench.ready(case, file) {
            Ok(able) => able && (!case.avx2 || peer.bench.without_avx512()),
            Err(error) => {
                Rates::without(peer, case, &error);
                false
            }
        };
        Rates(if able { vec![Vec::new(); peer.variants.len()] } else { Vec::new() })
    }

    /// Measures each variant once.
    fn round(&mut self, peer: &Peer, case: &Case, file: &Path, threads: &str) {
        for (flags, rates) in peer.variants.iter().zip(&mut self.0) {
            match peer.bench.rate(case, file, flags, threads) {
                Ok(rate) => rates.push(rate),
                Err(error) => {
                    Rates::without(peer, case, &error);
                    self.0.clear();
                    return;
                }
            }
        }
    }

    /// Tells that a case goes on without a peer: an hour of others' figures is not to be lost.
    fn without(peer: &Peer, case: &Case, error: &str) {
        eprintln!("{}: {} is left out, as it failed: {error}", case.name, peer.name);
    }
}

/// One line of the table.
fn compare(
    ours: &Path,
    peers: &[Peer],
    case: &Case,
    file: &Path,
    options: &Options,
) -> Result<String, String> {
    let mut mine = Vec::new();
    let mut theirs: Vec<Rates> = peers.iter().map(|peer| Rates::ready(peer, case, file)).collect();
    let (mut read, mut peak) = (Vec::new(), Vec::new());
    for round in 1..=options.rounds {
        eprintln!("{}: round {round} of {}", case.name, options.rounds);
        let report = run_ours(ours, case, file, &options.threads)?;
        mine.push(number(&report, "avg_ts")?);
        read.extend(report["read_share"].as_f64());
        peak.extend(report["peak_share"].as_f64());
        for (peer, rates) in peers.iter().zip(&mut theirs) {
            rates.round(peer, case, file, &options.threads);
        }
    }
    let percent = |mut shares: Vec<f64>| match shares.is_empty() {
        true => "–".to_owned(),
        false => format!("{:.0} %", 100.0 * median(&mut shares)),
    };
    let mut line = format!(
        "| {} | {:.1} | {} · {} |",
        case.name,
        median(&mut mine.clone()),
        percent(read),
        percent(peak)
    );
    for (peer, Rates(rates)) in peers.iter().zip(theirs) {
        let variants = peer.variants.iter().zip(&rates).map(|(flags, rates)| Beside::of(flags, &mine, rates));
        let variants: Vec<Beside> = variants.collect();
        variants.iter().for_each(|v| eprintln!("{}: {} {}", case.name, peer.name, v));
        let best = variants.iter().max_by(|a, b| a.rate.total_cmp(&b.rate));
        _ = match best {
            Some(best) => write!(line, " {best} |"),
            None => write!(line, " – | – |"),
        };
    }
    Ok(line)
}

fn run_ours(ours: &Path, case: &Case, file: &Path, threads: &str) -> Result<Value, String> {
    let [prompt, steps, streams, depth] = match case.test {
        Test::Prompt(tokens) => [tokens, 0, 1, 0],
        Test::Decode { steps, streams } => [0, steps, streams, if streams > 1 { BEFORE } else { 0 }],
    };
    let numbers = [prompt, steps, streams, depth].map(|number| number.to_string());
    let flags = ["-p", "-n", "-b", "-d"].into_iter().zip(&numbers).flat_map(|(flag, number)| [flag, number]);
    let isa = if case.avx2 { &["--isa", "avx2"][..] } else { &[] };
    let flags: Vec<&str> = flags.chain(isa.iter().copied()).chain(["-r", "1"]).collect();
    let tests = bench(ours, file, threads, &flags)?;
    tests.first().cloned().ok_or_else(|| "gristmill bench reported no test".into())
}

/// What `gristmill bench` reports of each test.
fn bench(ours: &Path, file: &Path, threads: &str, flags: &[&str]) -> Result<Vec<Value>, String> {
    let mut command = Command::new(ours);
    command.arg("bench").arg(file).args(["-t", threads, "-o", "json"]).args(flags);
    match parse(&output(&mut command)?)? {
        Value::Array(tests) => Ok(tests),
        other => Err(format!("gristmill bench reported {other:.200}")),
    }
}

fn parse(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("no JSON ({error}): {text:.200}"))
}

fn number(value: &Value, key: &str) -> Result<f64, String> {
    value[key].as_f64().ok_or_else(|| format!("no number `{key}` in {value:.200}"))
}

/// Tokens a second in the last line: what comes before is the libraries'.
fn last_rate(text: &str) -> Result<f64, String> {
    number(&parse(text.lines().last().unwrap_or_default())?, "avg_ts")
}

/// Bytes that proc_meminfo(5) says are available.
fn available(told: &str) -> Option<f64> {
    let line = told.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<f64>().ok().map(|kib| kib * 1024.0)
}

/// Sorts, and gives the middle one.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Ours, built as it is released.
fn ours() -> Result<PathBuf, String> {
    call(&mut cargo(&["build", "--release", "--package", "cli", "--locked", "--quiet"]))?;
    Ok(target().join("release/gristmill"))
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Where peers are built and shapes are written: outside the checkout.
fn cache() -> Result<PathBuf, String> {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let folder = base.or_else(home).ok_or("neither XDG_CACHE_HOME nor HOME is set")?.join("gristmill-peers");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// Replaces the part of the page between the marks.
fn publish(ours: &Path, table: &str, peers: &[Peer], args: &[&str]) -> Done {
    let path = root().join(PAGE);
    let page = std::fs::read_to_string(&path).map_err(|error| format!("{PAGE}: {error}"))?;
    let parts = page.split_once(BEGIN).and_then(|(head, rest)| Some((head, rest.split_once(END)?.1)));
    let (head, tail) = parts.ok_or_else(|| format!("{PAGE} has no `{BEGIN}` … `{END}`"))?;
    let machine = machine(&parse(&output(Command::new(ours).args(["doctor", "--json"]))?)?)?;
    let date = output(Command::new("date").args(["-u", "+%Y-%m-%d"]))?;
    let with: Vec<&str> = peers.iter().map(|peer| peer.title.as_str()).collect();
    // Paths of one machine say nothing to the reader of another.
    let shown: Vec<&str> = args.iter().copied().map(without_path).collect();
    let text = format!(
        "{head}{BEGIN}\n{}, {machine}; {}. `cargo xtask peers {}`\n\n{table}\n{END}{tail}",
        date.trim(),
        with.join(", "),
        shown.join(" ")
    );
    write_whole(&path, &text)
}

/// What `gristmill doctor --json` says the machine is.
fn machine(doctor: &Value) -> Result<String, String> {
    let (cpu, cores) = (&doctor["model_name"], &doctor["cores"]);
    match (cpu.as_str(), cores.as_u64()) {
        (Some(cpu), Some(cores)) => Ok(format!("{cpu}, {cores} cores")),
        _ => Err(format!("`gristmill doctor --json` has model_name {cpu} and cores {cores}")),
    }
}

fn without_path(arg: &str) -> &str {
    let path = Path::new(arg);
    match arg.contains('/') {
        true if path.is_dir() => "DIR",
        true if path.is_file() => "PYTHON",
        _ => arg,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_has_its_rate_and_the_ratios_of_its_rounds() {
        let beside = Beside::of(&["-fa", "1"], &[30.0, 12.0, 40.0], &[10.0, 12.0, 20.0]);
        assert_eq!(beside.to_string(), "12.0 (`-fa 1`) | **2.00** (1.00–3.00)");
    }

    /// A table was once of a machine `unknown`.
    #[test]
    fn a_table_names_its_machine() {
        let doctor = parse(r#"{"model_name": "AMD EPYC", "cores": 2}"#).unwrap();
        assert_eq!(machine(&doctor).unwrap(), "AMD EPYC, 2 cores");
        assert!(machine(&parse(r#"{"cpu": "AMD EPYC"}"#).unwrap()).is_err());
    }

    #[test]
    fn cases_and_flags_are_read() {
        assert!(CASES.iter().all(|case| Case::parse(case).is_ok()));
        let case = Case::parse("qwen3-4b:q4_k_m/tg16x8").unwrap();
        assert!(matches!(case.test, Test::Decode { steps: 16, streams: 8 }));
        assert!(
            Case::parse("qwen3-4b").is_err()
                && Case::parse("a/xx5").is_err()
                && Case::parse("a/pp0").is_err()
        );
        assert_eq!((case.shape(), case.format()), ("qwen3-4b", "q4_k_m"));
        let pulled = Case::parse("qwen2.5-coder-1.5b-instruct/tg64").unwrap();
        assert_eq!((pulled.shape(), pulled.integers(), pulled.qwen3_or_llama()), ("", None, false));
        let options = Options::parse(&["--rounds", "3", "a:b/pp5", "--openvino", "venv/bin/python"]).unwrap();
        assert_eq!((options.rounds, options.cases.len()), (3, 1));
        assert_eq!(options.pythons, [Some("venv/bin/python".into()), None, None, None]);
        assert!(PACKAGES.iter().all(|(flag, _)| HELP.contains(&format!("\n  {flag} PYTHON"))));
        assert!(!options.alone && Options::parse(&[]).unwrap().alone);
        assert!(Options::parse(&[ALONE]).unwrap().cases.is_empty());
        let case = Case::parse("a:b/pp5@avx2").unwrap();
        assert!(case.avx2 && case.model == "a:b" && !Case::parse("a:b/pp5").unwrap().avx2);
        assert!(Options::parse(&["--rounds", "0"]).is_err() && Options::parse(&["--what"]).is_err());
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
    }

    #[test]
    fn free_memory_is_what_is_available() {
        assert_eq!(available("MemFree: 5 kB\nMemAvailable:   2 kB\n"), Some(2048.0));
        assert_eq!(available(""), None);
    }

    #[test]
    fn the_rate_is_in_the_last_line() {
        assert_eq!(last_rate("a warning\n{\"avg_ts\": 12.5}\n"), Ok(12.5));
        assert!(last_rate("").is_err() && last_rate("{}").is_err());
    }
}
