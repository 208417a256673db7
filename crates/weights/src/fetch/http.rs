//! One file over HTTP: redirects by hand, resume by range, patience with limits.
//!
//! Redirects are followed here and not in the library for three reasons: the hub's own hash of a file stands in the
//! headers of the hop that redirects, a token goes to the host it was given for and to no other, and a step from
//! https down to http is refused.

use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use sha2::{Digest, Sha256};
use ureq::http::{HeaderMap, Uri, header};

use super::journal::{FileState, digest, hash_prefix};
use super::source::shown;
use super::{
    Arrived, Checked, Delivery, Error, Event, Journal, Limits, MAX_FILE_BYTES, Outside, Pinned, Progress,
    UrlSource, Want, check, pause, reserve,
};

const MAX_REDIRECTS: usize = 8;
/// Progress that forgives the failures before it.
const FORGIVING_BYTES: u64 = 1 << 20;
/// Longest pause that a server's Retry-After can ask for.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// A server that says no length is checked against the disk again after this many bytes.
const DISK_STEP_BYTES: u64 = 256 << 20;

/// A secret and the place it belongs to.
#[derive(Clone)]
pub(crate) struct Token {
    /// `scheme://host:port` that may see it.
    pub(crate) endpoint: String,
    /// The bearer token.
    pub(crate) secret: String,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Token for {}", self.endpoint)
    }
}

/// Speaks HTTP with the limits of the store.
#[derive(Debug)]
pub(crate) struct Client {
    agent: ureq::Agent,
    limits: Limits,
    token: Option<Token>,
}

/// An answer whose body has not been read.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// Address that answered in the end, without its query.
    pub(crate) url: String,
    /// Hash that the hub named on the way, if it did.
    pub(crate) linked_sha256: Option<String>,
    body: ureq::Body,
}

/// A failed request, and whether it never got as far as an answer.
struct Unanswered {
    error: Error,
    /// The host could not be found or reached at all.
    unreachable: bool,
}

impl From<Error> for Unanswered {
    fn from(error: Error) -> Self {
        Unanswered { error, unreachable: true }
    }
}

impl Client {
    pub(crate) fn new(limits: Limits, token: Option<Token>) -> Client {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_resolve(Some(limits.connect))
            .timeout_connect(Some(limits.connect))
            .timeout_recv_response(Some(limits.stall))
            .timeout_per_read(Some(limits.stall))
            .timeout_per_write(Some(limits.stall))
            // A compressed answer has no length to check and no range to resume.
            .accept_encoding("identity")
            .user_agent(concat!("gristmill/", env!("CARGO_PKG_VERSION")))
            .build();
        Client { agent: config.into(), limits, token }
    }

    fn token_for(&self, uri: &Uri) -> Option<&str> {
        let token = self.token.as_ref()?;
        let same = place(uri)? == token.endpoint;
        let private = uri.scheme_str() == Some("https") || is_loopback(uri);
        (same && private).then_some(token.secret.as_str())
    }

    /// One GET with its redirects.
    fn get(&self, url: &str, extra: &[(header::HeaderName, String)]) -> Result<Answer, Unanswered> {
        let fail = |url: &str, reason: String| Error::Http { url: shown(url), reason };
        let mut uri: Uri = url.parse().map_err(|error| fail(url, format!("not an address: {error}")))?;
        let mut linked_sha256 = None;
        for _ in 0..=MAX_REDIRECTS {
            let mut request = self.agent.get(&uri);
            for (name, value) in extra {
                request = request.header(name, value);
            }
            if let Some(secret) = self.token_for(&uri) {
                request = request.header(header::AUTHORIZATION, format!("Bearer {secret}"));
            }
            let answer = request.call().map_err(|error| Unanswered {
                unreachable: is_unreachable(&error),
                error: fail(&uri.to_string(), reason(&error, &uri, self.limits)),
            })?;
            let status = answer.status().as_u16();
            let (head, body) = answer.into_parts();
            let linked = head.headers.get("x-linked-etag").and_then(|value| value.to_str().ok());
            let linked = linked.map(|text| text.trim_matches('"').to_owned());
            linked_sha256 = linked_sha256.or(linked.filter(|text| super::is_sha256(text)));
            let location = head.headers.get(header::LOCATION).and_then(|value| value.to_str().ok());
            match (status, location) {
                (301 | 302 | 303 | 307 | 308, Some(location)) => uri = step(&uri, location)?,
                _ => {
                    let url = shown(&uri.to_string());
                    return Ok(Answer { status, headers: head.headers, url, linked_sha256, body });
                }
            }
        }
        Err(fail(url, format!("more than {MAX_REDIRECTS} redirects")).into())
    }

