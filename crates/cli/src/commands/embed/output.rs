//! Where vectors go: standard output, a file of JSON lines that a later run can go on with, or a NumPy file.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use inference::{Embedding, Encoded};

use super::args::{Args, Format};
use super::paths::part_of;
use super::resume::{InputHash, Resume, Settings};
use super::{npy, vectors};
use crate::Failure;
use crate::lines::Line;
use crate::term;

/// Between two notes of how far a run is.
const NOTE_EVERY: Duration = Duration::from_secs(1);

/// Takes vectors in the order of their texts.
pub(super) struct Writer {
    to: To,
    /// Lines of an earlier run that are not yet found again in the input.
    to_skip: u64,
    resumed: u64,
}

enum To {
    Stdout,
    Jsonl(Box<JsonLines>),
    Npy(Npy),
}

/// A file that gets its name when it is whole.
struct PartFile {
    path: PathBuf,
    part: PathBuf,
    file: BufWriter<File>,
}

struct JsonLines {
    file: PartFile,
    settings: Settings,
    earlier: Option<Resume>,
    /// The hash of the input, up to the lines that are written.
    hash: InputHash,
    lines: u64,
    bytes: u64,
    noted: Instant,
}

struct Npy {
    file: PartFile,
    rows: u64,
    columns: Option<usize>,
}

impl Writer {
    /// # Errors
    /// A file that cannot be written.
    pub(super) fn open(args: &Args, settings: &Settings, resume: Option<Resume>) -> Result<Writer, Failure> {
        let path = &args.output;
        let resumed = resume.as_ref().map_or(0, |resume| resume.lines);
        let to = match args.format {
            _ if path.as_os_str() == "-" => To::Stdout,
            Format::Npy => To::Npy(Npy { file: PartFile::create(path, 0)?, rows: 0, columns: None }),
            Format::Jsonl => {
                let bytes = resume.as_ref().map_or(0, |resume| resume.bytes);
                let mut lines = JsonLines {
                    file: PartFile::create(path, bytes)?,
                    settings: settings.clone(),
                    earlier: resume,
                    hash: InputHash::default(),
                    lines: resumed,
                    bytes,
                    noted: Instant::now(),
                };
                if resumed == 0 {
                    lines.note()?;
                }
                To::Jsonl(Box::new(lines))
            }
        };
        Ok(Writer { to, to_skip: resumed, resumed })
    }

    /// Lines that an earlier run has done.
    pub(super) fn resumed(&self) -> u64 {
        self.resumed
    }

    /// Takes the lines out that an earlier run has done.
    ///
    /// # Errors
    /// A line that is not the earlier run's.
    pub(super) fn skip_done(&mut self, lines: &mut Vec<Line>, name: &str) -> Result<(), Failure> {
        let To::Jsonl(to) = &mut self.to else { return Ok(()) };
        let count = usize::try_from(self.to_skip).unwrap_or(usize::MAX).min(lines.len());
        for line in lines.drain(..count) {
            self.to_skip -= 1;
            to.hash.add(&line);
            if let Some(earlier) = &to.earlier {
                earlier.check(self.resumed - self.to_skip, &line, &to.hash, name)?;
            }
        }
        Ok(())
    }

    /// # Errors
    /// The input has ended before the lines of the earlier run.
    pub(super) fn check_all_skipped(&self, name: &str) -> Result<(), Failure> {
        if self.to_skip == 0 {
            return Ok(());
        }
        Err(Failure::new(format!(
            "{name} has {} lines; the run to go on with has done {}: it was of other texts",
            self.resumed - self.to_skip,
            self.resumed
        )))
    }

    /// Writes the vectors of some lines.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(super) fn write(&mut self, lines: &[Line], encoded: &Encoded<Embedding>) -> Result<(), Failure> {
        match &mut self.to {
            To::Stdout => {
                term::write(&json(lines, encoded)?);
                Ok(())
            }
            To::Jsonl(to) => to.write(lines, encoded),
            To::Npy(to) => to.write(encoded),
        }
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(super) fn finish(self) -> Result<(), Failure> {
        match self.to {
            To::Stdout => Ok(()),
            To::Jsonl(to) => {
                let path = to.file.path.clone();
                to.file.finish()?;
                super::resume::forget(&path);
                Ok(())
            }
            To::Npy(mut to) => {
                let (rows, columns) = (to.rows, to.columns.unwrap_or_default());
                if to.columns.is_none() {
                    to.file.put(&npy::head(0, 0))?;
                }
                let PartFile { part, file, .. } = &mut to.file;
                npy::set_rows(file, rows, columns).map_err(|error| cannot_write(part, &error))?;
                to.file.finish()
            }
        }
    }
}

fn json(lines: &[Line], encoded: &Encoded<Embedding>) -> Result<String, Failure> {
    let mut text = String::new();
    let all = lines.iter().zip(&encoded.lengths).zip(&encoded.results);
    for ((line, length), embedding) in all {
        vectors::append(&mut text, line, *length, embedding)?;
    }
    Ok(text)
}

impl JsonLines {
    fn write(&mut self, lines: &[Line], encoded: &Encoded<Embedding>) -> Result<(), Failure> {
        let text = json(lines, encoded)?;
        self.file.put(text.as_bytes())?;
        // The system has it from here on, whatever becomes of this process.
        self.file.flush()?;
        lines.iter().for_each(|line| self.hash.add(line));
        self.lines += lines.len() as u64;
        self.bytes += text.len() as u64;
        if self.noted.elapsed() >= NOTE_EVERY { self.note() } else { Ok(()) }
    }

    fn note(&mut self) -> Result<(), Failure> {
        self.noted = Instant::now();
        let resume = Resume::new(self.settings.clone(), self.lines, self.bytes, &self.hash);
        resume.keep(&self.file.path)
    }
}

impl Npy {
    fn write(&mut self, encoded: &Encoded<Embedding>) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        for embedding in &encoded.results {
            let Embedding::Dense(vector) = embedding else { continue };
            if self.columns.is_none() {
                self.columns = Some(vector.len());
                bytes.extend(npy::head(0, vector.len()));
            }
            bytes.extend(vector.iter().flat_map(|value| value.to_le_bytes()));
            self.rows += 1;
        }
        self.file.put(&bytes)
    }
}

impl PartFile {
    /// Opens FILE.part and keeps its first `keep` bytes.
    fn create(path: &Path, keep: u64) -> Result<PartFile, Failure> {
        let part = part_of(path);
        let cannot = |error: std::io::Error| cannot_write(&part, &error);
        let mut file =
            File::options().write(true).create(true).truncate(false).open(&part).map_err(cannot)?;
        file.set_len(keep).map_err(cannot)?;
        file.seek(SeekFrom::End(0)).map_err(cannot)?;
        Ok(PartFile { path: path.to_owned(), file: BufWriter::new(file), part })
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.file.write_all(bytes).map_err(|error| cannot_write(&self.part, &error))
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.file.flush().map_err(|error| cannot_write(&self.part, &error))
    }

    fn finish(mut self) -> Result<(), Failure> {
        self.flush()?;
        self.file.get_ref().sync_all().map_err(|error| cannot_write(&self.part, &error))?;
        std::fs::rename(&self.part, &self.path).map_err(|error| cannot_write(&self.path, &error))
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot write {}: {error}", path.display()))
}
