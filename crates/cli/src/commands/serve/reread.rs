//! The files behind flags, keys and certificates: read at the start, and again when they change.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, SystemTime};

use server::{KeyLimits, Keys, Server, Tls};

use super::args::Args;
use super::door;
use super::operations::LogFormat;
use crate::Failure;
use crate::files::{self, Small};

/// Between two looks at the files.
const LOOK: Duration = Duration::from_secs(1);
/// Bytes of a file of keys or certificates.
const MAX_BYTES: u64 = 4 << 20;
/// Characters of a key, where other machines reach the server: 64 bits in hexadecimal.
const SHORT_KEY: usize = 16;

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
