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
    /// Tokens of context a request may use, prompt and answer together (vLLM's field); none until it is loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_model_len: Option<usize>,
    /// `registered` (loaded when it is asked for), `loading`, `ready`, `draining` or `failed`.
    pub state: &'static str,
    /// Bytes of memory that it takes when it is loaded, once that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Whether it stays loaded whatever else is asked for.
    pub pinned: bool,
}

impl Card {
    /// The card of a model that is loaded.
    pub fn new(id: impl Into<String>, created: u64, context: Option<usize>) -> Card {
        Card {
            id: id.into(),
            object: "model",
            created,
            owned_by: "gristmill",
            max_model_len: context,
            state: "ready",
            memory_bytes: None,
            pinned: false,
        }
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
