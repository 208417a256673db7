//! The files of an audit chain, and the one process that appends to them.
//!
//! Files are `audit-00000001.jsonl`, `audit-00000002.jsonl`, …; the last is written. Each begins with a line that names
//! the file before, and ends with one that names the next. Blocks: whoever calls it runs on a thread that may.

use super::line::{AuditError, Head, MAX_LINE_BYTES, Record, check_line, write_line};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Where an audit chain is and when a new file begins.
#[derive(Clone, Debug)]
pub struct ChainOptions {
    /// The folder of the files; made if it is absent.
    pub folder: PathBuf,
    /// The size from which on a new file begins, in bytes.
    pub max_file_bytes: u64,
    /// A file, best elsewhere, that always holds the last line's number and hash.
    pub head_file: Option<PathBuf>,
}

impl ChainOptions {
    /// Files of 64 MiB and no head file.
    pub fn new(folder: &Path) -> ChainOptions {
        ChainOptions { folder: folder.to_owned(), max_file_bytes: 64 << 20, head_file: None }
    }
}

/// The name of a file by its number.
pub(crate) fn file_name(number: u32) -> String {
    format!("audit-{number:08}.jsonl")
}

/// The number of a file by its name.
pub(crate) fn file_number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("audit-")?.strip_suffix(".jsonl")?;
    (digits.len() == 8).then(|| digits.parse().ok())?
}

