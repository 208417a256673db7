//! Benchmarks of Gristmill and other engines (peers) on the same file (for OpenVINO, vLLM and ONNX Runtime the same
//! shape) and the same cores, in turn.
//!
//! Rates drift with the machine, by a fifth within the hour, so only pairs are compared: each round runs Gristmill and
//! then every variant of each peer, and a ratio is of two runs of one round. The best variant of a peer counts
//! (repacking on or off). A peer that cannot run a case, or fails in it, has a dash in its line; failures are printed.
//!
//! Measurements without a counterpart in the peers' benchmarks are in a second table ([`alone`]). Encoders have peers and
//! tables of their own ([`encoders`]).

mod alone;
mod encoders;
mod llama;
mod mistralrs;
mod onnx;
mod openvino;
mod page;
pub mod start;
mod vllm;

use crate::shell::{TaskResult, call, cargo, output, root, write_whole};
use llama::Llama;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

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

  `cargo xtask peers encoders --help` has the comparison of encoders.
";

/// The cases of the table in docs/performance.md.
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
/// A model that loads quickly.
const SMALLEST: &str = "smollm2-135m-instruct";
/// Suffix of a case that runs without AVX-512, for Gristmill and the peers.
const AVX2: &str = "@avx2";
/// The name of the table of Gristmill alone.
const ALONE: &str = "alone";

/// The peers that are Python packages, in the table's order: the flag that names a Python with the package, and the
/// peer's constructor.
const PACKAGES: [(&str, Make); 4] = [
    ("--openvino", openvino::peer),
    ("--vllm", vllm::peer),
    ("--mistralrs", mistralrs::peer),
    ("--onnx", onnx::peer),
];

/// Constructor of a peer from a Python with its package.
type Make = fn(Python) -> Result<Peer, String>;

/// Context tokens of each stream in a test with several streams.
const CONTEXT_TOKENS: usize = 128;

/// A test: prefill of a prompt, or decode steps of one or more streams.
#[derive(Clone, Copy)]
enum Test {
    Prompt(usize),
    Decode { steps: usize, streams: usize },
}

impl Test {
    fn is_of_one_stream(self) -> bool {
        matches!(self, Test::Prompt(_) | Test::Decode { streams: 1, .. })
    }

    /// The flags of the test for the scripts in tools/peers. Scripts of single-stream peers have none for streams.
    fn flags(self) -> Vec<String> {
        match self {
            Test::Prompt(tokens) => vec!["--prompt".into(), tokens.to_string()],
            Test::Decode { steps, streams } => {
                let mut flags = vec!["--generate".into(), steps.to_string()];
                if streams > 1 {
                    let (streams, before) = (streams.to_string(), CONTEXT_TOKENS.to_string());
                    flags.extend(["--streams".into(), streams, "--before".into(), before]);
                }
                flags
            }
        }
    }
}

struct Case {
    /// SHAPE:FORMAT of random weights, or the name of a model for `gristmill pull`.
    model: String,
    test: Test,
    /// Whether the case runs without AVX-512.
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

    /// The shape; empty for a model without one, which peers with their own graphs or weights cannot run.
    fn shape(&self) -> &str {
        self.model.split_once(':').map_or("", |(shape, _)| shape)
    }

    /// Whether the shape is of a family that tools/peers/checkpoint.py supports and mistral.rs was tested with.
    fn qwen3_or_llama(&self) -> bool {
        ["qwen3-", "llama"].iter().any(|family| self.shape().starts_with(family))
    }

    /// The nearest integer format to the file's weights, for peers with weights of one width.
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

/// A peer, with the flags of its variants.
struct Peer {
    name: &'static str,
    /// Name and version, for the table's head.
    title: String,
    variants: &'static [&'static [&'static str]],
    bench: Box<dyn Bench>,
}

/// The benchmark of a peer.
trait Bench {
    /// Whether the peer can run the case, whose shape is that of `file`. Converts the model if necessary.
    fn ready(&self, case: &Case, file: &Path) -> Result<bool, String>;

    /// Whether the peer can run without AVX-512 on a CPU that has it. Most use all instructions of the CPU.
    fn without_avx512(&self) -> bool {
        false
    }

