//! Routes of tokens, and of the APIs of text-generation-inference, llama.cpp and Ollama.

use super::route::{ErrorFormat, GET, OLLAMA, OLLAMA_GET, OLLAMA_WHOLE, POST, PROBE, ResponseMode, Route};

pub(super) const ROUTES: &[Route] = &[
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
        path: "/infill",
        id: "llamaInfill",
        summary: "Fills in the text between a prefix and a suffix (llama.cpp).",
        answers: "The text between.",
        request: Some("LlamaInfillRequest"),
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
