//! `kill -9` of a server that accepts and ends jobs: whatever it said was done is there afterwards. The process is this
//! program, started again for the one test that is marked as ignored.

use crate::common::{NOW, body_of, claim, job, success};
use job_store::{Finished, NewJob, SqliteStore, Store, StoreLimits};
use jobs::JobStatus;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

const NAME: &str = "killed::server_that_is_killed";
const FOLDER: &str = "JOB_STORE_TEST_FOLDER";
const ROUND: &str = "JOB_STORE_TEST_ROUND";

fn body(id: &str, n: usize) -> Vec<u8> {
    // Some lie beside the database.
    if n.is_multiple_of(5) { body_of(id).repeat(2_000) } else { body_of(id) }
}

/// Accepts and ends jobs, and says so afterwards, until it is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by the test below"]
async fn server_that_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let round = std::env::var(ROUND).unwrap();
    let limits = StoreLimits { open_jobs: u64::MAX, open_jobs_of_key: u64::MAX, ..StoreLimits::default() };
    let store = Arc::new(SqliteStore::open(Path::new(&folder), limits).unwrap());
    store.take_back(NOW).await.unwrap();
    let accepting: Vec<_> = (0..4)
        .map(|caller| {
            let (store, round) = (store.clone(), round.clone());
            tokio::spawn(async move {
                for n in 0.. {
                    let id = format!("job_{round}_{caller}_{n}");
                    let new = NewJob { job: job(&id, "ann"), body: body(&id, n) };
                    store.accept(new, None, NOW).await.unwrap();
                    println!("\naccepted {id} {n}");
                }
            })
        })
        .collect();
    let working = tokio::spawn(async move {
        loop {
            for one in claim(&*store, "w", 4, NOW).await {
                let result = [one.job.id.as_bytes(), &one.body].concat();
                let done = store.finish(&one.job.id, one.job.epoch, success(&result), NOW).await.unwrap();
                assert!(matches!(done, Finished::Done(_)));
                println!("\nfinished {}", one.job.id);
            }
            store.sweep(NOW).await.unwrap();
        }
    });
    for one in accepting.into_iter().chain([working]) {
        one.await.unwrap();
    }
}

fn start(folder: &Path, round: usize) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", NAME, "--ignored", "--nocapture"]);
    command.env(FOLDER, folder).env(ROUND, round.to_string()).stdout(Stdio::piped());
    command.spawn().unwrap()
}

#[tokio::test]
async fn killed_servers_keep_what_they_said() {
    let folder = tempfile::tempdir().unwrap();
    let mut accepted: Vec<(String, usize)> = Vec::new();
    let mut finished = BTreeSet::new();
    for round in 0..8 {
        let mut process = start(folder.path(), round);
        // Killed at another place each time.
        let mut left = 15 + round * 37 % 90;
        let mut killed = false;
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        for line in lines.map_while(Result::ok) {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["accepted", id, n] => accepted.push((id.to_owned(), n.parse().unwrap())),
                ["finished", id] => assert!(finished.insert(id.to_owned()), "{id} was finished twice"),
                _ => continue,
            }
            left = left.saturating_sub(1);
            if left == 0 && !killed {
                killed = true;
                process.kill().unwrap();
            }
        }
        process.wait().unwrap();
        assert!(killed);
        let store = SqliteStore::open(folder.path(), StoreLimits::default()).unwrap();
        for (id, n) in &accepted {
            assert_eq!(store.body(id).await.unwrap(), body(id, *n));
        }
        for id in &finished {
            assert_eq!(store.job(id, None).await.unwrap().status, JobStatus::Succeeded, "{id}");
            assert!(store.result(id).await.unwrap().starts_with(id.as_bytes()));
        }
        drop(store);
        let report = SqliteStore::check(folder.path()).unwrap();
        assert_eq!(report.problems, Vec::<String>::new());
    }
    assert!(!finished.is_empty());
}
