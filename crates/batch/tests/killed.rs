//! Runs that are killed: dropped at random points, and as processes that get `kill -9`. The process is this program, started
//! again for a test that is marked as ignored.

use crate::fake::{Fake, Folder, broken, line, quiet, run};
use batch::{AskError, BoxFuture, Cancel, Error, Options, Outcome, Reply, Runner, Streams};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use serde_json::json;
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const NAME: &str = "killed::process_that_runs";
const FOLDER: &str = "BATCH_TEST_FOLDER";
/// Answers that a kill may cost: a group, and as many requests as run.
const GROUP: u64 = 256;
const RUNNING: u64 = 16;

/// Lines of every kind: asked once, asked again, drawn, malformed, refused.
fn mixed(count: usize) -> String {
    let one = |number: usize| {
        let id = format!("id-{number}");
        match number % 10 {
            3 => line(&id, &format!("prompt {}", number / 20)),
            5 => {
                let body = json!({"messages": [{"role": "user", "content": "drawn"}], "temperature": 1.0});
                json!({"custom_id": id, "method": "POST", "url": "/v1/chat/completions", "body": body})
                    .to_string()
                    + "\n"
            }
            7 => "{broken\n".to_owned(),
            9 => line(&id, &format!("refused {number}")),
            _ => line(&id, &format!("prompt {number}")),
        }
    };
    (0..count).map(one).collect()
}

/// Refuses what is to be refused, and fails at the first attempt now and then.
fn moody() -> Arc<Fake> {
    Fake::with(|prompt, attempt| {
        if prompt.starts_with("refused") {
            return crate::fake::status(400, "refused");
        }
        if attempt == 1 && prompt.len() % 4 == 0 { broken() } else { None }
    })
}

fn options(folder: &Folder) -> Options {
    let mut options = folder.options("out");
    options.concurrency = RUNNING as usize;
    options.window_lines = 300;
    options
}

/// The output and the errors of an undisturbed run.
async fn undisturbed(input: &str) -> (String, String) {
    let folder = Folder::new("in.jsonl", input);
    assert_eq!(run(options(&folder), &moody()).await.unwrap().outcome, Outcome::SomeFailed);
    (folder.read("out"), folder.read("out.errors.jsonl"))
}

