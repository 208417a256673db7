//! What can be wrong with a tokenizer, a chat template or a text.

use std::path::PathBuf;

/// Why a tokenizer or a chat template could not be read, or a text not be turned into tokens.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A part that the tokenizer cannot do without is not in the file.
    #[error("the tokenizer has no {what} ({key})")]
    Missing {
        /// The part, in words.
        what: &'static str,
        /// The metadata key or file that would hold it.
        key: &'static str,
    },
    /// A folder whose vocabulary is in a form that is not read.
    #[error(
        "the folder has its vocabulary only as tokenizer.model (SentencePiece), which is not read; write a tokenizer.json beside it with transformers: python -c \"from transformers import AutoTokenizer; AutoTokenizer.from_pretrained('FOLDER').save_pretrained('FOLDER')\", or convert the model to GGUF"
    )]
    OnlySentencePiece,
    /// A named choice in the file that this program does not know.
    #[error("{what} {value:?} is not supported; supported: {supported}")]
    Unsupported {
        /// Which choice.
        what: &'static str,
        /// The value that the file holds.
        value: String,
        /// All known values, joined by commas.
        supported: String,
    },
    /// A value of the wrong type or sense.
    #[error("{what}: {problem}")]
    Malformed {
        /// The key, file or part.
        what: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Two tokens with the same text or two texts with the same id.
    #[error("{what} {value} belongs to both {first} and {second}")]
    Duplicate {
        /// `token` or `token id`.
        what: &'static str,
        /// The text or id that stands twice.
        value: String,
        /// The first owner.
        first: String,
        /// The second owner.
        second: String,
    },
    /// An id beyond the vocabulary.
    #[error("{what} is {id}, but the vocabulary has {size} tokens")]
    OutOfRange {
        /// Who refers to the id.
        what: String,
        /// The id.
        id: u64,
        /// Tokens in the vocabulary.
        size: usize,
    },
    /// More than this program accepts.
    #[error("{what} is {size}; the limit is {limit}")]
    TooLarge {
        /// What is too large, with its unit.
        what: &'static str,
        /// Its size.
        size: u64,
        /// The largest size accepted.
        limit: u64,
    },
    /// A file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The tokenizer refused a text.
    #[error("cannot tokenize: {0}")]
    Encode(String),
    /// The model file itself is broken.
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