    /// A small text, such as a listing, with the same patience as for files.
    pub(crate) fn text(
        &self,
        url: &str,
        cap: u64,
        progress: &mut dyn Progress,
    ) -> Result<(u16, String), Error> {
        let mut tries = Tries::new(self.limits);
        loop {
            let failure = match self.get(url, &[]) {
                Err(Unanswered { error, unreachable: true }) => return Err(error),
                Err(Unanswered { error, .. }) => (error, None),
                Ok(answer) if is_passing(answer.status) => (refused(&answer), retry_after(&answer.headers)),
                Ok(answer) => {
                    let mut text = String::new();
                    let status = answer.status;
                    match answer.body.into_reader().take(cap + 1).read_to_string(&mut text) {
                        Ok(length) if length as u64 > cap => {
                            return Err(Error::TooLarge { what: shown(url), limit: cap });
                        }
                        Ok(_) => return Ok((status, text)),
                        Err(error) => (Error::Http { url: shown(url), reason: error.to_string() }, None),
                    }
                }
            };
            tries.again(failure.0, failure.1, &shown(url), progress)?;
        }
    }
}

/// Counts failures in a row, and pauses between them.
struct Tries {
    limits: Limits,
    failed: u32,
    gained: u64,
}

impl Tries {
    fn new(limits: Limits) -> Tries {
        Tries { limits, failed: 0, gained: 0 }
    }

    fn gain(&mut self, bytes: u64) {
        self.gained = self.gained.saturating_add(bytes);
        if self.gained >= FORGIVING_BYTES {
            (self.failed, self.gained) = (0, 0);
        }
    }

    /// Pauses before the next attempt, or gives the error back when there is none left.
    fn again(
        &mut self,
        error: Error,
        asked: Option<Duration>,
        file: &str,
        progress: &mut dyn Progress,
    ) -> Result<(), Error> {
        if self.failed >= self.limits.retries {
            return Err(error);
        }
        let doubled = self.limits.backoff.saturating_mul(1 << self.failed.min(4));
        let length = asked.unwrap_or(doubled).min(MAX_PAUSE);
        self.failed += 1;
        let reason = error.to_string();
        let pause_ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        progress.event(Event::Retry { file, reason: &reason, pause_ms });
        pause(length, progress)
    }
}

/// One file to bring.
pub(crate) struct Order<'a> {
    pub(crate) url: &'a str,
    /// Name within the model.
    pub(crate) name: &'a str,
    /// What its bytes must be, when that is known.
    pub(crate) pin: Option<&'a Pinned>,
    /// Hash and length that the hub's listing gave.
    pub(crate) listed: (Option<&'a str>, Option<u64>),
}

impl Order<'_> {
    fn sha256(&self) -> Option<&str> {
        self.pin.map(|pin| pin.sha256.as_str()).or(self.listed.0)
    }

    fn size(&self) -> Option<u64> {
        self.pin.map(|pin| pin.size_bytes).or(self.listed.1)
    }
}

/// A download under way: the open `.part`, and the hash of what it holds.
struct Part<'a> {
    order: &'a Order<'a>,
    file: std::fs::File,
    hasher: Sha256,
    /// Bytes in the file and in the hash.
    at: u64,
    state: FileState,
    network_bytes: u64,
    /// The server has answered in this run.
    answered: bool,
}

