//! `GET /v1/models` and `GET /v1/models/{id}`.

use serde::Serialize;

/// A model in the list of `/v1/models`.
#[derive(Debug, Clone, Serialize)]
pub struct Card {
    /// The model's name, as requests use it in `model`.
    pub id: String,
    /// Always `model`.
    pub object: &'static str,
    /// Time when the model was loaded, in Unix seconds.
    pub created: u64,
    /// Always `gristmill`.
    pub owned_by: &'static str,
    /// Context length: most tokens of prompt and answer together (vLLM's field); none until the model is loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_model_len: Option<usize>,
    /// Loading state: `registered` (loaded on first use), `loading`, `ready`, `draining` or `failed`.
    pub state: &'static str,
    /// Memory of the loaded model in bytes, once known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Whether the model is never unloaded for another one.
    pub pinned: bool,
    /// Requests that use the model now.
    pub uses: usize,
    /// Seconds since the model was last used.
    pub idle_s: u64,
    /// Why the last version of the model's files is not served, if it is not: the one before answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejected: Option<String>,
}

impl Card {
    /// The card of a loaded model.
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
            uses: 0,
            idle_s: 0,
            rejected: None,
        }
    }
}

/// The list of models.
#[derive(Debug, Clone, Serialize)]
pub struct List {
    /// Always `list`.
    pub object: &'static str,
    /// One card for each name.
    pub data: Vec<Card>,
}

impl List {
    /// A list of cards.
    pub fn new(data: Vec<Card>) -> List {
        List { object: "list", data }
    }
}
