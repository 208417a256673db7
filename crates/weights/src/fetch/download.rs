//! Downloads a file over HTTP: resumes by range request, hashes while receiving, and verifies the hash.

use std::io::{Read, Seek, SeekFrom, Write};
use std::time::Duration;

use sha2::{Digest, Sha256};
use ureq::http::{HeaderMap, header};

use super::http::{Answer, Client, RetryState, io_reason, is_transient, number, retry_after, status_error};
use super::journal::{FileState, digest, hash_prefix};
use super::{Checked, Error, Event, Journal, MAX_FILE_BYTES, Pinned, Progress, ReceivedFile, reserve};

/// If the server gives no length, free disk space is checked again after this many bytes.
const DISK_STEP_BYTES: u64 = 256 << 20;

/// A file to download.
pub(crate) struct DownloadRequest<'a> {
    pub(crate) url: &'a str,
    /// Name within the model.
    pub(crate) name: &'a str,
    /// The expected hash and length, if the catalog pins them.
    pub(crate) pin: Option<&'a Pinned>,
    /// The hash and length from the hub's listing.
    pub(crate) listed: (Option<&'a str>, Option<u64>),
}

impl DownloadRequest<'_> {
    pub(crate) fn sha256(&self) -> Option<&str> {
        self.pin.map(|pin| pin.sha256.as_str()).or(self.listed.0)
    }

    fn size(&self) -> Option<u64> {
        self.pin.map(|pin| pin.size_bytes).or(self.listed.1)
    }
}

/// A download in progress: the open `.part` file, and the hash of its bytes.
struct Part<'a> {
    order: &'a DownloadRequest<'a>,
    file: std::fs::File,
    hasher: Sha256,
    /// Bytes received so far, which are in the file and in the hash.
    at: u64,
    state: FileState,
    network_bytes: u64,
    /// Whether the server has answered in this run.
    answered: bool,
}

