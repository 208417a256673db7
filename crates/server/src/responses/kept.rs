//! Responses that can be asked for later, and gone on from: in memory, bounded, each for its own client.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::Notify;
use wire::Fault;

use crate::auth::Client;
use crate::items::Item;

/// Responses kept at once; past it the oldest goes.
pub(crate) const MOST: usize = 1_024;
/// Bytes of them together, as JSON.
pub(crate) const MOST_BYTES: usize = 64 << 20;

/// What is kept of one response.
struct Entry {
    client: Client,
    /// The object that a client gets.
    object: Value,
    /// The conversation up to its end, without instructions.
    messages: Arc<Vec<Value>>,
    /// Rung to cancel it, while it is computed in the background.
    cancel: Option<Arc<Notify>>,
    bytes: usize,
}

#[derive(Default)]
struct Shelf {
    by_id: HashMap<String, Entry>,
    /// The oldest first.
    order: VecDeque<String>,
    bytes: usize,
}

/// The responses of a server.
#[derive(Default)]
pub(crate) struct Kept(Mutex<Shelf>);

/// A response that is to be kept when it is whole.
pub(crate) struct Draft {
    pub(crate) kept: Arc<Kept>,
    pub(crate) id: String,
    pub(crate) client: Client,
    /// The conversation before the answer.
    pub(crate) messages: Vec<Value>,
}

impl Draft {
    /// Keeps the response in its last state.
    pub(crate) fn keep(mut self, object: &Value, items: &[Item]) {
        if let Some(turn) = turn(items) {
            self.messages.push(turn);
        }
        self.kept.put(self.id, self.client, object.clone(), self.messages, None);
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

impl Kept {
    /// Keeps a response, in place of what was kept under its id.
    pub(crate) fn put(
        &self,
        id: String,
        client: Client,
        object: Value,
        messages: Vec<Value>,
        cancel: Option<Arc<Notify>>,
    ) {
        let bytes = object.to_string().len() + messages.iter().map(|m| m.to_string().len()).sum::<usize>();
        let mut shelf = self.lock();
        if let Some(before) = shelf.by_id.remove(&id) {
            shelf.bytes -= before.bytes;
        } else {
            shelf.order.push_back(id.clone());
        }
        shelf.bytes += bytes;
        shelf.by_id.insert(id, Entry { client, object, messages: Arc::new(messages), cancel, bytes });
        while shelf.by_id.len() > MOST || (shelf.bytes > MOST_BYTES && shelf.by_id.len() > 1) {
            let Some(oldest) = shelf.order.pop_front() else { return };
            shelf.forget(&oldest);
        }
    }

    /// The response's object.
    pub(crate) fn object(&self, id: &str, client: Client) -> Result<Value, Fault> {
        self.with(id, client, |entry| entry.object.clone())
    }

    /// The conversation up to the response's end.
    pub(crate) fn conversation(&self, id: &str, client: Client) -> Result<Arc<Vec<Value>>, Fault> {
        let (status, messages) =
            self.with(id, client, |entry| (entry.object["status"].clone(), entry.messages.clone()))?;
        if status == "in_progress" || status == "failed" || status == "cancelled" {
            let message = format!("previous_response_id {id} is {status}: there is no answer to go on from");
            return Err(Fault::field("previous_response_id", message));
        }
        Ok(messages)
    }

    /// Cancels a response that is being computed in the background; others are as they are.
    pub(crate) fn cancel(&self, id: &str, client: Client) -> Result<Value, Fault> {
        let mut shelf = self.lock();
        let entry =
            shelf.by_id.get_mut(id).filter(|e| e.client == client).ok_or_else(|| Fault::no_response(id))?;
        if let Some(cancel) = entry.cancel.take() {
            cancel.notify_one();
            entry.object["status"] = "cancelled".into();
        }
        Ok(entry.object.clone())
    }

    /// Forgets a response, and cancels it if it is being computed.
    pub(crate) fn delete(&self, id: &str, client: Client) -> Result<Value, Fault> {
        self.cancel(id, client)?;
        let mut shelf = self.lock();
        shelf.order.retain(|other| other != id);
        shelf.forget(id);
        Ok(json!({"id": id, "object": "response", "deleted": true}))
    }

    fn with<T>(&self, id: &str, client: Client, read: impl FnOnce(&Entry) -> T) -> Result<T, Fault> {
        let shelf = self.lock();
        // Another client's response is not there, as far as this one can tell.
        shelf.by_id.get(id).filter(|e| e.client == client).map(read).ok_or_else(|| Fault::no_response(id))
    }

    fn lock(&self) -> MutexGuard<'_, Shelf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf {
    fn forget(&mut self, id: &str) {
        if let Some(entry) = self.by_id.remove(id) {
            self.bytes -= entry.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(kept: &Kept, id: usize, client: u64, size: usize) {
        let object = json!({"id": id, "status": "completed", "text": "x".repeat(size)});
        kept.put(format!("resp_{id}"), Client(client), object, Vec::new(), None);
    }

    #[test]
    fn the_oldest_goes_first_and_nothing_grows() {
        let kept = Kept::default();
        (0..MOST + 5).for_each(|id| put(&kept, id, 0, 10));
        assert!(kept.object("resp_4", Client(0)).is_err() && kept.object("resp_5", Client(0)).is_ok());
        put(&kept, 9_999, 0, MOST_BYTES - 1_000);
        let shelf = kept.lock();
        assert!(
            shelf.bytes <= MOST_BYTES && shelf.by_id.len() < 20,
            "{} of {}",
            shelf.bytes,
            shelf.by_id.len()
        );
        assert_eq!(shelf.by_id.len(), shelf.order.len());
    }

    #[test]
    fn each_client_sees_its_own() {
        let kept = Kept::default();
        put(&kept, 1, 7, 1);
        assert_eq!(kept.object("resp_1", Client(8)).unwrap_err().status, 404);
        assert!(kept.delete("resp_1", Client(8)).is_err() && kept.cancel("resp_1", Client(8)).is_err());
        assert!(kept.delete("resp_1", Client(7)).is_ok() && kept.object("resp_1", Client(7)).is_err());
        let shelf = kept.lock();
        assert_eq!((shelf.bytes, shelf.order.len()), (0, 0));
    }
}
