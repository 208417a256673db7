//! Every store does the same: the same calls, the same answers.

use crate::common::{NOON, cap};
use ledger::store::memory::MemoryStore;
use ledger::store::sqlite::SqliteStore;
use ledger::store::{ReportQuery, Store, StoreError};
use ledger::{
    Amount, AttemptRecord, Billing, Book, Bounds, GroupBy, Receipt, ReportRow, Scope, Subjects, Unit, Window,
};
use std::sync::Arc;

/// A store to test, and what keeps its files.
pub(crate) struct Place {
    pub(crate) store: Arc<dyn Store>,
    _folder: tempfile::TempDir,
}

pub(crate) fn memory() -> Place {
    Place { store: Arc::new(MemoryStore::new()), _folder: tempfile::tempdir().unwrap() }
}

pub(crate) fn sqlite() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("ledger.sqlite")).unwrap();
    Place { store: Arc::new(store), _folder: folder }
}

/// Three replicas' connections to one file.
pub(crate) fn sqlite_files(path: &std::path::Path) -> Vec<Arc<dyn Store>> {
    (0..3).map(|_| Arc::new(SqliteStore::open(path).unwrap()) as Arc<dyn Store>).collect()
}

fn receipt(time: i64, key: &str, amount: i64) -> Receipt {
    let mut receipt = Receipt {
        time,
        key: key.to_owned(),
        model: "small".to_owned(),
        input_tokens: 10,
        output_tokens: 5,
        own_ms: 7,
        ..Receipt::default()
    };
    let attempt = |billing| AttemptRecord {
        upstream: "api".to_owned(),
        reason: "first".to_owned(),
        status: 200,
        billing,
        amount: Amount::from_nano(amount),
    };
    receipt.add_attempt(attempt(Billing::PossiblyBilled));
    receipt.add_attempt(attempt(Billing::Billed));
    receipt
}

/// Reserves and settles through a book, with exchanges by hand.
async fn sessions(store: &dyn Store) {
    let subjects = Subjects { key: "ann", team: None, model: "small" };
    let caps = [cap(Scope::Key, "ann", Window::Month, Unit::Tokens, 1_000)];
    let bounds = Bounds { money: None, tokens: 300, requests: 1 };
    let mut book = Book::new(&caps, false).unwrap();
    let session = store.open_session("one", NOON + 60).await.unwrap();
    let mut sequence = 0;
    let exchange = |book: &mut Book, sequence: i64| ledger::store::Exchange {
        session,
        sequence,
        now: NOON,
        expires: NOON + 60,
        lines: book.lines(10),
        receipts: vec![(sequence, receipt(NOON, "ann", 5))],
        prune_before: None,
    };
    let mut asked = ledger::Asked::default();
    assert!(book.reserve(NOON, subjects, bounds, &mut asked).is_err());
    sequence += 1;
    let first = Arc::new(exchange(&mut book, sequence));
    let granted = store.exchange(first.clone()).await.unwrap();
    assert_eq!((granted[0].hold, granted[0].leased), (300, 300));
    book.apply(&first.lines, &granted, NOON + 60);
    // The same again is late, and changes nothing.
    assert_eq!(store.exchange(first).await, Err(StoreError::Late));
    let (held, _) = book.reserve(NOON, subjects, bounds, &mut asked).unwrap();
    book.settle(held, &ledger::Cost { tokens: 250, ..Default::default() }, true);
    let second = Arc::new(exchange(&mut book, 2));
    let granted = store.exchange(second.clone()).await.unwrap();
    book.apply(&second.lines, &granted, NOON + 60);
    let totals = store.totals(NOON).await.unwrap();
    let total = &totals[0];
    assert_eq!(
        (total.limit, total.spent, total.uncertain, total.leased, total.lost),
        (1_000, 250, 250, 50, 0)
    );
    // After the lease's end, it counts as lost until it is taken back.
    assert!(matches!(store.reclaim("one", NOON + 59).await, Err(StoreError::Alive { .. })));
    assert_eq!(store.totals(NOON + 60).await.unwrap()[0].lost, 50);
    assert_eq!(store.reclaim("one", NOON + 60).await, Ok(1));
    assert_eq!(store.reclaim("one", NOON + 60).await, Ok(0));
    let total = store.totals(NOON + 60).await.unwrap().remove(0);
    assert_eq!((total.spent, total.leased, total.lost), (250, 0, 0));
    let third = Arc::new(exchange(&mut book, 3));
    assert_eq!(store.exchange(third).await, Err(StoreError::SessionClosed(session)));
}

