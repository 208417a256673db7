//! A commercial API that is not one: an HTTP server on loopback that answers like OpenAI, Anthropic and Gemini, fails as
//! its [`Script`] says, and keeps count of what it would bill. Tests and benchmarks of the gateway run against it.
//!
//! The server's answers are a function of the script's seed and of the request's text, and its faults of the seed and of
//! the request's number, so that a test can say beforehand what has to come out, and compare the gateway's ledger with
//! the provider's [`Totals`].
//!
//! ```no_run
//! # async fn example() -> Result<(), fake_provider::ProviderError> {
//! use fake_provider::{Fault, Provider, Script, When};
//! let script = Script::new().tokens(12).fault(When::requests([1]), Fault::rate_limited("2"));
//! let provider = Provider::start(script).await?;
//! let base_url = format!("{}/v1", provider.url());
//! // … the gateway sends requests to `base_url` …
//! assert_eq!(provider.totals().attempts, 2);
//! assert_eq!(provider.log()[1].usage.output, 12);
//! # Ok(())
//! # }
//! ```
//!
//! Deliberately absent: TLS, HTTP/2, batches, files, real tokenizers (a token is four characters of a prompt, and one
//! word of an answer), checks of parameters.

mod answer;
mod answer_body;
mod attempt;
mod dialect;
mod dialects;
mod fault;
mod flags;
mod histogram;
mod load;
mod produce;
mod provider;
mod record;
mod repeat;
mod reply;
mod script;
mod serve;
mod socket;
mod words;

pub use dialect::Dialect;
pub use fault::{Fault, FaultRule, When};
pub use flags::{FlagError, Flags};
pub use histogram::Histogram;
pub use load::{Latency, Load, LoadError, LoadMode, LoadReport};
pub use provider::{Provider, ProviderError};
pub use record::{Outcome, Price, Record, Totals, Usage};
pub use reply::{Ending, Reply};
pub use script::{Script, ScriptError};
pub use words::{answer_words, prompt_tokens};
