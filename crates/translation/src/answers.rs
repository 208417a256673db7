//! What the writers of answers and streams need to know beside the answer.

/// Options of an answer's translation.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnswerOptions<'a> {
    /// The model's name for the client; without it, the one that the upstream says.
    pub model: Option<&'a str>,
    /// An id for answers whose upstream gives none, such as the request's id.
    pub id: &'a str,
    /// Unix time in seconds, for dialects whose answers have it where the upstream's has not.
    pub created_s: u64,
    /// Whether the client of a chat stream asked for usage ([`crate::Head::include_usage`]).
    pub include_usage: bool,
    /// The client's request, whose settings an answer of the Responses API repeats.
    pub request: Option<&'a serde_json::Value>,
    /// The name of the tool that stands for the answer's schema ([`crate::RequestOptions::schema_as_tool`]): its call
    /// becomes text.
    pub schema_tool: Option<&'a str>,
}

/// Options that a stream keeps as long as it lasts.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeptOptions {
    model: Option<String>,
    id: String,
    created_s: u64,
    include_usage: bool,
    request: Option<serde_json::Value>,
    schema_tool: Option<String>,
}

impl KeptOptions {
    pub(crate) fn new(options: &AnswerOptions<'_>) -> KeptOptions {
        KeptOptions {
            model: options.model.map(str::to_owned),
            id: options.id.to_owned(),
            created_s: options.created_s,
            include_usage: options.include_usage,
            request: options.request.cloned(),
            schema_tool: options.schema_tool.map(str::to_owned),
        }
    }

    pub(crate) fn lent(&self) -> AnswerOptions<'_> {
        AnswerOptions {
            model: self.model.as_deref(),
            id: &self.id,
            created_s: self.created_s,
            include_usage: self.include_usage,
            request: self.request.as_ref(),
            schema_tool: self.schema_tool.as_deref(),
        }
    }
}

impl AnswerOptions<'_> {
    pub(crate) fn id(&self, upstream: Option<&str>) -> String {
        let fallback = if self.id.is_empty() { "gen-0" } else { self.id };
        upstream.filter(|id| !id.is_empty()).unwrap_or(fallback).to_owned()
    }

    pub(crate) fn model(&self, upstream: Option<&str>) -> String {
        self.model.or(upstream).unwrap_or("unknown").to_owned()
    }
}
