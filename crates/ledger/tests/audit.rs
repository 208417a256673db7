//! The audit chain: whatever is done to its files shows, and a killed process leaves a chain that goes on.

use crate::common::{NOON, soon};
use ledger::Amount;
use ledger::audit::{
    AuditError, AuditLog, Chain, ChainOptions, Entry, Head, Summary, Tried, verify, verify_bytes,
};
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};

fn entry(number: u64) -> Entry {
    Entry {
        time: NOON,
        request: format!("req-{number}"),
        key: "ann".to_owned(),
        label: "internal".to_owned(),
        decision: "sent \"here\"\n".to_owned(),
        upstreams: vec![Tried { upstream: "node-1".to_owned(), reason: "first".to_owned() }],
        input_tokens: number,
        output_tokens: 7,
        cost: Amount::from_nano(3),
    }
}

/// Writes entries one after the other, so that each is a group.
async fn write(options: &ChainOptions, entries: std::ops::Range<u64>) {
    let log = AuditLog::open(options.clone(), NOON).unwrap();
    for number in entries {
        while !log.try_append(entry(number)) {
            tokio::task::yield_now().await;
        }
        tokio::task::yield_now().await;
    }
    assert!(log.close(soon()).await);
}

fn small(folder: &Path) -> ChainOptions {
    ChainOptions {
        max_file_bytes: 4_000,
        head_file: Some(folder.with_extension("head")),
        ..ChainOptions::new(folder)
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> =
        names.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).collect();
    files.sort();
    files
}

fn head(options: &ChainOptions) -> Head {
    Head::parse(&fs::read_to_string(options.head_file.as_ref().unwrap()).unwrap()).unwrap()
}

/// A chain of several files, written by three processes one after the other.
async fn several(folder: &Path) -> (ChainOptions, Summary) {
    let options = small(folder);
    for run in 0..3 {
        write(&options, run * 20..run * 20 + 20).await;
    }
    let summary = verify(folder, Some(&head(&options))).unwrap();
    (options, summary)
}

#[tokio::test]
async fn a_chain_over_files_and_processes_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit");
    let (options, summary) = several(&path).await;
    assert_eq!((summary.first, summary.kinds["request"], summary.kinds["start"]), (1, 60, 3));
    assert!(summary.files > 2 && summary.files == files(&path).len());
    assert_eq!(summary.kinds["file"] - 1, summary.kinds["next"]);
    assert_eq!(summary.head, head(&options));
    assert_eq!(summary.kinds.values().sum::<u64>(), summary.head.seq);
    // Every file for itself is whole too.
    for file in files(&path) {
        verify(&file, None).unwrap();
    }
}

#[tokio::test]
async fn files_that_are_missing_or_cut_show() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit");
    let (options, _) = several(&path).await;
    let head = head(&options);
    let all = files(&path);
    let keep = |path: &Path| fs::rename(path, path.with_extension("away")).unwrap();
    let back = |path: &Path| fs::rename(path.with_extension("away"), path).unwrap();
    keep(&all[1]);
    let error = verify(&path, None).unwrap_err().to_string();
    assert!(error.contains("the file before, audit-00000002.jsonl, is missing"), "{error}");
    back(&all[1]);
    // Old files may be removed: the summary tells where the chain begins.
    keep(&all[0]);
    assert!(verify(&path, Some(&head)).unwrap().first > 1);
    back(&all[0]);
    let last = all.last().unwrap();
    keep(last);
    verify(&path, None).unwrap();
    let error = verify(&path, Some(&head)).unwrap_err().to_string();
    assert!(error.contains("lines were cut off"), "{error}");
    back(last);
    // A file that is cut at its end, with another after it.
    let whole = fs::read(&all[0]).unwrap();
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    fs::write(&all[0], lines[..lines.len() - 1].concat()).unwrap();
    let error = verify(&path, None).unwrap_err();
    assert_eq!((error.file, error.line), (all[1].clone(), 1));
    fs::write(&all[0], &whole[..whole.len() - 5]).unwrap();
    assert!(verify(&path, None).unwrap_err().reason.contains("another file follows"));
    fs::write(&all[0], "").unwrap();
    assert!(verify(&path, None).unwrap_err().reason.contains("empty"));
}

/// One file with `requests` entries.
fn one_file(requests: u64) -> Vec<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    runtime.block_on(write(&ChainOptions::new(folder.path()), 0..requests));
    fs::read(&files(folder.path())[0]).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Any change of bytes shows: at once, or, of the last end of line, as an unfinished line.
    #[test]
    fn changed_bytes_show(at in any::<prop::sample::Index>(), value in any::<u8>()) {
        static FILE: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| one_file(20));
        let mut bytes = FILE.clone();
        let at = at.index(bytes.len());
        prop_assume!(bytes[at] != value);
        let whole = verify_bytes(&bytes, None).unwrap();
        bytes[at] = value;
        match verify_bytes(&bytes, Some(&whole.head)) {
            Ok(summary) => prop_assert!(false, "byte {at}: {summary:?}"),
            Err(broken) => prop_assert!(!broken.reason.is_empty()),
        }
    }

    /// Lines that are removed, repeated or swapped show.
    #[test]
    fn moved_lines_show(first in 0..20_usize, second in 0..20_usize, what in 0..3) {
        static FILE: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| one_file(20));
        let head = verify_bytes(&FILE, None).unwrap().head;
        let mut lines: Vec<&[u8]> = FILE.split_inclusive(|byte| *byte == b'\n').collect();
        match what {
            0 => drop(lines.remove(first)),
            1 => lines.insert(second, lines[first]),
            _ if first == second => return Ok(()),
            _ => lines.swap(first, second),
        }
        prop_assert!(verify_bytes(&lines.concat(), Some(&head)).is_err());
    }
}

