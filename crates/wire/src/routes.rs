//! Every path of the API, once: the router, the labels of the metrics and the OpenAPI document are made from this table.

/// The shape that an API's faults have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// OpenAI's.
    OpenAi,
    /// Anthropic's.
    Anthropic,
    /// text-generation-inference's.
    Tgi,
    /// Ollama's.
    Ollama,
}

/// How an answer is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// Whole.
    Whole,
    /// Whole, or as server-sent events if the body asks for it.
    Either,
    /// As server-sent events.
    Streamed,
    /// As JSON objects, one a line, or whole if the body asks for it.
    Lines,
}

/// One method of one path.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// The path; `{id}` stands for a segment, `{*id}` for the rest.
    pub path: &'static str,
    /// `GET`, `POST` or `DELETE`.
    pub method: &'static str,
    /// The operation's id, OpenAI's where OpenAI has one.
    pub id: &'static str,
    /// The group that the OpenAPI document puts it into; none leaves it out of the document.
    pub tag: Option<&'static str>,
    /// What it does.
    pub summary: &'static str,
    /// What comes back.
    pub answers: &'static str,
    /// The schema of its body, if it takes one.
    pub request: Option<&'static str>,
    /// The schema of its answer.
    pub answer: &'static str,
    /// How the answer is sent.
    pub sent: Sent,
    /// The shape of its faults.
    pub shape: Shape,
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
    sent: Sent::Whole,
    shape: Shape::OpenAi,
};
const POST: Route = Route { method: "POST", tag: Some("completions"), ..GET };
const PROBE: Route = Route { tag: None, ..GET };
const OLLAMA: Route = Route { tag: Some("ollama"), sent: Sent::Lines, shape: Shape::Ollama, ..POST };
const OLLAMA_GET: Route = Route { tag: Some("ollama"), shape: Shape::Ollama, ..GET };

/// Paths that probes ask.
pub const HEALTH: &str = "/health";
/// Whether the process is worth keeping.
pub const LIVE: &str = "/health/live";
/// Whether to send requests here.
pub const READY: &str = "/health/ready";
/// Prometheus's.
pub const METRICS: &str = "/metrics";

