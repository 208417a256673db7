//! Responses that can be asked for later, and gone on from: in memory, bounded, each for its own client.
//!
//! What is kept is JSON text, not parsed values: a value takes up to a hundred times its text (`[0]` has four bytes and
//! takes more than a hundred), so that only bytes can be counted exactly.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use inference::Client;
use serde_json::{Value, json};
use tokio::sync::Notify;
use wire::Fault;

/// Responses kept at once; past it the client that keeps most loses its oldest.
const MOST: usize = 1_024;
/// Bytes of them together.
const MOST_BYTES: usize = 64 << 20;
/// Bytes that an entry takes beside its text: its places in the two maps and the queue, rounded up.
const ENTRY_BYTES: usize = 512;

/// Messages as JSON, one after another with commas between them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conversation(String);

impl Conversation {
    /// Adds a message at the end.
    pub fn push(&mut self, message: &Value) {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        self.0.push_str(&message.to_string());
    }

    /// The messages, parsed.
    pub fn messages(&self) -> Result<Vec<Value>, Fault> {
        let parsed = serde_json::from_str(&format!("[{}]", self.0));
        parsed.map_err(|error| Fault::internal(format!("a kept conversation cannot be read: {error}")))
    }
}

/// The object that a client gets, as JSON.
pub struct ResponseText {
    /// Its `status`.
    pub status: &'static str,
    /// The whole object, its status among it.
    pub json: String,
}

/// What is kept of one response.
struct Entry {
    client: Client,
    status: &'static str,
    object: Arc<str>,
    /// The conversation up to its end, without instructions.
    conversation: Conversation,
    /// Rung to cancel it, while it is computed in the background.
    cancel: Option<Arc<Notify>>,
    bytes: usize,
}

/// What one client keeps.
#[derive(Default)]
struct Holding {
    /// The oldest first.
    order: VecDeque<String>,
    bytes: usize,
}

#[derive(Default)]
struct Inner {
    by_id: HashMap<String, Entry>,
    holdings: HashMap<Client, Holding>,
    bytes: usize,
}

/// The responses of a server.
#[derive(Default)]
pub struct ResponseStore(Mutex<Inner>);

/// What a response answers.
pub struct ResponseInput {
    /// The conversation before the answer.
    pub messages: Vec<Value>,
    /// The request's tools.
    pub tools: Value,
}

impl ResponseStore {
    /// Keeps a response, in place of what was kept under its id.
    pub fn put(
        &self,
        id: String,
        client: Client,
        object: ResponseText,
        conversation: Conversation,
        cancel: Option<Arc<Notify>>,
    ) {
        let bytes = object.json.len() + conversation.0.len() + 2 * id.len() + ENTRY_BYTES;
        let (status, object) = (object.status, object.json.into());
        let mut inner = self.lock();
        inner.forget(&id);
        inner.bytes += bytes;
        let holding = inner.holdings.entry(client).or_default();
        holding.bytes += bytes;
        holding.order.push_back(id.clone());
        inner.by_id.insert(id, Entry { client, status, object, conversation, cancel, bytes });
        while inner.by_id.len() > MOST || inner.bytes > MOST_BYTES {
            let Some(oldest) = inner.next_to_go() else { return };
            inner.forget(&oldest);
        }
    }

    /// The response's object, as JSON.
    pub fn object(&self, id: &str, client: Client) -> Result<Arc<str>, Fault> {
        self.with(id, client, |entry| entry.object.clone())
    }

    /// The conversation up to the response's end.
    pub fn conversation(&self, id: &str, client: Client) -> Result<Conversation, Fault> {
        let (status, conversation) =
            self.with(id, client, |entry| (entry.status, entry.conversation.clone()))?;
        if ["in_progress", "failed", "cancelled"].contains(&status) {
            let message = format!("previous_response_id {id} is {status}: there is no answer to go on from");
            return Err(Fault::field("previous_response_id", message));
        }
        Ok(conversation)
    }

    /// What the response answers.
    pub fn input(&self, id: &str, client: Client) -> Result<ResponseInput, Fault> {
        let (object, conversation) =
            self.with(id, client, |entry| (entry.object.clone(), entry.conversation.clone()))?;
        let object = wire::json::read(object.as_bytes())?;
        let mut messages = conversation.messages()?;
        if object["output"].as_array().is_some_and(|items| !items.is_empty()) {
            messages.pop();
        }
        Ok(ResponseInput { messages, tools: object["tools"].clone() })
    }

