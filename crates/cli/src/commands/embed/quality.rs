//! `--check SET`: how good an embedding model is, by the measures that others publish: Spearman's correlation on pairs of
//! sentences (STS), and nDCG@10 on a small retrieval set (BEIR).

mod measure;
mod sets;

use std::path::Path;
use std::time::Instant;

use inference::Length;
use inference::{Embed, Embedding, InputPrompt, Operation, Output, TextInput, Truncation};
use serde::Serialize;

use super::args::Args;
use crate::Failure;
use crate::encoder_session::{EncoderSession, unexpected};
use crate::progress::TextProgress;
use crate::term::{self, out};
use measure::{cosine, ndcg, spearman};
use sets::{Pair, Retrieval, Set};

/// Texts asked for at once.
const BATCH: usize = 128;
/// Prompts for pairs, queries and documents, if the model's files have one of these names.
const PAIR_PROMPTS: &[&str] = &["STS", "similarity"];
const QUERY_PROMPTS: &[&str] = &["query", "search_query", "Retrieval-query", "retrieval.query"];
const DOCUMENT_PROMPTS: &[&str] =
    &["document", "passage", "search_document", "Retrieval-document", "retrieval.passage"];
/// Where a ranking is cut.
const CUT: usize = 10;

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    model: &'a str,
    set: String,
    /// Spearman's correlation of cosines and scores, times 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    spearman: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pairs: Option<usize>,
    /// nDCG@10, times 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    ndcg_at_10: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queries: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    documents: Option<usize>,
    tokens: usize,
    truncated_tokens: usize,
    seconds: f64,
    precision: &'static str,
    fingerprint: &'a str,
}

/// Embeds texts, and counts.
struct Embedder<'a> {
    session: &'a EncoderSession,
    args: &'a Args,
    progress: TextProgress,
    texts: u64,
    tokens: usize,
    truncated: usize,
}

/// Measures the model on the set at `path`.
///
/// # Errors
/// A set that cannot be read, or texts that cannot be embedded.
pub(super) fn run(args: &Args, session: &EncoderSession, path: &Path) -> Result<(), Failure> {
    let set = sets::read(path)?;
    let began = Instant::now();
    let progress = TextProgress::new(None);
    let mut embedder = Embedder { session, args, progress, texts: 0, tokens: 0, truncated: 0 };
    let mut report = match &set {
        Set::Pairs(pairs) => of_pairs(&mut embedder, pairs)?,
        Set::Retrieval(retrieval) => of_retrieval(&mut embedder, retrieval)?,
    };
    report.set = path.display().to_string();
    report.seconds = began.elapsed().as_secs_f64();
    (report.tokens, report.truncated_tokens) = (embedder.tokens, embedder.truncated);
    drop(embedder);
    print(args, &report)
}

fn report<'a>(embedder: &Embedder<'a>) -> Report<'a> {
    let Embedder { session, args, .. } = embedder;
    Report {
        model: &args.model,
        set: String::new(),
        spearman: None,
        pairs: None,
        ndcg_at_10: None,
        queries: None,
        documents: None,
        tokens: 0,
        truncated_tokens: 0,
        seconds: 0.0,
        precision: session.facts.precision,
        fingerprint: &session.facts.fingerprint,
    }
}

fn print(args: &Args, report: &Report<'_>) -> Result<(), Failure> {
    if args.json {
        return term::json(report);
    }
    if let (Some(spearman), Some(pairs)) = (report.spearman, report.pairs) {
        out!("Spearman {spearman:.2} on {} ({})", term::number(pairs, "pair"), report.precision);
    }
    if let (Some(ndcg), Some(queries), Some(documents)) =
        (report.ndcg_at_10, report.queries, report.documents)
    {
        let queries = if queries == 1 { "1 query".to_owned() } else { format!("{queries} queries") };
        let documents = term::number(documents, "document");
        out!("nDCG@{CUT} {ndcg:.2} on {queries} and {documents} ({})", report.precision);
    }
    Ok(())
}

