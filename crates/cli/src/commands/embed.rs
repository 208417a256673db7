//! `gristmill embed`: vectors of texts, a line each. `docs/embeddings.md` is its manual.
//!
//! Lines are read, embedded and written in batches, a few of them in work at once, so memory does not depend on how many
//! there are. A file is written beside its place and gets its name when it is whole.

mod args;
mod npy;
mod output;
mod paths;
mod quality;
mod resume;
mod vectors;

use std::collections::VecDeque;
use std::time::Instant;

use inference::{Embed, Embedding, Encoded, InputPrompt, Operation, Output, TextInput};
use serde::Serialize;
use service::ShortVectors;

use crate::Failure;
use crate::encoder_session::{Asked, EncoderSession, IN_WORK, unexpected};
use crate::lines::{Line, Lines, Next};
use crate::progress::TextProgress;
use crate::term::{self, err};
pub(crate) use args::Args;
use args::{Format, Kind, Truncate};
use output::Writer;
use resume::{Resume, Settings};

/// Lines of a batch.
const BATCH_LINES: usize = 256;
/// Numbers of a batch's vectors, where each token has one; the service takes four times as many.
const BATCH_NUMBERS: usize = 1 << 20;

/// What `--json` prints.
#[derive(Serialize)]
struct Summary<'a> {
    model: &'a str,
    kind: &'static str,
    /// Numbers of a dense vector.
    dimensions: Option<usize>,
    texts: u64,
    /// Texts of these that an earlier run had done.
    resumed_texts: u64,
    /// Tokens of this run.
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
