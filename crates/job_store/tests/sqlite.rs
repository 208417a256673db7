//! What only the store in a folder has: the lock, damage, blobs, groups of commits, check and export.

use crate::common::{MINUTE, NOW, body_of, claim, file, job, offer, put_file, running_batch, success};
use crate::suite::LIMITS;
use job_store::{Accepted, NewJob, SqliteStore, Store, StoreError, StoreLimits};
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

fn open(folder: &Path) -> SqliteStore {
    SqliteStore::open(folder, StoreLimits::default()).unwrap()
}

/// All files below a folder, sorted.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

fn large(seed: u8) -> Vec<u8> {
    (0..100_000_u32).map(|n| (n % 253) as u8 ^ seed).collect()
}

async fn offer_large(store: &dyn Store, id: &str, seed: u8) {
    store.accept(NewJob { job: job(id, "ann"), body: large(seed) }, None, NOW).await.unwrap();
}

#[tokio::test]
async fn a_second_process_is_refused_and_a_closed_store_opens_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    offer(&store, job("job_1", "ann"), NOW).await;
    let refused = SqliteStore::open(folder.path(), LIMITS).unwrap_err();
    assert!(matches!(&refused, StoreError::InUse { pid, .. } if *pid == std::process::id()), "{refused}");
    drop(store);
    let store = open(folder.path());
    assert_eq!(store.job("job_1", None).await.unwrap().id, "job_1");
    assert_eq!(claim(&store, "w", 1, NOW).await.len(), 1);
    drop(store);
    // A server that died held it: its successor takes it back at once.
    let store = open(folder.path());
    assert_eq!(store.take_back(NOW).await.unwrap(), 1);
    assert_eq!(claim(&store, "w", 1, NOW).await[0].job.epoch, 2);
}

#[test]
fn a_later_version_and_damage_are_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    let path = folder.path().join("jobs.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute("UPDATE job_schema SET version = 99", []).unwrap();
    drop(connection);
    let late = SqliteStore::open(folder.path(), LIMITS).unwrap_err();
    assert!(matches!(late, StoreError::TooNew { found: 99, known: 1, .. }), "{late}");
    for (offset, bytes) in [(0, b"no database at all".as_slice()), (4_096, &[0xa5; 2_000])] {
        let folder = tempfile::tempdir().unwrap();
        drop(open(folder.path()));
        let path = folder.path().join("jobs.db");
        let mut content = std::fs::read(&path).unwrap();
        content[offset..offset + bytes.len()].copy_from_slice(bytes);
        std::fs::write(&path, &content).unwrap();
        let damaged = SqliteStore::open(folder.path(), LIMITS).unwrap_err();
        assert!(matches!(damaged, StoreError::Damaged { .. }), "{damaged}");
        assert!(std::fs::read(&path).unwrap() == content, "was changed");
        let report = SqliteStore::check(folder.path()).unwrap();
        assert!(!report.problems.is_empty());
    }
}

#[tokio::test]
async fn a_torn_end_of_the_log_costs_only_what_was_not_committed() {
    let folder = tempfile::tempdir().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for n in 0..20 {
        offer(&store, job(&format!("job_{n:02}"), "ann"), NOW).await;
    }
    // As a crash leaves it, with some bytes of a transaction that was never committed.
    for name in ["jobs.db", "jobs.db-wal"] {
        std::fs::copy(folder.path().join(name), copy.path().join(name)).unwrap();
    }
    let log = copy.path().join("jobs.db-wal");
    let mut bytes = std::fs::read(&log).unwrap();
    bytes.extend(std::iter::repeat_n(0x5a, 5_000));
    std::fs::write(&log, bytes).unwrap();
    let other = open(copy.path());
    for n in 0..20 {
        assert_eq!(other.body(&format!("job_{n:02}")).await.unwrap(), body_of(&format!("job_{n:02}")));
    }
    drop(other);
    assert_eq!(SqliteStore::check(copy.path()).unwrap().problems, Vec::<String>::new());
}

