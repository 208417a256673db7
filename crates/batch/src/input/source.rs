//! The file that is read, and the copy of a stream that is read in its place.

use crate::error::Error;
use crate::hashing::{Digested, Hashing};
use crate::input::split::{Rule, Splitter, record};
use crate::output::whole::Whole;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Bytes that are read at once.
const BUFFER: usize = 64 << 10;

/// A file of records.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) rule: Rule,
    /// The longest record.
    pub(crate) limit: usize,
    /// Whether the first record is a header.
    pub(crate) has_header: bool,
}

/// A file that is cut into records and hashed as it is read.
pub(crate) type Records = Splitter<BufReader<Hashing<File>>>;

impl Source {
    /// The records from the beginning, behind the header.
    pub(crate) fn records(&self) -> Result<Records, Error> {
        let file = Hashing::new(self.open()?);
        let mut records = Splitter::new(BufReader::with_capacity(BUFFER, file), self.rule, self.limit);
        if self.has_header {
            records.next().map_err(self.unreadable())?;
        }
        Ok(records)
    }

    /// Length and hash of the whole file. `go_on` is asked now and then.
    pub(crate) fn digest(&self, go_on: &dyn Fn(u64) -> Result<(), Error>) -> Result<Digested, Error> {
        let mut file = Hashing::new(self.open()?);
        let mut buffer = vec![0; 1 << 20];
        while file.read(&mut buffer).map_err(self.unreadable())? > 0 {
            go_on(file.passed())?;
        }
        Ok(file.digest())
    }

    /// A reader of single records.
    pub(crate) fn places(&self) -> Result<Places<'_>, Error> {
        Ok(Places { file: self.open()?, source: self })
    }

    /// Makes an error of a failed read.
    pub(crate) fn unreadable(&self) -> impl FnOnce(io::Error) -> Error + use<> {
        Error::io("read", &self.path)
    }

    fn open(&self) -> Result<File, Error> {
        File::open(&self.path).map_err(Error::io("open", &self.path))
    }
}

/// Reads single records of a file.
pub(crate) struct Places<'a> {
    file: File,
    source: &'a Source,
}

impl Places<'_> {
    /// The record at a place; `None` if the file has no such record any more.
    pub(crate) fn record(&mut self, offset: u64, length: u64) -> Result<Option<Vec<u8>>, Error> {
        self.file.seek(SeekFrom::Start(offset)).map_err(self.source.unreadable())?;
        let mut bytes = Vec::new();
        (&mut self.file).take(length).read_to_end(&mut bytes).map_err(self.source.unreadable())?;
        Ok(record(bytes, self.source.limit))
    }
}

/// Copies a stream to a file: whole, or not at all. An empty stream leaves a copy of an earlier run as it is.
pub(crate) fn spool(
    stream: &mut dyn Read,
    path: &Path,
    go_on: &dyn Fn(u64) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut whole = Whole::create(path)?;
    let mut buffer = vec![0; BUFFER];
    let mut total = 0;
    loop {
        let read = match stream.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other.map_err(Error::io("read", Path::new("-")))?,
        };
        if read == 0 {
            break;
        }
        whole.write_all(&buffer[..read]).map_err(Error::io("write", path))?;
        total += read as u64;
        go_on(total)?;
    }
    if total > 0 || !path.exists() {
        whole.finish()?;
    }
    Ok(())
}
