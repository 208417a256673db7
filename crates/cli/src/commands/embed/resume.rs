//! Going on where an earlier run was ended, even by `kill -9` or a power cut.
//!
//! Beside FILE.part lies FILE.part.json: the flags, how many lines were written a second ago at most, and a hash of the
//! texts up to there. A later run keeps the whole lines of FILE.part, checks the hash against its own input, and the
//! lines after it by their ids.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::paths::{part_of, with_end};
use crate::Failure;
use crate::lines::Line;

/// Bytes of a note.
const MAX_BYTES: u64 = 1 << 20;
/// Ids between the note and the end of the file that are compared: what a second writes is far less.
const MAX_IDS: usize = 1 << 20;

/// All that vectors depend on beside the texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Settings {
    pub(super) fingerprint: String,
    pub(super) input: String,
    pub(super) kind: String,
    pub(super) dimensions: Option<u32>,
    pub(super) prompt: Option<String>,
    pub(super) truncate: String,
    pub(super) normalize: Option<bool>,
}

/// A hash of ids and texts.
#[derive(Clone, Default)]
pub(super) struct InputHash(Sha256);

impl InputHash {
    pub(super) fn add(&mut self, line: &Line) {
        let id = line.id.to_string();
        self.0.update(format!("{} {}\n", id.len(), line.text.len()));
        self.0.update(id);
        self.0.update(&line.text);
    }

    fn text(&self) -> String {
        self.0.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// How far an earlier run came.
#[derive(Clone, Debug)]
pub(super) struct Resume {
    /// Whole lines of FILE.part.
    pub(super) lines: u64,
    /// Their bytes.
    pub(super) bytes: u64,
    note: Note,
    /// Ids of the lines after the note.
    ids: Vec<Value>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Note {
    version: u32,
    settings: Settings,
    lines: u64,
    bytes: u64,
    input_sha256: String,
}

const VERSION: u32 = 1;

#[derive(Deserialize)]
struct WithId {
    id: Value,
}

impl Resume {
    pub(super) fn new(settings: Settings, lines: u64, bytes: u64, hash: &InputHash) -> Resume {
        let note = Note { version: VERSION, settings, lines, bytes, input_sha256: hash.text() };
        Resume { lines, bytes, note, ids: Vec::new() }
    }

    /// Writes the note for the run that writes `path`.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(super) fn keep(&self, path: &Path) -> Result<(), Failure> {
        let text = serde_json::to_vec(&self.note)?;
        let (note, new) = (note_of(path), with_end(path, ".part.json.new"));
        std::fs::write(&new, text)
            .and_then(|()| std::fs::rename(&new, &note))
            .map_err(|error| Failure::new(format!("cannot write {}: {error}", note.display())))
    }

    /// The run that began to write `path`; none if there is none.
    ///
    /// # Errors
    /// A run with other flags or another model, or files that cannot be read.
    pub(super) fn find(path: &Path, settings: &Settings) -> Result<Option<Resume>, Failure> {
        let (part, at) = (part_of(path), note_of(path));
        if !part.exists() && !at.exists() {
            return Ok(None);
        }
        let cannot = |path: &Path, error: &dyn std::fmt::Display| {
            Failure::new(format!(
                "cannot go on: {}: {error}; without --resume the run begins anew",
                path.display()
            ))
        };
        let mut text = Vec::new();
        let read = File::open(&at).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut text));
        read.map_err(|error| cannot(&at, &error))?;
        let note: Note = serde_json::from_slice(&text).map_err(|error| cannot(&at, &error))?;
        if note.version != VERSION || note.settings != *settings {
            let problem = "the run was with other flags, another model or another version";
            return Err(cannot(&at, &problem));
        }
        let file = File::open(&part).map_err(|error| cannot(&part, &error))?;
        let length = file.metadata().map_err(|error| cannot(&part, &error))?.len();
        if length < note.bytes {
            // A power cut may lose what was written last; what was noted before is gone too.
            return Ok(None);
        }
        let (ids, bytes) =
            ids_after(BufReader::new(file), note.bytes).map_err(|error| cannot(&part, &error))?;
        Ok(Some(Resume { lines: note.lines + ids.len() as u64, bytes, note, ids }))
    }