/// Brings one file; returns it with the bytes that came over the network.
pub(crate) fn download(
    client: &Client,
    order: &Order<'_>,
    journal: &mut Journal,
    progress: &mut dyn Progress,
) -> Result<(Arrived, u64), Error> {
    if let Some((sha256, size_bytes)) = journal.finished(order.name) {
        if order.sha256().is_none_or(|want| want == sha256) {
            let checked = vouched(order, order.listed.0.is_some());
            return Ok((Arrived { name: order.name.to_owned(), sha256, size_bytes, checked }, 0));
        }
        journal.discard(order.name)?;
    }
    let mut part = Part::open(order, journal, progress)?;
    let mut tries = Tries::new(client.limits);
    let mut spoiled_before = false;
    let mut linked = None;
    loop {
        let before = part.network_bytes;
        let resumed = part.at;
        match part.attempt(client, journal, progress, &mut linked) {
            Ok(()) => {}
            Err(Attempt::End(error)) => return Err(error),
            Err(Attempt::Again(error, asked)) => {
                tries.gain(part.network_bytes - before);
                tries.again(error, asked, order.name, progress)?;
                continue;
            }
        }
        let (sha256, size) = (digest(std::mem::take(&mut part.hasher)), part.at);
        let want = order.sha256().map(str::to_owned).or_else(|| linked.clone());
        let wrong = want.filter(|want| *want != sha256);
        let Some(want) = wrong else {
            let network_bytes = part.network_bytes;
            journal.finish(order.name, &sha256, size)?;
            progress.event(Event::End { file: order.name });
            let checked = vouched(order, linked.is_some());
            let name = order.name.to_owned();
            return Ok((Arrived { name, sha256, size_bytes: size, checked }, network_bytes));
        };
        // Bytes kept from an earlier attempt may be the bad ones: they get one fresh start.
        let network_bytes = part.network_bytes;
        journal.discard(order.name)?;
        if resumed == 0 || spoiled_before {
            return Err(Error::Hash { file: order.name.to_owned(), got: sha256, want });
        }
        spoiled_before = true;
        part = Part::open(order, journal, progress)?;
        part.network_bytes = network_bytes;
    }
}

fn vouched(order: &Order<'_>, hub: bool) -> Checked {
    match (order.pin, hub || order.listed.0.is_some()) {
        (Some(_), _) => Checked::Pinned,
        (None, true) => Checked::Hub,
        (None, false) => Checked::Recorded,
    }
}

/// How an attempt ended when it did not succeed.
enum Attempt {
    End(Error),
    Again(Error, Option<Duration>),
}

impl From<Error> for Attempt {
    fn from(error: Error) -> Self {
        Attempt::End(error)
    }
}

