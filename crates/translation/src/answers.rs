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

impl AnswerOptions<'_> {
    pub(crate) fn id(&self, upstream: Option<&str>) -> String {
        let fallback = if self.id.is_empty() { "gen-0" } else { self.id };
        upstream.filter(|id| !id.is_empty()).unwrap_or(fallback).to_owned()
    }

    pub(crate) fn model(&self, upstream: Option<&str>) -> String {
        self.model.or(upstream).unwrap_or("unknown").to_owned()
    }
}
