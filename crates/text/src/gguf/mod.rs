//! Tokenizers from a GGUF's metadata, built into the same machine as a `tokenizer.json`.

mod build;
mod pre;
mod read;
#[cfg(test)]
mod tests;

pub(crate) use build::load;
pub(crate) use read::Vocabulary;