/// Runs until so many answers were given, and drops the run there. Whether it ended before that.
async fn dropped_after(folder: &Folder, fake: &Arc<Fake>, answers: u64) -> bool {
    let mut enough = Box::pin(async {
        while fake.answered.load(Ordering::Relaxed) < answers {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    loop {
        tokio::select! {
            biased;
            ended = run(options(folder), fake) => match ended {
                // A commit of the run that was dropped is still going on.
                Err(Error::InUse { .. }) => tokio::time::sleep(Duration::from_millis(1)).await,
                other => return other.unwrap().outcome == Outcome::SomeFailed,
            },
            () = &mut enough => return false,
        }
        if fake.answered.load(Ordering::Relaxed) >= answers {
            return false;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_dropped_anywhere_ends_with_the_same_bytes() {
    const KILLS: u64 = 200;
    let input = mixed(400);
    let (output, errors) = undisturbed(&input).await;
    let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut kills = 0;
    while kills < KILLS {
        let folder = Folder::new("in.jsonl", &input);
        let fake = moody();
        let mut here = 0;
        while here < 12 {
            let answers = fake.answered.load(Ordering::Relaxed) + u64::from(random.next_u32() % 300);
            if dropped_after(&folder, &fake, answers).await {
                break;
            }
            here += 1;
        }
        while !dropped_after(&folder, &fake, u64::MAX).await {}
        assert_eq!((folder.read("out"), folder.read("out.errors.jsonl")), (output.clone(), errors.clone()));
        let answered = fake.answered.load(Ordering::Relaxed);
        assert!(answered <= 400 + here * (GROUP + RUNNING), "{answered} answers, {here} kills");
        kills += here;
    }
}

/// A server that notes on the disk what it has answered.
struct Noting {
    fake: Arc<Fake>,
    notes: PathBuf,
}

impl Runner for Noting {
    fn ask<'a>(&'a self, path: &'a str, body: Vec<u8>) -> BoxFuture<'a, Result<Reply, AskError>> {
        Box::pin(async move {
            let note = format!(
                "{:016x}\n",
                body.iter().fold(7u64, |sum, byte| sum.wrapping_mul(31) + u64::from(*byte))
            );
            let reply = self.fake.ask(path, body).await?;
            let mut notes = OpenOptions::new().create(true).append(true).open(&self.notes).unwrap();
            notes.write_all(note.as_bytes()).unwrap();
            Ok(reply)
        })
    }

    fn count<'a>(&'a self, _: &'a str, _: Vec<Vec<u8>>) -> BoxFuture<'a, Option<Vec<u64>>> {
        Box::pin(async { None })
    }
}

#[tokio::test]
#[ignore = "started by the test below"]
async fn process_that_runs() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let mut options = Options::new(batch::Input::File(folder.join("in.jsonl")), Some(folder.join("out")));
    options.concurrency = RUNNING as usize;
    let noting = Noting { fake: Fake::new(), notes: folder.join("notes") };
    let report = batch::run(options, Arc::new(noting), Streams::default(), quiet(), Cancel::default()).await;
    assert_eq!(report.unwrap().outcome, Outcome::Complete);
}

#[test]
fn a_process_that_is_killed_loses_at_most_a_group_and_ends_with_the_same_bytes() {
    const LINES: usize = 3_000;
    const KILLS: u64 = 20;
    let input = crate::fake::lines(LINES);
    let folder = Folder::new("in.jsonl", &input);
    let notes = || std::fs::read_to_string(folder.path("notes")).unwrap_or_default().lines().count() as u64;
    let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &[9; 32]);
    let start = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", NAME, "--ignored"]).env(FOLDER, folder.dir.path()).stdout(Stdio::null());
        command.spawn().unwrap()
    };
    for kill in 0..KILLS {
        let mut process = start();
        // Every third is killed by the clock: while the input is read, or anywhere.
        let enough = if kill % 3 == 0 { u64::MAX } else { notes() + u64::from(random.next_u32() % 300) };
        let mut patience = 1 + random.next_u32() % 60;
        while process.try_wait().unwrap().is_none() && notes() < enough && patience > 0 {
            std::thread::sleep(Duration::from_millis(2));
            patience -= u32::from(enough == u64::MAX);
        }
        process.kill().unwrap();
        process.wait().unwrap();
    }
    assert!(start().wait().unwrap().success());

    let mut counts: HashMap<String, u64> = HashMap::new();
    for note in folder.read("notes").lines() {
        *counts.entry(note.to_owned()).or_default() += 1;
    }
    let again: u64 = counts.values().map(|count| count - 1).sum();
    assert!(
        counts.len() >= LINES && again <= KILLS * (GROUP + RUNNING),
        "{again} answers were computed again"
    );
    let whole = Folder::new("in.jsonl", &input);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(run(whole.options("out"), &Fake::new())).unwrap();
    assert_eq!(folder.read("out"), whole.read("out"));
}

#[tokio::test]
async fn a_second_run_on_a_journal_is_refused() {
    let folder = Folder::new("in.jsonl", crate::fake::lines(3));
    let slow = Fake::slow(Duration::from_secs(60), |_, _| None);
    let first = tokio::spawn({
        let (options, slow) = (folder.options("out"), slow.clone());
        async move { run(options, &slow).await }
    });
    while slow.attempts() < 3 {
        tokio::task::yield_now().await;
    }
    let error = run(folder.options("out"), &Fake::new()).await.unwrap_err().to_string();
    assert!(error.ends_with(&format!("is in use by process {}", std::process::id())), "{error}");
    first.abort();
}

#[tokio::test]
async fn a_journal_of_another_run_is_refused_and_nothing_is_lost() {
    let folder = Folder::new("in.jsonl", crate::fake::lines(40));
    let cancel = Cancel::default();
    let switch = cancel.clone();
    let fake = Fake::with(move |prompt, _| {
        if prompt == "prompt 9" {
            switch.cancel();
        }
        None
    });
    batch::run(folder.options("out"), fake, Streams::default(), quiet(), cancel).await.unwrap();
    let mut other = folder.options("out");
    other.identity = "another model".to_owned();
    let error = run(other, &Fake::new()).await.unwrap_err().to_string();
    assert!(error.contains("identity was absent, is another model; --force-new"), "{error}");
    std::fs::write(folder.path("in.jsonl"), crate::fake::lines(41)).unwrap();
    let error = run(folder.options("out"), &Fake::new()).await.unwrap_err().to_string();
    assert!(error.contains("input was sha256:"), "{error}");
    let mut new = folder.options("out");
    new.force_new = true;
    assert_eq!(run(new, &Fake::new()).await.unwrap().counts.succeeded, 41);
}
