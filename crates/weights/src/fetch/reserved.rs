//! Names in a download's directory that no file of a model may have.

use super::Error;
use super::journal::NAME as JOURNAL_NAME;
use crate::store::RECORD_NAME;

/// The archive that parts are joined to, before the model is taken out of it.
pub(super) const ARCHIVE: &str = ".archive";
/// The directory in which pip works.
pub(super) const PIP_WORK: &str = ".pip";
/// Names that are reserved for the store.
const RESERVED: [&str; 5] = [JOURNAL_NAME, RECORD_NAME, ARCHIVE, ".archive.part", PIP_WORK];

/// Refuses a file whose name the store uses itself.
pub(super) fn check_not_reserved(name: &str) -> Result<(), Error> {
    let first = name.split('/').next().unwrap_or_default();
    if !RESERVED.contains(&first) {
        return Ok(());
    }
    let reason = "the store keeps its own papers under that name".to_owned();
    Err(Error::NotAModel { file: name.to_owned(), reason })
}
