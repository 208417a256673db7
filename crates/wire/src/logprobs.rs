//! Log-probabilities in the two styles of the API: a list of records for chat, four parallel lists for completions.

use serde::Serialize;
use serde_json::{Map, Value};

/// A token and how likely it was, natural logarithm.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// The bytes of its text; may be part of a character.
    pub bytes: Vec<u8>,
    /// Its id, if it is to be named by that.
    pub id: Option<u32>,
    /// ln p.
    pub logprob: f32,
}

impl Scored {
    /// The token as text, or `token_id:N`.
    fn name(&self) -> String {
        self.id.map_or_else(|| token_text(&self.bytes), |id| format!("token_id:{id}"))
    }
}

/// The token chosen and its best alternatives, most likely first.
#[derive(Debug, Clone, PartialEq)]
pub struct Position {
    /// The token that the answer has.
    pub chosen: Scored,
    /// As many as were asked for.
    pub top: Vec<Scored>,
}

/// JSON has no infinities; vLLM writes −9999 for "never".
fn finite(logprob: f32) -> f32 {
    if logprob.is_finite() { logprob } else { -9_999.0 }
}

/// A token as text. Part of a character becomes `bytes:\xe2\x80`, as OpenAI writes it, so that two of them differ.
pub fn token_text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => {
            let mut out = String::from("bytes:");
            bytes.iter().for_each(|b| out.push_str(&format!("\\x{b:02x}")));
            out
        }
    }
}

/// `choices[].logprobs` of a chat answer.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Chat {
    content: Vec<Record>,
}

#[derive(Debug, Clone, Serialize)]
struct Record {
    #[serde(flatten)]
    chosen: Entry,
    top_logprobs: Vec<Entry>,
}

#[derive(Debug, Clone, Serialize)]
struct Entry {
    token: String,
    logprob: f32,
    bytes: Vec<u8>,
}

impl From<&Scored> for Entry {
    fn from(s: &Scored) -> Entry {
        Entry { token: s.name(), logprob: finite(s.logprob), bytes: s.bytes.clone() }
    }
}

impl Chat {
    /// The records of some positions.
    pub fn new(positions: &[Position]) -> Chat {
        let record = |p: &Position| Record {
            chosen: Entry::from(&p.chosen),
            top_logprobs: p.top.iter().map(Entry::from).collect(),
        };
        Chat { content: positions.iter().map(record).collect() }
    }
}

/// `choices[].logprobs` of a completion.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Completion {
    tokens: Vec<String>,
    token_logprobs: Vec<f32>,
    top_logprobs: Vec<Map<String, Value>>,
    text_offset: Vec<usize>,
}

impl Completion {
    /// The lists for some positions, the first of which starts `offset` characters into the choice's text.
    /// Gives back the offset after the last.
    pub fn new(positions: &[Position], offset: usize) -> (Completion, usize) {
        let mut lists = Completion::default();
        let mut at = offset;
        for position in positions {
            let token = position.chosen.name();
            lists.text_offset.push(at);
            at += characters(&position.chosen.bytes);
            let mut top = Map::new();
            for scored in &position.top {
                top.insert(scored.name(), Value::from(finite(scored.logprob)));
            }
            lists.top_logprobs.push(top);
            lists.token_logprobs.push(finite(position.chosen.logprob));
            lists.tokens.push(token);
        }
        (lists, at)
    }
}

/// Characters that begin in these bytes: a character split over tokens counts once, where it starts.
fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|b| **b & 0xC0 != 0x80).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(bytes: &[u8], logprob: f32) -> Position {
        let chosen = Scored { bytes: bytes.to_vec(), id: None, logprob };
        Position {
            top: vec![
                chosen.clone(),
                Scored { bytes: b"x".to_vec(), id: Some(7), logprob: f32::NEG_INFINITY },
            ],
            chosen,
        }
    }

    #[test]
    fn chat_records() {
        let json = serde_json::to_value(Chat::new(&[position("é".as_bytes(), -0.5)])).unwrap();
        assert_eq!(json["content"][0]["token"], "é");
        assert_eq!(json["content"][0]["bytes"], serde_json::json!([0xC3, 0xA9]));
        assert_eq!(json["content"][0]["top_logprobs"][1]["logprob"], -9999.0);
        assert_eq!(json["content"][0]["top_logprobs"][1]["token"], "token_id:7");
    }

    #[test]
    fn completion_lists_run_in_parallel() {
        // "é" over two tokens, then "b": the offsets are 3, 4 (inside é), 4.
        let (lists, next) =
            Completion::new(&[position(&[0xC3], -1.0), position(&[0xA9], -0.1), position(b"b", -2.0)], 3);
        let json = serde_json::to_value(lists).unwrap();
        assert_eq!(json["tokens"], serde_json::json!(["bytes:\\xc3", "bytes:\\xa9", "b"]));
        assert_eq!(json["text_offset"], serde_json::json!([3, 4, 4]));
        assert_eq!(next, 5);
        assert_eq!(json["top_logprobs"][2]["b"], -2.0);
    }
}
