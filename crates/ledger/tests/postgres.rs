//! A PostgreSQL server of the test's own: on a Unix socket in a temporary folder.

use ledger::store::Store;
use ledger::store::postgres::PostgresStore;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The user that runs the server where the tests run as root, which PostgreSQL refuses.
const USER: &str = "postgres";

/// A running server. Killed and removed when it is dropped.
pub(crate) struct Server {
    folder: tempfile::TempDir,
    programs: PathBuf,
    root: bool,
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
    let id = Command::new("id").arg("-u").output().unwrap();
    let root = id.stdout == b"0\n";
    if root {
        assert!(Command::new("chown").arg(USER).arg(folder.path()).status().unwrap().success());
    }
    let mut server = Server { folder, programs, root, process: None };
    let data = server.data();
    let mut initdb = server.command("initdb");
    initdb.args([
        "--no-sync",
        "--auth=trust",
        "--username=postgres",
        "--encoding=UTF8",
        "--no-instructions",
        "-D",
    ]);
    let made = initdb.arg(data).output().unwrap();
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
        let mut command;
        if self.root {
            command = Command::new("setpriv");
            command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]).arg(program);
        } else {
            command = Command::new(program);
        }
        command.current_dir(self.folder.path());
        command
    }

    /// Starts it, and waits until it answers.
    pub(crate) async fn start(&mut self) {
        let folder: &Path = self.folder.path();
        let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("log")).unwrap();
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(folder);
        command.args(["-c", "listen_addresses=", "-c", "shared_buffers=16MB", "-c", "fsync=off"]);
        self.process = Some(command.stderr(log).stdout(Stdio::null()).spawn().unwrap());
        let end = Instant::now() + Duration::from_secs(60);
        while tokio_postgres::connect(&self.url("postgres"), tokio_postgres::NoTls).await.is_err() {
            assert!(Instant::now() < end, "{}", std::fs::read_to_string(folder.join("log")).unwrap());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Ends the server at once, as a crash does.
    pub(crate) fn stop(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        let _ = Command::new("kill").arg("-QUIT").arg(process.id().to_string()).status();
        let _ = process.wait();
    }

    /// A new database in it.
    pub(crate) async fn store(&self, database: &str) -> Arc<dyn Store> {
        let url = self.url("postgres");
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        // There already for the second replica.
        let _ = client.batch_execute(&format!("CREATE DATABASE {database}")).await;
        Arc::new(PostgresStore::new(&self.url(database)).unwrap())
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
