//! Log-probabilities in the API's formats: a list of records for chat, four parallel lists for completions, and vLLM's
//! list of maps for prompts.

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use crate::error::Fault;
use crate::fields::Fields;
use crate::limits;

/// A token with its log-probability.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// Bytes of the token's text; may be an incomplete UTF-8 character.
    pub bytes: Vec<u8>,
    /// Token id, if the token is named by it (`return_tokens_as_token_ids`).
    pub id: Option<u32>,
    /// Natural logarithm of the token's probability.
    pub logprob: f32,
}

impl Scored {
    /// The token as text, or `token_id:N`.
    fn name(&self) -> String {
        self.id.map_or_else(|| token_text(&self.bytes), |id| format!("token_id:{id}"))
    }
}

/// A token of a text with its alternatives.
#[derive(Debug, Clone, PartialEq)]
pub struct Position {
    /// The token in the text.
    pub chosen: Scored,
    /// The requested number of alternatives, the most likely first.
    pub top: Vec<Scored>,
}

/// A finite log-probability: JSON has no infinities, so −∞ is written as −9999, as in vLLM.
fn finite(logprob: f32) -> f32 {
    if logprob.is_finite() { logprob } else { -9_999.0 }
}

/// A token as text. An incomplete character becomes `bytes:\xe2\x80`, as in OpenAI's API, so that tokens stay distinct.
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
    /// The records of these positions.
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
    /// Null for a prompt's first token.
    token_logprobs: Vec<Option<f32>>,
    top_logprobs: Vec<Option<Top>>,
    text_offset: Vec<usize>,
}

/// A map from token text to log-probability, formatted as in `token_logprobs`, so that equal values compare equal.
#[derive(Debug, Clone)]
struct Top(Vec<(String, f32)>);

impl Serialize for Top {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, logprob)| (name, logprob)))
    }
}

impl Completion {
    /// The lists of these positions, the first of which starts `offset` characters into the choice's text. Also returns
    /// the offset after the last.
    pub fn new(positions: &[Position], offset: usize) -> (Completion, usize) {
        let mut lists = Completion::default();
        let mut at = offset;
        for position in positions {
            lists.push(position, at);
            at += characters(&position.chosen.bytes);
        }
        (lists, at)
    }

    /// The lists of an echoed prompt: the first token, which has no probability, and the others, each with its offset
    /// in the choice's text, in characters.
    pub fn of_prompt<'a>(
        first: &Scored,
        others: impl IntoIterator<Item = (&'a Position, usize)>,
    ) -> Completion {
        let mut lists = Completion {
            tokens: vec![first.name()],
            token_logprobs: vec![None],
            top_logprobs: vec![None],
            text_offset: vec![0],
        };
        others.into_iter().for_each(|(position, at)| lists.push(position, at));
        lists
    }

    fn push(&mut self, position: &Position, at: usize) {
        let mut top: Vec<(String, f32)> = Vec::with_capacity(position.top.len());
        for scored in &position.top {
            let name = scored.name();
            // Of two tokens with the same text, the more likely one is kept.
            if top.iter().all(|(known, _)| *known != name) {
                top.push((name, finite(scored.logprob)));
            }
        }
        self.tokens.push(position.chosen.name());
        self.token_logprobs.push(Some(finite(position.chosen.logprob)));
        self.top_logprobs.push(Some(Top(top)));
        self.text_offset.push(at);
    }

    /// These lists, followed by `more`.
    #[must_use]
    pub fn then(mut self, more: Completion) -> Completion {
        self.tokens.extend(more.tokens);
        self.token_logprobs.extend(more.token_logprobs);
        self.top_logprobs.extend(more.top_logprobs);
        self.text_offset.extend(more.text_offset);
        self
    }
}

/// `prompt_logprobs`: null for the first token, then a map by token id for each, of the token and its alternatives.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Prompt(Vec<Vec<Ranked>>);

/// A token of a prompt, or an alternative to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranked {
    /// Token id.
    pub id: u32,
    /// Rank of the token by probability, from 1.
    pub rank: usize,
    /// Natural logarithm of the token's probability.
    pub logprob: f32,
    /// Text of the token; an incomplete character is U+FFFD, as in vLLM.
    pub text: String,
}

impl Prompt {
    /// From one list for each token from the second on: the token, then its alternatives, which may include it.
    pub fn new(others: Vec<Vec<Ranked>>) -> Prompt {
        Prompt(others)
    }
}

