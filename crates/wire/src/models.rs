//! `GET /v1/models` and `GET /v1/models/{id}`.

use serde::Serialize;

/// One model that the server answers for.
#[derive(Debug, Clone, Serialize)]
pub struct Card {
    /// The name to put into `model`.
    pub id: String,
    /// Always `model`.
    pub object: &'static str,
    /// When it was loaded, Unix seconds.
    pub created: u64,
    /// Always `gristmill`.
    pub owned_by: &'static str,
    /// Tokens of context a request may use, prompt and answer together (vLLM's field).
    pub max_model_len: usize,
}

impl Card {
    /// The card of a model.
    pub fn new(id: impl Into<String>, created: u64, context: usize) -> Card {
        Card { id: id.into(), object: "model", created, owned_by: "gristmill", max_model_len: context }
    }
}

/// The list of models.
#[derive(Debug, Clone, Serialize)]
pub struct List {
    /// Always `list`.
    pub object: &'static str,
    /// The cards.
    pub data: Vec<Card>,
}

impl List {
    /// A list of cards.
    pub fn new(data: Vec<Card>) -> List {
        List { object: "list", data }
    }
}
