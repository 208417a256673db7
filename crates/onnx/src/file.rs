//! A model's files: the graph, and data that lie beside it.

use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use prost::Message;

use crate::error::Error;
use crate::options::Options;
use crate::proto::{ModelProto, StringStringEntryProto};
use crate::scan::scan;

/// A mapped file, as the owner of [`Bytes`].
struct Mapped(cpu::Map);

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Maps a file; the mapping lives as long as the last window of it.
pub(crate) fn map(path: &Path) -> Result<Bytes, Error> {
    let map = cpu::Map::open(path).map_err(|error| Error::File { path: path.to_owned(), error })?;
    Ok(Bytes::from_owner(Mapped(map)))
}

/// Decodes a model. Byte fields are windows of `bytes`.
pub(crate) fn decode(bytes: Bytes, options: &Options) -> Result<ModelProto, Error> {
    if bytes.is_empty() {
        return Err(Error::Format("it is empty".to_owned()));
    }
    scan(&bytes, options)?;
    ModelProto::decode(bytes).map_err(|error| Error::Format(error.to_string()))
}

/// The files beside a model in which its tensors may lie. Each is mapped once.
pub(crate) struct Beside {
    /// The model's folder; none for a model from memory.
    folder: Option<PathBuf>,
    mapped: Mutex<Vec<(String, Bytes)>>,
}

impl Beside {
    pub(crate) fn new(model: Option<&Path>) -> Arc<Beside> {
        let folder = model.map(|path| path.parent().unwrap_or(Path::new("")).to_owned());
        Arc::new(Beside { folder, mapped: Mutex::new(Vec::new()) })
    }

    /// The bytes that an entry of external data names.
    pub(crate) fn window(&self, entries: &[StringStringEntryProto]) -> Result<Bytes, String> {
        let value = |key: &str| entries.iter().find(|entry| entry.key == key).map(|entry| &*entry.value);
        let number = |key: &str| match value(key) {
            None => Ok(None),
            Some(text) => {
                text.parse::<usize>().map(Some).map_err(|_| format!("its {key} is '{text}', no number"))
            }
        };
        let name = value("location").ok_or("its data are in another file, which is not named")?;
        let file = self.file(name)?;
        let start = number("offset")?.unwrap_or(0);
        let length = number("length")?;
        let end = match length {
            Some(length) => start.checked_add(length),
            None => Some(file.len()),
        };
        match end {
            Some(end) if start <= end && end <= file.len() => Ok(file.slice(start..end)),
            _ => Err(format!(
                "its data are {} bytes at {start} of '{name}', which has {} bytes",
                length.map_or("the".to_owned(), |n| n.to_string()),
                file.len()
            )),
        }
    }

    fn file(&self, name: &str) -> Result<Bytes, String> {
        let mut mapped = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bytes)) = mapped.iter().find(|(known, _)| known == name) {
            return Ok(bytes.clone());
        }
        let path = self.path(name)?;
        let bytes = map(&path).map_err(|error| error.to_string())?;
        mapped.push((name.to_owned(), bytes.clone()));
        Ok(bytes)
    }

    /// The path of a file beside the model.
    fn path(&self, name: &str) -> Result<PathBuf, String> {
        let folder = self.folder.as_ref().ok_or_else(|| {
            format!("its data are in the file '{name}', which cannot be beside a model from memory")
        })?;
        let mut parts = Path::new(name).components().filter(|part| *part != Component::CurDir);
        let plain = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
        if !plain || name.contains('\\') {
            return Err(format!("its data are in '{name}': only a file beside the model may hold them"));
        }
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let whole = |path: &Path| path.canonicalize().map_err(|error| format!("{}: {error}", path.display()));
        let (folder, path) = (whole(folder)?, whole(&folder.join(name))?);
        if path.parent() == Some(&*folder) {
            return Ok(path);
        }
        Err(format!("its data are in '{name}', a link that leaves the model's folder"))
    }

    /// The files that tensors have been found in.
    pub(crate) fn files(&self) -> Vec<(String, Bytes)> {
        self.mapped.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
