//! Strings to tokens and back.
//!
//! A [`Tokenizer`] is read once, from a `tokenizer.json` or from a GGUF's metadata, into the same machine; after that
//! everything here is pure: no files, no clock (it is handed to the templates), no threads.
//! Text that a user wrote and text that a template wrote are told apart by [`Special`], and inside one prompt by
//! [`Prompt`]: only the template's may become control tokens.
//!
//! Deliberately absent: training, truncation and padding (a prompt that does not fit is refused, never cut),
//! pairs of sequences, offsets into the source text.

mod cuts;
mod ends;
mod error;
mod gguf;
mod guide;
mod huggingface;
mod limit;
mod loaded;
mod machine;
mod names;
mod parts;
mod pieces;
mod pipeline;
mod prompt;
mod special;
mod spm;
mod stop;
mod stream;
mod template;
mod tokenizer;
mod tools;
mod words;

pub use error::Error;
pub use guide::{Calls, Form, Grammars, Guidance, Guide, Schema, Space};
pub use limit::{Limit, Unencoded};
pub use parts::{Part, Parts, Reading, Tags, Thought};
pub use prompt::Prompt;
pub use special::Special;
pub use stop::{Found, Stops};
pub use stream::Stream;
pub use template::{ChatTemplate, ContentForm, TemplateError};
pub use tokenizer::Tokenizer;
pub use tools::Style;
