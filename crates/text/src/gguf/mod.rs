//! Loads tokenizers from GGUF metadata, into the same pipeline as a `tokenizer.json`.

mod build;
mod pre;
mod read;
#[cfg(test)]
mod tests;

pub(crate) use build::load;
pub(crate) use read::Vocabulary;
