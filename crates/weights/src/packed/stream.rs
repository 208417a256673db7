//! Writes a packed cache matrix by matrix, for models whose packed weights do not fit in memory.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::write::{Blocks, Part, header, reserve};
use super::{ALIGN, CacheKey, Error, Index, MAGIC, MatrixEntry, Problem, data_start};

/// Bytes by which an entry may grow when its layout, exponent and place are known: three numbers of up to 20 digits and
/// a name.
const ENTRY_GROWTH: usize = 128;

/// A packed cache that is being written. The same file as by [`write`](super::write()), but for spaces after the index,
/// whose length is not known when the matrices are written.
pub struct Writer {
    path: PathBuf,
    model: PathBuf,
    part: Part,
    out: Blocks<File>,
    index: Index,
    /// Bytes of the index, spaces included.
    index_bytes: usize,
    /// Matrices that were written.
    count: usize,
    /// Where they end, from the first on.
    end: u64,
}

impl Writer {
    /// Begins the file of `entries`, whose layouts, exponents and places are filled in by [`Writer::put`]. Their panels
    /// take at most `panel_bytes` together, which the disk must have.
    ///
    /// # Errors
    /// The system's error, or [`Problem::Busy`] if another process is writing the same file.
    pub fn begin(
        path: &Path,
        model: &Path,
        key: CacheKey,
        entries: Vec<MatrixEntry>,
        panel_bytes: u64,
    ) -> Result<Writer, Error> {
        let wrong = |problem| Error { path: path.to_owned(), problem };
        let begin = || -> Result<Writer, Problem> {
            let index = Index { key, slots: entries };
            let index_bytes = serde_json::to_vec(&index)?.len() + ENTRY_GROWTH * index.slots.len();
            let part = Part::begin(path)?;
            let padding = ALIGN * index.slots.len() as u64;
            reserve(part.file(), data_start(index_bytes) + panel_bytes + padding)?;
            let mut out = Blocks::new(part.file().try_clone()?);
            out.pad_to(data_start(index_bytes))?;
            let (path, model) = (path.to_owned(), model.to_owned());
            Ok(Writer { path, model, part, out, index, index_bytes, count: 0, end: 0 })
        };
        begin().map_err(wrong)
    }

    /// Writes the panels of the next matrix.
    ///
    /// # Errors
    /// The system's error, or more matrices than entries.
    pub fn put(&mut self, layout: &str, power: i32, panels: &[u8]) -> Result<(), Error> {
        self.put_next(layout, power, panels).map_err(|problem| self.wrong(problem))
    }

    fn put_next(&mut self, layout: &str, power: i32, panels: &[u8]) -> Result<(), Problem> {
        let start = self.end.next_multiple_of(ALIGN);
        let extra = || Problem::Content("more matrices than entries".to_owned());
        let entry = self.index.slots.get_mut(self.count).ok_or_else(extra)?;
        (entry.layout, entry.power) = (layout.to_owned(), power);
        (entry.start, entry.bytes) = (start, panels.len() as u64);
        self.out.pad_to(data_start(self.index_bytes) + start)?;
        self.out.put(panels)?;
        (self.count, self.end) = (self.count + 1, start + panels.len() as u64);
        Ok(())
    }

    /// Writes the index, syncs the file and gives it its name; returns its length in bytes.
    ///
    /// # Errors
    /// The system's error, or entries without a matrix.
    pub fn finish(mut self) -> Result<u64, Error> {
        let bytes = self.complete().map_err(|problem| self.wrong(problem))?;
        let Writer { path, model, part, .. } = self;
        part.finish(&path, &model).map_err(|problem| Error { path: path.clone(), problem })?;
        Ok(bytes)
    }

    fn complete(&mut self) -> Result<u64, Problem> {
        let (count, all) = (self.count, self.index.slots.len());
        if count != all {
            return Err(Problem::Content(format!("{count} matrices of {all}")));
        }
        self.out.flush()?;
        let mut json = serde_json::to_vec(&self.index)?;
        if json.len() > self.index_bytes {
            let (index, file) = (json.len() as u64, self.index_bytes as u64);
            return Err(Problem::Index { index, file });
        }
        json.resize(self.index_bytes, b' ');
        let mut head = Vec::with_capacity(json.len() + 64);
        head.write_all(&header(MAGIC, &json))?;
        head.write_all(&json)?;
        let bytes = data_start(self.index_bytes) + self.end;
        self.part.file().write_all_at(&head, 0)?;
        self.part.file().set_len(bytes)?;
        Ok(bytes)
    }

    fn wrong(&self, problem: Problem) -> Error {
        Error { path: self.path.clone(), problem }
    }
}
