//! The suite on a PostgreSQL server of the test's own: on a Unix socket in a temporary folder.

use crate::common::{NOW, claim, file, job, offer, put_file, running_batch, success};
use crate::suite::{CASES, LIMITS};
use job_store::{Finished, NewJob, PostgresStore, SqliteStore, Store, StoreError, StoreLimits};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_postgres::NoTls;

/// The user that runs the server where the tests run as root, which PostgreSQL refuses.
const USER: &str = "postgres";

/// A running server. Killed and removed when it is dropped.
pub(crate) struct Server {
    folder: tempfile::TempDir,
    programs: PathBuf,
    is_root: bool,
    process: Option<Child>,
}

/// A server, or none where PostgreSQL is not installed. In CI, that is a failure.
#[expect(clippy::print_stderr, reason = "a test that is left out says so")]
pub(crate) async fn server() -> Option<Server> {
    let Some(programs) = programs() else {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "PostgreSQL is not installed");
        eprintln!("left out: PostgreSQL is not installed");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    if is_root {
        assert!(Command::new("chown").arg(USER).arg(folder.path()).status().unwrap().success());
    }
    let mut server = Server { folder, programs, is_root, process: None };
    let data = server.data();
    let mut make = server.command("initdb");
    make.args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8"]);
    let made = make.args(["--no-instructions", "-D"]).arg(data).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    server.start().await;
    Some(server)
}

fn programs() -> Option<PathBuf> {
    let has = |folder: &PathBuf| folder.join("postgres").is_file() && folder.join("initdb").is_file();
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = vec!["/usr/local/bin".into()];
    folders.extend(std::env::split_paths(&paths));
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    folders.extend(installed.map(|version| version.path().join("bin")));
    folders.into_iter().find(has)
}

