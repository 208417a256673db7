//! The endpoints that lines may ask.

/// An endpoint of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/completions`.
    Completions,
    /// `/v1/responses`.
    Responses,
    /// `/v1/messages`.
    Messages,
    /// `/v1/embeddings`.
    Embeddings,
    /// `/v1/rerank`.
    Rerank,
    /// `/v1/score`.
    Score,
    /// `/classify`.
    Classify,
    /// `/pooling`.
    Pooling,
    /// `/v1/entities`.
    Entities,
}

/// All endpoints with their names on the command line and their paths.
const ALL: [(Endpoint, &str, &str); 10] = [
    (Endpoint::Chat, "chat", "/v1/chat/completions"),
    (Endpoint::Completions, "completions", "/v1/completions"),
    (Endpoint::Responses, "responses", "/v1/responses"),
    (Endpoint::Messages, "messages", "/v1/messages"),
    (Endpoint::Embeddings, "embeddings", "/v1/embeddings"),
    (Endpoint::Rerank, "rerank", "/v1/rerank"),
    (Endpoint::Score, "score", "/v1/score"),
    (Endpoint::Classify, "classify", "/classify"),
    (Endpoint::Pooling, "pooling", "/pooling"),
    (Endpoint::Entities, "entities", "/v1/entities"),
];

impl Endpoint {
    /// The endpoint with a name such as `chat`.
    pub fn by_name(name: &str) -> Option<Endpoint> {
        ALL.iter().find(|(_, known, _)| *known == name).map(|(endpoint, _, _)| *endpoint)
    }

    /// The endpoint at a path such as `/v1/chat/completions`.
    pub fn by_path(path: &str) -> Option<Endpoint> {
        ALL.iter().find(|(_, _, known)| *known == path).map(|(endpoint, _, _)| *endpoint)
    }

    /// The names of all endpoints.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ALL.iter().map(|(_, name, _)| *name)
    }

    /// The paths of all endpoints.
    pub fn paths() -> impl Iterator<Item = &'static str> {
        ALL.iter().map(|(_, _, path)| *path)
    }

    /// The path that requests are sent to.
    pub fn path(self) -> &'static str {
        ALL.iter().find(|(endpoint, _, _)| *endpoint == self).map_or("/", |(_, _, path)| *path)
    }

    /// Whether a model writes the answer token by token.
    pub fn generates(self) -> bool {
        matches!(self, Endpoint::Chat | Endpoint::Completions | Endpoint::Responses | Endpoint::Messages)
    }

    /// Whether requests may have the field `seed`.
    pub fn takes_seed(self) -> bool {
        matches!(self, Endpoint::Chat | Endpoint::Completions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths_lead_back_to_the_endpoint() {
        for (endpoint, name, path) in ALL {
            assert_eq!(Endpoint::by_name(name), Some(endpoint));
            assert_eq!(Endpoint::by_path(path), Some(endpoint));
            assert_eq!(endpoint.path(), path);
        }
        assert_eq!(Endpoint::by_name("audio"), None);
    }
}
