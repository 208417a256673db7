//! Rewrites conversations into turns that a template accepts.
//!
//! Clients send system messages anywhere, and several messages of a role in a row; many templates refuse or drop them.
//! The rewriting depends only on the template's [`Traits`], so that a conversation is rewritten in the same way in each
//! turn, and hits the prefix cache.

use serde_json::{Map, Value};

use super::probe::{Role, Traits};

/// A rewriting step of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// `developer` becomes `system`.
    Developer,
    /// System messages at the start become one; later ones go before the text of the next user message.
    LateSystem,
    /// All system messages go into user messages.
    NoSystem,
    /// Messages of the same role in a row become one.
    Alternate,
}

impl Change {
    /// The warning for the client; `None` for a mere renaming.
    pub(super) fn warning(self) -> Option<&'static str> {
        match self {
            Change::Developer => None,
            Change::LateSystem => Some(
                "messages: this model's chat template takes one system message, at the start; later ones were put before the text of the next user message",
            ),
            Change::NoSystem => Some(
                "messages: this model's chat template has no place for system messages; they were put before the text of the next user message",
            ),
            Change::Alternate => Some(
                "messages: this model's chat template wants roles to take turns; messages of the same role in a row were joined",
            ),
        }
    }

    /// The conversation after the change; `None` if nothing changes.
    fn of(self, messages: &[Value]) -> Option<Vec<Value>> {
        let changed = match self {
            Change::Developer => renamed(messages),
            Change::LateSystem => {
                let lead = messages.iter().take_while(|message| Role::of(message) == Role::System).count();
                if lead <= 1 && !messages[lead..].iter().any(|message| Role::of(message) == Role::System) {
                    return None;
                }
                let mut first = joined(&messages[..lead]);
                first.extend(into_users(&messages[lead..]));
                first
            }
            Change::NoSystem => into_users(messages),
            Change::Alternate => joined(messages),
        };
        (changed != messages).then_some(changed)
    }
}

/// The conversation after the changes that a template needs, and these changes.
pub(super) fn needed(traits: &Traits, messages: &[Value]) -> (Vec<Value>, Vec<Change>) {
    let no_system = !traits.keeps(Role::System);
    let wanted = [
        (Change::Developer, !traits.developer),
        (Change::LateSystem, !(no_system || traits.late_system && traits.several_systems)),
        (Change::NoSystem, no_system),
        (Change::Alternate, !traits.same_role_twice),
    ];
    let mut done = Vec::new();
    let mut messages = messages.to_vec();
    for (change, _) in wanted.into_iter().filter(|(_, wanted)| *wanted) {
        apply(change, &mut messages, &mut done);
    }
    (messages, done)
}

/// Further rewritings to try if the conversation was refused, each with its changes.
pub(super) fn others(messages: &[Value], done: &[Change]) -> Vec<(Vec<Value>, Vec<Change>)> {
    const TRIES: [&[Change]; 4] = [
        &[Change::Alternate],
        &[Change::LateSystem],
        &[Change::LateSystem, Change::Alternate],
        &[Change::NoSystem, Change::Alternate],
    ];
    let mut found: Vec<(Vec<Value>, Vec<Change>)> = Vec::new();
    for tries in TRIES {
        let (mut messages, mut done) = (messages.to_vec(), done.to_vec());
        let before = done.len();
        for change in tries {
            apply(*change, &mut messages, &mut done);
        }
        if done.len() > before && !found.iter().any(|(known, _)| *known == messages) {
            found.push((messages, done));
        }
    }
    found
}

fn apply(change: Change, messages: &mut Vec<Value>, done: &mut Vec<Change>) {
    if let Some(changed) = change.of(messages) {
        *messages = changed;
        done.push(change);
    }
}

pub(super) fn text(message: &Value) -> &str {
    message.get("content").and_then(Value::as_str).unwrap_or_default()
}

fn with_text(message: &Value, text: String) -> Value {
    let mut message: Map<String, Value> = message.as_object().cloned().unwrap_or_default();
    message.insert("content".into(), text.into());
    message.into()
}

/// Two texts joined by an empty line.
fn together(first: &str, second: &str) -> String {
    match (first.trim().is_empty(), second.trim().is_empty()) {
        (true, _) => second.to_owned(),
        (_, true) => first.to_owned(),
        _ => format!("{first}\n\n{second}"),
    }
}

fn renamed(messages: &[Value]) -> Vec<Value> {
    let mut messages = messages.to_vec();
    for message in &mut messages {
        if let Some(role) = message.get_mut("role").filter(|role| *role == "developer") {
            *role = "system".into();
        }
    }
    messages
}

/// Moves system messages before the text of the next user message; at the end they become a user message.
fn into_users(messages: &[Value]) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::with_capacity(messages.len());
    let mut waiting = String::new();
    for message in messages {
        match Role::of(message) {
            Role::System => waiting = together(&waiting, text(message)),
            Role::User if !waiting.is_empty() => {
                let text = together(&std::mem::take(&mut waiting), text(message));
                out.push(with_text(message, text));
            }
            _ => out.push(message.clone()),
        }
    }
    if !waiting.is_empty() {
        let user = serde_json::json!({"role": "user", "content": waiting});
        match out.pop() {
            // A conversation that ends with a user's turn must still do so.
            Some(last) if Role::of(&last) == Role::User => {
                out.push(with_text(&last, together(text(&last), &waiting)));
            }
            Some(last) => out.extend([last, user]),
            None => out.push(user),
        }
    }
    out
}

/// Joins consecutive messages of the same role: system, user, and assistant messages without calls.
fn joined(messages: &[Value]) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::with_capacity(messages.len());
    for message in messages {
        let alike = |last: &&mut Value| {
            let plain = |message: &Value| message.get("tool_calls").is_none();
            last.get("role") == message.get("role")
                && Role::of(message) != Role::Tool
                && plain(last)
                && plain(message)
        };
        match out.last_mut().filter(alike) {
            Some(last) => *last = with_text(last, together(text(last), text(message))),
            None => out.push(message.clone()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn say(roles: &[(&str, &str)]) -> Vec<Value> {
        roles.iter().map(|(role, text)| json!({"role": role, "content": text})).collect()
    }

    #[test]
    fn late_system_messages_go_before_the_next_user_message() {
        let given = [
            ("system", "a"),
            ("system", "b"),
            ("user", "c"),
            ("assistant", "d"),
            ("system", "e"),
            ("user", "f"),
            ("system", "g"),
        ];
        let want = [("system", "a\n\nb"), ("user", "c"), ("assistant", "d"), ("user", "e\n\nf\n\ng")];
        assert_eq!(Change::LateSystem.of(&say(&given)).expect("changes"), say(&want));
        let want = [("user", "a\n\nb\n\nc"), ("assistant", "d"), ("user", "e\n\nf\n\ng")];
        assert_eq!(Change::NoSystem.of(&say(&given)).expect("changes"), say(&want));
        assert_eq!(Change::LateSystem.of(&say(&[("system", "a"), ("user", "b")])), None);
        assert_eq!(Change::NoSystem.of(&say(&[("system", "a")])).expect("changes"), say(&[("user", "a")]));
    }

    #[test]
    fn calls_are_not_joined() {
        let call = json!({"role": "assistant", "content": "x", "tool_calls": [{}]});
        let messages = [call.clone(), call];
        assert_eq!(Change::Alternate.of(&messages), None);
        let users = say(&[("user", "a"), ("user", ""), ("user", "b")]);
        assert_eq!(Change::Alternate.of(&users).expect("joins"), say(&[("user", "a\n\nb")]));
    }
}