#[tokio::test]
async fn a_torn_last_line_is_kept_aside_and_the_chain_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit");
    let options = ChainOptions::new(&path);
    write(&options, 0..5).await;
    let file = files(&path).remove(0);
    let whole = fs::read(&file).unwrap();
    // Every length of a torn line, the whole line without its end, and blocks of zeros after a power loss.
    let start = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    for cut in [start + 1, start + 50, whole.len() - 1] {
        fs::write(&file, &whole[..cut]).unwrap();
        assert_eq!(verify(&path, None).unwrap().unfinished, (cut - start) as u64);
        write(&options, 5..8).await;
        let summary = verify(&path, None).unwrap();
        assert_eq!((summary.set_aside, summary.unfinished), ((cut - start) as u64, 0));
        assert_eq!(summary.kinds["request"], 4 + 3);
    }
    let aside = fs::read_dir(&path)
        .unwrap()
        .filter(|file| file.as_ref().unwrap().file_name().to_str().unwrap().contains(".torn-"));
    assert_eq!(aside.count(), 3);
    fs::write(&file, [whole.as_slice(), &[0; 5_000], b"\n", &[0; 10]].concat()).unwrap();
    write(&options, 5..6).await;
    assert_eq!(verify(&path, None).unwrap().set_aside, 5_011);
    // A last line that was changed is not torn.
    let mut changed = whole.clone();
    changed[start + 10] ^= 1;
    fs::write(&file, &changed).unwrap();
    let error = Chain::open(options, NOON).unwrap_err();
    assert!(error.to_string().contains("the last line"), "{error}");
}

#[tokio::test]
async fn a_process_that_died_between_two_files_leaves_a_chain() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit");
    let (options, summary) = several(&path).await;
    let all = files(&path);
    let last = all.last().unwrap();
    // The next file was not made yet; then, was made and not written.
    for next in [false, true] {
        fs::remove_file(last).unwrap();
        if next {
            fs::write(last, "").unwrap();
        }
        write(&options, 0..1).await;
        let now = verify(&path, Some(&head(&options))).unwrap();
        assert_eq!(now.files, summary.files);
    }
    // Nothing at all was written to the first.
    let path = folder.path().join("empty");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("audit-00000001.jsonl"), "").unwrap();
    write(&ChainOptions::new(&path), 0..1).await;
    assert_eq!(verify(&path, None).unwrap().first, 1);
}

#[tokio::test]
async fn two_processes_do_not_write_one_chain() {
    let folder = tempfile::tempdir().unwrap();
    let first = Chain::open(ChainOptions::new(folder.path()), NOON).unwrap();
    assert!(matches!(Chain::open(ChainOptions::new(folder.path()), NOON), Err(AuditError::Busy(_))));
    drop(first);
    Chain::open(ChainOptions::new(folder.path()), NOON).unwrap();
}

#[tokio::test]
async fn entries_without_room_are_counted_in_the_chain() {
    let folder = tempfile::tempdir().unwrap();
    let log = AuditLog::open(ChainOptions::new(folder.path()), NOON).unwrap();
    // On one thread, the log's task does not run in between.
    let taken = (0..5_000).filter(|number| log.try_append(entry(*number))).count() as u64;
    assert!(taken < 5_000);
    assert_eq!(log.stats().lost, 5_000 - taken);
    assert!(log.close(soon()).await);
    let summary = verify(folder.path(), None).unwrap();
    assert_eq!((summary.kinds["request"], summary.lost), (taken, 5_000 - taken));
}

#[tokio::test]
async fn a_disk_that_fails_and_comes_back_loses_nothing_of_the_queue() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit");
    let log = AuditLog::open(ChainOptions { max_file_bytes: 1, ..ChainOptions::new(&path) }, NOON).unwrap();
    // The place of the next file is taken by a folder: the chain cannot go on.
    fs::create_dir(path.join("audit-00000002.jsonl")).unwrap();
    assert!(log.try_append(entry(1)));
    while log.stats().error.is_none() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(log.try_append(entry(2)));
    fs::remove_dir(path.join("audit-00000002.jsonl")).unwrap();
    while log.stats().error.is_some() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(log.close(soon()).await);
    assert_eq!(verify(&path, None).unwrap().kinds["request"], 2);
}

#[tokio::test]
async fn long_texts_are_cut() {
    let folder = tempfile::tempdir().unwrap();
    let log = AuditLog::open(ChainOptions::new(folder.path()), NOON).unwrap();
    let long = "ä".repeat(100_000);
    let tried = Tried { upstream: long.clone(), reason: long.clone() };
    log.try_append(Entry { request: long.clone(), upstreams: vec![tried; 1_000], ..entry(1) });
    assert!(log.close(soon()).await);
    verify(folder.path(), None).unwrap();
    assert!(fs::metadata(&files(folder.path())[0]).unwrap().len() < 8_000);
}

/// Files that `tools/fixtures/audit_chain.py` has written, hashed by Python's `hashlib`.
#[test]
fn files_of_another_program_are_verified() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/audit");
    let first = verify(&seeds.join("first.jsonl"), None).unwrap();
    assert_eq!((first.first, first.head.seq, first.lost, first.set_aside), (1, 5, 3, 17));
    let later = verify(&seeds.join("later.jsonl"), None).unwrap();
    assert_eq!((later.first, later.head.seq), (42, 43));
}
