//! Whether an audit chain is as it was written.

use super::chain::{file_name, file_numbers};
use super::line::{Checked, FIRST, Head, MAX_LINE_BYTES, check_line};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// What a whole chain holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Files that were read.
    pub files: usize,
    /// Number of the first line: above 1 if older files were removed.
    pub first: u64,
    /// The last line: its number and hash.
    pub head: Head,
    /// Lines by kind: `request`, `start`, `gap`, …
    pub kinds: BTreeMap<String, u64>,
    /// Entries that were lost for want of room, as gap lines say.
    pub lost: u64,
    /// Bytes that `start` lines have set aside after a crash.
    pub set_aside: u64,
    /// Bytes after the last whole line: a process is writing, or was killed while it wrote.
    pub unfinished: u64,
}

/// Where a chain is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}, line {line}: {reason}", file.display())]
pub struct Broken {
    /// The file.
    pub file: PathBuf,
    /// The line in the file, from 1; 0 for the file as a whole.
    pub line: u64,
    /// What is wrong.
    pub reason: String,
}

/// Verifies a chain: a folder of files, or one file for itself. With `head`, the chain must have that line.
///
/// # Errors
/// The first place where the chain was changed, reordered or cut, or cannot be read.
pub fn verify(path: &Path, head: Option<&Head>) -> Result<Summary, Broken> {
    let whole = |reason: String| Broken { file: path.to_owned(), line: 0, reason };
    let mut walk = Walk::new(head.copied());
    if path.is_dir() {
        let numbers = file_numbers(path).map_err(|error| whole(error.to_string()))?;
        let Some(first) = numbers.first() else { return Err(whole("no audit files are here".to_owned())) };
        walk.from_start = *first == 1;
        for (index, number) in numbers.iter().enumerate() {
            let file = path.join(file_name(*number));
            if index > 0 && numbers[index - 1] + 1 != *number {
                let missing = file_name(numbers[index - 1] + 1);
                return Err(Broken {
                    file,
                    line: 0,
                    reason: format!("the file before, {missing}, is missing"),
                });
            }
            walk.file(&file, index + 1 == numbers.len())?;
        }
    } else {
        walk.file(path, true)?;
    }
    walk.finish(path)
}

/// Verifies one file's bytes, as [`verify`] does for a file.
///
/// # Errors
/// As [`verify`].
pub fn verify_bytes(bytes: &[u8], head: Option<&Head>) -> Result<Summary, Broken> {
    let mut walk = Walk::new(head.copied());
    walk.lines(Path::new("bytes"), bytes, true)?;
    walk.finish(Path::new("bytes"))
}

struct Walk {
    files: usize,
    /// Whether the chain's first line must be the first that was ever written.
    from_start: bool,
    first: Option<u64>,
    head: Head,
    kinds: BTreeMap<String, u64>,
    lost: u64,
    set_aside: u64,
    unfinished: u64,
    wanted: Option<Head>,
    seen_wanted: bool,
}

impl Walk {
    fn new(wanted: Option<Head>) -> Walk {
        Walk {
            files: 0,
            from_start: false,
            first: None,
            head: Head::START,
            kinds: BTreeMap::new(),
            lost: 0,
            set_aside: 0,
            unfinished: 0,
            wanted,
            seen_wanted: false,
        }
    }

    fn file(&mut self, path: &Path, last: bool) -> Result<(), Broken> {
        let open = File::open(path);
        let file =
            open.map_err(|error| Broken { file: path.to_owned(), line: 0, reason: error.to_string() })?;
        self.lines(path, BufReader::new(file), last)
    }

    fn lines(&mut self, path: &Path, mut from: impl BufRead, last: bool) -> Result<(), Broken> {
        self.files += 1;
        let mut line = Vec::new();
        for number in 1.. {
            let broken =
                |reason: &str| Broken { file: path.to_owned(), line: number, reason: reason.to_owned() };
            line.clear();
            let mut limited = from.by_ref().take(MAX_LINE_BYTES as u64 + 1);
            let count = limited.read_until(b'\n', &mut line).map_err(|error| broken(&error.to_string()))?;
            if count == 0 {
                if number == 1 && !last {
                    return Err(broken("the file is empty, and another follows"));
                }
                return Ok(());
            }
            if line.pop() != Some(b'\n') {
                if count > MAX_LINE_BYTES {
                    return Err(broken("the line is longer than any that is written"));
                }
                if !last {
                    return Err(broken("the line is cut, and another file follows"));
                }
                self.unfinished = count as u64;
                return Ok(());
            }
            let checked = check_line(&line).map_err(broken)?;
            if number == 1 && checked.place.kind != "file" {
                return Err(broken("a file does not begin with this line: those before are missing"));
            }
            self.step(checked).map_err(|reason| broken(&reason))?;
        }
        Ok(())
    }

    /// Takes the next line of the chain.
    fn step(&mut self, line: Checked) -> Result<(), String> {
        let Checked { place, previous, hash } = line;
        let seq = place.seq;
        if self.first.is_none() {
            if self.from_start && seq != 1 {
                return Err(format!("the chain begins with line {seq}: those before are missing"));
            }
            if seq == 0 || (seq == 1) != (previous == FIRST) {
                return Err("the first line's number and previous hash do not agree".to_owned());
            }
            self.first = Some(seq);
        } else if seq != self.head.seq.wrapping_add(1) {
            let expected = self.head.seq.wrapping_add(1);
            return Err(format!(
                "line {seq} stands where {expected} should: lines were removed or reordered"
            ));
        } else if previous != self.head.hash {
            return Err(format!("line {seq} does not follow the line before: one of them was replaced"));
        }
        self.head = Head { seq, hash };
        if let Some(wanted) = self.wanted.filter(|wanted| wanted.seq == seq) {
            if wanted.hash != hash {
                return Err(format!("line {seq} is another than the head says: the chain was written anew"));
            }
            self.seen_wanted = true;
        }
        self.lost = self.lost.saturating_add(if place.kind == "gap" { place.lost } else { 0 });
        self.set_aside =
            self.set_aside.saturating_add(if place.kind == "start" { place.torn_bytes } else { 0 });
        let kind = ["request", "file", "next", "start", "gap"].into_iter().find(|known| *known == place.kind);
        *self.kinds.entry(kind.unwrap_or("other").to_owned()).or_default() += 1;
        Ok(())
    }

    fn finish(self, path: &Path) -> Result<Summary, Broken> {
        let broken = |reason: String| Err(Broken { file: path.to_owned(), line: 0, reason });
        let Some(first) = self.first else { return broken("no whole line is in it".to_owned()) };
        if let (Some(wanted), false) = (self.wanted, self.seen_wanted) {
            let (seq, last) = (wanted.seq, self.head.seq);
            return broken(format!(
                "lines {first} to {last} are here, and line {seq} is not: lines were cut off"
            ));
        }
        Ok(Summary {
            files: self.files,
            first,
            head: self.head,
            kinds: self.kinds,
            lost: self.lost,
            set_aside: self.set_aside,
            unfinished: self.unfinished,
        })
    }
}
