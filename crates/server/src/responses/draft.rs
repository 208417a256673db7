//! A response on its way into the store.

use std::sync::Arc;

use inference::Client;
use serde_json::{Value, json};
use service::{Conversation, ResponseStore, ResponseText};

use crate::items::Item;

/// A response that is to be kept when it is whole.
pub(super) struct Draft {
    pub(super) store: Arc<ResponseStore>,
    pub(super) id: String,
    pub(super) client: Client,
    /// The conversation before the answer.
    pub(super) conversation: Conversation,
}

impl Draft {
    /// Keeps the response in its last state.
    pub(super) fn keep(mut self, object: ResponseText, items: &[Item]) {
        if let Some(turn) = turn(items) {
            self.conversation.push(&turn);
        }
        self.store.put(self.id, self.client, object, self.conversation, None);
    }
}

/// The answer as a turn of the conversation.
fn turn(items: &[Item]) -> Option<Value> {
    let (mut text, mut thought, mut calls) = (String::new(), String::new(), Vec::new());
    for item in items {
        match item {
            Item::Said(said) => text.push_str(said),
            Item::Thought(more) => thought.push_str(more),
            Item::Called { id, name, arguments } => calls.push(json!({
                "id": id, "type": "function", "function": {"name": name, "arguments": arguments},
            })),
        }
    }
    if items.is_empty() {
        return None;
    }
    let mut turn = json!({"role": "assistant", "content": text});
    if !thought.is_empty() {
        turn["reasoning_content"] = thought.into();
    }
    if !calls.is_empty() {
        turn["tool_calls"] = calls.into();
    }
    Some(turn)
}