impl Serialize for Prompt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(1 + self.0.len()))?;
        list.serialize_element(&())?;
        self.0.iter().try_for_each(|ranked| list.serialize_element(&PromptPosition(ranked)))?;
        list.end()
    }
}

/// The map of a position, by token id.
struct PromptPosition<'a>(&'a [Ranked]);

#[derive(Serialize)]
struct RankedEntry<'a> {
    logprob: f32,
    rank: usize,
    decoded_token: &'a str,
}

impl Serialize for PromptPosition<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (at, ranked) in self.0.iter().enumerate() {
            if at > 0 && ranked.id == self.0[0].id {
                continue;
            }
            let Ranked { id, rank, logprob, text } = ranked;
            let entry = RankedEntry { logprob: finite(*logprob), rank: *rank, decoded_token: text };
            map.serialize_entry(&id.to_string(), &entry)?;
        }
        map.end()
    }
}

/// Reads `prompt_logprobs` of a request: the number of alternatives. Not allowed with `stream`.
pub(crate) fn of_prompt_wanted(body: &Fields<'_>, streamed: bool) -> Result<Option<usize>, Fault> {
    let name = "prompt_logprobs";
    match body.count(name, 0..=limits::LOGPROBS)? {
        Some(n) if streamed => {
            Err(Fault::field(name, format!("{name} is {n} and stream is true; stream must be false with it")))
        }
        wanted => Ok(wanted),
    }
}

/// Number of UTF-8 characters that start in these bytes: a character split over tokens counts once.
pub fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|b| **b & 0xC0 != 0x80).count()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

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

    /// lm-evaluation-harness takes a token for the likeliest where its figure is the largest one, to the last digit.
    #[test]
    fn a_figure_is_written_alike_in_both_lists() {
        let scored = Scored { bytes: b"a".to_vec(), id: None, logprob: -0.336_873_2 };
        let lists = Completion::new(&[Position { chosen: scored.clone(), top: vec![scored] }], 0).0;
        let text = serde_json::to_string(&lists).unwrap();
        assert!(
            text.contains(r#""token_logprobs":[-0.3368732],"top_logprobs":[{"a":-0.3368732}]"#),
            "{text}"
        );
    }

    #[test]
    fn an_echoed_prompt_comes_first_and_its_first_token_has_no_probability() {
        let first = Scored { bytes: b"<s>".to_vec(), id: None, logprob: 0.0 };
        let prompt = Completion::of_prompt(&first, [(&position(b"b", -2.0), 0)]);
        let json = serde_json::to_value(prompt.then(Completion::new(&[position(b"c", -3.0)], 1).0)).unwrap();
        assert_eq!(json["tokens"], serde_json::json!(["<s>", "b", "c"]));
        assert_eq!(json["token_logprobs"], serde_json::json!([null, -2.0, -3.0]));
        assert_eq!(json["text_offset"], serde_json::json!([0, 0, 1]));
        assert_eq!(json["top_logprobs"][0], Value::Null);
        assert_eq!(json["top_logprobs"][1]["b"], -2.0);
    }

    #[test]
    fn of_two_tokens_of_one_text_the_likelier_stands() {
        let scored = |logprob| Scored { bytes: b"a".to_vec(), id: None, logprob };
        let twice = Position { chosen: scored(-0.5), top: vec![scored(-0.5), scored(-4.0)] };
        let json = serde_json::to_value(Completion::new(&[twice], 0).0).unwrap();
        assert_eq!(json["top_logprobs"][0], serde_json::json!({"a": -0.5}));
    }

    #[test]
    fn a_prompts_maps_are_by_id() {
        let ranked = |id, rank, logprob| Ranked { id, rank, logprob, text: format!("t{id}") };
        let prompt =
            Prompt::new(vec![vec![ranked(7, 3, -5.0), ranked(2, 1, -0.5), ranked(4, 2, f32::NEG_INFINITY)]]);
        let json = serde_json::json!([null, {
            "7": {"logprob": -5.0, "rank": 3, "decoded_token": "t7"},
            "2": {"logprob": -0.5, "rank": 1, "decoded_token": "t2"},
            "4": {"logprob": -9999.0, "rank": 2, "decoded_token": "t4"},
        }]);
        assert_eq!(serde_json::to_value(&prompt).unwrap(), json);
        let once = Prompt::new(vec![vec![ranked(7, 1, -0.25), ranked(7, 1, -0.25)]]);
        let text = r#"[null,{"7":{"logprob":-0.25,"rank":1,"decoded_token":"t7"}}]"#;
        assert_eq!(serde_json::to_string(&once).unwrap(), text);
    }
}
