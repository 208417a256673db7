//! OpenAI's files: put in as forms, kept for a while, read in ranges.

pub(crate) mod content;
pub(crate) mod draft;
pub(crate) mod incoming;
mod multipart;
mod name;
pub(crate) mod routes;
pub(crate) mod upload;