async fn reports(store: &dyn Store) {
    let session = store.open_session("two", NOON + 60).await.unwrap();
    let mut receipts: Vec<(i64, Receipt)> =
        (0..50).map(|n| (n, receipt(NOON + n * 3_600, if n % 2 == 0 { "ann" } else { "bob" }, n))).collect();
    // Sums beyond 64 bits.
    receipts.extend((50..53).map(|n| (n, receipt(NOON - 400 * 86_400, "rich", i64::MAX))));
    receipts.iter_mut().for_each(|(number, _)| *number += 1);
    let exchange = |sequence, prune_before| ledger::store::Exchange {
        session,
        sequence,
        now: NOON,
        expires: NOON + 60,
        lines: Vec::new(),
        receipts: receipts.clone(),
        prune_before,
    };
    store.exchange(Arc::new(exchange(1, None))).await.unwrap();
    // An answer was lost: all is said again, and nothing counted twice.
    store.exchange(Arc::new(exchange(2, None))).await.unwrap();
    let query = |group_by: &[GroupBy]| ReportQuery {
        from: NOON - 500 * 86_400,
        to: NOON + 86_400 * 9,
        group_by: group_by.to_vec(),
    };
    let by_key = store.report(query(&[GroupBy::Key])).await.unwrap();
    let row = |name: &str| by_key.iter().find(|row| row.group == [name]).unwrap();
    assert_eq!((row("bob").requests, row("bob").invoice, row("bob").possibly), (25, 625, 625));
    assert_eq!((row("ann").input_tokens, row("ann").output_tokens, row("ann").own_ms), (250, 125, 175));
    assert_eq!(row("rich").invoice, 3 * i128::from(i64::MAX));
    let by_both = store.report(query(&[GroupBy::Key, GroupBy::Day])).await.unwrap();
    let groups: Vec<String> = by_both.iter().map(|row| row.group.join(" ")).collect();
    assert_eq!(
        groups,
        [
            "ann 2026-11-29",
            "ann 2026-11-30",
            "ann 2026-12-01",
            "bob 2026-11-29",
            "bob 2026-11-30",
            "bob 2026-12-01",
            "rich 2025-10-25"
        ]
    );
    let all: Vec<ReportRow> = store.report(query(&[])).await.unwrap();
    assert_eq!(all.iter().map(|row| row.requests).collect::<Vec<_>>(), [53]);
    assert!(store.report(query(&[GroupBy::Key, GroupBy::Key])).await.is_err());
    store.exchange(Arc::new(exchange(3, Some(NOON)))).await.unwrap();
    assert!(!store.report(query(&[GroupBy::Key])).await.unwrap().iter().any(|row| row.group == ["rich"]));
    store.close_session(session).await.unwrap();
}

#[tokio::test]
async fn a_store_in_memory() {
    let place = memory();
    sessions(&*place.store).await;
    reports(&*memory().store).await;
}

#[tokio::test]
async fn a_store_in_sqlite() {
    let place = sqlite();
    sessions(&*place.store).await;
    reports(&*sqlite().store).await;
}

#[tokio::test]
async fn an_sqlite_file_of_a_later_version_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.sqlite");
    drop(SqliteStore::open(&path).unwrap());
    // Opened again, it is as it was.
    drop(SqliteStore::open(&path).unwrap());
    rusqlite::Connection::open(&path).unwrap().execute("UPDATE ledger_schema SET version = 99", []).unwrap();
    let error = SqliteStore::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::TooNew { found: 99, .. }), "{error}");
    std::fs::write(folder.path().join("text"), "this is no database, but a text of some length".repeat(100))
        .unwrap();
    let error = SqliteStore::open(&folder.path().join("text")).unwrap_err().to_string();
    assert!(error.contains("text: SQLite: file is not a database"), "{error}");
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn a_store_in_postgresql() {
    let Some(server) = crate::postgres::server().await else { return };
    sessions(&*server.store("sessions").await).await;
    reports(&*server.store("reports").await).await;
    let later = server.store("later").await;
    later.totals(NOON).await.unwrap();
    let (client, connection) =
        tokio_postgres::connect(&server.url("later"), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("UPDATE ledger_schema SET version = 99").await.unwrap();
    let error = server.store("later").await.totals(NOON).await.unwrap_err();
    assert!(matches!(error, StoreError::TooNew { found: 99, .. }), "{error}");
}
