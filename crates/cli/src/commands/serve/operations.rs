//! Flags for whoever runs the server: who may take how much, TLS, logs, configuration. And the files behind them, read
//! at start and again when they change.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, SystemTime};

use server::{KeyLimits, Keys, Server, Tls};

use super::{Args, door};
use crate::Failure;
use crate::calendar::rfc3339;
use crate::files::{self, Small};
use crate::term::{err, json_text};

/// Between two looks at the files.
const LOOK: Duration = Duration::from_secs(1);
/// Bytes of a file of keys or certificates.
const MAX_BYTES: u64 = 4 << 20;
/// Characters of a key, where other machines reach the server: 64 bits in hexadecimal.
const SHORT_KEY: usize = 16;

#[derive(clap::Args)]
#[group(skip)]
pub(super) struct Flags {
    /// Read flags from this file too: TOML, `port = 9000`. The command line wins, then the environment
    /// (`GRISTMILL_PORT`), then the file.
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,

    /// Check flags, files and memory, say what would be served, and leave.
    #[arg(long)]
    pub(super) check: bool,

    /// Requests that one key may begin in a minute, unless the file of keys says otherwise.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Access")]
    key_requests_per_minute: Option<u32>,

    /// Tokens that one key may use in a minute, prompts and answers together.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Access")]
    key_tokens_per_minute: Option<u32>,

    /// Requests of one key under way at once.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Access")]
    key_concurrent: Option<u32>,

    /// Speak TLS with this certificate chain (PEM); read again when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "Access")]
    tls_cert: Option<PathBuf>,

    /// The certificate's private key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Access")]
    tls_key: Option<PathBuf>,

    /// Append a line of JSON for each request: who, when, what, how much, how long; never its text.
    #[arg(long, value_name = "FILE", help_heading = "Logs")]
    pub(super) audit_log: Option<PathBuf>,

    /// The audit log is rotated before it grows over this; five old files are kept.
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = door::bytes, help_heading = "Logs")]
    pub(super) audit_log_bytes: u64,

    /// Send a trace of each request to this OTLP collector, as http://localhost:4318. Only in a build with the feature
    /// `otlp`, which heeds OpenTelemetry's variables too.
    #[arg(long, value_name = "URL", help_heading = "Logs")]
    pub(super) otlp_endpoint: Option<String>,

    /// How the log on standard error is written, as lines or as a JSON object each; GRISTMILL_LOG chooses what is in it.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text, help_heading = "Logs")]
    pub(super) log_format: LogFormat,

    /// Seconds for a request's head to arrive, and for an idle connection.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    #[arg(help_heading = "Limits")]
    pub(super) head_timeout: u16,

    /// Seconds for a request's body to arrive.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..))]
    #[arg(help_heading = "Limits")]
    pub(super) body_timeout: u16,

    /// Seconds for a client to take any byte of its answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..))]
    #[arg(help_heading = "Limits")]
    pub(super) write_timeout: u16,

    /// Seconds between the end of readiness and the end of service, for load balancers to notice.
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u16))]
    #[arg(help_heading = "Limits")]
    pub(super) drain_notice: u16,
}

/// What `--log-format` takes: lines for people, or one JSON object a line. (Documented values would stretch the whole
/// help.)
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogFormat {
    Text,
    Json,
}

impl LogFormat {
    /// What the command itself has to say, on standard error, in the log's format.
    pub(super) fn say(self, text: &str) {
        match self {
            LogFormat::Text => err!("{text}"),
            LogFormat::Json => {
                let timestamp = rfc3339(SystemTime::now());
                let fields = serde_json::json!({ "message": text });
                let target = "gristmill::serve";
                let line = serde_json::json!({ "timestamp": timestamp, "level": "INFO", "fields": fields, "target": target });
                err!("{}", json_text(&line.to_string()));
            }
        }
    }
}

/// When a file is read: once at the start, or again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    First,
    Again,
}

/// What was read from files, and what should be said about it.
pub(super) struct Loaded<T> {
    pub(super) value: T,
    pub(super) remarks: Vec<String>,
}

/// The keys of the command line and of the file.
///
/// # Errors
/// A key that cannot be used, a file that cannot be read, has no key, or can be written by others; a short key where
/// other machines reach the server.
pub(super) fn keys(args: &Args, when: Reading) -> Result<Loaded<Keys>, Failure> {
    let flags = &args.operations;
    let mut remarks = Vec::new();
    let mut keys = Keys::new(KeyLimits {
        requests_per_minute: flags.key_requests_per_minute,
        tokens_per_minute: flags.key_tokens_per_minute,
        concurrent: flags.key_concurrent,
    });
    args.api_key.iter().try_for_each(|key| keys.add(key)).map_err(|e| Failure::usage(e.to_string()))?;
    if let Some(path) = &args.api_key_file {
        let (flag, at) = ("--api-key-file", path.display());
        let before = keys.len();
        let file = read(flag, path, when)?;
        remarks = file.guarded(flag, path)?;
        let lines = keys.add_lines(file.text(flag, path)?);
        lines.map_err(|error| Failure::new(format!("{flag} {at}: {error}")))?;
        if keys.len() == before {
            return Err(Failure::new(format!("{flag} {at} has no key in it")));
        }
    }
    remarks.extend(short(args, &keys)?);
    Ok(Loaded { value: keys, remarks })
}