/// Every route of the API, but those of the page.
pub const ROUTES: &[Route] = &[
    Route { path: HEALTH, id: "health", ..PROBE },
    Route { path: LIVE, id: "healthLive", ..PROBE },
    Route { path: READY, id: "healthReady", ..PROBE },
    Route { path: METRICS, id: "metrics", ..PROBE },
    Route { path: "/openapi.json", id: "openApi", ..PROBE },
    Route {
        path: "/v1/chat/completions",
        id: "createChatCompletion",
        summary: "Answers a conversation.",
        answers: "The answers to the conversation.",
        request: Some("ChatRequest"),
        answer: "ChatCompletion",
        sent: Sent::Either,
        ..POST
    },
    Route {
        path: "/v1/completions",
        id: "createCompletion",
        summary: "Continues a text.",
        answers: "The continuations of the prompts.",
        request: Some("CompletionRequest"),
        answer: "Completion",
        sent: Sent::Either,
        ..POST
    },
    Route {
        path: "/v1/responses",
        id: "createResponse",
        tag: Some("responses"),
        summary: "Answers, and keeps the answer.",
        answers: "The response.",
        request: Some("ResponsesRequest"),
        answer: "Response",
        sent: Sent::Either,
        ..POST
    },
    Route {
        path: "/v1/responses/{id}",
        id: "getResponse",
        tag: Some("responses"),
        summary: "A response that is kept.",
        answers: "The response with this id.",
        answer: "Response",
        ..GET
    },
    Route {
        path: "/v1/responses/{id}",
        method: "DELETE",
        id: "deleteResponse",
        tag: Some("responses"),
        summary: "Forgets a response.",
        answers: "The id of the response that is gone.",
        answer: "Deleted",
        ..GET
    },
    Route {
        path: "/v1/responses/{id}/cancel",
        id: "cancelResponse",
        tag: Some("responses"),
        summary: "Cancels a response that is computed in the background.",
        answers: "The response as it is now.",
        answer: "Response",
        ..POST
    },
    Route {
        path: "/v1/responses/{id}/input_items",
        id: "listInputItems",
        tag: Some("responses"),
        summary: "What a response answers, as items.",
        answers: "A page of the items.",
        answer: "ItemList",
        ..GET
    },
    Route {
        path: "/v1/messages",
        id: "createMessage",
        tag: Some("messages"),
        summary: "Answers a conversation, in Anthropic's form.",
        answers: "The message that answers.",
        request: Some("MessagesRequest"),
        answer: "Message",
        sent: Sent::Either,
        shape: Shape::Anthropic,
        ..POST
    },
    Route {
        path: "/v1/messages/count_tokens",
        id: "countMessageTokens",
        tag: Some("messages"),
        summary: "Counts a conversation's tokens.",
        answers: "The number of tokens.",
        request: Some("CountRequest"),
        answer: "Count",
        shape: Shape::Anthropic,
        ..POST
    },
    Route {
        path: "/v1/models",
        id: "listModels",
        tag: Some("models"),
        summary: "The names of the models.",
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
        answers: "The card of the model as it is now.",
        answer: "Model",
        ..POST
    },
    Route {
        path: "/v1/models/{*id}",
        id: "retrieveModel",
        tag: Some("models"),
        summary: "The model of one name.",
        answers: "The card of the name.",
        answer: "Model",
        ..GET
    },
    Route {
        path: "/tokenize",
        id: "tokenize",
        tag: Some("tokens"),
        summary: "A text or a conversation as tokens.",
        answers: "The tokens.",
        request: Some("TokenizeRequest"),
        answer: "Tokens",
        ..POST
    },
    Route {
        path: "/detokenize",
        id: "detokenize",
        tag: Some("tokens"),
        summary: "Tokens as text.",
        answers: "The text.",
        request: Some("DetokenizeRequest"),
        answer: "Text",
        ..POST
    },
    Route {
        path: "/apply-template",
        id: "applyTemplate",
        tag: Some("tokens"),
        summary: "A conversation as the text that the model continues.",
        answers: "The text.",
        request: Some("ChatRequest"),
        answer: "Text",
        ..POST
    },
    Route {
        path: "/tokenizer_info",
        id: "tokenizerInfo",
        tag: Some("tokens"),
        summary: "What is known of the tokenizer.",
        answers: "The tokenizer's class, size and special tokens.",
        answer: "TokenizerInfo",
        ..GET
    },
    Route {
        path: "/generate",
        id: "generate",
        summary: "Continues a text, in the form of text-generation-inference.",
        answers: "The continuation.",
        request: Some("GenerateRequest"),
        answer: "Generated",
        shape: Shape::Tgi,
        ..POST
    },
    Route {
        path: "/generate_stream",
        id: "generateStream",
        summary: "Continues a text, as events of text-generation-inference.",
        answers: "An event for each token.",
        request: Some("GenerateRequest"),
        answer: "Generated",
        sent: Sent::Streamed,
        shape: Shape::Tgi,
        ..POST
    },
    Route {
        path: "/",
        id: "compatGenerate",
        summary: "Continues a text, whole or streamed, in the form of text-generation-inference.",
        answers: "The continuation, in a list.",
        request: Some("GenerateRequest"),
        answer: "GeneratedList",
        sent: Sent::Either,
        shape: Shape::Tgi,
        ..POST
    },
    Route {
        path: "/info",
        id: "info",
        summary: "The model and its limits, in the form of text-generation-inference.",
        answers: "The model's name and the server's limits.",
        shape: Shape::Tgi,
        ..GET
    },
    Route {
        path: "/completion",
        id: "llamaCompletion",
        summary: "Continues a text, in the form of llama.cpp.",
        answers: "The continuation.",
        request: Some("LlamaRequest"),
        answer: "LlamaCompletion",
        sent: Sent::Either,
        ..POST
    },
    Route {
        path: "/completions",
        id: "llamaCompletions",
        summary: "Continues a text, in the form of llama.cpp, under its other name.",
        answers: "The continuation.",
        request: Some("LlamaRequest"),
        answer: "LlamaCompletion",
        sent: Sent::Either,
        ..POST
    },
    Route {
        path: "/slots",
        id: "slots",
        summary: "Answers that are computed, as slots.",
        answers: "A slot for each answer that can be computed at once.",
        answer: "Slots",
        ..GET
    },
    Route {
        path: "/version",
        id: "version",
        summary: "The server's version.",
        answers: "The version.",
        answer: "Version",
        ..GET
    },
    Route {
        path: "/props",
        id: "props",
        summary: "The model's and the server's properties, in the form of llama.cpp.",
        answers: "The defaults of a request, and the server's properties.",
        ..GET
    },
    Route {
        path: "/api/chat",
        id: "ollamaChat",
        summary: "Answers a conversation, in the form of Ollama.",
        answers: "The message that answers.",
        request: Some("OllamaChatRequest"),
        answer: "OllamaAnswer",
        ..OLLAMA
    },
    Route {
        path: "/api/generate",
        id: "ollamaGenerate",
        summary: "Answers a prompt, or continues a text, in the form of Ollama.",
        answers: "The answer.",
        request: Some("OllamaGenerateRequest"),
        answer: "OllamaAnswer",
        ..OLLAMA
    },
    Route {
        path: "/api/tags",
        id: "ollamaTags",
        summary: "The models, in the form of Ollama.",
        answers: "An entry for each name.",
        answer: "OllamaModels",
        ..OLLAMA_GET
    },
    Route {
        path: "/api/ps",
        id: "ollamaPs",
        summary: "The models that are loaded, in the form of Ollama.",
        answers: "An entry for each model.",
        answer: "OllamaModels",
        ..OLLAMA_GET
    },
    Route {
        path: "/api/show",
        method: "POST",
        id: "ollamaShow",
        summary: "What is known of a model, in the form of Ollama.",
        answers: "The model's figures, template and capabilities.",
        request: Some("OllamaShowRequest"),
        answer: "OllamaShow",
        ..OLLAMA_GET
    },
    Route {
        path: "/api/version",
        id: "ollamaVersion",
        summary: "The server's version, where clients of Ollama look for it.",
        answers: "The version.",
        answer: "Version",
        ..OLLAMA_GET
    },
    // Where the page is not served.
    Route { path: "/", id: "ollamaRunning", ..PROBE },
];

/// The routes of this path, one for each of its methods.
pub fn at(path: &str) -> impl Iterator<Item = &'static Route> {
    let exact = ROUTES.iter().any(|route| route.path == path);
    ROUTES.iter().filter(move |route| if exact { route.path == path } else { route.matches(path) })
}

impl Route {
    /// The path as documents write it.
    pub fn documented_path(&self) -> String {
        self.path.replace("{*", "{")
    }

    /// Whether this is a path of the route.
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