    /// Measures the peer's rate, in tokens a second.
    fn rate(&self, case: &Case, file: &Path, flags: &[&str], threads: &str) -> Result<f64, String>;
}

/// Paths of programs and files.
#[derive(Clone)]
struct Paths {
    /// The program `gristmill`.
    ours: PathBuf,
    /// Folder in which peers are built and shapes are written.
    cache: PathBuf,
}

impl Paths {
    fn new() -> Result<Paths, String> {
        Ok(Paths { cache: cache()?, ours: ours()? })
    }

    /// The file that all programs read: random weights of a shape (`SHAPE:FORMAT`), or a downloaded model.
    fn file(&self, model: &str) -> Result<PathBuf, String> {
        if !model.contains(':') {
            // The output must not appear between the lines of a table.
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

    /// Path of the output of `gristmill inspect --json` for the case's file, which scripts in tools/peers read.
    fn inspected(&self, case: &Case) -> PathBuf {
        self.cache.join(format!("{}.json", case.shape()))
    }

    /// Writes [`Paths::inspected`] and returns its text.
    fn inspect(&self, case: &Case, file: &Path) -> Result<String, String> {
        let inspected = output(Command::new(&self.ours).arg("inspect").arg(file).arg("--json"))?;
        write_whole(&self.inspected(case), &inspected)?;
        Ok(inspected)
    }

    /// Checks that `each` bytes of memory for every weight of the case's shape are available. Without them, the system
    /// may kill the conversion, and other programs with it.
    fn check_memory(&self, case: &Case, file: &Path, each: f64) -> TaskResult {
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

/// A Python with a peer's package.
struct Python {
    path: PathBuf,
    paths: Paths,
}

impl Python {
    /// The last line that `code` prints; libraries may print lines before it.
    fn ask(&self, code: &str) -> Result<String, String> {
        let said = output(Command::new(&self.path).args(["-c", code]))?;
        Ok(said.lines().last().unwrap_or_default().to_owned())
    }

    /// The command of a script of this project.
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
    /// The Pythons for [`PACKAGES`], if given.
    pythons: [Option<PathBuf>; PACKAGES.len()],
    llama_avx2: Option<PathBuf>,
    write: bool,
    cases: Vec<Case>,
    /// Whether to measure the table of Gristmill alone, too.
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

pub fn run(args: &[&str]) -> TaskResult {
    if let [encoders::WORD, rest @ ..] = args {
        return encoders::run(rest);
    }
    let options = Options::parse(args)?;
    let paths = Paths::new()?;
    let llama = match &options.llama {
        Some(folder) => folder.clone(),
        None => llama::build(&paths.cache, false)?,
    };
    let mut tables = Vec::new();
    let peers = peers(&options, &paths, &llama)?;
    if !options.cases.is_empty() {
        tables.push(comparison_table(&options, &paths, &peers)?);
    }
    if options.alone {
        let table = alone::table(&paths, &llama, options.rounds, &options.threads)?;
        println!("{table}");
        tables.push(table);
    }
    let titles: Vec<&str> = peers.iter().map(|peer| peer.title.as_str()).collect();
    if options.write {
        page::publish(&paths.ours, "peers", &tables.join("\n\n"), &titles, args)
    } else {
        Ok(())
    }
}

/// The table that compares Gristmill with the peers. Prints each line as soon as it is measured.
fn comparison_table(options: &Options, paths: &Paths, peers: &[Peer]) -> Result<String, String> {
    let mut table = String::from("| case | Gristmill, t/s | of read · of peak |");
    peers
        .iter()
        .for_each(|peer| _ = write!(table, " {} t/s, best flags | Gristmill / {0}, spread |", peer.name));
    table.push_str("\n|---|---|---|");
    peers.iter().for_each(|_| table.push_str("---|---|"));
    for case in &options.cases {
        let file = paths.file(&case.model)?;
        let line = compare(&paths.ours, peers, case, &file, options)?;
        println!("{line}");
        table.push('\n');
        table.push_str(&line);
    }
    Ok(table)
}

fn peers(options: &Options, paths: &Paths, llama: &Path) -> Result<Vec<Peer>, String> {
    let avx2 = match &options.llama_avx2 {
        Some(folder) => Some(folder.clone()),
        None if options.cases.iter().any(|case| case.avx2) => Some(llama::build(&paths.cache, true)?),
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
            title: llama::commit(folder, &paths.file(SMALLEST)?)
                .map_or("ik_llama.cpp".into(), |commit| format!("ik_llama.cpp {commit}")),
            variants: llama::IK,
            bench: Box::new(Llama { folder: folder.clone(), avx2: None }),
        });
    }
    for (python, (_, make)) in options.pythons.iter().zip(PACKAGES) {
        if let Some(python) = python {
            peers.push(make(Python { path: python.clone(), paths: paths.clone() })?);
        }
    }
    Ok(peers)
}

/// The result of a variant of a peer: the table shows the fastest one, the output each.
struct VariantResult {
    flags: String,
    /// Rate in tokens a second, the median of the rounds.
    rate: f64,
    /// Gristmill's rate over the peer's in each round, ascending.
    ratios: Vec<f64>,
}

impl VariantResult {
    fn of(flags: &[&str], ours: &[f64], theirs: &[f64]) -> VariantResult {
        let mut ratios: Vec<f64> = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
        ratios.sort_by(f64::total_cmp);
        VariantResult { flags: flags.join(" "), rate: median(&mut theirs.to_vec()), ratios }
    }

    /// The median ratio, and the lowest and the highest.
    fn spread(&self) -> String {
        let at = |i: usize| self.ratios.get(i).copied().unwrap_or(f64::NAN);
        let last = self.ratios.len().saturating_sub(1);
        let (low, middle, high) = (at(0), at(self.ratios.len() / 2), at(last));
        format!("**{middle:.2}** ({low:.2}–{high:.2})")
    }
}

impl std::fmt::Display for VariantResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let flags =
            if self.flags.is_empty() { "its defaults".to_owned() } else { format!("`{}`", self.flags) };
        write!(f, "{:.1} ({flags}) | {}", self.rate, self.spread())
    }
}

/// The rates of a peer's variants in a case, by round. Empty if it cannot run the case, or failed.
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

