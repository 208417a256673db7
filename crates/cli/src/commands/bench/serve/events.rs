//! Server-sent events as they come in pieces (WHATWG HTML, "Server-sent events"), and what an OpenAI stream says in one.

use serde::Deserialize;
use serde_json::Value;

use crate::http::message;

/// Bytes of one event; more is no answer to a request.
const MAX_EVENT_BYTES: usize = 16 << 20;

/// Puts events together from pieces of a body.
#[derive(Default)]
pub(super) struct Events {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    after_return: bool,
}

impl Events {
    /// Takes the next bytes and hands each event's data to `each` as it is complete. Comments and other fields are left
    /// out.
    ///
    /// # Errors
    /// An event that is longer than 16 MiB, or what `each` says.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        for &byte in bytes {
            let after_return = std::mem::replace(&mut self.after_return, byte == b'\r');
            match byte {
                // The second half of a line's end.
                b'\n' if after_return => {}
                b'\n' | b'\r' => self.end_line(&mut each)?,
                _ if self.line.len() + self.data.len() >= MAX_EVENT_BYTES => {
                    return Err(format!("an event of more than {MAX_EVENT_BYTES} bytes"));
                }
                _ => self.line.push(byte),
            }
        }
        Ok(())
    }

    fn end_line(&mut self, each: &mut impl FnMut(&[u8]) -> Result<(), String>) -> Result<(), String> {
        if self.line.is_empty() {
            if std::mem::take(&mut self.has_data) {
                let done = each(&self.data);
                self.data.clear();
                return done;
            }
            return Ok(());
        }
        if let Some(value) = self.line.strip_prefix(b"data:") {
            if std::mem::replace(&mut self.has_data, true) {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
        }
        self.line.clear();
        Ok(())
    }
}

/// One chunk of a streamed answer, chat or completion.
#[derive(Debug, Deserialize)]
pub(super) struct Chunk {
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    pub(super) usage: Option<Usage>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
struct Choice {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    delta: Option<Delta>,
}

#[derive(Debug, Default, Deserialize)]
struct Delta {
    #[serde(default)]
    content: Option<String>,
    #[serde(default, alias = "reasoning")]
    reasoning_content: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<Value>>,
}

/// What the server counted.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
pub(super) struct Usage {
    #[serde(default)]
    pub(super) prompt_tokens: Option<usize>,
    #[serde(default)]
    pub(super) completion_tokens: Option<usize>,
    #[serde(default)]
    prompt_tokens_details: Option<Details>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
struct Details {
    #[serde(default)]
    cached_tokens: Option<usize>,
}

impl Usage {
    pub(super) fn cached_tokens(&self) -> usize {
        self.prompt_tokens_details.and_then(|details| details.cached_tokens).unwrap_or(0)
    }
}

impl Chunk {
    /// # Errors
    /// What is no JSON object of this kind, and an error that the server put into the stream.
    pub(super) fn parse(data: &[u8]) -> Result<Chunk, String> {
        let chunk: Chunk = serde_json::from_slice(data)
            .map_err(|error| format!("a chunk that is not understood: {error}"))?;
        match &chunk.error {
            None | Some(Value::Null) => Ok(chunk),
            Some(error) => Err(message(error)),
        }
    }

    /// Whether it counts as a token: vLLM's bench takes each chunk with choices for one, whatever is in it.
    pub(super) fn counts(&self) -> bool {
        self.choices.as_ref().is_some_and(|choices| !choices.is_empty())
    }

    /// The first choice's text to append to an answer.
    pub(super) fn text(&self) -> &str {
        let Some(first) = self.choices.iter().flatten().next() else { return "" };
        let said = first.delta.as_ref().and_then(|delta| delta.content.as_deref());
        first.text.as_deref().or(said).unwrap_or_default()
    }

    /// Whether it has anything of an answer: text, thoughts or a part of a call.
    pub(super) fn says_something(&self) -> bool {
        let filled = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        self.choices.iter().flatten().any(|choice| {
            filled(&choice.text)
                || choice.delta.as_ref().is_some_and(|delta| {
                    filled(&delta.content)
                        || filled(&delta.reasoning_content)
                        || delta.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty())
                })
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<String> {
        let mut events = Events::default();
        let mut all = Vec::new();
        for piece in pieces {
            let each = |data: &[u8]| {
                all.push(String::from_utf8(data.to_vec()).unwrap());
                Ok(())
            };
            events.push(piece, each).unwrap();
        }
        all
    }

    const STREAM: &[u8] =
        b": ping\n\ndata: {\"a\": 1}\n\nevent: x\r\ndata:two\r\ndata: lines\r\n\r\ndata: [DONE]\n\ndata: lost";

    #[test]
    fn events_of_a_stream() {
        assert_eq!(read(&[STREAM]), ["{\"a\": 1}", "two\nlines", "[DONE]"]);
    }

    proptest! {
        #[test]
        fn however_it_is_cut(cuts in prop::collection::vec(0..STREAM.len(), 0..6)) {
            let mut cuts = cuts;
            cuts.extend([0, STREAM.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &STREAM[pair[0]..pair[1]]).collect();
            prop_assert_eq!(read(&pieces), read(&[STREAM]));
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Chunk::parse(&bytes);
            read_any(&bytes);
        }
    }

    fn read_any(bytes: &[u8]) {
        Events::default().push(bytes, |_| Ok(())).unwrap();
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut events = Events::default();
        let piece = vec![b'x'; 1 << 20];
        let error = (0..17).find_map(|_| events.push(&piece, |_| Ok(())).err()).unwrap();
        assert!(error.contains("16777216"), "{error}");
    }

    #[test]
    fn what_chunks_say() {
        let chunk = |text: &str| Chunk::parse(text.as_bytes()).unwrap();
        let role = chunk(r#"{"choices": [{"delta": {"role": "assistant", "content": ""}}]}"#);
        assert!(role.counts() && !role.says_something());
        let words = chunk(r#"{"choices": [{"delta": {"content": "hi"}}], "usage": null}"#);
        assert!(words.counts() && words.says_something() && words.text() == "hi");
        assert!(chunk(r#"{"choices": [{"delta": {"reasoning_content": "hm"}}]}"#).says_something());
        assert_eq!(chunk(r#"{"choices": [{"text": "yes"}]}"#).text(), "yes");
        let usage = chunk(
            r#"{"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4,
               "prompt_tokens_details": {"cached_tokens": 8}}}"#,
        );
        assert!(!usage.counts());
        let usage = usage.usage.unwrap();
        assert_eq!(
            (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens()),
            (Some(9), Some(4), 8)
        );
        let error = Chunk::parse(br#"{"error": {"message": "out of memory", "type": "server_error"}}"#);
        assert_eq!(error.unwrap_err(), "out of memory");
    }
}
