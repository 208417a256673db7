//! Anthropic's messages.

pub(crate) mod answer;
mod blocks;
pub(crate) mod request;
pub(crate) mod stream;
