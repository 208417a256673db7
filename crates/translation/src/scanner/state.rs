//! What has been seen of an answer.

use serde_json::Value;

use crate::usage::TokenUsage;
use crate::{Dialect, FinishReason};

/// Most choices whose ends are told apart; OpenAI allows 128.
const MAX_CHOICES: u32 = 128;
/// Most bytes of a name or message that is kept.
const MAX_KEPT: usize = 4 << 10;

/// An error that an answer carries after its status said success.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamError {
    /// The provider's message.
    pub message: String,
    /// The provider's code or type: `server_error`, `overloaded_error`, `RESOURCE_EXHAUSTED`.
    pub code: Option<String>,
    /// The HTTP status, where the error has one.
    pub status: Option<u16>,
}

impl StreamError {
    /// The error of an `error` object in any of the dialects; of a string, the message.
    pub fn read(error: &Value) -> StreamError {
        let text = |name: &str| match error.get(name) {
            Some(Value::String(text)) => Some(clip(text)),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        let number = |name: &str| error.get(name).and_then(Value::as_u64);
        let status = number("code").or_else(|| number("status")).or_else(|| number("status_code"));
        let named = |name: &str| text(name).filter(|text| text.parse::<u64>().is_err());
        StreamError {
            message: error
                .as_str()
                .map(clip)
                .or_else(|| text("message"))
                .or_else(|| text("detail"))
                .unwrap_or_else(|| "the upstream sent an error without a message".to_owned()),
            code: named("status").or_else(|| named("code")).or_else(|| named("type")),
            status: status.and_then(|status| u16::try_from(status).ok()).filter(|s| (400..600).contains(s)),
        }
    }
}

/// The text's first bytes, cut between characters.
pub(crate) fn clip(text: &str) -> String {
    let mut end = text.len().min(MAX_KEPT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}

/// What has been seen of an answer so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScannerState {
    pub(crate) dialect: Dialect,
    /// Events of a stream that had data.
    pub events: u64,
    /// Events that bring something a client shows: text, thought, a tool's call. The first ends what can be restarted.
    pub content_events: u64,
    /// Events that are not JSON or not of the format. They do not fail a stream.
    pub malformed: u64,
    /// The answer's id.
    pub id: Option<String>,
    /// The model that the upstream says has answered.
    pub model: Option<String>,
    /// The tokens counted so far; in streams mostly known at the end.
    pub usage: Option<TokenUsage>,
    /// The first choice's reason to end, as sent.
    pub finish: Option<String>,
    /// The error that the answer carries.
    pub error: Option<StreamError>,
    /// Whether the stream's last event came: `[DONE]`, `message_stop`, `response.completed`, or the outer bracket of a whole
    /// answer.
    pub terminal: bool,
    /// Whether the model calls tools.
    pub tool_calls: bool,
    /// The first choice's text, as far as [`crate::ScannerOptions::collect_bytes`] allows.
    pub text: String,
    /// The first choice's token ids (vLLM's `token_ids`), under the same limit.
    pub token_ids: Vec<u32>,
    /// Whether `text` or `token_ids` stopped at the limit.
    pub collect_full: bool,
    pub(crate) collect_bytes: usize,
    pub(crate) started: u128,
    pub(crate) finished: u128,
}

impl ScannerState {
    pub(crate) fn new(dialect: Dialect, collect_bytes: usize) -> ScannerState {
        ScannerState {
            dialect,
            events: 0,
            content_events: 0,
            malformed: 0,
            id: None,
            model: None,
            usage: None,
            finish: None,
            error: None,
            terminal: false,
            tool_calls: false,
            text: String::new(),
            token_ids: Vec::new(),
            collect_full: false,
            collect_bytes,
            started: 0,
            finished: 0,
        }
    }

    /// Whether a client has something to show: after that, a restart elsewhere would be seen.
    pub fn has_content(&self) -> bool {
        self.content_events > 0
    }

    /// The first choice's reason to end.
    pub fn finish_reason(&self) -> Option<FinishReason> {
        let word = self.finish.as_deref()?;
        match FinishReason::read(self.dialect, word) {
            FinishReason::Stop if self.tool_calls && self.dialect != Dialect::OpenAiChat => {
                Some(FinishReason::ToolCalls)
            }
            reason => Some(reason),
        }
    }

    pub(crate) fn start(&mut self, choice: u64) {
        self.started |= bit(choice);
    }

    pub(crate) fn finish(&mut self, choice: u64, word: &str) {
        self.finished |= bit(choice);
        if choice == 0 || self.finish.is_none() {
            self.finish = Some(clip(word));
        }
    }

    pub(crate) fn fail(&mut self, error: StreamError) {
        self.error.get_or_insert(error);
    }

    pub(crate) fn count(&mut self, usage: Option<TokenUsage>) {
        if let Some(usage) = usage {
            self.usage = Some(self.usage.unwrap_or_default().merge(usage));
        }
    }

    pub(crate) fn collect(&mut self, text: &str) {
        if self.collect_bytes == 0 || self.collect_full {
            return;
        }
        if self.text.len() + self.token_ids.len() * 4 + text.len() > self.collect_bytes {
            self.collect_full = true;
        } else {
            self.text.push_str(text);
        }
    }

    pub(crate) fn collect_id(&mut self, id: u32) {
        if self.collect_bytes == 0 || self.collect_full {
            return;
        }
        if self.text.len() + self.token_ids.len() * 4 + 4 > self.collect_bytes {
            self.collect_full = true;
        } else {
            self.token_ids.push(id);
        }
    }

    /// Whether every choice that has begun has ended.
    pub(crate) fn all_finished(&self) -> bool {
        self.finished != 0 && self.started & !self.finished == 0
    }
}

fn bit(choice: u64) -> u128 {
    match u32::try_from(choice) {
        Ok(choice) if choice < MAX_CHOICES => 1 << choice,
        _ => 0,
    }
}