impl<'a> Part<'a> {
    fn open(
        order: &'a Order<'a>,
        journal: &mut Journal,
        progress: &mut dyn Progress,
    ) -> Result<Part<'a>, Error> {
        let path = journal.part(order.name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(Error::io("create", parent))?;
        }
        let file = std::fs::OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(false)
            .open(&path)
            .map_err(Error::io("open", &path))?;
        let length = file.metadata().map_err(Error::io("look at", &path))?.len();
        let state = journal.state(order.name);
        // Without a validator and without a hash nobody would notice if the file had changed meanwhile.
        let usable = state.validator.is_some() || order.sha256().is_some();
        let at = if usable && order.size().is_none_or(|size| length <= size) { length } else { 0 };
        let hasher = hash_prefix(&path, order.name, at, progress)?;
        let mut part = Part { order, file, hasher, at, state, network_bytes: 0, answered: false };
        if at == 0 {
            part.restart(journal)?;
        }
        Ok(part)
    }

    fn restart(&mut self, journal: &mut Journal) -> Result<(), Error> {
        let path = journal.part(self.order.name);
        self.file.set_len(0).map_err(Error::io("truncate", &path))?;
        self.hasher = Sha256::new();
        self.at = 0;
        self.state = FileState::default();
        journal.set(self.order.name, self.state.clone())
    }

    fn attempt(
        &mut self,
        client: &Client,
        journal: &mut Journal,
        progress: &mut dyn Progress,
        linked: &mut Option<String>,
    ) -> Result<(), Attempt> {
        if self.at > 0 && self.order.size() == Some(self.at) {
            return Ok(());
        }
        let mut extra = Vec::new();
        if self.at > 0 {
            extra.push((header::RANGE, format!("bytes={}-", self.at)));
            if let Some(validator) = &self.state.validator {
                extra.push((header::IF_RANGE, validator.clone()));
            }
        }
        let answer = client.get(self.order.url, &extra).map_err(|failed| {
            let hopeless = failed.unreachable && !self.answered;
            if hopeless { Attempt::End(failed.error) } else { Attempt::Again(failed.error, None) }
        })?;
        self.answered = true;
        if let (Some(want), Some(says)) = (self.order.sha256(), &answer.linked_sha256)
            && want != says
        {
            let (file, got, want) = (self.order.name.to_owned(), says.clone(), want.to_owned());
            return Err(Attempt::End(Error::Hash { file, got, want }));
        }
        *linked = answer.linked_sha256.clone().or(linked.take());
        if answer.status == 416 && unsatisfied_range(&answer.headers) == Some(self.at) {
            // The last run stopped between the last byte and the rename.
            return Ok(());
        }
        let total = self.place_in_file(&answer, journal)?;
        self.check_total(total, journal)?;
        let (file, resumed_bytes) = (self.order.name, self.at);
        progress.event(Event::Begin { file, total_bytes: total, resumed_bytes });
        self.receive(answer, total, journal, progress)
    }

    /// Reads status and headers; afterwards the body continues at `self.at`. Returns the whole file's length.
    fn place_in_file(&mut self, answer: &Answer, journal: &mut Journal) -> Result<Option<u64>, Attempt> {
        let encoding = answer.headers.get(header::CONTENT_ENCODING).map(|value| value.as_bytes().to_vec());
        if encoding.is_some_and(|encoding| encoding != b"identity") {
            let reason = "the server insists on compressing the file".to_owned();
            return Err(Attempt::End(Error::Http { url: answer.url.clone(), reason }));
        }
        match answer.status {
            200 => {
                if self.at > 0 {
                    self.restart(journal)?;
                }
                self.state.validator = validator(&answer.headers);
                journal.set(self.order.name, self.state.clone())?;
                Ok(number(&answer.headers, header::CONTENT_LENGTH))
            }
            206 => match content_range(&answer.headers) {
                Some((start, total)) if start == self.at && self.at > 0 => Ok(total),
                _ => {
                    self.restart(journal)?;
                    let reason = "the server sent another range than was asked for".to_owned();
                    Err(Attempt::Again(Error::Http { url: answer.url.clone(), reason }, None))
                }
            },
            416 => {
                self.restart(journal)?;
                let reason = "the server refused to go on where the last attempt stopped".to_owned();
                Err(Attempt::Again(Error::Http { url: answer.url.clone(), reason }, None))
            }
            status if is_passing(status) => {
                Err(Attempt::Again(refused(answer), retry_after(&answer.headers)))
            }
            _ => Err(Attempt::End(refused(answer))),
        }
    }

    fn check_total(&mut self, total: Option<u64>, journal: &Journal) -> Result<(), Attempt> {
        let want = self.order.size();
        if let (Some(want), Some(got)) = (want, total)
            && want != got
        {
            return Err(Attempt::End(Error::Size { file: self.order.name.to_owned(), got, want }));
        }
        let size = want.or(total).unwrap_or(0);
        if size > MAX_FILE_BYTES {
            let what = self.order.name.to_owned();
            return Err(Attempt::End(Error::TooLarge { what, limit: MAX_FILE_BYTES }));
        }
        reserve(journal.dir(), size.saturating_sub(self.at)).map_err(Attempt::End)
    }

    fn receive(
        &mut self,
        answer: Answer,
        total: Option<u64>,
        journal: &Journal,
        progress: &mut dyn Progress,
    ) -> Result<(), Attempt> {
        let path = journal.part(self.order.name);
        let limit = self.order.size().or(total).unwrap_or(MAX_FILE_BYTES);
        let mut body = answer.body.into_reader();
        let mut chunk = vec![0; 1 << 18];
        let mut unchecked = 0u64;
        self.file.seek(SeekFrom::Start(self.at)).map_err(Error::io("seek in", &path))?;
        loop {
            if progress.cancelled() {
                return Err(Attempt::End(Error::Cancelled));
            }
            let count = body.read(&mut chunk).map_err(|error| {
                let reason = format!("the connection broke at byte {}: {}", self.at, io_reason(&error));
                Attempt::Again(Error::Http { url: answer.url.clone(), reason }, None)
            })?;
            if count == 0 {
                break;
            }
            if self.at + count as u64 > limit {
                return Err(Attempt::End(Error::TooLarge { what: self.order.name.to_owned(), limit }));
            }
            self.file.write_all(&chunk[..count]).map_err(Error::io("write", &path))?;
            self.hasher.update(&chunk[..count]);
            self.at += count as u64;
            self.network_bytes += count as u64;
            unchecked += count as u64;
            if total.is_none() && unchecked >= DISK_STEP_BYTES {
                unchecked = 0;
                reserve(journal.dir(), 0)?;
            }
            progress.event(Event::Bytes { file: self.order.name, done_bytes: self.at });
        }
        match self.order.size().or(total) {
            Some(want) if self.at < want => {
                let reason = format!("the connection ended at byte {} of {want}", self.at);
                Err(Attempt::Again(Error::Http { url: answer.url, reason }, None))
            }
            _ => Ok(()),
        }
    }
}