/// A key that can be guessed: what to say about it on loopback, an error elsewhere.
fn short(args: &Args, keys: &Keys) -> Result<Option<String>, Failure> {
    let Some((number, length)) = keys.shortest().filter(|(_, length)| *length < SHORT_KEY) else {
        return Ok(None);
    };
    let found = format!(
        "API key number {number} has {length} characters, fewer than {SHORT_KEY}; `openssl rand -hex 32` makes one"
    );
    if door::is_loopback(&args.host) {
        return Ok(Some(format!("warning: {found}")));
    }
    Err(Failure::new(format!(
        "{found}. Where other machines reach the server (--host {}) it must not be guessed",
        args.host
    )))
}

/// The certificate, if there is to be one.
///
/// # Errors
/// A file that cannot be read, or is no certificate or key; a private key that others may write.
pub(super) fn tls(args: &Args, when: Reading) -> Result<Option<Loaded<Tls>>, Failure> {
    let (Some(certificate), Some(key)) = (&args.operations.tls_cert, &args.operations.tls_key) else {
        return Ok(None);
    };
    let (chain, secret) = (read("--tls-cert", certificate, when)?, read("--tls-key", key, when)?);
    let remarks = secret.guarded("--tls-key", key)?;
    let tls = Tls::from_pem(&chain.bytes, &secret.bytes).map_err(|error| {
        Failure::new(format!("--tls-cert {}, --tls-key {}: {error}", certificate.display(), key.display()))
    })?;
    Ok(Some(Loaded { value: tls, remarks }))
}

/// A file of keys or certificates that `flag` names.
///
/// # Errors
/// A file that cannot be read, is too large, or cannot be read a second time.
pub(super) fn read(flag: &str, path: &Path, when: Reading) -> Result<Small, Failure> {
    if when == Reading::Again {
        // Opening a pipe would wait for somebody to write.
        let is_file = std::fs::metadata(path).map_or(true, |metadata| metadata.is_file());
        if !is_file {
            return Err(Failure::new(format!("{flag} {} is no file that can be read twice", path.display())));
        }
    }
    files::read(flag, path, MAX_BYTES)
}

/// Asks for the files to be read again.
pub(super) struct Rereader(Option<SyncSender<()>>, LogFormat);

impl Rereader {
    /// Has them read soon, by the thread that watches them.
    pub(super) fn read_again(&self) {
        match &self.0 {
            // A full queue: it is about to read them.
            Some(ask) => drop(ask.try_send(())),
            None => self.1.say("SIGHUP: there is no file to read again (--api-key-file, --tls-cert)"),
        }
    }
}

/// Reads the files again whenever they change or are asked for, on a thread of its own, until the process ends. What
/// cannot be used is said and leaves things as they are.
///
/// # Errors
/// No thread.
pub(super) fn watch(args: &std::sync::Arc<Args>, server: &Server) -> Result<Rereader, Failure> {
    let flags = &args.operations;
    let paths: Vec<PathBuf> =
        [&args.api_key_file, &flags.tls_cert, &flags.tls_key].into_iter().flatten().cloned().collect();
    if paths.is_empty() {
        return Ok(Rereader(None, flags.log_format));
    }
    let (ask, asked) = sync_channel(1);
    let mut seen = stamps(&paths);
    let (args, server) = (args.clone(), server.clone());
    let log = flags.log_format;
    let look = move || {
        loop {
            let told = asked.recv_timeout(LOOK);
            if told == Err(RecvTimeoutError::Disconnected) {
                std::thread::sleep(LOOK);
            }
            let now = stamps(&paths);
            if now != seen || told.is_ok() {
                // A file that is just being written is read again when it is done.
                seen = now;
                reload(&args, &server);
            }
        }
    };
    cpu::thread::spawn("reload", look)
        .map_err(|error| Failure::new(format!("no thread to watch files: {error}")))?;
    Ok(Rereader(Some(ask), log))
}

fn reload(args: &Args, server: &Server) {
    let say = |text: String| args.operations.log_format.say(&text);
    match keys(args, Reading::Again) {
        Ok(keys) if args.api_key_file.is_some() => {
            keys.remarks.into_iter().for_each(say);
            let count = keys.value.len();
            if server.set_keys(keys.value) {
                let keys = if count == 1 { "API key is" } else { "API keys are" };
                say(format!("{count} {keys} read again"));
            }
        }
        Ok(_) => {}
        Err(failure) => say(format!("the API keys stay as they are: {}", failure.message)),
    }
    match tls(args, Reading::Again) {
        Ok(Some(tls)) => {
            tls.remarks.into_iter().for_each(say);
            server.set_tls(tls.value);
            say("the TLS certificate is read again".to_owned());
        }
        Ok(None) => {}
        Err(failure) => say(format!("the TLS certificate stays as it is: {}", failure.message)),
    }
}

/// What tells that a file is another one; none for one that is not there.
type Stamp = Option<(SystemTime, u64, u64)>;

fn stamps(paths: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |path: &PathBuf| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
    };
    paths.iter().map(stamp).collect()
}
