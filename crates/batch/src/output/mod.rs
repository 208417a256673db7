//! The output: answers in the order of the input.

pub(crate) mod answer;
pub(crate) mod lines;
pub(crate) mod manifest;
pub(crate) mod sink;
pub(crate) mod table;
pub(crate) mod view;
pub(crate) mod whole;
pub(crate) mod write;
