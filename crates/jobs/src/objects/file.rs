//! OpenAI's file object.

use crate::file::{File, Purpose};
use crate::time::seconds;
use serde::Serialize;

/// A file as OpenAI's API shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileObject<'a> {
    /// The file's id.
    pub id: &'a str,
    object: &'static str,
    bytes: u64,
    created_at: i64,
    expires_at: Option<i64>,
    filename: &'a str,
    purpose: Purpose,
    status: &'static str,
    status_details: Option<&'a str>,
}

/// The object of a file. A file is only seen whole, so that its status is always `processed`.
pub fn file_object(file: &File) -> FileObject<'_> {
    FileObject {
        id: &file.id,
        object: "file",
        bytes: file.bytes,
        created_at: seconds(file.created_at),
        expires_at: file.expires_at.map(seconds),
        filename: &file.filename,
        purpose: file.purpose,
        status: "processed",
        status_details: None,
    }
}