fn of_pairs<'a>(embedder: &mut Embedder<'a>, pairs: &[Pair]) -> Result<Report<'a>, Failure> {
    let firsts = embedder.embed(pairs.iter().map(|pair| pair.first.as_str()), PAIR_PROMPTS)?;
    let seconds = embedder.embed(pairs.iter().map(|pair| pair.second.as_str()), PAIR_PROMPTS)?;
    let cosines: Vec<f64> = firsts.iter().zip(&seconds).map(|(a, b)| cosine(a, b)).collect();
    let scores: Vec<f64> = pairs.iter().map(|pair| pair.score).collect();
    let mut report = report(embedder);
    report.spearman = Some(100.0 * spearman(&cosines, &scores));
    report.pairs = Some(pairs.len());
    Ok(report)
}

fn of_retrieval<'a>(embedder: &mut Embedder<'a>, set: &Retrieval) -> Result<Report<'a>, Failure> {
    let documents = embedder.embed(set.documents.iter().map(String::as_str), DOCUMENT_PROMPTS)?;
    let queries = embedder.embed(set.queries.iter().map(|query| query.text.as_str()), QUERY_PROMPTS)?;
    let mut sum = 0.0;
    for (query, vector) in set.queries.iter().zip(&queries) {
        let cosines: Vec<f64> = documents.iter().map(|document| cosine(vector, document)).collect();
        sum += ndcg(&cosines, &query.relevant, CUT);
    }
    let mut report = report(embedder);
    report.ndcg_at_10 = Some(100.0 * sum / set.queries.len().max(1) as f64);
    (report.queries, report.documents) = (Some(set.queries.len()), Some(set.documents.len()));
    Ok(report)
}

impl Embedder<'_> {
    /// The vectors of texts, with the first of `prompts` that the model has. Long texts are cut, as others do it.
    fn embed<'t>(
        &mut self,
        texts: impl Iterator<Item = &'t str>,
        prompts: &'static [&'static str],
    ) -> Result<Vec<Vec<f32>>, Failure> {
        let texts: Vec<&str> = texts.collect();
        let mut vectors = Vec::with_capacity(texts.len());
        let mut in_work = std::collections::VecDeque::new();
        let mut batches = texts.chunks(BATCH);
        loop {
            while in_work.len() < crate::encoder_session::IN_WORK
                && let Some(batch) = batches.next()
            {
                in_work.push_back(self.session.ask(Operation::Embed(self.question(batch, prompts))));
            }
            let Some(mut asked) = in_work.pop_front() else { return Ok(vectors) };
            let answer = self.session.wait(&mut asked).map_err(|fault| Failure::new(fault.message))?;
            let Output::Embeddings(encoded) = answer else { return Err(unexpected("embed")) };
            (self.tokens, self.truncated) =
                (self.tokens + encoded.tokens(), self.truncated + encoded.truncated());
            for embedding in encoded.results {
                let Embedding::Dense(vector) = embedding else { return Err(unexpected("embed")) };
                vectors.push(vector);
            }
            self.texts += BATCH as u64;
            self.progress.set(self.texts, 0);
        }
    }

    fn question(&self, texts: &[&str], prompts: &'static [&'static str]) -> Embed {
        let prompt = match self.args.prompt.as_deref() {
            None => InputPrompt::FirstOf(prompts),
            Some("none") => InputPrompt::None,
            Some(name) => InputPrompt::Named(name.to_owned()),
        };
        // A text without any words is compared as one.
        let word =
            |text: &&str| TextInput::Text(if text.is_empty() { " ".to_owned() } else { (*text).to_owned() });
        Embed {
            inputs: texts.iter().map(word).collect(),
            prompt,
            length: Length { tokens: None, truncation: Truncation::End },
            dimensions: self.args.dimensions.map(|n| n as usize),
            normalize: Some(true),
            ..Embed::default()
        }
    }
}
