//! OpenAI's chat completions.

pub(crate) mod answer;
pub(crate) mod messages;
pub(crate) mod request;
pub(crate) mod stream;