#[tokio::test]
async fn bytes_that_nothing_names_are_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = folder.path().join("blobs");
    let store = open(folder.path());
    for (id, seed) in [("job_1", 1), ("job_2", 1), ("job_3", 2)] {
        offer_large(&store, id, seed).await;
        store.cancel(id, None, NOW).await.unwrap();
    }
    assert_eq!(files(&blobs).len(), 2);
    put_file(&store, file("file-1", "ann", 3), b"abc").await;
    store.delete("job_1", None, NOW).await.unwrap();
    store.delete("job_3", None, NOW).await.unwrap();
    store.delete_file("file-1", None, NOW).await.unwrap();
    store.sweep(NOW).await.unwrap();
    assert_eq!(files(&blobs).len(), 1);
    assert!(files(&folder.path().join("files")).is_empty());
    assert!(store.body("job_2").await.unwrap() == large(1));
    // What a crash left: bytes whose row never came, and parts that were never whole.
    std::fs::create_dir_all(blobs.join("ab")).unwrap();
    std::fs::write(blobs.join("ab/abcd"), b"left").unwrap();
    store.write_file("file-2", 0, b"begun".to_vec()).await.unwrap();
    for _ in 0..40 {
        store.sweep(NOW).await.unwrap();
    }
    assert_eq!(files(&blobs).len(), 1);
    assert_eq!(files(&folder.path().join("part")).len(), 1);
    drop(store);
    let store = open(folder.path());
    assert!(files(&folder.path().join("part")).is_empty());
    assert!(store.body("job_2").await.unwrap() == large(1));
}

/// The same large body is offered, cancelled and deleted again and again while leftovers are looked for: no job ever loses
/// its body to another one's end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_a_shared_body_is_not_deleted_under_a_new_job() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(open(folder.path()));
    let others: Vec<_> = (0..4)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                for round in 0..25 {
                    let id = format!("job_{n}_{round}");
                    offer_large(&*store, &id, 7).await;
                    assert!(store.body(&id).await.unwrap() == large(7));
                    store.cancel(&id, None, NOW).await.unwrap();
                    store.delete(&id, None, NOW).await.unwrap();
                }
            })
        })
        .collect();
    for _ in 0..40 {
        store.sweep(NOW).await.unwrap();
    }
    for other in others {
        other.await.unwrap();
    }
}

/// Transactions of one group: those that are refused do not undo the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_call_does_not_undo_its_group() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(open(folder.path()));
    let calls: Vec<_> = (0..400)
        .map(|n| {
            let store = store.clone();
            // Each id is offered twice.
            let id = format!("job_{:03}", n / 2);
            tokio::spawn(async move {
                let new = NewJob { job: job(&id, "ann"), body: body_of(&id) };
                store.accept(new, None, NOW).await
            })
        })
        .collect();
    let mut kept = 0;
    for call in calls {
        match call.await.unwrap() {
            Ok(Accepted::New(_)) => kept += 1,
            other => assert!(matches!(other, Err(StoreError::Conflict(_))), "{other:?}"),
        }
    }
    assert_eq!(kept, 200);
    for n in 0..200 {
        assert_eq!(store.body(&format!("job_{n:03}")).await.unwrap(), body_of(&format!("job_{n:03}")));
    }
    assert_eq!(SqliteStore::check(folder.path()).unwrap().problems, Vec::<String>::new());
}

/// A call whose future is dropped is done or not, and does not disturb others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_may_be_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(open(folder.path()));
    for n in 0..100 {
        let store = store.clone();
        let call = tokio::spawn(async move { offer_large(&*store, &format!("job_{n:03}"), n).await });
        if n % 3 == 0 {
            tokio::task::yield_now().await;
        }
        call.abort();
        let _ = call.await;
    }
    store.sweep(NOW).await.unwrap();
    for n in 0..100_u8 {
        match store.body(&format!("job_{n:03}")).await {
            Ok(body) => assert!(body == large(n)),
            Err(error) => assert_eq!(error, StoreError::NotFound("job")),
        }
    }
    offer(&*store, job("job_last", "ann"), NOW).await;
}

