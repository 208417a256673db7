//! OpenAI's Responses.

pub(crate) mod answer;
mod items;
pub(crate) mod request;
pub(crate) mod stream;
