//! The table of routes, from which the router, the metrics' labels and the OpenAPI document are built.

/// The format of an API's errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorFormat {
    /// OpenAI: `{"error": {"message", "type", "param", "code"}}`.
    OpenAi,
    /// Anthropic: `{"type": "error", "error": {"type", "message"}}`.
    Anthropic,
    /// text-generation-inference: `{"error", "error_type", "param", "code"}`.
    Tgi,
    /// Ollama: `{"error"}`.
    Ollama,
}

/// How a response body is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseMode {
    /// One JSON object.
    Whole,
    /// One JSON object, or server-sent events if the request sets `stream`.
    Either,
    /// Server-sent events.
    Streamed,
    /// JSON objects, one a line, or a single one if the request sets `stream` to false.
    Lines,
}

/// A route: one method of one path.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// Path pattern; `{id}` matches one segment, `{*id}` the rest.
    pub path: &'static str,
    /// HTTP method: `GET`, `POST` or `DELETE`.
    pub method: &'static str,
    /// `operationId` of the OpenAPI document: OpenAI's where it has one.
    pub id: &'static str,
    /// Tag of the OpenAPI document; none leaves the route out of it.
    pub tag: Option<&'static str>,
    /// Summary of the operation, a sentence.
    pub summary: &'static str,
    /// Description of the response, a sentence.
    pub answers: &'static str,
    /// Name of the request body's schema; none without a body.
    pub request: Option<&'static str>,
    /// Name of the response's schema.
    pub answer: &'static str,
    /// How the response is sent.
    pub sent: ResponseMode,
    /// Format of the route's errors.
    pub shape: ErrorFormat,
}

const GET: Route = Route {
    path: "",
    method: "GET",
    id: "",
    tag: Some("server"),
    summary: "",
    answers: "",
    request: None,
    answer: "Object",
    sent: ResponseMode::Whole,
    shape: ErrorFormat::OpenAi,
};
const POST: Route = Route { method: "POST", tag: Some("completions"), ..GET };
const PROBE: Route = Route { tag: None, ..GET };
const OLLAMA: Route =
    Route { tag: Some("ollama"), sent: ResponseMode::Lines, shape: ErrorFormat::Ollama, ..POST };
const OLLAMA_GET: Route = Route { tag: Some("ollama"), shape: ErrorFormat::Ollama, ..GET };

/// Path of the health check.
pub const HEALTH: &str = "/health";
/// Path of the liveness probe: whether the process should be kept running.
pub const LIVE: &str = "/health/live";
/// Path of the readiness probe: whether to route requests to this server.
pub const READY: &str = "/health/ready";
/// Path of the Prometheus metrics.
pub const METRICS: &str = "/metrics";

