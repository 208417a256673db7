//! What the writers of requests need to know beside the request.

/// Options of a request's translation.
#[derive(Debug, Clone, Copy)]
pub struct RequestOptions<'a> {
    /// The upstream's name of the model; without it, the client's.
    pub model: Option<&'a str>,
    /// Whether the answer is to be a stream, where the client's dialect says so in the path (Gemini).
    pub stream: Option<bool>,
    /// The limit that is sent to Anthropic, which asks for one, if the client set none.
    pub default_max_tokens: u64,
    /// Sends an answer's schema to Anthropic as a tool that must be called, for models without structured output.
    pub schema_as_tool: bool,
    /// Fields that the upstream's model does not take, by their names in the chat dialect: `temperature`, `top_p`, `top_k`,
    /// `seed`, `stop`, `frequency_penalty`, `presence_penalty`, `reasoning`, `verbosity`, `user`, `metadata`,
    /// `service_tier`, `parallel_tool_calls`. They are left out with a warning.
    pub drop: &'a [&'a str],
    /// Makes each warning an error.
    pub strict: bool,
}

impl RequestOptions<'_> {
    /// The tool's name under [`RequestOptions::schema_as_tool`].
    pub const SCHEMA_TOOL: &'static str = "structured_answer";
}

impl Default for RequestOptions<'_> {
    fn default() -> Self {
        RequestOptions {
            model: None,
            stream: None,
            default_max_tokens: 4_096,
            schema_as_tool: false,
            drop: &[],
            strict: false,
        }
    }
}
