//! Ollama's API: `POST /api/chat`, `/api/generate`, `/api/embed`, `/api/embeddings` and `/api/show`, and what lists its models.
//!
//! A request becomes the chat or the completion that says the same, so that both are checked, bounded and answered alike.
//! Formats are those of `docs/api.md` and `api/types.go` of ollama fb30760 (21 August 2026). Answers are streamed unless
//! `stream` is false: a JSON object a line.

mod answer;
mod embed;
mod messages;
mod models;
mod options;
mod request;
mod time;

pub use answer::{Answer, Called, Function, Metrics, Said, done_reason, fault, line, logprobs};
pub use embed::{OllamaEmbedRequest, embed_answer, embeddings_answer};
pub use models::{Details, Listed, Running, Show, ShowRequest, tagged};
pub use request::{Ask, OllamaRequest};
pub use time::{KeepAlive, rfc3339};
