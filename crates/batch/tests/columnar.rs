//! Tables of Parquet in and out. Those that are read are from pyarrow: tools/fixtures/parquet_rows.py.

use crate::fake::{Fake, Folder, run};
use batch::{Error, Outcome};
use serde_json::{Value, json};
use std::path::Path;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/parquet");

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(FIXTURES).join(name)).unwrap()
}

#[tokio::test]
async fn rows_are_those_that_were_written() {
    let wanted: Vec<Value> = serde_json::from_slice(&fixture("rows.json")).unwrap();
    for name in ["snappy.parquet", "none.parquet"] {
        let folder = Folder::new("in.parquet", fixture(name));
        let mut options = folder.options("out.jsonl");
        options.template = Some("{byte}: {text}".to_owned());
        let report = run(options, &Fake::new()).await.unwrap();
        assert_eq!((report.outcome, report.counts.lines), (Outcome::Complete, 50));
        for (found, wanted) in folder.rows("out.jsonl").iter().zip(&wanted) {
            for (column, value) in wanted.as_object().unwrap() {
                assert_eq!(&found[column], value, "{name}: {column}");
            }
        }
        // The unpacked copy has served.
        assert_eq!(folder.names(), ["in.parquet", "out.jsonl", "out.jsonl.manifest.json"]);
    }
}

#[tokio::test]
async fn a_table_that_was_written_is_read_again() {
    let folder = Folder::new("in.parquet", fixture("snappy.parquet"));
    let mut options = folder.options("out.parquet");
    options.prompt_column = Some("text".to_owned());
    options.keep = Some(vec!["text".to_owned(), "long".to_owned()]);
    run(options, &Fake::new()).await.unwrap();
    let again = Folder::new("in.parquet", std::fs::read(folder.path("out.parquet")).unwrap());
    let mut options = again.options("out.jsonl");
    options.prompt_column = Some("answer_text".to_owned());
    run(options, &Fake::new()).await.unwrap();
    let rows = again.rows("out.jsonl");
    assert_eq!((&rows[2]["text"], &rows[2]["long"]), (&json!("Größe 2 水\n"), &json!("-18014398509481984")));
    assert_eq!((&rows[4]["text"], rows.len()), (&Value::Null, 50));
    assert!(rows[2]["answer_text"].as_str().unwrap().starts_with("GRÖSSE 2 水\n ["));
}

#[tokio::test]
async fn abuse_a_table_that_is_cut_is_an_error() {
    let whole = fixture("snappy.parquet");
    for end in [0, 3, 8, whole.len() / 2, whole.len() - 1] {
        let folder = Folder::new("in.parquet", &whole[..end]);
        let mut options = folder.options("out");
        options.prompt_column = Some("text".to_owned());
        let error = run(options, &Fake::new()).await.unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{end}: {error}");
        assert_eq!(folder.names(), ["in.parquet"]);
    }
}