/// Downloads one file; returns it with the number of downloaded bytes.
pub(crate) fn download(
    client: &Client,
    order: &DownloadRequest<'_>,
    journal: &mut Journal,
    progress: &mut dyn Progress,
) -> Result<(ReceivedFile, u64), Error> {
    if let Some((sha256, size_bytes)) = journal.finished(order.name) {
        if order.sha256().is_none_or(|want| want == sha256) {
            let checked = checked_by(order, order.listed.0.is_some());
            return Ok((ReceivedFile { name: order.name.to_owned(), sha256, size_bytes, checked }, 0));
        }
        journal.discard(order.name)?;
    }
    let mut part = Part::open(order, journal, progress)?;
    let mut retries = RetryState::new(client.limits);
    let mut spoiled_before = false;
    let mut linked = None;
    loop {
        let before = part.network_bytes;
        let resumed = part.at;
        match part.attempt(client, journal, progress, &mut linked) {
            Ok(()) => {}
            Err(AttemptError::Final(error)) => return Err(error),
            Err(AttemptError::Retry(error, retry_after_header)) => {
                retries.gain(part.network_bytes - before);
                retries.pause_or_fail(error, retry_after_header, order.name, progress)?;
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
            let checked = checked_by(order, linked.is_some());
            let name = order.name.to_owned();
            return Ok((ReceivedFile { name, sha256, size_bytes: size, checked }, network_bytes));
        };
        // Bytes from an earlier attempt may be the damaged ones: the file is downloaded once more from the start.
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

fn checked_by(order: &DownloadRequest<'_>, hub: bool) -> Checked {
    match (order.pin, hub || order.listed.0.is_some()) {
        (Some(_), _) => Checked::Pinned,
        (None, true) => Checked::Hub,
        (None, false) => Checked::Recorded,
    }
}

/// Why an attempt failed: for good, or worth a retry.
enum AttemptError {
    Final(Error),
    Retry(Error, Option<Duration>),
}

impl From<Error> for AttemptError {
    fn from(error: Error) -> Self {
        AttemptError::Final(error)
    }
}

impl<'a> Part<'a> {
    fn open(
        order: &'a DownloadRequest<'a>,
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
        // Without a validator or a hash, a change of the file on the server would go unnoticed.
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
    ) -> Result<(), AttemptError> {
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
            if hopeless { AttemptError::Final(failed.error) } else { AttemptError::Retry(failed.error, None) }
        })?;
        self.answered = true;
        if let (Some(want), Some(says)) = (self.order.sha256(), &answer.linked_sha256)
            && want != says
        {
            let (file, got, want) = (self.order.name.to_owned(), says.clone(), want.to_owned());
            return Err(AttemptError::Final(Error::Hash { file, got, want }));
        }
        *linked = answer.linked_sha256.clone().or(linked.take());
        let complete = answer.status == 416
            && unsatisfied_range(&answer.headers) == Some(self.at)
            && self.state.total.is_none_or(|total| total == self.at)
            && self.check_same_version(&answer.headers, Some(self.at)).is_ok();
        if complete {
            // The previous run stopped between the last byte and the rename.
            return Ok(());
        }
        let total = self.place_in_file(&answer, journal)?;
        self.check_total(total, journal)?;
        let (file, resumed_bytes) = (self.order.name, self.at);
        progress.event(Event::Begin { file, total_bytes: total, resumed_bytes });
        let end = match answer.status {
            206 => content_range(&answer.headers).map(|range| range.end + 1),
            _ => total,
        };
        self.receive(answer, total, end, journal, progress)
    }

    /// Checks status and headers, so that the body continues at `self.at`. Returns the length of the whole file.
    fn place_in_file(&mut self, answer: &Answer, journal: &mut Journal) -> Result<Option<u64>, AttemptError> {
        let encoding = answer.headers.get(header::CONTENT_ENCODING).map(|value| value.as_bytes().to_vec());
        if encoding.is_some_and(|encoding| encoding != b"identity") {
            let reason = "the server insists on compressing the file".to_owned();
            return Err(AttemptError::Final(Error::Http { url: answer.url.clone(), reason }));
        }
        match answer.status {
            200 => {
                if self.at > 0 {
                    self.restart(journal)?;
                }
                let total = number(&answer.headers, header::CONTENT_LENGTH);
                self.state.validator = validator(&answer.headers);
                self.state.total = total;
                journal.set(self.order.name, self.state.clone())?;
                Ok(total)
            }
            206 => {
                let range = content_range(&answer.headers);
                let fits = match range {
                    Some(range) if range.start == self.at && self.at > 0 => {
                        self.check_same_version(&answer.headers, range.total)
                    }
                    _ => Err("the server sent another range than was asked for"),
                };
                match fits {
                    Ok(()) => Ok(range.and_then(|range| range.total).or(self.state.total)),
                    Err(reason) => {
                        self.restart(journal)?;
                        let reason = reason.to_owned();
                        Err(AttemptError::Retry(Error::Http { url: answer.url.clone(), reason }, None))
                    }
                }
            }
            416 => {
                self.restart(journal)?;
                let reason = "the server refused to go on where the last attempt stopped".to_owned();
                Err(AttemptError::Retry(Error::Http { url: answer.url.clone(), reason }, None))
            }
            status if is_transient(status) => {
                Err(AttemptError::Retry(status_error(answer), retry_after(&answer.headers)))
            }
            _ => Err(AttemptError::Final(status_error(answer))),
        }
    }

    /// Checks that a response continues the same version of the file. Servers without `If-Range` support send a range
    /// of the current version, so validator and length are compared with those of the first response. If the hash is
    /// known, it is checked in the end, and a missing validator is accepted.
    fn check_same_version(&self, headers: &HeaderMap, total: Option<u64>) -> Result<(), &'static str> {
        const CHANGED: &str = "the file changed on the server since the last attempt; begun anew";
        if let (Some(before), Some(now)) = (self.state.total, total)
            && before != now
        {
            return Err(CHANGED);
        }
        let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let (etag, date) = (text(header::ETAG), text(header::LAST_MODIFIED));
        let Some(validator) = self.state.validator.as_deref() else {
            return if self.order.sha256().is_some() { Ok(()) } else { Err(CHANGED) };
        };
        let is_etag = validator.starts_with('"');
        match if is_etag { etag } else { date } {
            Some(now) if now == validator => Ok(()),
            Some(_) => Err(CHANGED),
            None if self.order.sha256().is_some() => Ok(()),
            // RFC 9110 15.3.7: a response to If-Range may omit the date, but not the ETag.
            None if !is_etag && etag.is_none() => Ok(()),
            None => Err("the server does not say whether the file is still the same; begun anew"),
        }
    }

    fn check_total(&mut self, total: Option<u64>, journal: &Journal) -> Result<(), AttemptError> {
        let want = self.order.size();
        if let (Some(want), Some(got)) = (want, total)
            && want != got
        {
            return Err(AttemptError::Final(Error::Size { file: self.order.name.to_owned(), got, want }));
        }
        let size = want.or(total).unwrap_or(0);
        if size > MAX_FILE_BYTES {
            let what = self.order.name.to_owned();
            return Err(AttemptError::Final(Error::TooLarge { what, limit: MAX_FILE_BYTES }));
        }
        reserve(journal.dir(), size.saturating_sub(self.at)).map_err(AttemptError::Final)
    }

    fn receive(
        &mut self,
        answer: Answer,
        total: Option<u64>,
        end: Option<u64>,
        journal: &Journal,
        progress: &mut dyn Progress,
    ) -> Result<(), AttemptError> {
        let path = journal.part(self.order.name);
        // The expected length, else the declared one, else the general limit.
        let known = self.order.size().or(total).unwrap_or(MAX_FILE_BYTES);
        let limit = end.map_or(known, |end| end.min(known));
        let mut body = answer.body.into_reader();
        let mut chunk = vec![0; 1 << 18];
        let mut unchecked = 0u64;
        self.file.seek(SeekFrom::Start(self.at)).map_err(Error::io("seek in", &path))?;
        loop {
            if progress.cancelled() {
                return Err(AttemptError::Final(Error::Cancelled));
            }
            let count = body.read(&mut chunk).map_err(|error| {
                let reason = format!("the connection broke at byte {}: {}", self.at, io_reason(&error));
                AttemptError::Retry(Error::Http { url: answer.url.clone(), reason }, None)
            })?;
            if count == 0 {
                break;
            }
            if self.at + count as u64 > limit {
                return Err(AttemptError::Final(Error::TooLarge { what: self.order.name.to_owned(), limit }));
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
                Err(AttemptError::Retry(Error::Http { url: answer.url, reason }, None))
            }
            _ => Ok(()),
        }
    }
}

