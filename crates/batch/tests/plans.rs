//! Dry runs.

use crate::fake::{Fake, Folder, line, lines, quiet};
use batch::{Cancel, Input, Options, Plan, Runner, Streams, plan};
use std::sync::Arc;

async fn planned(options: Options, runner: Option<Arc<dyn Runner>>) -> Plan {
    plan(options, runner, Streams::default(), quiet(), Cancel::default()).await.unwrap()
}

#[tokio::test]
async fn a_plan_counts_and_leaves_nothing() {
    let input = lines(300) + &line("again", "prompt 5") + "{bad\n" + &line("id-1", "another");
    let folder = Folder::new("in.jsonl", &input);
    let fake = Fake::new();
    let found = planned(folder.options("out"), Some(fake.clone())).await;
    let counts = found.counts;
    assert_eq!((counts.lines, counts.malformed, counts.duplicates, counts.requests), (303, 2, 1, 300));
    assert_eq!((found.bytes, found.prompt_tokens, found.estimated), (input.len() as u64, 1_500, false));
    assert_eq!(found.faults.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [302, 303]);
    assert_eq!((fake.attempts(), folder.names()), (0, vec!["in.jsonl".to_owned()]));
}

#[tokio::test]
async fn without_a_runner_tokens_are_estimated() {
    let folder = Folder::new("in.jsonl", lines(10));
    let mut options = folder.options("out");
    options.output = None;
    options.params.insert("max_tokens".to_owned(), 7.into());
    let found = planned(options, None).await;
    assert!(found.estimated && (20..100).contains(&found.prompt_tokens), "{found:?}");
    assert_eq!((found.max_completion_tokens, found.unlimited), (70, 0));
}

#[tokio::test]
async fn the_copy_of_a_stream_is_removed() {
    let folder = Folder::new("in.jsonl", "");
    let mut options = folder.options("out");
    options.input = Input::Stream;
    let streams = Streams { input: Some(Box::new(std::io::Cursor::new(lines(4)))), output: None };
    let found = plan(options, None, streams, quiet(), Cancel::default()).await.unwrap();
    assert_eq!((found.counts.lines, folder.names()), (4, vec!["in.jsonl".to_owned()]));
}