/// All routes of the API, without those of the web page.
pub const ROUTES: &[Route] = &[
    Route { path: HEALTH, id: "health", ..PROBE },
    Route { path: LIVE, id: "healthLive", ..PROBE },
    Route { path: READY, id: "healthReady", ..PROBE },
    Route { path: METRICS, id: "metrics", ..PROBE },
    Route { path: "/openapi.json", id: "openApi", ..PROBE },
    Route {
        path: "/v1/chat/completions",
        id: "createChatCompletion",
        summary: "Generates the next message of a conversation.",
        answers: "The generated messages.",
        request: Some("ChatRequest"),
        answer: "ChatCompletion",
        sent: ResponseMode::Either,
        ..POST
    },
    Route {
        path: "/v1/completions",
        id: "createCompletion",
        summary: "Generates a continuation of a text.",
        answers: "The continuations of the prompts.",
        request: Some("CompletionRequest"),
        answer: "Completion",
        sent: ResponseMode::Either,
        ..POST
    },
    Route {
        path: "/v1/responses",
        id: "createResponse",
        tag: Some("responses"),
        summary: "Generates a response and stores it.",
        answers: "The response.",
        request: Some("ResponsesRequest"),
        answer: "Response",
        sent: ResponseMode::Either,
        ..POST
    },
    Route {
        path: "/v1/responses/{id}",
        id: "getResponse",
        tag: Some("responses"),
        summary: "Retrieves a stored response.",
        answers: "The response with this id.",
        answer: "Response",
        ..GET
    },
    Route {
        path: "/v1/responses/{id}",
        method: "DELETE",
        id: "deleteResponse",
        tag: Some("responses"),
        summary: "Deletes a stored response.",
        answers: "The id of the deleted response.",
        answer: "Deleted",
        ..GET
    },
    Route {
        path: "/v1/responses/{id}/cancel",
        id: "cancelResponse",
        tag: Some("responses"),
        summary: "Cancels a background response.",
        answers: "The response in its current state.",
        answer: "Response",
        ..POST
    },
    Route {
        path: "/v1/responses/{id}/input_items",
        id: "listInputItems",
        tag: Some("responses"),
        summary: "Lists the input items of a response.",
        answers: "A page of the items.",
        answer: "ItemList",
        ..GET
    },
    Route {
        path: "/v1/messages",
        id: "createMessage",
        tag: Some("messages"),
        summary: "Generates the next message of a conversation (Anthropic).",
        answers: "The generated message.",
        request: Some("MessagesRequest"),
        answer: "Message",
        sent: ResponseMode::Either,
        shape: ErrorFormat::Anthropic,
        ..POST
    },
    Route {
        path: "/v1/messages/count_tokens",
        id: "countMessageTokens",
        tag: Some("messages"),
        summary: "Counts the tokens of a conversation.",
        answers: "The number of tokens.",
        request: Some("CountRequest"),
        answer: "Count",
        shape: ErrorFormat::Anthropic,
        ..POST
    },
    Route {
        path: "/v1/models",
        id: "listModels",
        tag: Some("models"),
        summary: "Lists the models.",
        answers: "A card for each name.",
        answer: "ModelList",
        ..GET
    },
    Route {
        path: "/v1/models/{*id}/load",
        id: "loadModel",
        tag: Some("models"),
        summary: "Loads a model.",
        answers: "The card of the model, once it is loaded.",
        answer: "Model",
        ..POST
    },
    Route {
        path: "/v1/models/{*id}/unload",
        id: "unloadModel",
        tag: Some("models"),
        summary: "Unloads a model that is not in use.",
        answers: "The card of the model in its current state.",
        answer: "Model",
        ..POST
    },
    Route {
        path: "/v1/models/{*id}",
        id: "retrieveModel",
        tag: Some("models"),
        summary: "Retrieves a model by name.",
        answers: "The card of the model.",
        answer: "Model",
        ..GET
    },
    Route {
        path: "/tokenize",
        id: "tokenize",
        tag: Some("tokens"),
        summary: "Tokenizes a text or a conversation.",
        answers: "The tokens.",
        request: Some("TokenizeRequest"),
        answer: "Tokens",
        ..POST
    },
    Route {
        path: "/detokenize",
        id: "detokenize",
        tag: Some("tokens"),
        summary: "Detokenizes token ids.",
        answers: "The text.",
        request: Some("DetokenizeRequest"),
        answer: "Text",
        ..POST
    },
    Route {
        path: "/apply-template",
        id: "applyTemplate",
        tag: Some("tokens"),
        summary: "Renders a conversation with the chat template.",
        answers: "The text.",
        request: Some("ChatRequest"),
        answer: "Text",
        ..POST
    },
    Route {
        path: "/tokenizer_info",
        id: "tokenizerInfo",
        tag: Some("tokens"),
        summary: "Describes the tokenizer.",
        answers: "The tokenizer's class, size and special tokens.",
        answer: "TokenizerInfo",
        ..GET
    },
    Route {
        path: "/generate",
        id: "generate",
        summary: "Generates a continuation of a text (text-generation-inference).",
        answers: "The continuation.",
        request: Some("GenerateRequest"),
        answer: "Generated",
        shape: ErrorFormat::Tgi,
        ..POST
    },
    Route {
        path: "/generate_stream",
        id: "generateStream",
        summary: "Streams a continuation of a text (text-generation-inference).",
        answers: "An event for each token.",
        request: Some("GenerateRequest"),
        answer: "Generated",
        sent: ResponseMode::Streamed,
        shape: ErrorFormat::Tgi,
        ..POST
    },
    Route {
        path: "/",
        id: "compatGenerate",
        summary: "Generates a continuation of a text, whole or streamed (text-generation-inference).",
        answers: "The continuation, in a list.",
        request: Some("GenerateRequest"),
        answer: "GeneratedList",
        sent: ResponseMode::Either,
        shape: ErrorFormat::Tgi,
        ..POST
    },
    Route {
        path: "/info",
        id: "info",
        summary: "Describes the model and its limits (text-generation-inference).",
        answers: "The model's name and the server's limits.",
        shape: ErrorFormat::Tgi,
        ..GET
    },
    Route {
        path: "/completion",
        id: "llamaCompletion",
        summary: "Generates a continuation of a text (llama.cpp).",
        answers: "The continuation.",
        request: Some("LlamaRequest"),
        answer: "LlamaCompletion",
        sent: ResponseMode::Either,
        ..POST
    },
    Route {
        path: "/completions",
        id: "llamaCompletions",
        summary: "Generates a continuation of a text (llama.cpp's alias).",
        answers: "The continuation.",
        request: Some("LlamaRequest"),
        answer: "LlamaCompletion",
        sent: ResponseMode::Either,
        ..POST
    },
    Route {
        path: "/slots",
        id: "slots",
        summary: "Lists the slots (llama.cpp).",
        answers: "One slot for each answer that can run concurrently.",
        answer: "Slots",
        ..GET
    },
    Route {
        path: "/version",
        id: "version",
        summary: "Returns the server's version.",
        answers: "The version.",
        answer: "Version",
        ..GET
    },
    Route {
        path: "/props",
        id: "props",
        summary: "Returns properties of the model and the server (llama.cpp).",
        answers: "The default parameters of requests, and the server's properties.",
        ..GET
    },
    Route {
        path: "/api/chat",
        id: "ollamaChat",
        summary: "Generates the next message of a conversation (Ollama).",
        answers: "The generated message.",
        request: Some("OllamaChatRequest"),
        answer: "OllamaAnswer",
        ..OLLAMA
    },
    Route {
        path: "/api/generate",
        id: "ollamaGenerate",
        summary: "Answers a prompt or continues a text (Ollama).",
        answers: "The answer.",
        request: Some("OllamaGenerateRequest"),
        answer: "OllamaAnswer",
        ..OLLAMA
    },
    Route {
        path: "/api/tags",
        id: "ollamaTags",
        summary: "Lists the models (Ollama).",
        answers: "An entry for each name.",
        answer: "OllamaModels",
        ..OLLAMA_GET
    },
    Route {
        path: "/api/ps",
        id: "ollamaPs",
        summary: "Lists the loaded models (Ollama).",
        answers: "An entry for each model.",
        answer: "OllamaModels",
        ..OLLAMA_GET
    },
    Route {
        path: "/api/show",
        method: "POST",
        id: "ollamaShow",
        summary: "Describes a model (Ollama).",
        answers: "The model's details, template and capabilities.",
        request: Some("OllamaShowRequest"),
        answer: "OllamaShow",
        ..OLLAMA_GET
    },
    Route {
        path: "/api/version",
        id: "ollamaVersion",
        summary: "Returns the server's version (Ollama).",
        answers: "The version.",
        answer: "Version",
        ..OLLAMA_GET
    },
    // If the web page is not served.
    Route { path: "/", id: "ollamaRunning", ..PROBE },
];

