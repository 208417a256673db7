//! Gemini's `generateContent`.

pub(crate) mod answer;
mod parts;
pub(crate) mod request;
pub(crate) mod schema;
pub(crate) mod stream;