/// A plain URL: one GGUF, or all parts of a split one.
pub(super) fn fetch(
    source: &UrlSource,
    want: &Want,
    dir: &Path,
    outside: &Outside,
    progress: &mut dyn Progress,
) -> Result<Delivery, Error> {
    let client = Client::new(outside.limits, None);
    let named = file_name(&source.url);
    let parts = named.as_deref().and_then(super::hub::split_names);
    let shown = shown(&source.url);
    let mut journal = Journal::open(dir, &source.url)?;
    let mut delivery = Delivery { origin: shown, file: None, files: Vec::new(), network_bytes: 0 };
    let single = [want.file.clone().or(named.clone()).unwrap_or_else(|| "model.gguf".to_owned())];
    let names = parts.as_deref().unwrap_or(&single);
    for name in names {
        let url = match &named {
            Some(named) if parts.is_some() => source.url.replace(named.as_str(), name),
            _ => source.url.clone(),
        };
        let pin = want.pin(name);
        let listed = (source.sha256.as_deref().filter(|_| names.len() == 1), None);
        let order = Order { url: &url, name, pin, listed };
        let (mut file, bytes) = download(&client, &order, &mut journal, progress)?;
        if order.sha256().is_some() {
            file.checked = Checked::Pinned;
        }
        delivery.network_bytes += bytes;
        delivery.files.push(file);
    }
    delivery.file = names.first().cloned();
    if let (Some(pin), Some(file)) = (want.pinned.first(), delivery.files.first()) {
        check(pin, &file.sha256, file.size_bytes)?;
    }
    Ok(delivery)
}

/// Last part of a URL's path when it can be a file's name.
pub(crate) fn file_name(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let name = uri.path().rsplit('/').next()?.to_owned();
    (name.contains('.') && super::source::check_relative(&name).is_ok() && !name.starts_with('.'))
        .then_some(name)
}

/// `scheme://host:port`, lower case, port written out.
pub(crate) fn place(uri: &Uri) -> Option<String> {
    let scheme = uri.scheme_str()?;
    let port = uri.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
    Some(format!("{scheme}://{}:{port}", uri.host()?.to_ascii_lowercase()))
}

fn is_loopback(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Where a `Location` leads.
fn step(from: &Uri, location: &str) -> Result<Uri, Error> {
    let fail = |reason: &str| Error::Http { url: shown(&from.to_string()), reason: reason.to_owned() };
    let (scheme, host) = (from.scheme_str().unwrap_or("https"), from.authority().map_or("", |a| a.as_str()));
    let text = if location.contains("://") {
        location.to_owned()
    } else if let Some(rest) = location.strip_prefix("//") {
        format!("{scheme}://{rest}")
    } else if location.starts_with('/') {
        format!("{scheme}://{host}{location}")
    } else {
        let folder = from.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{scheme}://{host}{folder}/{location}")
    };
    let to: Uri = text.parse().map_err(|_| fail("redirected to what is no address"))?;
    match to.scheme_str() {
        Some("https") => Ok(to),
        Some("http") if scheme == "http" => Ok(to),
        Some("http") => Err(fail("redirected from https to http, which is refused")),
        _ => Err(fail("redirected to what is neither http nor https")),
    }
}

/// True for answers that may be better a little later.
fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500..=599)
}

fn refused(answer: &Answer) -> Error {
    let hint = match answer.status {
        401 | 403 => ": the model may be gated or private; accept its terms on the hub and set HF_TOKEN",
        404 | 410 => ": no such file there",
        429 => ": too many requests, try again later",
        _ => "",
    };
    Error::Status { url: answer.url.clone(), status: answer.status, hint: hint.to_owned() }
}

fn number(headers: &HeaderMap, name: header::HeaderName) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    number(headers, header::RETRY_AFTER).map(Duration::from_secs)
}

/// A strong ETag, else the date; RFC 9110 13.1.5 allows nothing else in `If-Range`.
fn validator(headers: &HeaderMap) -> Option<String> {
    let etag = headers
        .get(header::ETAG)
        .and_then(|value| value.to_str().ok())
        .filter(|etag| !etag.starts_with("W/"));
    let date = headers.get(header::LAST_MODIFIED).and_then(|value| value.to_str().ok());
    etag.or(date).filter(|text| text.len() <= 256).map(str::to_owned)
}