    /// Cancels a response that is being computed in the background; others are as they are.
    pub fn cancel(&self, id: &str, client: Client) -> Result<Arc<str>, Fault> {
        let mut inner = self.lock();
        let entry =
            inner.by_id.get_mut(id).filter(|e| e.client == client).ok_or_else(|| Fault::no_response(id))?;
        if let Some(cancel) = entry.cancel.take() {
            cancel.notify_one();
            // The status comes before everything that a client wrote.
            let object = entry.object.replacen(r#""status":"in_progress""#, r#""status":"cancelled""#, 1);
            (entry.status, entry.object) = ("cancelled", object.into());
        }
        Ok(entry.object.clone())
    }

    /// Forgets a response, and cancels it if it is being computed.
    pub fn delete(&self, id: &str, client: Client) -> Result<Arc<str>, Fault> {
        self.cancel(id, client)?;
        self.lock().forget(id);
        Ok(json!({"id": id, "object": "response", "deleted": true}).to_string().into())
    }

    fn with<T>(&self, id: &str, client: Client, read: impl FnOnce(&Entry) -> T) -> Result<T, Fault> {
        let inner = self.lock();
        // Another client's response is not there, as far as this one can tell.
        inner.by_id.get(id).filter(|e| e.client == client).map(read).ok_or_else(|| Fault::no_response(id))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// The oldest response of the client that keeps most, of what there is too much of. So a client that keeps no more than
    /// an equal share of the whole loses nothing to others.
    fn next_to_go(&self) -> Option<String> {
        let too_many = self.by_id.len() > MOST;
        let size = |holding: &Holding| if too_many { holding.order.len() } else { holding.bytes };
        let largest = self.holdings.values().max_by_key(|holding| size(holding))?;
        largest.order.front().cloned()
    }

    fn forget(&mut self, id: &str) {
        let Some(entry) = self.by_id.remove(id) else { return };
        self.bytes -= entry.bytes;
        if let Some(holding) = self.holdings.get_mut(&entry.client) {
            holding.bytes -= entry.bytes;
            holding.order.retain(|other| other != id);
            if holding.order.is_empty() {
                self.holdings.remove(&entry.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(store: &ResponseStore, id: usize, client: u64, size: usize) {
        let json = json!({"id": id, "status": "completed", "text": "x".repeat(size)}).to_string();
        let object = ResponseText { status: "completed", json };
        store.put(format!("resp_{id}"), Client(client), object, Conversation::default(), None);
    }

    #[test]
    fn the_oldest_goes_first_and_nothing_grows() {
        let kept = ResponseStore::default();
        (0..MOST + 5).for_each(|id| put(&kept, id, 0, 10));
        assert!(kept.object("resp_4", Client(0)).is_err() && kept.object("resp_5", Client(0)).is_ok());
        put(&kept, 9_999, 0, MOST_BYTES - 10_000);
        assert!(kept.object("resp_9999", Client(0)).is_ok());
        let inner = kept.lock();
        assert!(
            inner.bytes <= MOST_BYTES && inner.by_id.len() < 20,
            "{} of {}",
            inner.bytes,
            inner.by_id.len()
        );
        assert_eq!(inner.by_id.len(), inner.holdings[&Client(0)].order.len());
        assert_eq!(inner.bytes, inner.holdings[&Client(0)].bytes);
    }

    #[test]
    fn abuse_a4_one_key_evicts_its_own_responses() {
        let kept = ResponseStore::default();
        (0..10).for_each(|id| put(&kept, id, 7, 10));
        // More than there is room for, one after another and by size.
        (10..10 + 2 * MOST).for_each(|id| put(&kept, id, 8, 10));
        (5_000..5_020).for_each(|id| put(&kept, id, 8, MOST_BYTES / 10));
        (6_000..6_002).for_each(|id| put(&kept, id, 9, 2 * MOST_BYTES));
        for id in 0..10 {
            assert!(kept.object(&format!("resp_{id}"), Client(7)).is_ok(), "{id}");
        }
        let inner = kept.lock();
        assert!(inner.by_id.len() <= MOST && inner.bytes <= MOST_BYTES);
    }

    #[test]
    fn abuse_a4_equal_shares_hold_among_many_keys() {
        let kept = ResponseStore::default();
        for id in 0..4 * MOST {
            put(&kept, id, (id % 8) as u64, 10);
        }
        let inner = kept.lock();
        for (client, holding) in &inner.holdings {
            assert!((MOST / 8 - 1..=MOST / 8 + 1).contains(&holding.order.len()), "{client:?}");
        }
    }

    #[test]
    fn abuse_a3_what_is_counted_is_what_is_held() {
        let kept = ResponseStore::default();
        let tools = format!("[{}]", vec!["[0]"; 1 << 20].join(","));
        for id in 0..64 {
            let json = format!("{{\"status\":\"completed\",\"tools\":{tools}}}");
            let object = ResponseText { status: "completed", json };
            kept.put(format!("resp_{id}"), Client(0), object, Conversation::default(), None);
        }
        let inner = kept.lock();
        let held: usize = inner.by_id.values().map(|entry| entry.object.len()).sum();
        assert!(held <= MOST_BYTES && inner.by_id.len() == 15, "{held} in {}", inner.by_id.len());
    }

    #[test]
    fn each_client_sees_its_own() {
        let kept = ResponseStore::default();
        put(&kept, 1, 7, 1);
        assert_eq!(kept.object("resp_1", Client(8)).unwrap_err().status, 404);
        assert!(kept.delete("resp_1", Client(8)).is_err() && kept.cancel("resp_1", Client(8)).is_err());
        assert!(kept.delete("resp_1", Client(7)).is_ok() && kept.object("resp_1", Client(7)).is_err());
        let inner = kept.lock();
        assert_eq!((inner.bytes, inner.holdings.len()), (0, 0));
    }

    #[test]
    fn a_conversation_is_read_as_it_was_written() {
        let mut conversation = Conversation::default();
        assert_eq!(conversation.messages().unwrap(), Vec::<Value>::new());
        let messages =
            [json!({"role": "user", "content": "a,]\n\u{1}"}), json!({"role": "assistant", "content": "é"})];
        messages.iter().for_each(|message| conversation.push(message));
        assert_eq!(conversation.messages().unwrap(), messages);
    }
}