/// A strong ETag, else the date: RFC 9110 13.1.5 allows no other validator in `If-Range`.
fn validator(headers: &HeaderMap) -> Option<String> {
    let etag = headers
        .get(header::ETAG)
        .and_then(|value| value.to_str().ok())
        .filter(|etag| !etag.starts_with("W/"));
    let date = headers.get(header::LAST_MODIFIED).and_then(|value| value.to_str().ok());
    etag.or(date).filter(|text| text.len() <= 256).map(str::to_owned)
}

/// `Content-Range: bytes 5-9/10`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ContentRange {
    /// First byte.
    start: u64,
    /// Last byte.
    end: u64,
    /// Length of the whole file, if the server gives it.
    total: Option<u64>,
}

fn content_range(headers: &HeaderMap) -> Option<ContentRange> {
    let text = headers.get(header::CONTENT_RANGE)?.to_str().ok()?;
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (start, end) = range.split_once('-')?;
    let (start, end): (u64, u64) = (start.parse().ok()?, end.parse().ok()?);
    let total = if total == "*" { None } else { Some(total.parse::<u64>().ok()?) };
    (start <= end && total.is_none_or(|total| end < total)).then_some(ContentRange { start, end, total })
}

/// The length of the whole file, from the `Content-Range: bytes */10` of a 416 response.
fn unsatisfied_range(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_RANGE)?.to_str().ok()?.strip_prefix("bytes */")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_strictly() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_RANGE, text.parse().unwrap());
            content_range(&headers)
        };
        assert_eq!(read("bytes 5-9/10"), Some(ContentRange { start: 5, end: 9, total: Some(10) }));
        assert_eq!(read("bytes 5-9/*"), Some(ContentRange { start: 5, end: 9, total: None }));
        for text in
            ["bytes */10", "bytes 9-5/10", "bytes 5-10/10", "5-9/10", "bytes 5-9/99999999999999999999999"]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