/// First byte and whole length of `Content-Range: bytes 5-9/10`.
fn content_range(headers: &HeaderMap) -> Option<(u64, Option<u64>)> {
    let text = headers.get(header::CONTENT_RANGE)?.to_str().ok()?;
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (start, end) = range.split_once('-')?;
    let (start, end): (u64, u64) = (start.parse().ok()?, end.parse().ok()?);
    let total = if total == "*" { None } else { Some(total.parse::<u64>().ok()?) };
    (start <= end && total.is_none_or(|total| end < total)).then_some((start, total))
}

/// Whole length from the `Content-Range: bytes */10` of a 416.
fn unsatisfied_range(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_RANGE)?.to_str().ok()?.strip_prefix("bytes */")?.parse().ok()
}

/// True where asking again at once would only take longer: no such host, nobody listens, the certificate is wrong.
fn is_unreachable(error: &ureq::Error) -> bool {
    use std::io::ErrorKind as Kind;
    match error {
        ureq::Error::Timeout(what) => matches!(what, ureq::Timeout::Resolve | ureq::Timeout::Connect),
        ureq::Error::Io(error) => {
            !matches!(error.kind(), Kind::ConnectionReset | Kind::ConnectionAborted | Kind::UnexpectedEof)
        }
        ureq::Error::Protocol(_) => false,
        _ => true,
    }
}

fn reason(error: &ureq::Error, uri: &Uri, limits: Limits) -> String {
    let host = uri.host().unwrap_or("the host");
    match error {
        ureq::Error::HostNotFound => format!("cannot find {host}; is there a network?"),
        ureq::Error::Timeout(ureq::Timeout::Resolve | ureq::Timeout::Connect) => {
            format!("cannot reach {host} within {} s", limits.connect.as_secs_f32())
        }
        ureq::Error::Timeout(_) => format!("{host} was silent for {} s", limits.stall.as_secs_f32()),
        ureq::Error::Io(error) => format!("cannot reach {host}: {error}"),
        other => other.to_string(),
    }
}

fn io_reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock => "silence for too long".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Uri {
        text.parse().unwrap()
    }

    #[test]
    fn redirects_lead_where_they_say_and_never_down() {
        let from = uri("https://a.example/x/y?q=1");
        for (location, to) in [
            ("https://b.example/z", "https://b.example/z"),
            ("//b.example/z", "https://b.example/z"),
            ("/z", "https://a.example/z"),
            ("z?k=v", "https://a.example/x/z?k=v"),
        ] {
            assert_eq!(step(&from, location).unwrap(), uri(to), "{location}");
        }
        for location in ["http://a.example/x/y", "file:///etc/passwd", "ftp://a/b", "", "https://"] {
            // An empty reference would be the same address again; the caller's limit ends that.
            assert!(step(&from, location).is_err() || location.is_empty(), "{location} was followed");
        }
    }

    #[test]
    fn the_token_goes_to_its_own_place_only() {
        let token = |endpoint: &str| {
            let token = Token { endpoint: endpoint.to_owned(), secret: "s".to_owned() };
            Client::new(Limits::default(), Some(token))
        };
        let hub = token("https://hub.example:443");
        assert!(hub.token_for(&uri("https://HUB.example/a")).is_some());
        for other in ["https://cdn.example/a", "http://hub.example/a", "https://hub.example:8443/a"] {
            assert!(hub.token_for(&uri(other)).is_none(), "{other}");
        }
        assert!(
            token("http://hub.example:80").token_for(&uri("http://hub.example/a")).is_none(),
            "in the clear"
        );
        assert!(token("http://127.0.0.1:9").token_for(&uri("http://127.0.0.1:9/a")).is_some());
        assert!(!format!("{hub:?}").contains("\"s\""));
    }

    #[test]
    fn ranges_are_read_strictly() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_RANGE, text.parse().unwrap());
            content_range(&headers)
        };
        assert_eq!(read("bytes 5-9/10"), Some((5, Some(10))));
        assert_eq!(read("bytes 5-9/*"), Some((5, None)));
        for text in
            ["bytes */10", "bytes 9-5/10", "bytes 5-10/10", "5-9/10", "bytes 5-9/99999999999999999999999"]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn names_come_from_paths_only_when_they_are_names() {
        assert_eq!(file_name("https://h/a/b.gguf?download=1"), Some("b.gguf".to_owned()));
        for url in ["https://h/", "https://h/a/..", "https://h/resolve/main", "https://h/.gguf"] {
            assert_eq!(file_name(url), None, "{url}");
        }
    }
}
