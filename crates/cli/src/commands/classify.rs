//! `gristmill classify`: the label of each line, or the entities in it. `docs/embeddings.md` is its manual.

use std::collections::VecDeque;
use std::path::PathBuf;

use inference::{Aggregation, Classify, ClassifyTokens, Encoded, Entity, Operation, Output, TextInput};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::Failure;
use crate::encoder_session::{Asked, Cut, EncoderFlags, EncoderSession, IN_WORK, unexpected};
use crate::lines::{InputFormat, Line, Lines, Next};
use crate::term::{clean, json_text, out};

/// Texts of a batch.
const BATCH_LINES: usize = 64;
/// What token classifiers call the absence of a label.
const NO_LABEL: &str = "O";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A classifier of texts or of tokens: catalog name, path, or source (hf:…, https://…, py:…).
    #[arg(value_name = "MODEL")]
    model: String,

    /// Texts, a line each; `-` is standard input.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// What a line is: a text, or a JSON object with `text` and, if it likes, an `id`.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = InputFormat::Lines)]
    input: InputFormat,

    /// What becomes of a text that is too long for the model.
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Cut::Refuse)]
    truncate: Cut,

    /// How labels of tokens become entities: each token is one; or neighbours of one label, a word having the label of
    /// its first token, its most certain one, or the mean.
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Join::Simple)]
    aggregation: Join,

    /// Print logits, without the model's activation function.
    #[arg(long)]
    raw_scores: bool,

    /// Print one JSON object a text, with the scores of all labels.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    encoder: EncoderFlags,
}

/// What `--aggregation` takes.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Join {
    None,
    Simple,
    First,
    Max,
    Average,
}

impl Join {
    fn aggregation(self) -> Aggregation {
        match self {
            Join::None => Aggregation::None,
            Join::Simple => Aggregation::Simple,
            Join::First => Aggregation::First,
            Join::Max => Aggregation::Max,
            Join::Average => Aggregation::Average,
        }
    }
}

/// A classified text, as `--json` prints it.
#[derive(Serialize)]
struct Classified<'a> {
    id: &'a Value,
    label: &'a str,
    score: f32,
    scores: Scores<'a>,
}

/// The score of every label, in the labels' order.
struct Scores<'a> {
    labels: &'a [String],
    scores: &'a [f32],
}

impl Serialize for Scores<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.labels.iter().zip(self.scores))
    }
}

/// A text with its entities, as `--json` prints it.
#[derive(Serialize)]
struct Tagged<'a> {
    id: &'a Value,
    entities: Vec<Part<'a>>,
}

/// A labelled part of a text.
#[derive(Serialize)]
struct Part<'a> {
    label: &'a str,
    score: f32,
    /// The place in Unicode characters.
    start: usize,
    end: usize,
    text: &'a str,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let session = EncoderSession::open(&args.model, &args.encoder, &["classify", "classify_tokens"])?;
    let of_tokens = session.heads.classifier.is_none();
    let lines = Lines::open(args.file.as_deref(), args.input, BATCH_LINES)?;
    let mut in_work: VecDeque<(Vec<Line>, Asked)> = VecDeque::with_capacity(IN_WORK);
    loop {
        while in_work.len() < IN_WORK {
            let Next::Batch(batch) = lines.next(in_work.is_empty())? else { break };
            let asked = session.ask(question(&args, of_tokens, &batch.lines));
            in_work.push_back((batch.lines, asked));
        }
        let Some((texts, mut asked)) = in_work.pop_front() else { return Ok(()) };
        match session.wait(&mut asked).map_err(|fault| lines.failure(&texts, &fault))? {
            Output::Classes { labels, scores } => print_classes(&args, &texts, &labels, &scores)?,
            Output::Entities(entities) => print_entities(&args, &texts, &entities)?,
            _ => return Err(unexpected("classify")),
        }
    }
}

fn question(args: &Args, of_tokens: bool, lines: &[Line]) -> Operation {
    let texts = lines.iter().map(|line| line.text.clone());
    let length = args.truncate.length();
    if of_tokens {
        let aggregation = args.aggregation.aggregation();
        let ignore_labels = vec![NO_LABEL.to_owned()];
        let texts = texts.collect();
        return Operation::ClassifyTokens(ClassifyTokens {
            model: None,
            texts,
            length,
            aggregation,
            ignore_labels,
        });
    }
    let (inputs, raw_scores) = (texts.map(TextInput::Text).collect(), args.raw_scores);
    Operation::Classify(Classify { inputs, length, raw_scores, ..Classify::default() })
}

fn print_classes(
    args: &Args,
    lines: &[Line],
    labels: &[String],
    scores: &Encoded<Vec<f32>>,
) -> Result<(), Failure> {
    for (line, scores) in lines.iter().zip(&scores.results) {
        let all = labels.iter().zip(scores.iter().copied());
        // The first of equal ones, as an argmax has it.
        let best = all.reduce(|best, one| if one.1 > best.1 { one } else { best });
        let Some((label, score)) = best else { continue };
        if args.json {
            let scores = Scores { labels, scores };
            let classified = Classified { id: &line.id, label, score, scores };
            out!("{}", json_text(&serde_json::to_string(&classified)?));
        } else {
            out!("{}\t{score:.5}", clean(label));
        }
    }
    Ok(())
}

fn print_entities(args: &Args, lines: &[Line], entities: &Encoded<Vec<Entity>>) -> Result<(), Failure> {
    for (line, entities) in lines.iter().zip(&entities.results) {
        let parts = entities.iter().map(|entity| Part {
            label: &entity.label,
            score: entity.score,
            start: entity.chars.start,
            end: entity.chars.end,
            text: line.text.get(entity.bytes.clone()).unwrap_or_default(),
        });
        if args.json {
            let tagged = Tagged { id: &line.id, entities: parts.collect() };
            out!("{}", json_text(&serde_json::to_string(&tagged)?));
            continue;
        }
        for Part { label, score, start, end, text } in parts {
            out!("{}\t{}\t{score:.5}\t{start}..{end}\t{}", line.number, clean(label), clean(text));
        }
    }
    Ok(())
}
