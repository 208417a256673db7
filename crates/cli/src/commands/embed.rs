//! `gristmill embed`: vectors of texts, a line each. `docs/embeddings.md` is its manual.
//!
//! Lines are read, embedded and written in batches, a few of them in work at once, so memory does not depend on how many
//! there are. A file is written beside its place and gets its name when it is whole.

mod npy;
mod output;
mod quality;
mod resume;
mod vectors;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Instant;

use inference::{
    Embed, EmbedKind, Embedding, Encoded, InputPrompt, Length, Operation, Output, TextInput, Truncation,
};
use serde::Serialize;
use service::ShortVectors;

use crate::Failure;
use crate::encoder_session::{Asked, EncoderFlags, EncoderSession, IN_WORK, unexpected};
use crate::lines::{InputFormat, Line, Lines, Next};
use crate::progress::TextProgress;
use crate::term::{self, err};
use output::Writer;
use resume::{Resume, Settings};

/// Lines of a batch.
const BATCH_LINES: usize = 256;
/// Numbers of a batch's vectors, where each token has one; the service takes four times as many.
const BATCH_NUMBERS: usize = 1 << 20;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// An embedding model: catalog name, path, or source (hf:…, https://…, py:…).
    #[arg(value_name = "MODEL")]
    model: String,

    /// Texts, a line each; `-` is standard input.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// What a line is: a text, or a JSON object with `text` and, if it likes, an `id`.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = InputFormat::Lines)]
    input: InputFormat,

    /// Where vectors go, `-` for standard output. A file gets its name when it is whole; until then it is FILE.part.
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,

    /// What is written: JSON objects with `id` and `embedding`, a line each; or a NumPy array of float32 [texts,
    /// dimensions].
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Jsonl)]
    format: Format,

    /// Which vectors: one for a text; one for each token; or weights of the vocabulary's entries.
    #[arg(long, value_name = "KIND", value_enum, default_value_t = Kind::Dense)]
    kind: Kind,

    /// Keep the first N numbers of each vector, scaled to length 1 again.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    dimensions: Option<u32>,

    /// The text that goes before each, by its name in the model's files, as query or document; `none` is no text
    /// [default: the one that the files name as the default, which most models lack].
    #[arg(long, value_name = "NAME")]
    prompt: Option<String>,

    /// What becomes of a text that is longer than the model's limit: an error, its end or start is cut, or its parts'
    /// vectors are averaged.
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Truncate::Refuse)]
    truncate: Truncate,

    /// Whether vectors are scaled to length 1 [default: as the model's files say].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set)]
    #[arg(default_missing_value = "true", value_parser = clap::builder::BoolishValueParser::new())]
    normalize: Option<bool>,

    /// Go on where an earlier run with the same flags, model and texts was ended: after the last whole line of FILE.part.
    #[arg(long)]
    resume: bool,

    /// Instead of embedding texts, measure the model on a set: a file of pairs of sentences with scores (Spearman), or a
    /// folder in BEIR's form (nDCG@10).
    #[arg(long, value_name = "SET", conflicts_with_all = ["file", "input", "output", "format", "resume", "normalize"])]
    check: Option<PathBuf>,

    /// Print one object: with --check what was measured, with --output FILE what was done.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    encoder: EncoderFlags,
}

/// What `--format` takes.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Jsonl,
    Npy,
}

/// What `--kind` takes.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Dense,
    Tokens,
    Sparse,
}

impl Kind {
    fn kind(self) -> EmbedKind {
        match self {
            Kind::Dense => EmbedKind::Dense,
            Kind::Tokens => EmbedKind::Tokens,
            Kind::Sparse => EmbedKind::Sparse,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Dense => "dense",
            Kind::Tokens => "tokens",
            Kind::Sparse => "sparse",
        }
    }
}

/// What `--truncate` takes.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Truncate {
    Refuse,
    End,
    Start,
    Chunk,
}