/// The routes that match a path, one for each method.
pub fn at(path: &str) -> impl Iterator<Item = &'static Route> {
    let exact = ROUTES.iter().any(|route| route.path == path);
    ROUTES.iter().filter(move |route| if exact { route.path == path } else { route.matches(path) })
}

impl Route {
    /// The path in the syntax of OpenAPI.
    pub fn documented_path(&self) -> String {
        self.path.replace("{*", "{")
    }

    /// Whether the route's pattern matches a path.
    fn matches(&self, path: &str) -> bool {
        if let Some((start, rest)) = self.path.split_once("{*") {
            let end = rest.split_once('}').map_or("", |(_, end)| end);
            let name = path.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
            return name.is_some_and(|name| !name.is_empty() && !name.starts_with('/'));
        }
        let mut segments = path.split('/');
        let known = self.path.split('/').all(|part| {
            segments.next().is_some_and(|segment| {
                if part.starts_with('{') { !segment.is_empty() } else { part == segment }
            })
        });
        known && segments.next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_finds_its_route() {
        let ids = |path: &str| at(path).map(|route| route.id).collect::<Vec<_>>();
        assert_eq!(ids("/v1/chat/completions"), ["createChatCompletion"]);
        assert_eq!(ids("/v1/responses"), ["createResponse"]);
        assert_eq!(ids("/v1/responses/resp_1"), ["getResponse", "deleteResponse"]);
        assert_eq!(ids("/v1/responses/resp_1/cancel"), ["cancelResponse"]);
        assert_eq!(ids("/v1/models/org/name"), ["retrieveModel"]);
        assert_eq!(ids("/v1/models/org/name/load"), ["loadModel", "retrieveModel"]);
        for none in
            ["", "/v1", "/v1/models/", "/v1/responses/", "/v1/responses/a/b/c", "/v1/chat/completions/"]
        {
            assert!(ids(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn ids_are_unique() {
        let mut ids: Vec<&str> = ROUTES.iter().map(|route| route.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), ROUTES.len());
    }
}
