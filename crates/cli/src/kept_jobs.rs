//! Durable jobs of `serve` and `gateway`: where they are kept, their bounds, and the loop that runs them.

use std::path::PathBuf;
use std::sync::Arc;

use job_server::Options;
use job_store::{PostgresStore, SqliteStore, Store, StoreLimits};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use webhooks::addresses::AddressRules;

use crate::commands::serve::bytes;
use crate::{Failure, store};

/// Bytes of the file with the secret under which secrets of webhooks are kept.
const SECRET_BYTES: u64 = 4 << 10;

#[derive(clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Jobs")]
pub(crate) struct Flags {
    /// Take durable jobs, batches and files, and keep them in this folder [without a value: jobs in the store of models] or
    /// in a database, postgres://USER@HOST/NAME, which several servers can share.
    #[arg(long, value_name = "PLACE", num_args = 0..=1, default_missing_value = "")]
    jobs: Option<String>,

    /// Open jobs that are not lines of batches; past it the server says 429.
    #[arg(long, default_value_t = 10_000, value_name = "N", requires = "jobs")]
    jobs_max: u64,

    /// Of these, of one API key.
    #[arg(long, default_value_t = 2_000, value_name = "N", requires = "jobs")]
    jobs_per_key: u64,

    /// Open lines of all batches.
    #[arg(long, default_value_t = 1_000_000, value_name = "N", requires = "jobs")]
    batch_lines_max: u64,

    /// Bytes of all bodies, results and files, as 10G; past it the server says 507.
    #[arg(long, default_value = "10G", value_name = "BYTES", value_parser = bytes, requires = "jobs")]
    jobs_bytes: u64,

    /// Bytes of a file.
    #[arg(long, default_value = "200M", value_name = "BYTES", value_parser = bytes, requires = "jobs")]
    max_file: u64,

    /// Lines of a batch.
    #[arg(long, default_value_t = 50_000, value_name = "N", requires = "jobs")]
    batch_lines: u64,

    /// Accept a job only with an Idempotency-Key.
    #[arg(long, requires = "jobs")]
    jobs_require_idempotency: bool,

    /// The name of a key whose holder sees and changes the jobs of all; may be given again.
    #[arg(long, value_name = "NAME", requires = "jobs")]
    jobs_operator: Vec<String>,

    /// An address range or a host to which webhooks may go though it is private, or speaks http, as 10.0.0.0/8 or
    /// hooks.example; may be given again.
    #[arg(long, value_name = "RANGE", requires = "jobs")]
    webhook_allow: Vec<String>,

    /// A file with 32 bytes or more under which secrets of webhooks are encrypted.
    #[arg(long, value_name = "FILE", requires = "jobs")]
    jobs_secret_file: Option<PathBuf>,
}

/// A store that is open.
pub(crate) struct Opened {
    store: Arc<dyn Store>,
    options: Options,
    place: String,
}

/// The loop that runs jobs.
pub(crate) struct Running {
    jobs: Arc<job_server::Jobs>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Flags {
    /// Opens the store, if jobs are wanted. Called within the async runtime.
    ///
    /// # Errors
    /// A folder that another server uses, that lies on a network file system or is damaged; a range that is none.
    pub(crate) fn open(&self) -> Result<Option<Opened>, Failure> {
        let Some(place) = &self.jobs else { return Ok(None) };
        let limits = StoreLimits {
            open_jobs: self.jobs_max,
            open_jobs_of_key: self.jobs_per_key,
            open_lines: self.batch_lines_max,
            bytes: self.jobs_bytes,
        };
        let options = self.options()?;
        if place.starts_with("postgres://") || place.starts_with("postgresql://") {
            let store = PostgresStore::new(place, limits).map_err(|error| named(&error))?;
            let place = "a PostgreSQL database".to_owned();
            return Ok(Some(Opened { store: Arc::new(store), options, place }));
        }
        let folder = if place.is_empty() { store::home()?.root().join("jobs") } else { PathBuf::from(place) };
        let store = SqliteStore::open(&folder, limits).map_err(|error| named(&error))?;
        Ok(Some(Opened { store: Arc::new(store), options, place: folder.display().to_string() }))
    }

    fn options(&self) -> Result<Options, Failure> {
        let rules = AddressRules::parse(&self.webhook_allow)
            .map_err(|error| Failure::usage(format!("--webhook-allow: {error}")))?;
        let secret = self.jobs_secret_file.as_deref().map(secret).transpose()?;
        Ok(Options {
            max_file_bytes: self.max_file,
            max_batch_lines: self.batch_lines,
            require_idempotency: self.jobs_require_idempotency,
            operators: self.jobs_operator.clone(),
            place: place(),
            webhook_rules: rules,
            webhook_secret: secret,
            ..Options::default()
        })
    }
}

fn named(error: &job_store::StoreError) -> Failure {
    Failure::new(format!("--jobs: {error}"))
}

fn secret(path: &std::path::Path) -> Result<Vec<u8>, Failure> {
    let bytes = crate::files::read("--jobs-secret-file", path, SECRET_BYTES)?.bytes;
    if bytes.len() < 32 {
        return Err(Failure::new(format!(
            "--jobs-secret-file {}: it has {} bytes; 32 at least",
            path.display(),
            bytes.len()
        )));
    }
    Ok(bytes)
}

/// The host's name and the process, for people.
fn place() -> String {
    let name = rustix::system::uname();
    format!("{}:{}", name.nodename().to_string_lossy(), std::process::id())
}

impl Opened {
    /// Where the jobs are kept, for people.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Has `take` take jobs, and runs them.
    pub(crate) fn start(
        self,
        take: impl FnOnce(Arc<dyn Store>, Options) -> Arc<job_server::Jobs>,
        runtime: &Handle,
    ) -> Running {
        let jobs = take(self.store, self.options);
        let (stop, stopped) = oneshot::channel();
        let running = jobs.clone();
        let task = runtime.spawn(async move {
            // The end of the sender means the same.
            let stop = async { drop(stopped.await) };
            job_server::run(running, stop).await;
        });
        Running { jobs, stop, task }
    }
}

impl Running {
    /// Gives running jobs back, with what there is of them, and waits for that.
    pub(crate) async fn leave(self) {
        self.jobs.close();
        drop(self.stop);
        // It ends by its own deadline; a panic in it was logged.
        let _ = self.task.await;
    }
}
