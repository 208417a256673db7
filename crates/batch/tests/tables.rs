//! Rows in, rows out: CSV, TSV and JSON. Files and their rows are from Python's csv module: tools/fixtures/csv_rows.py.

use crate::fake::{Fake, Folder, run};
use batch::{Endpoint, Format, Options, Outcome};
use serde_json::{Value, json};
use std::path::Path;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/csv");
const FILES: [&str; 6] =
    ["minimal.csv", "line-feeds.csv", "all-quoted.csv", "mark.csv", "tabs.tsv", "by-hand.csv"];

fn fixture(name: &str) -> (Folder, Vec<Value>) {
    let bytes = std::fs::read(Path::new(FIXTURES).join(name)).unwrap();
    let rows = std::fs::read(Path::new(FIXTURES).join(format!("{name}.json"))).unwrap();
    (Folder::new(name, bytes), serde_json::from_slice(&rows).unwrap())
}

fn with_template(folder: &Folder, output: &str) -> Options {
    let mut options = folder.options(output);
    options.template = Some("{text}|{last}|{{second}}".to_owned());
    options
}

#[tokio::test]
async fn rows_are_those_that_python_reads() {
    for name in FILES {
        let (folder, wanted) = fixture(name);
        let report = run(with_template(&folder, "out.jsonl"), &Fake::new()).await.unwrap();
        assert_eq!((name, report.outcome), (name, Outcome::Complete));
        let found = folder.rows("out.jsonl");
        assert_eq!(found.len(), wanted.len(), "{name}");
        for (found, wanted) in found.iter().zip(&wanted) {
            for (column, value) in wanted.as_object().unwrap() {
                assert_eq!(&found[column], value, "{name}: {column}");
            }
            let prompt = format!(
                "{}|{}|{{second}}",
                wanted["text"].as_str().unwrap(),
                wanted["last"].as_str().unwrap()
            );
            let text = found["answer_text"].as_str().unwrap();
            assert!(text.starts_with(&format!("{} [", prompt.to_uppercase())), "{name}: {text}");
            assert_eq!((&found["finish_reason"], &found["error"]), (&json!("stop"), &Value::Null));
            assert_eq!(
                found["usage"],
                json!({"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13})
            );
        }
    }
}

#[tokio::test]
async fn written_rows_are_read_back_as_they_were() {
    for (name, output) in [("minimal.csv", "out.csv"), ("tabs.tsv", "out.tsv"), ("all-quoted.csv", "out.tsv")]
    {
        let (folder, wanted) = fixture(name);
        run(with_template(&folder, output), &Fake::new()).await.unwrap();
        let delimiter = if output.ends_with("csv") { b',' } else { b'\t' };
        let mut reader =
            csv::ReaderBuilder::new().delimiter(delimiter).from_path(folder.path(output)).unwrap();
        let header: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
        assert_eq!(&header[5..], ["answer_text", "finish_reason", "usage", "error"]);
        let records: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(records.len(), wanted.len());
        for (record, wanted) in records.iter().zip(&wanted) {
            for (column, cell) in header[..5].iter().zip(record) {
                assert_eq!(wanted[column], json!(cell));
            }
            assert_eq!((&record[6], &record[8]), ("stop", ""));
        }
    }
}

#[tokio::test]
async fn a_row_that_fails_keeps_its_place() {
    let folder = Folder::new("in.csv", "id,q\n1,good\n2\n3,bad\n4,good\n");
    let fake = Fake::with(|prompt, _| if prompt == "bad" { crate::fake::status(400, "no") } else { None });
    let mut options = folder.options("out.csv");
    options.prompt_column = Some("q".to_owned());
    options.keep = Some(vec!["id".to_owned()]);
    let report = run(options, &fake).await.unwrap();
    assert_eq!((report.outcome, report.counts.duplicates), (Outcome::SomeFailed, 0));
    let text = folder.read("out.csv");
    let firsts: Vec<&str> = text.lines().map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(firsts, ["id", "1", "", "3", "4"]);
    let errors = folder.rows("out.csv.errors.jsonl");
    assert_eq!((&errors[0]["line"], &errors[0]["error"]["code"]), (&json!(3), &json!("invalid_csv_row")));
    assert_eq!((&errors[1]["line"], &errors[1]["status_code"]), (&json!(4), &json!(400)));
}

#[tokio::test]
async fn a_missing_column_of_an_object_is_an_error_that_names_those_that_exist() {
    let folder = Folder::new("in.jsonl", "{\"q\":\"x\"}\n{\"p\":1,\"r\":2}\n");
    let mut options = folder.options("out");
    options.template = Some("{q}".to_owned());
    run(options, &Fake::new()).await.unwrap();
    let rows = folder.rows("out");
    assert_eq!(rows[1]["error"]["message"], json!("there is no column \"q\"; the row has: p, r"));
    assert_eq!((&rows[1]["p"], &rows[1]["text"]), (&json!(1), &Value::Null));
}

#[tokio::test]
async fn bodies_keep_columns_that_are_no_part_of_the_request() {
    let folder = Folder::new("in.jsonl", "{\"id\":7,\"input\":\"abc\"}\n{\"id\":8,\"input\":\"abc\"}\n");
    let fake = Fake::new();
    let mut options = folder.options("out.csv");
    options.endpoint = Some(Endpoint::Embeddings);
    options.keep = Some(vec!["id".to_owned()]);
    options.params.insert("dimensions".to_owned(), json!(2));
    run(options, &fake).await.unwrap();
    assert_eq!(fake.attempts(), 1);
    let text = folder.read("out.csv");
    assert!(text.starts_with("id,result,usage,error\n7,\"[10,0.5]\","), "{text}");
}

#[tokio::test]
async fn lines_of_a_batch_can_be_written_as_a_table() {
    let folder = Folder::new("in.jsonl", crate::fake::lines(2));
    let mut options = folder.options("out");
    options.output_format = Some(Format::Csv);
    run(options, &Fake::new()).await.unwrap();
    assert!(folder.read("out").starts_with("custom_id,text,finish_reason,usage,error\nid-0,PROMPT 0 ["));
}
