//! `kill -9` of processes that spend: what they spent last is at most their lease, and it is lost to the customer, never
//! to the operator. The process is this program, started again for the one test that is marked as ignored.

use crate::common::{ANN, bounds, cap, cost};
use ledger::audit::{AuditLog, ChainOptions, Entry, verify};
use ledger::store::Store;
use ledger::store::sqlite::SqliteStore;
use ledger::{Ledger, Options, Scope, Unit, Window};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const LIMIT: i64 = 30_000;
const NAME: &str = "killed::process_that_spends";
const FOLDER: &str = "LEDGER_TEST_FOLDER";

fn now() -> i64 {
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    time.as_secs() as i64
}

fn start(folder: &Path) -> Ledger {
    let store = Arc::new(SqliteStore::open(&folder.join("ledger")).unwrap());
    let caps = [cap(Scope::Key, "ann", Window::Total, Unit::Money, LIMIT)];
    let options = Options { lease_seconds: 2, ..Options::new("r", Arc::new(now)) };
    Ledger::start(options, store, &caps).unwrap()
}

/// Spends, and says so before it does, until it is killed.
#[tokio::test]
#[ignore = "started by the test below"]
async fn process_that_spends() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let ledger = start(folder);
    let audit = AuditLog::open(ChainOptions::new(&folder.join("audit")), now()).unwrap();
    loop {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        let Ok(reservation) = ledger.reserve(now(), ANN, bounds(3), deadline).await else { break };
        println!("spent 3");
        audit.try_append(Entry { time: now(), decision: "sent".to_owned(), ..Entry::default() });
        tokio::task::yield_now().await;
        reservation.settle(cost(3));
    }
    println!("refused");
    std::future::pending::<()>().await;
}

fn spawn(folder: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", NAME, "--ignored", "--nocapture"]).env(FOLDER, folder);
    command.stdout(Stdio::piped()).spawn().unwrap()
}

/// Reads what a process says until it has spent `enough` or is refused, kills it, and reads the rest.
fn kill_after(mut process: Child, enough: i64) -> (i64, bool) {
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let (mut spent, mut refused, mut killed) = (0, false, false);
    for line in lines.map_while(Result::ok) {
        spent += if line.ends_with("spent 3") { 3 } else { 0 };
        refused |= line == "refused";
        if (spent >= enough || refused) && !killed {
            killed = true;
            process.kill().unwrap();
        }
    }
    process.wait().unwrap();
    (spent, refused)
}

#[tokio::test]
async fn killed_processes_never_overspend_and_lose_at_most_a_lease() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let store = SqliteStore::open(&path.join("ledger")).unwrap();
    let mut spent = 0;
    let mut lost = 0;
    for _ in 0..4 {
        spent += kill_after(spawn(path), 3_000).0;
        let total = store.totals(now()).await.unwrap().remove(0);
        assert!(total.spent <= spent && spent <= total.spent + total.leased, "{total:?}, really {spent}");
        // Two leases of 2 %: one may be asked for before the other is spent.
        assert!(total.leased - lost <= LIMIT / 25, "{total:?}, {lost} before");
        lost = total.leased;
        assert!(total.spent + total.leased <= LIMIT, "{total:?}");
        verify(&path.join("audit"), None).unwrap();
    }
    // To the end: what the others died with counts as spent.
    let (last, refused) = kill_after(spawn(path), i64::MAX);
    spent += last;
    assert!(refused && spent <= LIMIT && spent >= LIMIT - lost - 3, "{spent} of {LIMIT}, {lost} lost");
    assert!(lost > 0, "no lease died");
    // When the leases have expired, an operator takes them back, and they can be spent.
    let end = std::time::Instant::now() + Duration::from_secs(60);
    let total = loop {
        let _ = store.reclaim("r", now()).await;
        let total = store.totals(now()).await.unwrap().remove(0);
        if total.leased == 0 {
            break total;
        }
        assert!(std::time::Instant::now() < end, "{total:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert!(total.spent <= spent);
    let summary = verify(&path.join("audit"), None).unwrap();
    assert_eq!(summary.kinds["start"], 5);
}
