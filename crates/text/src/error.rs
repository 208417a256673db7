//! Errors of tokenizers, chat templates and encoding.

use std::path::PathBuf;

/// Why a tokenizer or a chat template could not be loaded, or a text not be encoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file lacks a required part of the tokenizer.
    #[error("the tokenizer has no {what} ({key})")]
    Missing {
        /// The name of the part.
        what: &'static str,
        /// The metadata key or file that should contain the part.
        key: &'static str,
    },
    /// A folder whose only vocabulary is a SentencePiece file (`tokenizer.model`).
    #[error(
        "the folder has its vocabulary only as tokenizer.model (SentencePiece), which is not read; write a tokenizer.json beside it with transformers: python -c \"from transformers import AutoTokenizer; AutoTokenizer.from_pretrained('FOLDER').save_pretrained('FOLDER')\", or convert the model to GGUF"
    )]
    OnlySentencePiece,
    /// The file selects an option by a name that is not supported.
    #[error("{what} {value:?} is not supported; supported: {supported}")]
    Unsupported {
        /// The option, for example the tokenizer model.
        what: &'static str,
        /// The value in the file.
        value: String,
        /// All supported values, joined by commas.
        supported: String,
    },
    /// A value of the wrong type, or an invalid value.
    #[error("{what}: {problem}")]
    Malformed {
        /// The key, file or part.
        what: String,
        /// The problem.
        problem: String,
    },
    /// Two tokens with the same text, or two texts with the same id.
    #[error("{what} {value} belongs to both {first} and {second}")]
    Duplicate {
        /// `token` or `token id`.
        what: &'static str,
        /// The duplicate text or id.
        value: String,
        /// The first owner.
        first: String,
        /// The second owner.
        second: String,
    },
    /// An id beyond the vocabulary.
    #[error("{what} is {id}, but the vocabulary has {size} tokens")]
    OutOfRange {
        /// The part that refers to the id.
        what: String,
        /// The id.
        id: u64,
        /// Tokens in the vocabulary.
        size: usize,
    },
    /// A size beyond the limit.
    #[error("{what} is {size}; the limit is {limit}")]
    TooLarge {
        /// What is too large, with its unit.
        what: &'static str,
        /// The size, in that unit.
        size: u64,
        /// The largest size accepted.
        limit: u64,
    },
    /// A file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The tokenizer refused a text.
    #[error("cannot tokenize: {0}")]
    Encode(String),
    /// The model file could not be opened.
    #[error(transparent)]
    Weights(#[from] weights::opened::Error),
    /// The chat template does not compile.
    #[error(transparent)]
    Template(#[from] crate::TemplateError),
}

impl Error {
    pub(crate) fn malformed(what: impl Into<String>, problem: impl ToString) -> Error {
        Error::Malformed { what: what.into(), problem: problem.to_string() }
    }
}
