//! One API's requests, answers, streams and errors as another's: OpenAI chat and Responses, Anthropic, Gemini.
//!
//! Where the dialects of client and upstream match, bytes pass unparsed: [`Head`] reads what a gateway decides by from a
//! request and edits top-level fields in place, and [`Scanner`] finds usage, errors and the ending in an answer. Nothing
//! here holds more than one event of a stream.
//!
//! Deliberately absent: HTTP, clocks, random ids, tokens of any model.

mod answers;
mod base64;
mod dialect;
mod dialects;
mod edit;
pub mod errors;
mod fields;
mod finish;
pub mod head;
mod neutral;
mod object;
mod requests;
#[cfg(test)]
mod round_trip;
pub mod scanner;
mod skim;
mod sse;
pub mod streams;
mod translate;
mod turns;
pub mod usage;

pub use answers::AnswerOptions;
pub use dialect::{Dialect, GeminiPath};
pub use edit::Edit;
pub use errors::{ErrorClass, classify, classify_stream, error, stream_error};
pub use finish::FinishReason;
pub use head::Head;
pub use requests::RequestOptions;
pub use scanner::{Ending, Framing, Scanner, ScannerOptions, ScannerState, StreamError};
pub use sse::EventTooLong;
pub use streams::{StreamProgress, StreamTranslator};
pub use translate::{TranslatedAnswer, TranslatedRequest, answer, request};
pub use usage::TokenUsage;
