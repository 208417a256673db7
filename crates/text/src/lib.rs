//! Tokenizers, chat templates, structured output and the parser of answers.
//!
//! A [`Tokenizer`] is loaded from a `tokenizer.json` or from GGUF metadata into the same pipeline. After that nothing
//! here reads files or the clock (templates get one passed in). [`Special`] says whether control tokens are parsed in a
//! text; a [`Prompt`] marks the ranges that users wrote, in which they are not.
//!
//! An [`EncoderTokenizer`] builds the inputs of encoders: pairs, token types, truncation and offsets into the text. A
//! generating model's prompt is never truncated: one that does not fit is an error.
//!
//! Deliberately absent: training, and padding (batches are ragged).

mod bert;
mod bounds;
mod chunk;
mod config_files;
mod encoder;
mod entities;
mod eog;
mod error;
mod gguf;
mod guide;
mod huggingface;
mod infill;
mod layout;
mod limit;
mod names;
mod pack_model;
mod packed_model;
mod parts;
mod pipeline;
mod prompt;
mod safe_cuts;
mod spec;
mod special;
mod split_points;
mod spm;
mod stop;
mod stream;
mod tables;
mod template;
mod token_bytes;
mod token_texts;
mod tokenizer;
mod tools;
mod vocab_txt;
mod word_encoder;

pub use chunk::{ChunkError, ChunkMethod, ChunkOptions, TextChunk};
pub use encoder::{
    EncodeOptions, EncoderError, EncoderInput, EncoderTokenizer, PairTruncation, TextOrPair, TextTruncation,
};
pub use entities::{ClassifiedTokens, EntityStrategy, TextEntity, entities};
pub use error::Error;
pub use guide::{
    AnswerConstraint, CompiledConstraint, ConstraintCompiler, ConstraintMatcher, JsonSpacing,
    RequiredToolCalls, Schema,
};
pub use infill::{Infill, InfillTokens};
pub use limit::{EncodeError, TokenLimit};
pub use parts::{AnswerParser, AnswerParserOptions, AnswerPart, ReasoningFormat, ReasoningTags};
pub use prompt::Prompt;
pub use special::Special;
pub use stop::{StopMatcher, StopScan};
pub use stream::DecodeStream;
pub use template::{ChatTemplate, ContentFormat, TemplateError};
pub use tokenizer::{PackedTokenizer, Tokenizer, TokenizerCache, TokenizerCacheReport};
pub use tools::ToolCallStyle;
