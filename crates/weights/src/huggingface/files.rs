//! Files of a model's directory, which are read whole up to a limit.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use crate::magic;
use crate::opened::Error;

/// Largest config or template file, in bytes.
pub(super) const MAX_CONFIG_BYTES: u64 = 16 << 20;
/// The file of weights that are not split.
pub(super) const SINGLE: &str = "model.safetensors";

/// The value in a JSON file; `None` if the file does not exist.
pub(super) fn json(path: &Path, limit: u64) -> Result<Option<Value>, Error> {
    let Some(bytes) = bytes(path, limit)? else { return Ok(None) };
    // serde_json limits the nesting depth.
    let value = serde_json::from_slice(&bytes);
    value.map(Some).map_err(|source| {
        let what = match bytes.is_empty() {
            true => Some("empty; download it again"),
            false => magic::html_page(&bytes),
        };
        match what {
            Some(what) => Error::Foreign { path: path.to_owned(), what: what.to_owned() },
            None => Error::Json { path: path.to_owned(), source },
        }
    })
}

/// The bytes of a file; `None` if it does not exist.
pub(super) fn bytes(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, Error> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io(error)),
        // Opening a named pipe would block.
        Ok(meta) if !meta.is_file() => {
            return Err(io(std::io::Error::new(std::io::ErrorKind::InvalidInput, "not a regular file")));
        }
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    // One byte more than allowed, to notice a file that grows meanwhile.
    File::open(path).map_err(io)?.take(limit + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > limit {
        return Err(Error::TooLarge { path: path.to_owned(), limit });
    }
    if let Some(what) = magic::lfs_pointer(&bytes) {
        return Err(Error::Foreign { path: path.to_owned(), what: what.to_owned() });
    }
    Ok(Some(bytes))
}
