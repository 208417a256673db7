//! `gristmill rerank`: documents, a line each, by how relevant they are to a query. `docs/embeddings.md` is its manual.

use std::collections::VecDeque;
use std::path::PathBuf;

use inference::{Operation, Output, Rerank};
use serde::Serialize;
use serde_json::Value;

use crate::Failure;
use crate::encoder_session::{Asked, Cut, EncoderFlags, EncoderSession, IN_WORK, unexpected};
use crate::lines::{InputFormat, Line, Lines, Next};
use crate::progress::TextProgress;
use crate::term::{self, clean, err, out};

/// Documents of a batch.
const BATCH_LINES: usize = 64;
/// Documents that are kept, if not only the best are asked for.
const MAX_DOCUMENTS: usize = 100_000;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A reranker (cross-encoder), or an embedding model, whose cosine then ranks: catalog name, path, or source.
    #[arg(value_name = "MODEL")]
    model: String,

    /// The query.
    #[arg(long, short, value_name = "TEXT")]
    query: String,

    /// Documents, a line each; `-` is standard input.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// What a line is: a text, or a JSON object with `text` and, if it likes, an `id`.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = InputFormat::Lines)]
    input: InputFormat,

    /// Print only the best N; then there may be any number of documents.
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    top: Option<u32>,

    /// What becomes of a document that is too long for the model.
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Cut::End)]
    truncate: Cut,

    /// Print logits, without the model's activation function.
    #[arg(long)]
    raw_scores: bool,

    /// Print one object.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    encoder: EncoderFlags,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    model: &'a str,
    fingerprint: &'a str,
    query: &'a str,
    documents: u64,
    truncated_tokens: u64,
    results: Vec<Ranked<'a>>,
}

#[derive(Serialize)]
struct Ranked<'a> {
    rank: usize,
    id: &'a Value,
    /// The document's line, from 1.
    line: u64,
    score: f32,
    text: &'a str,
}

/// A document with its score.
#[derive(Debug, PartialEq)]
struct Scored {
    score: f32,
    line: Line,
}

/// The documents with the highest scores.
struct Best {
    most: usize,
    /// Whether more than `most` are an error.
    all: bool,
    scored: Vec<Scored>,
    count: u64,
    /// Tokens that were cut from documents, of which the best may have had some.
    truncated: u64,
}

impl Best {
    fn new(top: Option<u32>) -> Best {
        let most = top.map_or(MAX_DOCUMENTS, |top| top as usize);
        Best { most, all: top.is_none(), scored: Vec::new(), count: 0, truncated: 0 }
    }

    fn add(&mut self, scored: Scored) -> Result<(), Failure> {
        self.count += 1;
        self.scored.push(scored);
        if self.all && self.scored.len() > self.most {
            return Err(Failure::new(format!(
                "there are more than {MAX_DOCUMENTS} documents; --top N keeps the best N of any number"
            )));
        }
        if !self.all && self.scored.len() >= 2 * self.most {
            self.sort();
        }
        Ok(())
    }

    /// The best first; of equal ones the earlier.
    fn sort(&mut self) {
        self.scored.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.line.number.cmp(&b.line.number)));
        self.scored.truncate(self.most);
    }
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    if args.query.is_empty() {
        return Err(Failure::usage("--query is empty"));
    }
    let session = EncoderSession::open(&args.model, &args.encoder, &["rerank"])?;
    let lines = Lines::open(args.file.as_deref(), args.input, BATCH_LINES)?;
    let best = rank(&args, &session, &lines)?;
    print(&args, &session, &best)
}

fn rank(args: &Args, session: &EncoderSession, lines: &Lines) -> Result<Best, Failure> {
    let mut progress = TextProgress::new(lines.total_bytes);
    let mut best = Best::new(args.top);
    let mut in_work: VecDeque<(Vec<Line>, u64, Asked)> = VecDeque::with_capacity(IN_WORK);
    loop {
        while in_work.len() < IN_WORK {
            let Next::Batch(batch) = lines.next(in_work.is_empty())? else { break };
            let asked = session.ask(Operation::Rerank(Rerank {
                query: args.query.clone(),
                documents: batch.lines.iter().map(|line| line.text.clone()).collect(),
                length: args.truncate.length(),
                raw_scores: args.raw_scores,
                ..Rerank::default()
            }));
            in_work.push_back((batch.lines, batch.bytes, asked));
        }
        let Some((documents, bytes, mut asked)) = in_work.pop_front() else { break };
        let answer = session.wait(&mut asked).map_err(|fault| lines.failure(&documents, &fault))?;
        let Output::Scores(encoded) = answer else { return Err(unexpected("rerank")) };
        best.truncated += encoded.truncated() as u64;
        for (line, score) in documents.into_iter().zip(encoded.results) {
            best.add(Scored { score, line })?;
        }
        progress.set(best.count, bytes);
    }
    best.sort();
    Ok(best)
}

fn print(args: &Args, session: &EncoderSession, best: &Best) -> Result<(), Failure> {
    if args.json {
        let ranked = |(at, Scored { score, line }): (usize, &'_ Scored)| (at + 1, *score, line.number);
        let results = best.scored.iter().enumerate().map(|(at, scored)| {
            let (rank, score, line) = ranked((at, scored));
            Ranked { rank, id: &scored.line.id, line, score, text: &scored.line.text }
        });
        return term::json(&Report {
            model: &args.model,
            fingerprint: &session.facts.fingerprint,
            query: &args.query,
            documents: best.count,
            truncated_tokens: best.truncated,
            results: results.collect(),
        });
    }
    for (at, Scored { score, line }) in best.scored.iter().enumerate() {
        out!("{:>4}  {score:>9.5}  {}", at + 1, clean(&line.text));
    }
    if best.truncated > 0 {
        let cut = term::number(best.truncated as usize, "token");
        err!("{cut} of documents that are too long were cut; --truncate refuse makes that an error");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scored(number: u64, score: f32) -> Scored {
        Scored { score, line: Line { number, id: number.into(), text: String::new() } }
    }

    #[test]
    fn the_best_stay_and_of_equal_ones_the_earlier() {
        let mut best = Best::new(Some(2));
        for (number, score) in (1..).zip([0.1, 0.9, 0.5, 0.9, 0.9, 0.2]) {
            best.add(scored(number, score)).unwrap();
        }
        best.sort();
        let numbers: Vec<u64> = best.scored.iter().map(|scored| scored.line.number).collect();
        assert_eq!((numbers, best.count), (vec![2, 4], 6));
    }
}
