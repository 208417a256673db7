//! Strings to tokens and back.
//!
//! A [`Tokenizer`] is read once, from a `tokenizer.json` or from a GGUF's metadata, into the same machine; after that
//! everything here is pure: no files, no clock (it is handed to the templates), no threads.
//! Text that a user wrote and text that a template wrote are told apart by [`Special`], and inside one prompt by
//! [`Prompt`]: only the template's may become control tokens.
//!
//! Deliberately absent: training, truncation and padding (a prompt that does not fit is refused, never cut),
//! pairs of sequences, offsets into the source text.

mod bounds;
mod eog;
mod error;
mod gguf;
mod guide;
mod huggingface;
mod limit;
mod names;
mod parts;
mod pipeline;
mod prompt;
mod spec;
mod special;
mod split_points;
mod spm;
mod stop;
mod stream;
mod template;
mod token_bytes;
mod tokenizer;
mod tools;
mod word_encoder;

pub use error::Error;
pub use guide::{
    AnswerConstraint, CompiledConstraint, ConstraintCompiler, ConstraintMatcher, JsonSpacing,
    RequiredToolCalls, Schema,
};
pub use limit::{EncodeError, TokenLimit};
pub use parts::{AnswerParser, AnswerParserOptions, AnswerPart, ReasoningFormat, ReasoningTags};
pub use prompt::Prompt;
pub use special::Special;
pub use stop::{StopMatcher, StopScan};
pub use stream::DecodeStream;
pub use template::{ChatTemplate, ContentFormat, TemplateError};
pub use tokenizer::Tokenizer;
pub use tools::ToolCallStyle;
