//! `options`: how tokens are chosen, and how Ollama would load the model.

use serde_json::{Map, Value};

use crate::error::Fault;
use crate::fields::Fields;
use crate::request_fields::{self, Route};
use crate::{Sampling, limits, sampling};

/// The options of a request, checked.
pub(super) struct Options {
    pub(super) sampling: Sampling,
    /// `num_predict`; none is as many as fit.
    pub(super) max_tokens: Option<usize>,
    /// Tokens of context that the client counts on.
    pub(super) num_ctx: Option<usize>,
    pub(super) warnings: Vec<String>,
}

impl Options {
    pub(super) fn read(body: &Fields<'_>) -> Result<Options, Fault> {
        let name = "options";
        let none = Value::Object(Map::new());
        let options = Fields::at(body.get(name).unwrap_or(&none), name.into())?;
        let warnings = request_fields::check(&options, Route::OllamaOptions)?;
        let sampling = Sampling::read(&options)?;
        // -1 and -2 are Ollama's words for "no bound" and "what the context has room for"; 0 bounds nothing there either.
        let max_tokens = options.integer("num_predict", -2..=limits::TOKENS)?;
        let max_tokens = max_tokens.and_then(|most| usize::try_from(most).ok()).filter(|most| *most > 0);
        sampling::check_min_tokens(&sampling, max_tokens)?;
        let num_ctx = options.count("num_ctx", 0..=limits::TOKENS)?.filter(|context| *context > 0);
        Ok(Options { sampling, max_tokens, num_ctx, warnings })
    }
}
