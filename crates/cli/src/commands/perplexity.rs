//! `gristmill perplexity`: how surprised a model is by a text, by llama-perplexity's definition, so that figures
//! compare. `docs/perplexity.md` spells the definition out.

mod score;

use std::io::Read;
use std::path::PathBuf;
use std::time::Instant;

use kernels::{Compute, KvDtype, Precision};
use model::{Model, Spec};
use serde_json::{Value, json};
use text::Tokenizer;

use self::score::{Chunks, Divergence, Runner, Surprise};
use crate::flags::KvChoice;
use crate::found::{check_generates, of};
use crate::loading::{Bar, check_memory, compute};
use crate::term::{err, out};
use crate::{Failure, flags, term};

/// Longest text: some hundred times the usual test sets.
const MAX_TEXT_BYTES: u64 = 256 << 20;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Catalog name, path, or source (hf:…, https://…, py:…).
    #[arg(value_name = "MODEL")]
    model: String,

    /// The text, UTF-8; `-` is standard input.
    #[arg(long, short = 'f', value_name = "F")]
    file: PathBuf,

    /// Tokens of a chunk; the second half of each is scored.
    #[arg(long, short = 'c', value_name = "N", default_value_t = 512)]
    context: usize,

    /// Score only the first N chunks.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    chunks: Option<u64>,

    /// fast: as served. f32: weights dequantized, everything in f32; slow, and the truth.
    #[arg(long, value_name = "P", value_enum, default_value_t = Path::Fast)]
    precision: Path,

    /// Also run the same weights in f32, and report how far the two distributions are apart.
    #[arg(long, value_name = "P", value_enum)]
    kl_against: Option<Against>,

    /// Print one object; the figure is `perplexity`.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    compute: flags::Compute,

    #[command(flatten)]
    prompts: flags::Prompts,

    #[command(flatten)]
    kv: flags::Kv,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    Fast,
    F32,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Against {
    F32,
}

impl Path {
    fn precision(self) -> Precision {
        match self {
            Path::Fast => Precision::Fast,
            Path::F32 => Precision::F32,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Path::Fast => "fast",
            Path::F32 => "f32",
        }
    }
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let tier = args.compute.tier()?;
    let kv = match (args.kv.kv_dtype, args.precision) {
        (KvChoice::Auto, Path::F32) => KvDtype::F32,
        _ => args.kv.dtype(tier),
    };
    if args.kl_against.is_some() && args.precision == Path::F32 && kv == KvDtype::F32 {
        return Err(Failure::usage(
            "--kl-against f32 compares with the f32 path: leave out --precision f32, or give it another --kv-dtype",
        ));
    }
    let text = read(&args)?;
    let opened = weights::open(&crate::store::resolve(&args.model)?)?;
    let mut spec = Spec::read(&opened).map_err(|error| of(&args.model, error))?;
    check_generates(&args.model, &spec)?;
    if !(8..=spec.context).contains(&args.context) {
        let (asked, most) = (args.context, spec.context);
        return Err(Failure::usage(format!(
            "--context {asked} is outside 8..={most}, what the model can do"
        )));
    }
    spec.limit_context(args.context);
    // What is wrong with the weights is told before the text is cut.
    spec.weight_bytes(&opened, tier, args.precision.precision()).map_err(|error| of(&args.model, error))?;
    let tokenizer = Tokenizer::open(&opened)?;
    let chunks = Chunks::new(&tokenizer, &text, args.context, args.chunks)?;
    let machine = cpu::probe::detect();
    let compute = compute(&machine, tier, args.compute.threads(&machine)?, args.prompts)?;

    let mut paths = vec![(args.precision, kv)];
    paths.extend(args.kl_against.map(|_| (Path::F32, KvDtype::F32)));
    let mut need = 0;
    for (path, kv) in &paths {
        let weights = spec.weight_bytes(&opened, tier, path.precision());
        need += Runner::bytes(&spec, weights.map_err(|error| of(&args.model, error))?, args.context, *kv);
    }
    check_memory(&machine, need, &args.model, "")?;
    let mut runners = Vec::new();
    for (path, kv) in paths {
        runners.push(load(&spec, &opened, &compute, path, kv, &args)?);
    }
    let began = Instant::now();
    let scored = score(&chunks, &mut runners, &compute)?;
    let seconds = began.elapsed().as_secs_f64();
    report(&args, &chunks, &scored, tier, kv, seconds)
}

fn read(args: &Args) -> Result<String, Failure> {
    let name = args.file.display();
    let mut bytes = Vec::new();
    let limit = MAX_TEXT_BYTES + 1;
    let done = if args.file.as_os_str() == "-" {
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(&args.file).and_then(|file| file.take(limit).read_to_end(&mut bytes))
    };
    done.map_err(|error| Failure::new(format!("cannot read {name}: {error}")))?;
    if bytes.len() as u64 > MAX_TEXT_BYTES {
        return Err(Failure::new(format!("{name} is longer than {MAX_TEXT_BYTES} bytes")));
    }
    let mut text = String::from_utf8(bytes).map_err(|error| {
        Failure::new(format!(
            "{name} is not UTF-8: byte {} begins no character",
            error.utf8_error().valid_up_to()
        ))
    })?;
    // As llama.cpp reads a prompt file.
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}

fn load(
    spec: &Spec,
    opened: &weights::Opened,
    compute: &Compute,
    path: Path,
    kv: KvDtype,
    args: &Args,
) -> Result<Runner, Failure> {
    let mut bar = Bar::new(&format!("{} ({})", args.model, path.name()));
    let model =
        Model::load_spec(spec.clone(), opened, compute, path.precision(), &mut |share| bar.set(share))?;
    drop(bar);
    Runner::new(model, args.context, kv)
}

/// What came out: of the first path, and how the second differs if there is one.
struct Scored {
    surprise: Surprise,
    reference: Option<(Surprise, Divergence)>,
}

fn score(chunks: &Chunks, runners: &mut [Runner], compute: &Compute) -> Result<Scored, Failure> {
    let mut surprise = Surprise::default();
    let mut reference = (runners.len() > 1).then(|| (Surprise::default(), Divergence::default()));
    for (i, chunk) in chunks.iter().enumerate() {
        for piece in chunks.pieces() {
            let [first, rest @ ..] = &mut *runners else { break };
            let ours = first.run(compute, &chunk, piece.clone())?;
            surprise.add(&ours);
            if let ([second], Some((theirs, divergence))) = (rest, &mut reference) {
                let truth = second.run(compute, &chunk, piece)?;
                theirs.add(&truth);
                divergence.add(&truth, &ours);
            }
        }
        let against = reference.as_ref().map(|(theirs, divergence)| {
            format!(", f32 {:.4}, mean KL {:.6}", theirs.perplexity(), divergence.mean())
        });
        err!("[{}/{}] {:.4}{}", i + 1, chunks.count(), surprise.perplexity(), against.unwrap_or_default());
    }
    Ok(Scored { surprise, reference })
}

fn report(
    args: &Args,
    chunks: &Chunks,
    scored: &Scored,
    tier: cpu::Tier,
    kv: KvDtype,
    seconds: f64,
) -> Result<(), Failure> {
    let Scored { surprise, reference } = scored;
    let tokens_per_s = (chunks.count() * args.context) as f64 / seconds;
    if !args.json {
        out!("perplexity {:.4} ± {:.4}", surprise.perplexity(), surprise.error());
        if let Some((theirs, divergence)) = reference {
            let apart = 100.0 * (surprise.perplexity() / theirs.perplexity() - 1.0);
            out!("f32 path   {:.4}, {apart:+.3} % from it", theirs.perplexity());
            out!("mean KL    {:.6}, largest {:.6}", divergence.mean(), divergence.largest);
            out!("same top   {:.3} %", 100.0 * divergence.same_top());
        }
        let (count, context, kv) = (chunks.count(), args.context, kv.name());
        out!(
            "{} of {context} tokens on {tier}, keys and values in {kv}, {tokens_per_s:.1} tokens/s",
            term::number(count, "chunk")
        );
        return Ok(());
    }
    let mut value = json!({
        "model": args.model,
        "perplexity": surprise.perplexity(),
        "standard_error": surprise.error(),
        "mean_nll": surprise.mean(),
        "chunks": chunks.count(),
        "context": args.context,
        "tokens": chunks.tokens(),
        "scored_tokens": surprise.count,
        "precision": args.precision.name(),
        "isa": tier.to_string(),
        "kv_dtype": kv.name(),
        "seconds": seconds,
        "tokens_per_s": tokens_per_s,
    });
    if let Some((theirs, divergence)) = reference {
        value["perplexity_f32"] = json!(theirs.perplexity());
        value["perplexity_ratio"] = json!(surprise.perplexity() / theirs.perplexity());
        value["mean_kl"] = json!(divergence.mean());
        value["max_kl"] = json!(divergence.largest);
        value["same_top"] = json!(divergence.same_top());
    }
    term::json::<Value>(&value)
}