    /// Reports that a peer failed. The case continues without it, so that the other results are not lost.
    fn without(peer: &Peer, case: &Case, error: &str) {
        eprintln!("{}: {} is left out, as it failed: {error}", case.name, peer.name);
    }
}

/// Measures a case and returns its line of the table.
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
        let variants =
            peer.variants.iter().zip(&rates).map(|(flags, rates)| VariantResult::of(flags, &mine, rates));
        let variants: Vec<VariantResult> = variants.collect();
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
        Test::Decode { steps, streams } => [0, steps, streams, if streams > 1 { CONTEXT_TOKENS } else { 0 }],
    };
    let numbers = [prompt, steps, streams, depth].map(|number| number.to_string());
    let flags = ["-p", "-n", "-b", "-d"].into_iter().zip(&numbers).flat_map(|(flag, number)| [flag, number]);
    let isa = if case.avx2 { &["--isa", "avx2"][..] } else { &[] };
    let flags: Vec<&str> = flags.chain(isa.iter().copied()).chain(["-r", "1"]).collect();
    let tests = bench(ours, file, threads, &flags)?;
    tests.first().cloned().ok_or_else(|| "gristmill bench reported no test".into())
}

/// The reports of `gristmill bench` for each test.
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

/// The rate in the last line; libraries may print lines before it.
fn last_rate(text: &str) -> Result<f64, String> {
    number(&parse(text.lines().last().unwrap_or_default())?, "avg_ts")
}

/// Available memory in bytes, from the text of `/proc/meminfo`.
fn available(told: &str) -> Option<f64> {
    let line = told.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<f64>().ok().map(|kib| kib * 1024.0)
}

/// The median; sorts the values.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Builds `gristmill` as released, and returns its path.
fn ours() -> Result<PathBuf, String> {
    call(&mut cargo(&["build", "--release", "--package", "cli", "--locked", "--quiet"]))?;
    Ok(target().join("release/gristmill"))
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The folder in which peers are built and shapes are written, outside the checkout.
fn cache() -> Result<PathBuf, String> {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let folder = base.or_else(home).ok_or("neither XDG_CACHE_HOME nor HOME is set")?.join("gristmill-peers");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_has_its_rate_and_the_ratios_of_its_rounds() {
        let beside = VariantResult::of(&["-fa", "1"], &[30.0, 12.0, 40.0], &[10.0, 12.0, 20.0]);
        assert_eq!(beside.to_string(), "12.0 (`-fa 1`) | **2.00** (1.00–3.00)");
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