#[tokio::test]
async fn check_and_export() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    offer_large(&store, "job_1", 1).await;
    offer(&store, job("job_2", "ann"), NOW).await;
    let mut content = file("file-1", "ann", 3);
    content.sha256 = Sha256::digest(b"abc").iter().map(|byte| format!("{byte:02x}")).collect();
    put_file(&store, content, b"abc").await;
    let target = folder.path().join("export");
    let report = SqliteStore::check(folder.path()).unwrap();
    assert!(report.in_use && report.problems.is_empty(), "{report:?}");
    let exported = SqliteStore::export(folder.path(), &target).unwrap();
    assert_eq!((exported.blobs, exported.missing), (2, 0));
    assert!(matches!(SqliteStore::export(folder.path(), &target), Err(StoreError::Conflict(_))));
    // After the export, nothing of it changes.
    store.cancel("job_1", None, NOW).await.unwrap();
    let copy = open(&target);
    assert!(copy.body("job_1").await.unwrap() == large(1));
    assert_eq!(copy.read_file("file-1", 0, 9).await.unwrap(), b"abc");
    assert_eq!(claim(&copy, "w", 9, NOW).await.len(), 2);
    drop(copy);
    let report = SqliteStore::check(&target).unwrap();
    assert_eq!((report.jobs, report.files, report.leftovers, report.in_use), (2, 1, 0, false));
    assert_eq!(report.blob_bytes, 100_003);
    assert_eq!(report.problems, Vec::<String>::new());
    // A missing body, a changed one, a leftover and a wrong counter are found.
    let blob = files(&target.join("blobs")).remove(0);
    std::fs::write(&blob, large(2)).unwrap();
    std::fs::remove_file(files(&target.join("files")).remove(0)).unwrap();
    std::fs::create_dir_all(target.join("blobs/00")).unwrap();
    std::fs::write(target.join("blobs/00/00ff"), b"left").unwrap();
    let connection = rusqlite::Connection::open(target.join("jobs.db")).unwrap();
    connection.execute("UPDATE job_tally SET n = n + 5 WHERE what = 'lines' OR what = 'jobs'", []).unwrap();
    drop(connection);
    let report = SqliteStore::check(&target).unwrap();
    assert_eq!((report.problems.len(), report.leftovers), (3, 1), "{report:?}");
    assert!(SqliteStore::check(&folder.path().join("nowhere")).is_err());
}

/// A tmpfs of 3 MiB, if the test may mount one.
struct Small(tempfile::TempDir);

impl Small {
    fn mount() -> Option<Small> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=3m", "tmpfs"]).arg(folder.path());
        let done = mount.output().is_ok_and(|output| output.status.success());
        done.then_some(Small(folder))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[tokio::test]
async fn a_full_disk_refuses_and_loses_nothing() {
    let Some(small) = Small::mount() else {
        eprintln!("left out: no right to mount a small file system");
        return;
    };
    let folder = small.0.path();
    let store = open(folder);
    let mut kept = Vec::new();
    let mut refused = 0;
    for n in 0..600 {
        let id = format!("job_{n:03}");
        // Small bodies in rows, and large ones beside them.
        let body = vec![n as u8; if n % 4 == 0 { 20_000 + n } else { 3_000 }];
        match store.accept(NewJob { job: job(&id, "ann"), body: body.clone() }, None, NOW).await {
            Ok(_) => kept.push((id, body)),
            Err(StoreError::Full(_)) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 0 && kept.len() > 20, "{refused} refused, {} kept", kept.len());
    let too_much = store.write_file("file-1", 0, vec![1; 4 << 20]).await;
    assert!(matches!(too_much, Err(StoreError::Full(_))), "{too_much:?}");
    store.discard_file("file-1").await.unwrap();
    for (id, body) in &kept {
        assert!(store.body(id).await.unwrap() == *body);
    }
    drop(store);
    let store = open(folder);
    for (id, body) in &kept {
        assert!(store.body(id).await.unwrap() == *body);
    }
    let page = job_store::JobFilter { limit: 1_000, ..job_store::JobFilter::default() };
    assert_eq!(store.jobs(page).await.unwrap().rows.len(), kept.len());
    drop(store);
    assert_eq!(SqliteStore::check(folder).unwrap().problems, Vec::<String>::new());
}

/// Not a test of speed: many callers at once, all of them answered, with far fewer synchronizations than calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "tells how many jobs a second are accepted on this machine"]
async fn accepts_a_second() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(open(folder.path()));
    let begin = std::time::Instant::now();
    let callers: Vec<_> = (0..64)
        .map(|caller| {
            let store = store.clone();
            tokio::spawn(async move {
                for n in 0..50 {
                    offer(&*store, job(&format!("job_{caller}_{n}"), &format!("key{caller}")), NOW).await;
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    println!("{:.0} accepts/s", 3_200.0 / begin.elapsed().as_secs_f64());
    let begin = std::time::Instant::now();
    let workers: Vec<_> = (0..8)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                loop {
                    let held = claim(&*store, &format!("w{n}"), 8, NOW).await;
                    if held.is_empty() {
                        return;
                    }
                    for one in held {
                        store.finish(&one.job.id, one.job.epoch, success(b"x"), NOW).await.unwrap();
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    println!("{:.0} claims and results/s", 3_200.0 / begin.elapsed().as_secs_f64());
    let begin = std::time::Instant::now();
    running_batch(&*store, "batch_1", "ann", 20_000).await;
    println!("{:.0} lines/s", 20_000.0 / begin.elapsed().as_secs_f64());
    let begin = std::time::Instant::now();
    store.cancel_batch("batch_1", None, NOW + MINUTE).await.unwrap();
    println!("{:.0} cancelled lines/s", 20_000.0 / begin.elapsed().as_secs_f64());
}
