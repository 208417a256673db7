//! Lists of objects, and what is said of deleted ones.

use serde::Serialize;

/// A page of a list in OpenAI's form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct List<T> {
    object: &'static str,
    data: Vec<T>,
    first_id: Option<String>,
    last_id: Option<String>,
    has_more: bool,
}

impl<T> List<T> {
    /// A page of objects with their ids, and whether more follow.
    pub fn new(data: Vec<T>, has_more: bool, id: impl Fn(&T) -> &str) -> List<T> {
        let (first_id, last_id) = ends(&data, id);
        List { object: "list", data, first_id, last_id, has_more }
    }
}

/// A page of a list in Anthropic's form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MessageList<T> {
    data: Vec<T>,
    has_more: bool,
    first_id: Option<String>,
    last_id: Option<String>,
}

impl<T> MessageList<T> {
    /// A page of objects with their ids, and whether more follow.
    pub fn new(data: Vec<T>, has_more: bool, id: impl Fn(&T) -> &str) -> MessageList<T> {
        let (first_id, last_id) = ends(&data, id);
        MessageList { data, has_more, first_id, last_id }
    }
}

fn ends<T>(data: &[T], id: impl Fn(&T) -> &str) -> (Option<String>, Option<String>) {
    let named = |item: Option<&T>| item.map(|item| id(item).to_owned());
    (named(data.first()), named(data.last()))
}

/// What is answered when something was deleted, in OpenAI's form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Deleted<'a> {
    id: &'a str,
    object: &'static str,
    deleted: bool,
}

impl<'a> Deleted<'a> {
    /// A deleted object of a kind, such as `file`.
    pub fn new(id: &'a str, object: &'static str) -> Deleted<'a> {
        Deleted { id, object, deleted: true }
    }
}

/// What is answered when a message batch was deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeletedMessageBatch<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
}

impl<'a> DeletedMessageBatch<'a> {
    /// A deleted message batch.
    pub fn new(id: &'a str) -> DeletedMessageBatch<'a> {
        DeletedMessageBatch { id, kind: "message_batch_deleted" }
    }
}