    /// Checks line number `done` of the input, from 1, with the hash up to it.
    ///
    /// # Errors
    /// The earlier run read another text there.
    pub(super) fn check(&self, done: u64, line: &Line, hash: &InputHash, name: &str) -> Result<(), Failure> {
        let other = |what: &str| {
            Err(Failure::new(format!(
                "cannot go on: {name} differs from the texts of the run to go on with, {what}; without --resume the run \
                 begins anew"
            )))
        };
        if done == self.note.lines && hash.text() != self.note.input_sha256 {
            return other(&format!("in the first {done} lines"));
        }
        let after =
            done.checked_sub(self.note.lines + 1).and_then(|at| self.ids.get(usize::try_from(at).ok()?));
        match after {
            Some(id) if *id != line.id => {
                other(&format!("in line {}: its id is {}, there it is {id}", line.number, line.id))
            }
            _ => Ok(()),
        }
    }
}

/// The ids of the whole lines from `start` on, and where the last of them ends. A line that is cut off or damaged ends them.
fn ids_after(mut file: BufReader<File>, start: u64) -> std::io::Result<(Vec<Value>, u64)> {
    file.seek_relative(i64::try_from(start).unwrap_or(i64::MAX))?;
    let (mut ids, mut end) = (Vec::new(), start);
    let mut line = Vec::new();
    while ids.len() < MAX_IDS {
        line.clear();
        let read = file.read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            break;
        }
        let Ok(WithId { id }) = serde_json::from_slice(&line) else { break };
        ids.push(id);
        end += read as u64;
    }
    Ok((ids, end))
}

/// Removes the note of a run that is over.
pub(super) fn forget(path: &Path) {
    // What is left behind is overwritten by the next run.
    let _ = std::fs::remove_file(note_of(path));
}

fn note_of(path: &Path) -> PathBuf {
    with_end(path, ".part.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            fingerprint: "f".into(),
            input: "Lines".into(),
            kind: "dense".into(),
            dimensions: None,
            prompt: None,
            truncate: "Refuse".into(),
            normalize: None,
        }
    }

    fn line(at: u64) -> Line {
        Line { number: at + 1, id: at.into(), text: format!("text {at}") }
    }

    /// A run of `noted` noted lines, `more` whole lines after them, and the start of one.
    fn killed(folder: &Path, noted: u64, more: u64) -> PathBuf {
        let path = folder.join("out.jsonl");
        let mut hash = InputHash::default();
        let mut text = String::new();
        for at in 0..noted {
            hash.add(&line(at));
            text.push_str(&format!("{{\"id\":{at},\"embedding\":[1.0]}}\n"));
        }
        Resume::new(settings(), noted, text.len() as u64, &hash).keep(&path).unwrap();
        for at in noted..noted + more {
            text.push_str(&format!("{{\"id\":{at},\"embedding\":[1.0]}}\n"));
        }
        text.push_str("{\"id\":99,\"embed");
        std::fs::write(part_of(&path), text).unwrap();
        path
    }

    fn replay(resume: &Resume, lines: impl Iterator<Item = Line>) -> Result<(), Failure> {
        let mut hash = InputHash::default();
        for (done, line) in (1..).zip(lines) {
            hash.add(&line);
            resume.check(done, &line, &hash, "f")?;
        }
        Ok(())
    }

    #[test]
    fn whole_lines_are_kept_and_the_rest_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = killed(folder.path(), 3, 2);
        let resume = Resume::find(&path, &settings()).unwrap().unwrap();
        assert_eq!((resume.lines, resume.bytes), (5, 5 * 27));
        replay(&resume, (0..5).map(line)).unwrap();
        assert!(Resume::find(&folder.path().join("other"), &settings()).unwrap().is_none());
    }

    #[test]
    fn other_texts_ids_or_flags_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = killed(folder.path(), 3, 2);
        let resume = Resume::find(&path, &settings()).unwrap().unwrap();
        let other_text =
            (0..5).map(|at| if at == 1 { Line { text: "x".into(), ..line(at) } } else { line(at) });
        let message = replay(&resume, other_text).unwrap_err().message;
        assert!(message.contains("in the first 3 lines"), "{message}");
        let other_id = (0..5).map(|at| if at == 4 { Line { id: "x".into(), ..line(at) } } else { line(at) });
        let message = replay(&resume, other_id).unwrap_err().message;
        assert!(message.contains("in line 5: its id is \"x\", there it is 4"), "{message}");
        let other = Settings { kind: "sparse".into(), ..settings() };
        assert!(Resume::find(&path, &other).unwrap_err().message.contains("other flags"));
    }
}