/// The numbers of the files in a folder, in their order.
pub(crate) fn file_numbers(folder: &Path) -> Result<Vec<u32>, AuditError> {
    let mut numbers = Vec::new();
    for file in std::fs::read_dir(folder).map_err(AuditError::io(folder))? {
        let file = file.map_err(AuditError::io(folder))?;
        numbers.extend(file.file_name().to_str().and_then(file_number));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// An audit chain that is open for appending.
#[derive(Debug)]
pub struct Chain {
    options: ChainOptions,
    /// Held while the chain is open; the system releases it when the process ends, however it does.
    _lock: File,
    file: File,
    number: u32,
    bytes: u64,
    head: Head,
}

impl Chain {
    /// Opens a chain, or begins one, at the time `now`. An unfinished last line, as `kill -9` leaves it, is moved to a
    /// file of its own, which the next line names.
    ///
    /// # Errors
    /// If files cannot be read or written, another process has the chain open, or its last line was changed.
    pub fn open(options: ChainOptions, now: i64) -> Result<Chain, AuditError> {
        let folder = &options.folder;
        std::fs::create_dir_all(folder).map_err(AuditError::io(folder))?;
        let lock = lock(folder)?;
        let numbers = file_numbers(folder)?;
        let number = numbers.last().copied().unwrap_or(1);
        let path = folder.join(file_name(number));
        let mut file = append_to(&path)?;
        let end = last_line(&path, &mut file)?;
        let torn_file = set_aside(&path, &mut file, &end)?;
        let mut head = end.head;
        let mut previous = None;
        if let (None, Some(before)) = (head, numbers.len().checked_sub(2).map(|at| numbers[at])) {
            // A file was begun, and nothing written to it yet.
            let path = folder.join(file_name(before));
            let mut file = File::open(&path).map_err(AuditError::io(&path))?;
            head = last_line(&path, &mut file)?.head;
            previous = Some(file_name(before));
        }
        let begins = end.head.is_none();
        let head = head.unwrap_or(Head::START);
        let mut chain = Chain { options, _lock: lock, file, number, bytes: end.bytes, head };
        let mut records = Vec::new();
        if begins {
            records.push(Record::File { time: now, previous });
        } else if end.ended {
            chain.next_file(now)?;
        }
        records.push(Record::Start { time: now, torn_bytes: end.torn, torn_file });
        chain.append(&records, now)?;
        chain.write_head()?;
        sync_folder(&chain.options.folder)?;
        Ok(chain)
    }

    /// The last line.
    pub fn head(&self) -> Head {
        self.head
    }

    /// Appends records and synchronizes the file: they are there when this returns. After an error none of them is, as
    /// far as the disk still obeys, and the chain must be opened anew.
    pub(crate) fn append(&mut self, records: &[Record], now: i64) -> Result<(), AuditError> {
        if self.bytes >= self.options.max_file_bytes {
            self.write(&[Record::Next { time: now, next: file_name(self.number + 1) }])?;
            self.next_file(now)?;
        }
        self.write(records)?;
        if let Err(error) = self.write_head() {
            tracing::error!(%error, "the head of the audit chain cannot be written");
        }
        Ok(())
    }

    fn write(&mut self, records: &[Record]) -> Result<(), AuditError> {
        let mut text = Vec::new();
        let mut head = self.head;
        for record in records {
            write_line(record, &mut head, &mut text);
        }
        if let Err(error) = self.file.write_all(&text).and_then(|()| self.file.sync_data()) {
            let _ = self.file.set_len(self.bytes);
            return Err(AuditError::Io { path: self.path(), error });
        }
        self.head = head;
        self.bytes += text.len() as u64;
        Ok(())
    }

    fn path(&self) -> PathBuf {
        self.options.folder.join(file_name(self.number))
    }

    /// Begins the next file; the last line of this one names it.
    fn next_file(&mut self, now: i64) -> Result<(), AuditError> {
        let previous = Some(file_name(self.number));
        let path = self.options.folder.join(file_name(self.number + 1));
        let file = append_to(&path)?;
        if file.metadata().map_err(AuditError::io(&path))?.len() > 0 {
            let reason = "it should not exist yet".to_owned();
            return Err(AuditError::Broken { path, reason });
        }
        self.file = file;
        self.number += 1;
        self.bytes = 0;
        self.write(&[Record::File { time: now, previous }])?;
        sync_folder(&self.options.folder)
    }

    /// Replaces the head file by its temporary neighbour.
    fn write_head(&self) -> Result<(), AuditError> {
        let Some(path) = &self.options.head_file else { return Ok(()) };
        let temporary = path.with_extension("tmp");
        let mut file = File::create(&temporary).map_err(AuditError::io(&temporary))?;
        writeln!(file, "{}", self.head)
            .and_then(|()| file.sync_data())
            .map_err(AuditError::io(&temporary))?;
        std::fs::rename(&temporary, path).map_err(AuditError::io(path))
    }
}

fn lock(folder: &Path) -> Result<File, AuditError> {
    let path = folder.join("audit.lock");
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(AuditError::io(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(AuditError::Busy(folder.to_owned())),
        Err(std::fs::TryLockError::Error(error)) => Err(AuditError::Io { path, error }),
    }
}

fn append_to(path: &Path) -> Result<File, AuditError> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o640);
    options.open(path).map_err(AuditError::io(path))
}

/// Makes new names in a folder durable.
fn sync_folder(folder: &Path) -> Result<(), AuditError> {
    File::open(folder).and_then(|file| file.sync_all()).map_err(AuditError::io(folder))
}

/// The end of a file.
struct End {
    /// The last whole line; none in a file that has none.
    head: Option<Head>,
    /// Bytes of whole lines.
    bytes: u64,
    /// Bytes after them.
    torn: u64,
    /// Whether the last line names the next file.
    ended: bool,
}

/// Finds the last whole line of a file. What follows is torn if it has no end of line, or is no line at all, as blocks
/// of zeros are that a power loss leaves. A line that is one, and does not agree with its hash, is not torn but changed.
fn last_line(path: &Path, file: &mut File) -> Result<End, AuditError> {
    let length = file.metadata().map_err(AuditError::io(path))?.len();
    // Twice the longest line holds a whole line and the torn beginning of another.
    let start = length.saturating_sub(2 * MAX_LINE_BYTES as u64);
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(start)).map_err(AuditError::io(path))?;
    file.take(2 * MAX_LINE_BYTES as u64).read_to_end(&mut tail).map_err(AuditError::io(path))?;
    let broken = |reason: &str| AuditError::Broken { path: path.to_owned(), reason: reason.to_owned() };
    let mut end = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    while end > 0 {
        let begin = tail[..end - 1].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let line = &tail[begin..end - 1];
        match check_line(line) {
            Ok(checked) => {
                let head = Some(Head { seq: checked.place.seq, hash: checked.hash });
                let bytes = start + end as u64;
                let ended = checked.place.kind == "next";
                return Ok(End { head, bytes, torn: length - bytes, ended });
            }
            Err(_) if line.contains(&0) => end = begin,
            Err(reason) => return Err(broken(&format!("the last line: {reason}"))),
        }
    }
    if start > 0 {
        return Err(broken("no line is found at its end"));
    }
    Ok(End { head: None, bytes: 0, torn: length, ended: false })
}

/// Moves what is torn into a file of its own. Returns its name.
fn set_aside(path: &Path, file: &mut File, end: &End) -> Result<Option<String>, AuditError> {
    if end.torn == 0 {
        return Ok(None);
    }
    let mut torn = Vec::new();
    file.seek(SeekFrom::Start(end.bytes)).map_err(AuditError::io(path))?;
    file.take(end.torn).read_to_end(&mut torn).map_err(AuditError::io(path))?;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("audit");
    for count in 1..=u32::MAX {
        let name = format!("{name}.torn-{count}");
        let aside = path.with_file_name(&name);
        match OpenOptions::new().write(true).create_new(true).open(&aside) {
            Ok(mut kept) => {
                kept.write_all(&torn).and_then(|()| kept.sync_all()).map_err(AuditError::io(&aside))?;
                file.set_len(end.bytes).and_then(|()| file.sync_all()).map_err(AuditError::io(path))?;
                return Ok(Some(name));
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(AuditError::Io { path: aside, error }),
        }
    }
    Ok(None)
}
