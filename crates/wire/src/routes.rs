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
    /// text-embeddings-inference: `{"error", "error_type", "message", "param", "code"}`.
    Tei,
    /// Cohere: `{"message"}`, with OpenAI's `error` beside it.
    Cohere,
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
const OLLAMA_WHOLE: Route = Route { method: "POST", ..OLLAMA_GET };
const ENCODER: Route = Route { tag: Some("encoders"), ..POST };
const TEI: Route = Route { shape: ErrorFormat::Tei, ..ENCODER };
const COHERE: Route = Route { shape: ErrorFormat::Cohere, ..ENCODER };
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
        path: "/v1/embeddings",
        id: "createEmbedding",
        summary: "Makes a vector for each input.",
        answers: "The vectors.",
        request: Some("EmbeddingsRequest"),
        answer: "EmbeddingList",
        ..ENCODER
    },
    Route {
        path: "/embeddings",
        id: "createEmbeddingAlias",
        summary: "Makes a vector for each input (alias without /v1).",
        answers: "The vectors.",
        request: Some("EmbeddingsRequest"),
        answer: "EmbeddingList",
        ..ENCODER
    },
    Route {
        path: "/v1/embed",
        id: "cohereEmbedV1",
        summary: "Makes vectors of texts (Cohere, version 1).",
        answers: "The vectors, as a list or by type.",
        request: Some("CohereEmbedRequest"),
        answer: "CohereEmbeddings",
        ..COHERE
    },
    Route {
        path: "/v2/embed",
        id: "cohereEmbed",
        summary: "Makes vectors of texts (Cohere).",
        answers: "The vectors by type.",
        request: Some("CohereEmbedRequest"),
        answer: "CohereEmbeddings",
        ..COHERE
    },
    Route {
        path: "/v1/rerank",
        id: "rerankV1",
        summary: "Ranks documents by relevance to a query (Jina, Cohere, vLLM).",
        answers: "The documents by descending relevance, with their texts.",
        request: Some("RerankRequest"),
        answer: "RerankResults",
        ..COHERE
    },
    Route {
        path: "/v2/rerank",
        id: "rerankV2",
        summary: "Ranks documents by relevance to a query (Cohere).",
        answers: "The documents by descending relevance.",
        request: Some("RerankRequest"),
        answer: "RerankResults",
        ..COHERE
    },
    Route {
        path: "/rerank",
        id: "rerank",
        summary: "Ranks texts by relevance to a query (text-embeddings-inference, vLLM).",
        answers: "The texts or documents by descending relevance.",
        request: Some("RankRequest"),
        answer: "Ranks",
        ..TEI
    },
    Route {
        path: "/score",
        id: "score",
        summary: "Scores pairs of texts (vLLM).",
        answers: "A score for each pair.",
        request: Some("ScoreRequest"),
        answer: "Scores",
        ..ENCODER
    },
    Route {
        path: "/v1/score",
        id: "scoreV1",
        summary: "Scores pairs of texts (vLLM).",
        answers: "A score for each pair.",
        request: Some("ScoreRequest"),
        answer: "Scores",
        ..ENCODER
    },
    Route {
        path: "/classify",
        id: "classify",
        summary: "Classifies inputs (vLLM).",
        answers: "The label of each input, with the scores of all.",
        request: Some("ClassifyRequest"),
        answer: "Classes",
        ..ENCODER
    },
    Route {
        path: "/pooling",
        id: "pooling",
        summary: "Makes vectors or scores of inputs (vLLM).",
        answers: "The numbers of each input.",
        request: Some("PoolingRequest"),
        answer: "Pooled",
        ..ENCODER
    },
    Route {
        path: "/embed",
        id: "teiEmbed",
        summary: "Makes a vector for each input (text-embeddings-inference).",
        answers: "A list of vectors.",
        request: Some("TeiEmbedRequest"),
        answer: "Vectors",
        ..TEI
    },
    Route {
        path: "/embed_all",
        id: "teiEmbedAll",
        summary: "Makes a vector for each token of each input (text-embeddings-inference).",
        answers: "A list of vectors for each input.",
        request: Some("TeiEmbedRequest"),
        answer: "TokenVectors",
        ..TEI
    },
    Route {
        path: "/embed_sparse",
        id: "teiEmbedSparse",
        summary: "Makes a sparse vector for each input (text-embeddings-inference).",
        answers: "A list of weights for each input.",
        request: Some("TeiEmbedRequest"),
        answer: "SparseVectors",
        ..TEI
    },
    Route {
        path: "/predict",
        id: "teiPredict",
        summary: "Classifies texts or pairs of texts (text-embeddings-inference).",
        answers: "The labels by descending score.",
        request: Some("PredictRequest"),
        answer: "Predictions",
        ..TEI
    },
    Route {
        path: "/similarity",
        id: "teiSimilarity",
        summary: "Compares a sentence with others (text-embeddings-inference).",
        answers: "A score for each sentence.",
        request: Some("SimilarityRequest"),
        answer: "Similarities",
        ..TEI
    },
    Route {
        path: "/pipeline/feature-extraction",
        id: "featureExtraction",
        summary: "Makes a vector for each input (Hugging Face).",
        answers: "A list of vectors.",
        request: Some("TeiEmbedRequest"),
        answer: "Vectors",
        ..TEI
    },
    Route {
        path: "/pipeline/sentence-similarity",
        id: "sentenceSimilarity",
        summary: "Compares a sentence with others (Hugging Face).",
        answers: "A score for each sentence.",
        request: Some("SimilarityRequest"),
        answer: "Similarities",
        ..TEI
    },
    Route {
        path: "/pipeline/text-classification",
        id: "textClassification",
        summary: "Classifies texts (Hugging Face).",
        answers: "The labels of each text by descending score.",
        request: Some("TextClassificationRequest"),
        answer: "TextClasses",
        ..TEI
    },
    Route {
        path: "/pipeline/token-classification",
        id: "tokenClassification",
        summary: "Finds the entities in texts (Hugging Face).",
        answers: "The entities, with their places in characters.",
        request: Some("TokenClassificationRequest"),
        answer: "HfEntities",
        ..TEI
    },
    Route {
        path: "/v1/entities",
        id: "createEntities",
        summary: "Finds the entities in texts.",
        answers: "The entities of each text, with their places in bytes and characters.",
        request: Some("EntitiesRequest"),
        answer: "EntityList",
        ..ENCODER
    },
    Route {
        path: "/v1/chunk",
        id: "createChunks",
        summary: "Cuts a text into parts that fit a model.",
        answers: "The parts, with their places in bytes and characters.",
        request: Some("ChunkRequest"),
        answer: "ChunkList",
        ..ENCODER
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
        summary: "Generates a continuation of a text, whole or streamed (text-generation-inference); with an encoder, does the model's task (Hugging Face).",
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
        summary: "Describes the model and its limits (text-generation-inference, text-embeddings-inference).",
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
        path: "/api/embed",
        id: "ollamaEmbed",
        summary: "Makes a vector for each text (Ollama).",
        answers: "The vectors.",
        request: Some("OllamaEmbedRequest"),
        answer: "OllamaVectors",
        ..OLLAMA_WHOLE
    },
    Route {
        path: "/api/embeddings",
        id: "ollamaEmbeddings",
        summary: "Makes the vector of a text (Ollama's older endpoint).",
        answers: "The vector.",
        request: Some("OllamaEmbeddingsRequest"),
        answer: "OllamaVector",
        ..OLLAMA_WHOLE
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
