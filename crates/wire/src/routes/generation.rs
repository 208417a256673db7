//! Routes of the server itself, of generation in the APIs of OpenAI and Anthropic, and of models.

use crate::node::NODE_PATH;

use super::route::{ErrorFormat, GET, HEALTH, LIVE, METRICS, POST, PROBE, READY, ResponseMode, Route};

pub(super) const ROUTES: &[Route] = &[
    Route { path: HEALTH, id: "health", ..PROBE },
    Route { path: LIVE, id: "healthLive", ..PROBE },
    Route { path: READY, id: "healthReady", ..PROBE },
    Route { path: METRICS, id: "metrics", ..PROBE },
    Route { path: "/openapi.json", id: "openApi", ..PROBE },
    Route {
        path: NODE_PATH,
        id: "getNode",
        summary: "Tells what this node serves, how busy it is, and how fast.",
        answers: "The record of the node, as it is pushed to a gateway.",
        answer: "Node",
        ..GET
    },
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
        label: "/v1/models/{id}/load",
        id: "loadModel",
        tag: Some("models"),
        summary: "Loads a model.",
        answers: "The card of the model, once it is loaded.",
        answer: "Model",
        ..POST
    },
    Route {
        path: "/v1/models/{*id}/pin",
        label: "/v1/models/{id}/pin",
        id: "pinModel",
        tag: Some("models"),
        summary: "Loads a model and keeps it loaded whatever else is asked for.",
        answers: "The card of the model, once it is loaded.",
        answer: "Model",
        ..POST
    },
    Route {
        path: "/v1/models/{*id}/unpin",
        label: "/v1/models/{id}/unpin",
        id: "unpinModel",
        tag: Some("models"),
        summary: "Lets a model be unloaded again when others need its memory.",
        answers: "The card of the model in its current state.",
        answer: "Model",
        ..POST
    },
    Route {
        path: "/v1/models/{*id}/unload",
        label: "/v1/models/{id}/unload",
        id: "unloadModel",
        tag: Some("models"),
        summary: "Unloads a model that is not in use.",
        answers: "The card of the model in its current state.",
        answer: "Model",
        ..POST
    },
    Route {
        path: "/v1/models/{*id}",
        label: "/v1/models/{id}",
        id: "retrieveModel",
        tag: Some("models"),
        summary: "Retrieves a model by name.",
        answers: "The card of the model.",
        answer: "Model",
        ..GET
    },
];
