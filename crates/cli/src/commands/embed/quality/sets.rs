//! Sets of texts to measure with. `docs/embeddings.md` describes the files.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::Failure;

/// Bytes of a file.
const MAX_BYTES: u64 = 1 << 30;
/// Pairs, queries, or documents.
const MAX_TEXTS: usize = 200_000;

/// A set of texts.
pub(super) enum Set {
    Pairs(Vec<Pair>),
    Retrieval(Retrieval),
}

/// Two texts and how alike people find them.
#[derive(Debug, PartialEq)]
pub(super) struct Pair {
    pub(super) first: String,
    pub(super) second: String,
    pub(super) score: f64,
}

/// Queries with the documents that are relevant to them.
#[derive(Default)]
pub(super) struct Retrieval {
    pub(super) documents: Vec<String>,
    pub(super) queries: Vec<Query>,
}

pub(super) struct Query {
    pub(super) text: String,
    /// By the document's index.
    pub(super) relevant: HashMap<usize, f64>,
}

/// A pair as JSONL has it: the names of the `sentence-transformers/stsb` data set, and those of MTEB.
#[derive(Deserialize)]
struct PairObject {
    #[serde(alias = "first")]
    sentence1: String,
    #[serde(alias = "second")]
    sentence2: String,
    #[serde(alias = "label", alias = "similarity_score")]
    score: f64,
}

/// A document or query of BEIR.
#[derive(Deserialize)]
struct TextObject {
    #[serde(rename = "_id", alias = "id")]
    id: Value,
    #[serde(default)]
    title: String,
    text: String,
}

/// Reads a set: a folder with `corpus.jsonl`, `queries.jsonl` and `qrels/test.tsv`, or a file of pairs, JSONL or TSV.
///
/// # Errors
/// A file that cannot be read or is of another form, by its line.
pub(super) fn read(path: &Path) -> Result<Set, Failure> {
    if path.is_dir() {
        return retrieval(path).map(Set::Retrieval);
    }
    let json = path.extension().is_some_and(|extension| extension == "jsonl" || extension == "json");
    let mut pairs = Vec::new();
    each_line(path, |number, line| {
        let pair = match json {
            true => of_json(line)?,
            false if line.contains('\t') => of_tsv(line, number)?,
            false => of_csv(line, number)?,
        };
        pairs.extend(pair);
        if pairs.len() > MAX_TEXTS { Err(format!("there are more than {MAX_TEXTS} pairs")) } else { Ok(()) }
    })?;
    if pairs.len() < 2 {
        return Err(Failure::new(format!(
            "{} has {} pairs; at least 2 are needed",
            path.display(),
            pairs.len()
        )));
    }
    Ok(Set::Pairs(pairs))
}

fn of_json(line: &str) -> Result<Option<Pair>, String> {
    let PairObject { sentence1, sentence2, score } = serde_json::from_str(line)
        .map_err(|error| format!("no JSON object with sentence1, sentence2 and score: {error}"))?;
    Ok(Some(Pair { first: sentence1, second: sentence2, score }))
}

/// Score, first and second text between tabs; or the seven columns and more of the STS benchmark's own files, whose fifth
/// is the score. A first line without a number is a head.
fn of_tsv(line: &str, number: u64) -> Result<Option<Pair>, String> {
    let columns: Vec<&str> = line.split('\t').collect();
    let (score, first, second) = match columns[..] {
        [score, first, second] => (score, first, second),
        [_, _, _, _, score, first, second, ..] => (score, first, second),
        _ => {
            return Err(format!(
                "{} columns between tabs; 3 are needed: score, first text, second text",
                columns.len()
            ));
        }
    };
    let pair = |score| Pair { first: first.into(), second: second.into(), score };
    scored(score, number).map(|score| score.map(pair))
}

/// First text, second text and score between commas, as in `stsb-multi-mt`; a text with a comma or a quote is quoted.
fn of_csv(line: &str, number: u64) -> Result<Option<Pair>, String> {
    let columns = columns(line);
    let [first, second, score] = &columns[..] else {
        return Err(format!(
            "{} columns; 3 are needed: score, text, text between tabs, or text, text, score between commas",
            columns.len()
        ));
    };
    let pair = |score| Pair { first: first.clone(), second: second.clone(), score };
    scored(score, number).map(|score| score.map(pair))
}

/// The columns of a line of comma-separated values (RFC 4180).
fn columns(line: &str) -> Vec<String> {
    let mut columns = Vec::new();
    let mut column = String::new();
    let mut quoted = false;
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            // Two quotes within quotes are one.
            '"' if quoted && rest.peek() == Some(&'"') => column.extend(rest.next()),
            '"' if quoted || column.is_empty() => quoted = !quoted,
            ',' if !quoted => columns.push(std::mem::take(&mut column)),
            c => column.push(c),
        }
    }
    columns.push(column);
    columns
}

/// A score; none if it is the head of the first line.
fn scored(score: &str, number: u64) -> Result<Option<f64>, String> {
    match score.trim().parse::<f64>() {
        Ok(score) if score.is_finite() => Ok(Some(score)),
        _ if number == 1 => Ok(None),
        _ => Err(format!("{score:?} is no score")),
    }
}