impl Server {
    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn command(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        let mut command = Command::new(if self.is_root { Path::new("setpriv") } else { &program });
        if self.is_root {
            command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]).arg(&program);
        }
        command.current_dir(self.folder.path());
        command
    }

    /// Starts it, and waits until it answers.
    async fn start(&mut self) {
        let folder = self.folder.path();
        let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("log")).unwrap();
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(folder);
        command.args(["-c", "listen_addresses=", "-c", "shared_buffers=16MB", "-c", "fsync=off"]);
        self.process = Some(command.stderr(log).stdout(Stdio::null()).spawn().unwrap());
        let end = Instant::now() + Duration::from_secs(60);
        while tokio_postgres::connect(&self.url("postgres"), NoTls).await.is_err() {
            assert!(Instant::now() < end, "{}", std::fs::read_to_string(folder.join("log")).unwrap());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Ends the server at once, as a crash does.
    fn stop(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        let _ = Command::new("kill").arg("-QUIT").arg(process.id().to_string()).status();
        let _ = process.wait();
    }

    async fn run(&self, database: &str, sql: &str) {
        let (client, connection) = tokio_postgres::connect(&self.url(database), NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(sql).await.unwrap();
    }

    /// Stores of several servers in a new database.
    pub(crate) async fn stores(
        &self,
        database: &str,
        count: usize,
        limits: StoreLimits,
    ) -> Vec<Arc<dyn Store>> {
        self.run("postgres", &format!("CREATE DATABASE {database}")).await;
        let store = || Arc::new(PostgresStore::new(&self.url(database), limits).unwrap()) as Arc<dyn Store>;
        (0..count).map(|_| store()).collect()
    }

    pub(crate) fn url(&self, database: &str) -> String {
        format!("host={} user=postgres dbname={database}", self.folder.path().display())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suite_holds_for_postgresql() {
    let Some(server) = server().await else { return };
    let mut failed = Vec::new();
    for (name, case) in CASES {
        let store = server.stores(&format!("case_{name}"), 1, LIMITS).await.remove(0);
        if tokio::spawn(case(store)).await.is_err() {
            failed.push(*name);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_servers_share_a_database() {
    let Some(server) = server().await else { return };
    // All of them make the tables at once.
    let stores = server.stores("shared", 3, StoreLimits::default()).await;
    let offers: Vec<_> = (0..150)
        .map(|n| {
            let store = stores[n % 3].clone();
            let key = if n % 2 == 0 { "ann" } else { "bob" };
            tokio::spawn(async move { offer(&*store, job(&format!("job_{n:03}"), key), NOW).await })
        })
        .collect();
    for one in offers {
        one.await.unwrap();
    }
    let workers: Vec<_> = stores
        .iter()
        .enumerate()
        .map(|(n, store)| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut done = Vec::new();
                let mut idle = 0;
                while idle < 5 {
                    let held = claim(&*store, &format!("w{n}"), 7, NOW).await;
                    idle = if held.is_empty() { idle + 1 } else { 0 };
                    for one in held {
                        let end = store.finish(&one.job.id, one.job.epoch, success(b"x"), NOW).await.unwrap();
                        assert!(matches!(end, Finished::Done(_)));
                        done.push(one.job.id);
                    }
                }
                done
            })
        })
        .collect();
    let mut all = Vec::new();
    for worker in workers {
        all.extend(worker.await.unwrap());
    }
    all.sort();
    assert_eq!(all, (0..150).map(|n| format!("job_{n:03}")).collect::<Vec<_>>());
}

/// Everything of a folder is moved to a database, with its ids, and work goes on there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_is_copied_to_a_database() {
    let Some(server) = server().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let from = SqliteStore::open(folder.path(), StoreLimits::default()).unwrap();
    for n in 0..250_usize {
        let id = format!("job_{n:03}");
        let body = vec![n as u8; if n % 50 == 0 { 1_500_000 } else { 100 + n }];
        from.accept(NewJob { job: job(&id, "ann"), body }, None, NOW).await.unwrap();
    }
    for one in claim(&from, "w", 20, NOW).await {
        let large = vec![5; 30_000];
        from.finish(&one.job.id, one.job.epoch, success(&large), NOW).await.unwrap();
    }
    let held = claim(&from, "w", 1, NOW).await.remove(0).job;
    running_batch(&from, "batch_1", "bob", 30).await;
    let content: Vec<u8> = (0..2_500_000_u32).map(|n| (n % 251) as u8).collect();
    put_file(&from, file("file-large", "bob", content.len() as u64), &content).await;
    server.run("postgres", "CREATE DATABASE moved").await;
    let to = PostgresStore::new(&server.url("moved"), StoreLimits::default()).unwrap();
    let copied = to.copy_from(&from).await.unwrap();
    assert_eq!((copied.jobs, copied.batches, copied.files), (280, 1, 2));
    assert!(matches!(to.copy_from(&from).await, Err(StoreError::Conflict(_))));
    for n in 0..250 {
        let id = format!("job_{n:03}");
        assert_eq!(to.job(&id, None).await.unwrap(), from.job(&id, None).await.unwrap());
        assert!(to.body(&id).await.unwrap() == from.body(&id).await.unwrap());
        assert!(to.result(&id).await.unwrap() == from.result(&id).await.unwrap());
        assert_eq!(to.events(&id, 0).await.unwrap(), from.events(&id, 0).await.unwrap());
    }
    assert_eq!(to.batch("batch_1", None).await.unwrap(), from.batch("batch_1", None).await.unwrap());
    assert!(to.read_file("file-large", 0, 9 << 20).await.unwrap() == content);
    let (old, new) = (from.stats(NOW).await.unwrap(), to.stats(NOW).await.unwrap());
    assert_eq!((old.rows, old.batches), (new.rows, new.batches));
    // The lease goes on at the new place.
    let done = to.finish(&held.id, held.epoch, success(b"x"), NOW).await.unwrap();
    assert!(matches!(done, Finished::Done(_)));
    assert_eq!(claim(&to, "w", 100, NOW).await.len(), 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_sequences() {
    let Some(server) = server().await else { return };
    let store = server.stores("random", 1, StoreLimits::default()).await.remove(0);
    crate::model::run(store, 2_000..2_040, 40).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_of_the_server_loses_nothing() {
    let Some(mut server) = server().await else { return };
    let store = server.stores("crash", 1, LIMITS).await.remove(0);
    offer(&*store, job("job_1", "ann"), NOW).await;
    server.stop();
    assert!(matches!(store.job("job_1", None).await, Err(StoreError::Unavailable(_))));
    server.start().await;
    assert_eq!(store.job("job_1", None).await.unwrap().id, "job_1");
    assert_eq!(claim(&*store, "w", 1, NOW).await.len(), 1);
    // A later program has written the tables: an earlier one refuses.
    server.run("crash", "UPDATE job_schema SET version = 99").await;
    let late = PostgresStore::new(&server.url("crash"), LIMITS).unwrap();
    assert!(matches!(late.job("job_1", None).await, Err(StoreError::TooNew { found: 99, .. })));
    assert!(PostgresStore::new("no url", LIMITS).is_err());
}
