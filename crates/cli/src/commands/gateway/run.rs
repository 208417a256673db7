//! Runs the gateway: the configuration, the socket, signals, and the file's changes.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use gateway::{Config, Gateway, read_config};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::secrets;
use crate::Failure;
use crate::files;
use crate::kept_jobs;
use crate::term::{err, number, out};

/// Longest configuration.
const MAX_BYTES: u64 = 4 << 20;
/// Between two looks at the file.
const LOOK: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// The configuration: upstreams, models, keys, budgets.
    #[arg(long, value_name = "FILE", default_value = "gateway.toml")]
    config: PathBuf,

    /// Check the configuration and the keys that it names, and leave.
    #[arg(long)]
    check: bool,

    /// Address and port to listen on, in place of the configuration's.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<std::net::SocketAddr>,

    /// Allow clients without a key from other machines.
    #[arg(long)]
    insecure_no_auth: bool,

    /// Seconds for running answers to finish after a signal.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    drain: u64,

    /// Seconds between the end of readiness and the end of service, for load balancers to notice.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    drain_notice: u64,

    /// Threads for connections; as many as the machine has cores unless given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,

    #[command(flatten)]
    jobs: kept_jobs::Flags,

    /// Jobs that run at once, over all upstreams.
    #[arg(long, value_name = "N", default_value_t = 32, requires = "jobs", value_parser = clap::value_parser!(u16).range(1..=4096))]
    jobs_parallel: u16,

    /// Speak TLS with this certificate chain (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The certificate's private key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    crate::commands::serve::log_to_stderr(crate::commands::serve::LogFormat::Text);
    let config = read(&args.config)?;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = args.threads {
        builder.worker_threads(threads.into());
    }
    let runtime = builder.enable_all().thread_name("gateway").build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start the HTTP threads: {error}")))?;
    runtime.block_on(serve(args, config))
}

/// The configuration of a file.
///
/// # Errors
/// A file that cannot be read, or what is wrong with it, a line each.
fn read(path: &Path) -> Result<Config, Failure> {
    let file = files::read("--config", path, MAX_BYTES)?;
    let text = file.text("--config", path)?;
    read_config(text).map_err(|error| {
        let lines: Vec<String> =
            error.to_string().lines().map(|line| format!("{}: {line}", path.display())).collect();
        Failure::new(lines.join("\n"))
    })
}

async fn serve(args: &Args, config: Config) -> Result<(), Failure> {
    let address = match args.listen {
        Some(address) => address,
        None => config.gateway.listen.parse()?,
    };
    let guarded = !config.keys.is_empty() || args.insecure_no_auth;
    if !address.ip().is_loopback() && !guarded {
        return Err(Failure::usage(format!(
            "{address} can be reached from other machines: give the configuration keys ([[key]]), or say \
             --insecure-no-auth"
        )));
    }
    let counts = format!(
        "{}, {}, {}",
        number(config.upstreams.len(), "upstream"),
        number(config.models.len(), "model"),
        number(config.keys.len(), "key")
    );
    let options = httpd::Options {
        loopback_names_only: !args.insecure_no_auth,
        drain_notice: Duration::from_secs(args.drain_notice),
        ..httpd::Options::default()
    };
    let gateway = Gateway::new(config, options, Box::new(secrets::read)).await.map_err(Failure::from)?;
    if let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) {
        let (chain, secret) =
            (files::read("--tls-cert", certificate, MAX_BYTES)?, files::read("--tls-key", key, MAX_BYTES)?);
        gateway.set_tls(httpd::Tls::from_pem(&chain.bytes, &secret.bytes)?);
    }
    if args.check {
        out!("{} is good: {counts}", args.config.display());
        return Ok(());
    }
    let jobs = take_jobs(args, &gateway)?;
    let listener = tokio::net::TcpListener::bind(address)
        .await
        .map_err(|error| Failure::new(format!("cannot listen on {address}: {error}")))?;
    let scheme = if args.tls_cert.is_some() { "https" } else { "http" };
    err!("listening on {scheme}://{}; {counts}", listener.local_addr()?);
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let watch = tokio::spawn(follow(gateway.clone(), args.config.clone(), signal(SignalKind::hangup())?));
    let stop = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        err!("finishing running answers for at most {} s", args.drain);
        if let Some(jobs) = jobs {
            jobs.leave().await;
        }
    };
    let cut = gateway.run(listener, stop, Duration::from_secs(args.drain)).await;
    watch.abort();
    match cut {
        0 => err!("stopped"),
        cut => err!("stopped; {} cut", number(cut, "connection")),
    }
    Ok(())
}

/// Has the gateway take jobs, if they are wanted.
fn take_jobs(args: &Args, gateway: &Gateway) -> Result<Option<kept_jobs::Running>, Failure> {
    let Some(opened) = args.jobs.open()? else { return Ok(None) };
    err!("jobs are kept in {}", opened.place());
    let take = |store, options| gateway.take_jobs(store, options, args.jobs_parallel.into());
    Ok(Some(opened.start(take, &tokio::runtime::Handle::current())))
}

/// Reads the configuration again when its file changes, or when told by SIGHUP.
async fn follow(gateway: Gateway, path: PathBuf, mut hang_up: Signal) {
    let mut seen = stamp(&path);
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {
                let now = stamp(&path);
                if now == seen {
                    continue;
                }
                seen = now;
            }
            _ = hang_up.recv() => seen = stamp(&path),
        }
        reload(&gateway, &path);
    }
}

fn reload(gateway: &Gateway, path: &Path) {
    let done = read(path).and_then(|config| gateway.reload(config).map_err(Failure::from));
    match done {
        Ok(()) => err!("{} is read again", path.display()),
        Err(failure) => err!("the configuration stays as it was: {}", failure.message),
    }
}

/// What tells that a file is another one; none for one that is not there.
fn stamp(path: &Path) -> Option<(SystemTime, u64, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
}