fn retrieval(folder: &Path) -> Result<Retrieval, Failure> {
    let mut set = Retrieval::default();
    let mut documents = HashMap::new();
    texts(&folder.join("corpus.jsonl"), |id, TextObject { title, text, .. }| {
        documents.insert(id, set.documents.len());
        set.documents.push(if title.is_empty() { text } else { format!("{title} {text}") });
        set.documents.len()
    })?;
    let mut queries = HashMap::new();
    texts(&folder.join("queries.jsonl"), |id, TextObject { text, .. }| {
        queries.insert(id, text);
        queries.len()
    })?;
    let mut relevant: Vec<(String, HashMap<usize, f64>)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    each_line(&folder.join("qrels").join("test.tsv"), |number, line| {
        let [query, document, score] = line.split('\t').collect::<Vec<_>>()[..] else {
            return Err("3 columns between tabs are needed: query-id, corpus-id, score".to_owned());
        };
        let score: f64 = match score.trim().parse() {
            Ok(score) => score,
            Err(_) if number == 1 => return Ok(()),
            Err(_) => return Err(format!("{score:?} is no score")),
        };
        let place = *places.entry(query.to_owned()).or_insert_with(|| {
            relevant.push((query.to_owned(), HashMap::new()));
            relevant.len() - 1
        });
        let document = documents.get(document).ok_or_else(|| format!("there is no document {document:?}"))?;
        relevant[place].1.insert(*document, score);
        Ok(())
    })?;
    for (id, relevant) in relevant {
        let text = queries.remove(&id).ok_or_else(|| {
            Failure::new(format!(
                "{}: qrels/test.tsv has the query {id:?}, queries.jsonl has not",
                folder.display()
            ))
        })?;
        set.queries.push(Query { text, relevant });
    }
    if set.queries.is_empty() {
        return Err(Failure::new(format!("{}: qrels/test.tsv has no queries", folder.display())));
    }
    Ok(set)
}

/// Has `take` each object of a file with its id; `take` gives back how many there are.
fn texts(path: &Path, mut take: impl FnMut(String, TextObject) -> usize) -> Result<(), Failure> {
    each_line(path, |_, line| {
        let object: TextObject = serde_json::from_str(line)
            .map_err(|error| format!("no JSON object with _id and text: {error}"))?;
        let id = object.id.as_str().map_or_else(|| object.id.to_string(), str::to_owned);
        if take(id, object) > MAX_TEXTS {
            Err(format!("there are more than {MAX_TEXTS} texts"))
        } else {
            Ok(())
        }
    })
}

/// Has `take` each line that is not empty, with its number from 1.
fn each_line(path: &Path, mut take: impl FnMut(u64, &str) -> Result<(), String>) -> Result<(), Failure> {
    let name = path.display();
    let cannot = |error: std::io::Error| Failure::new(format!("cannot read {name}: {error}"));
    let file = File::open(path).map_err(cannot)?;
    let lines = BufReader::new(file.take(MAX_BYTES)).lines();
    for (number, line) in (1..).zip(lines) {
        let line = line.map_err(cannot)?;
        if !line.trim().is_empty() {
            take(number, line.trim_end_matches('\r'))
                .map_err(|problem| Failure::new(format!("{name}, line {number}: {problem}")))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(name: &str, text: &str) -> Result<Vec<Pair>, Failure> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        match read(&path)? {
            Set::Pairs(pairs) => Ok(pairs),
            Set::Retrieval(_) => panic!("pairs"),
        }
    }

    #[test]
    fn pairs_are_read_from_each_form() {
        let two = [("a b", "c", 4.5), ("d", "e", 0.0)];
        let two: Vec<Pair> = two
            .map(|(first, second, score)| Pair { first: first.into(), second: second.into(), score })
            .into();
        assert_eq!(pairs("s.tsv", "score\tone\ttwo\n4.5\ta b\tc\n0\td\te\n").unwrap(), two);
        let own = "main\tx\t2017\t1\t4.5\ta b\tc\nmain\tx\t2017\t2\t0\td\te\tlicence\n";
        assert_eq!(pairs("sts-test.csv", own).unwrap(), two);
        let commas = "\"a b\",c,4.5\nd,e,0\n";
        assert_eq!(pairs("stsb-en-test.csv", commas).unwrap(), two);
        assert_eq!(columns("\"a, \"\"b\"\"\",,\"\",3"), ["a, \"b\"", "", "", "3"]);
        let json = "{\"sentence1\":\"a b\",\"sentence2\":\"c\",\"score\":4.5}\n{\"sentence1\":\"d\",\"sentence2\":\"e\",\"score\":0}\n";
        assert_eq!(pairs("s.jsonl", json).unwrap(), two);
        let message = pairs("s.tsv", "1\ta\tb\nx\tc\td\n").unwrap_err().message;
        assert!(message.ends_with("s.tsv, line 2: \"x\" is no score"), "{message}");
    }

    #[test]
    fn a_folder_of_beir_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        std::fs::create_dir(folder.path().join("qrels")).unwrap();
        put(
            "corpus.jsonl",
            "{\"_id\":\"d1\",\"title\":\"t\",\"text\":\"one\"}\n{\"_id\":\"d2\",\"text\":\"two\"}\n",
        );
        put("queries.jsonl", "{\"_id\":\"q1\",\"text\":\"ask\"}\n{\"_id\":\"q2\",\"text\":\"unused\"}\n");
        put("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td2\t2\n");
        let Ok(Set::Retrieval(set)) = read(folder.path()) else { panic!("a retrieval set") };
        assert_eq!(set.documents, ["t one", "two"]);
        assert_eq!((set.queries.len(), set.queries[0].relevant[&1]), (1, 2.0));
        put("qrels/test.tsv", "q1\td3\t1\n");
        assert!(read(folder.path()).is_err_and(|failure| failure.message.contains("no document \"d3\"")));
    }
}