impl Truncate {
    fn length(self) -> Length {
        let truncation = match self {
            Truncate::Refuse => Truncation::Refuse,
            Truncate::End => Truncation::End,
            Truncate::Start => Truncation::Start,
            Truncate::Chunk => Truncation::Chunk,
        };
        Length { tokens: None, truncation }
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Summary<'a> {
    model: &'a str,
    kind: &'static str,
    /// Numbers of a dense vector.
    dimensions: Option<usize>,
    texts: u64,
    /// Of them, those that an earlier run had done.
    resumed_texts: u64,
    /// Of this run.
    tokens: u64,
    truncated_tokens: u64,
    seconds: f64,
    texts_per_s: f64,
    tokens_per_s: f64,
    precision: &'static str,
    fingerprint: &'a str,
    output: String,
}

/// Texts and tokens so far.
#[derive(Default)]
struct Done {
    texts: u64,
    tokens: u64,
    truncated: u64,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    check(&args)?;
    let session = EncoderSession::open(&args.model, &args.encoder, &["embed"])?;
    check_dimensions(&args, &session)?;
    if let Some(set) = &args.check {
        return quality::run(&args, &session, set);
    }
    let settings = settings(&args, &session);
    let resume = if args.resume { Resume::find(&args.output, &settings)? } else { None };
    let lines = Lines::open(args.file.as_deref(), args.input, batch_lines(&args, &session))?;
    let mut writer = Writer::open(&args, &settings, resume)?;
    let resumed = writer.resumed();
    let mut progress = TextProgress::new(lines.total_bytes);
    let began = Instant::now();
    let done = embed(&args, &session, &lines, &mut writer, &mut progress)?;
    writer.finish()?;
    drop(progress);
    report(&args, &session, &done, resumed, began.elapsed().as_secs_f64())
}

/// Refuses flags that make no sense together.
fn check(args: &Args) -> Result<(), Failure> {
    let to_stdout = args.output.as_os_str() == "-";
    let dense = args.kind == Kind::Dense;
    for (wrong, why) in [
        (args.format == Format::Npy && !dense, "--format npy is for one vector a text (--kind dense)"),
        (
            args.format == Format::Npy && to_stdout,
            "--format npy needs --output FILE: its head says how many there are",
        ),
        (args.format == Format::Npy && args.resume, "--resume is for --format jsonl"),
        (args.resume && to_stdout, "--resume needs --output FILE, which it goes on with"),
        (
            args.json && to_stdout && args.check.is_none(),
            "--json needs --output FILE: the vectors are on standard output",
        ),
        (args.check.is_some() && !dense, "--check is for one vector a text (--kind dense)"),
        (args.dimensions.is_some() && !dense, "--dimensions is for one vector a text (--kind dense)"),
        (
            args.truncate == Truncate::Chunk && !dense,
            "--truncate chunk is for one vector a text (--kind dense)",
        ),
    ] {
        if wrong {
            return Err(Failure::usage(why));
        }
    }
    Ok(())
}

/// Says so if nobody has trained the model for vectors of that length.
fn check_dimensions(args: &Args, session: &EncoderSession) -> Result<(), Failure> {
    let (Some(dimensions), Some(dense)) = (args.dimensions, &session.heads.dense) else { return Ok(()) };
    let (dimensions, width) = (dimensions as usize, dense.width);
    if dimensions > width {
        return Err(Failure::usage(format!(
            "--dimensions {dimensions} is more than the {width} of a vector of {}",
            session.name
        )));
    }
    let trained = match &dense.short {
        ShortVectors::None => dimensions == width,
        ShortVectors::Any => true,
        ShortVectors::Of(list) => dimensions == width || list.contains(&dimensions),
    };
    if !trained {
        err!(
            "warning: the files of {} do not say that its first {dimensions} numbers are of use alone",
            session.name
        );
    }
    Ok(())
}

/// Lines of a batch: fewer where each token has a vector.
fn batch_lines(args: &Args, session: &EncoderSession) -> usize {
    match (args.kind, &session.heads.tokens) {
        (Kind::Tokens, Some(tokens)) => {
            (BATCH_NUMBERS / (tokens.width * session.facts.max_tokens).max(1)).clamp(1, BATCH_LINES)
        }
        _ => BATCH_LINES,
    }
}

/// All that vectors depend on beside the texts.
fn settings(args: &Args, session: &EncoderSession) -> Settings {
    Settings {
        fingerprint: session.facts.fingerprint.to_string(),
        input: format!("{:?}", args.input),
        kind: args.kind.name().to_owned(),
        dimensions: args.dimensions,
        prompt: args.prompt.clone(),
        truncate: format!("{:?} at {}", args.truncate, session.facts.max_tokens),
        normalize: args.normalize,
    }
}

fn question(args: &Args, lines: &[Line]) -> Operation {
    let prompt = match args.prompt.as_deref() {
        None => InputPrompt::Default,
        Some("none") => InputPrompt::None,
        Some(name) => InputPrompt::Named(name.to_owned()),
    };
    Operation::Embed(Embed {
        model: None,
        inputs: lines.iter().map(|line| TextInput::Text(line.text.clone())).collect(),
        kind: args.kind.kind(),
        prompt,
        length: args.truncate.length(),
        dimensions: args.dimensions.map(|n| n as usize),
        normalize: args.normalize,
    })
}

/// A batch in work.
struct InWork {
    lines: Vec<Line>,
    bytes: u64,
    asked: Asked,
}

fn embed(
    args: &Args,
    session: &EncoderSession,
    lines: &Lines,
    writer: &mut Writer,
    progress: &mut TextProgress,
) -> Result<Done, Failure> {
    let mut done = Done::default();
    let mut in_work: VecDeque<InWork> = VecDeque::with_capacity(IN_WORK);
    loop {
        while in_work.len() < IN_WORK {
            let Next::Batch(mut batch) = lines.next(in_work.is_empty())? else { break };
            writer.skip_done(&mut batch.lines, &lines.name)?;
            if !batch.lines.is_empty() {
                let asked = session.ask(question(args, &batch.lines));
                in_work.push_back(InWork { lines: batch.lines, bytes: batch.bytes, asked });
            }
        }
        let Some(mut first) = in_work.pop_front() else { break };
        let answer = session.wait(&mut first.asked);
        let encoded = match answer.map_err(|fault| lines.failure(&first.lines, &fault))? {
            Output::Embeddings(encoded) => encoded,
            _ => return Err(unexpected("embed")),
        };
        count(&mut done, &encoded);
        writer.write(&first.lines, &encoded)?;
        progress.set(writer.resumed() + done.texts, first.bytes);
    }
    writer.check_all_skipped(&lines.name)?;
    Ok(done)
}

fn count(done: &mut Done, encoded: &Encoded<Embedding>) {
    done.texts += encoded.results.len() as u64;
    done.tokens += encoded.tokens() as u64;
    done.truncated += encoded.truncated() as u64;
}

fn report(
    args: &Args,
    session: &EncoderSession,
    done: &Done,
    resumed: u64,
    seconds: f64,
) -> Result<(), Failure> {
    let rate = |count: u64| count as f64 / seconds.max(1e-9);
    if args.json {
        let width = session.heads.dense.as_ref().map(|dense| dense.width);
        return term::json(&Summary {
            model: &args.model,
            kind: args.kind.name(),
            dimensions: width
                .filter(|_| args.kind == Kind::Dense)
                .map(|width| args.dimensions.map_or(width, |n| n as usize)),
            texts: resumed + done.texts,
            resumed_texts: resumed,
            tokens: done.tokens,
            truncated_tokens: done.truncated,
            seconds,
            texts_per_s: rate(done.texts),
            tokens_per_s: rate(done.tokens),
            precision: session.facts.precision,
            fingerprint: &session.facts.fingerprint,
            output: args.output.display().to_string(),
        });
    }
    let cut = if done.truncated > 0 {
        format!(", {} more were cut", term::number(done.truncated as usize, "token"))
    } else {
        String::new()
    };
    err!(
        "{} of {}{cut} in {seconds:.2} s: {:.0} texts/s, {:.0} tokens/s",
        term::number(done.texts as usize, "text"),
        term::number(done.tokens as usize, "token"),
        rate(done.texts),
        rate(done.tokens)
    );
    Ok(())
}
