//! One event of a stream, looked through without building values.

use std::ops::Range;

use serde_json::Value;

use super::state::{ScannerState, StreamError, clip};
use crate::Dialect;
use crate::skim::{NotJson, Skim};
use crate::usage::TokenUsage;

type Walked = Result<(), NotJson>;

/// What an event is, for those who edit streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct EventKind {
    /// A chat chunk without choices that brings usage.
    pub(crate) only_usage: bool,
}

/// Reads the data of one event into the state.
pub(crate) fn read(state: &mut ScannerState, data: &[u8]) -> Result<EventKind, NotJson> {
    if std::str::from_utf8(data).is_err() {
        return Err(NotJson { at: 0, what: "invalid UTF-8" });
    }
    let mut skim = Skim::new(data);
    let mut event = Glance::default();
    let walked = match state.dialect {
        Dialect::OpenAiChat => chat(&mut skim, &mut event),
        Dialect::OpenAiResponses => responses(&mut skim, &mut event),
        Dialect::Anthropic => anthropic(&mut skim, &mut event),
        Dialect::Gemini => gemini(&mut skim, &mut event),
    };
    walked.and_then(|()| skim.end())?;
    event.apply(state, data);
    Ok(EventKind { only_usage: event.no_choices && event.usage.is_some() })
}

/// What one event says. Ranges are values in its data.
#[derive(Default)]
struct Glance {
    kind: Option<Range<usize>>,
    id: Option<Range<usize>>,
    model: Option<Range<usize>>,
    usage: Option<Range<usize>>,
    error: Option<Range<usize>>,
    /// Fields that stand in the event's own object in an error of the Responses API.
    message: Option<Range<usize>>,
    finish: Option<Range<usize>>,
    delta: Option<Range<usize>>,
    block: Option<Range<usize>>,
    status: Option<Range<usize>>,
    choices: Vec<Choice>,
    no_choices: bool,
    content: bool,
    tool_calls: bool,
    blocked: bool,
}

/// What one event says of one choice or candidate.
#[derive(Default)]
struct Choice {
    index: u64,
    finish: Option<Range<usize>>,
    texts: Vec<Range<usize>>,
    ids: Option<Range<usize>>,
}

fn is_null(skim: &Skim<'_>, range: &Range<usize>) -> bool {
    skim.slice(range) == b"null"
}

/// The value, unless it is `null`.
fn some(skim: &mut Skim<'_>) -> Result<Option<Range<usize>>, NotJson> {
    let range = skim.value()?;
    Ok((!is_null(skim, &range)).then_some(range))
}

/// Whether the value is text with something in it, or a list or object with something in it.
fn filled(skim: &mut Skim<'_>) -> Result<Option<Range<usize>>, NotJson> {
    let range = skim.value()?;
    let empty = matches!(skim.slice(&range), b"null" | b"\"\"" | b"[]" | b"{}");
    Ok((!empty).then_some(range))
}

/// Walks over an object, or skips a value that is none.
fn object(skim: &mut Skim<'_>, each: impl FnMut(&mut Skim<'_>, &Range<usize>) -> Walked) -> Walked {
    if skim.next_byte() == Some(b'{') { skim.object(each) } else { skim.skip() }
}

fn array(skim: &mut Skim<'_>, each: impl FnMut(&mut Skim<'_>, usize) -> Walked) -> Walked {
    if skim.next_byte() == Some(b'[') { skim.array(each) } else { skim.skip() }
}

fn chat(skim: &mut Skim<'_>, event: &mut Glance) -> Walked {
    object(skim, |skim, key| {
        match skim.slice(key) {
            b"\"id\"" => event.id = some(skim)?,
            b"\"model\"" => event.model = some(skim)?,
            b"\"usage\"" => event.usage = some(skim)?,
            b"\"error\"" => event.error = some(skim)?,
            b"\"choices\"" => {
                event.no_choices = true;
                array(skim, |skim, at| {
                    event.no_choices = false;
                    choice(skim, at, event)
                })?;
            }
            _ => skim.skip()?,
        }
        Ok(())
    })
}

fn choice(skim: &mut Skim<'_>, at: usize, event: &mut Glance) -> Walked {
    let mut choice = Choice { index: at as u64, ..Choice::default() };
    object(skim, |skim, key| {
        match skim.slice(key) {
            b"\"index\"" => {
                let range = skim.value()?;
                choice.index = number(skim.slice(&range)).unwrap_or(choice.index);
            }
            b"\"finish_reason\"" => choice.finish = some(skim)?,
            b"\"text\"" => {
                let text = filled(skim)?;
                event.content |= text.is_some();
                choice.texts.extend(text);
            }
            b"\"delta\"" | b"\"message\"" => object(skim, |skim, key| delta(skim, key, &mut choice, event))?,
            b"\"token_ids\"" => choice.ids = filled(skim)?,
            _ => skim.skip()?,
        }
        Ok(())
    })?;
    event.choices.push(choice);
    Ok(())
}

/// One field of a chat message or of a part of it.
fn delta(skim: &mut Skim<'_>, key: &Range<usize>, choice: &mut Choice, event: &mut Glance) -> Walked {
    match skim.slice(key) {
        b"\"content\"" => {
            let text = filled(skim)?;
            event.content |= text.is_some();
            choice.texts.extend(text);
        }
        b"\"tool_calls\"" | b"\"function_call\"" => {
            let calls = filled(skim)?.is_some();
            event.content |= calls;
            event.tool_calls |= calls;
        }
        b"\"reasoning_content\"" | b"\"reasoning\"" | b"\"refusal\"" | b"\"audio\"" => {
            event.content |= filled(skim)?.is_some();
        }
        _ => skim.skip()?,
    }
    Ok(())
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn responses(skim: &mut Skim<'_>, event: &mut Glance) -> Walked {
    object(skim, |skim, key| {
        match skim.slice(key) {
            b"\"type\"" => event.kind = some(skim)?,
            b"\"delta\"" => event.delta = filled(skim)?,
            b"\"message\"" => event.message = some(skim)?,
            b"\"error\"" => event.error = some(skim)?,
            b"\"item\"" => event.block = some(skim)?,
            b"\"response\"" => object(skim, |skim, key| {
                match skim.slice(key) {
                    b"\"id\"" => event.id = some(skim)?,
                    b"\"model\"" => event.model = some(skim)?,
                    b"\"usage\"" => event.usage = some(skim)?,
                    b"\"error\"" => event.error = some(skim)?,
                    b"\"status\"" => event.status = some(skim)?,
                    b"\"incomplete_details\"" => object(skim, |skim, key| {
                        match skim.slice(key) {
                            b"\"reason\"" => event.finish = some(skim)?,
                            _ => skim.skip()?,
                        }
                        Ok(())
                    })?,
                    _ => skim.skip()?,
                }
                Ok(())
            })?,
            _ => skim.skip()?,
        }
        Ok(())
    })
}

fn anthropic(skim: &mut Skim<'_>, event: &mut Glance) -> Walked {
    object(skim, |skim, key| {
        match skim.slice(key) {
            b"\"type\"" => event.kind = some(skim)?,
            b"\"usage\"" => event.usage = some(skim)?,
            b"\"error\"" => event.error = some(skim)?,
            b"\"content_block\"" => event.block = some(skim)?,
            b"\"delta\"" => event.delta = filled(skim)?,
            b"\"message\"" => object(skim, |skim, key| {
                match skim.slice(key) {
                    b"\"id\"" => event.id = some(skim)?,
                    b"\"model\"" => event.model = some(skim)?,
                    b"\"usage\"" => event.usage = some(skim)?,
                    _ => skim.skip()?,
                }
                Ok(())
            })?,
            _ => skim.skip()?,
        }
        Ok(())
    })
}

fn gemini(skim: &mut Skim<'_>, event: &mut Glance) -> Walked {
    object(skim, |skim, key| {
        match skim.slice(key) {
            b"\"responseId\"" => event.id = some(skim)?,
            b"\"modelVersion\"" => event.model = some(skim)?,
            b"\"usageMetadata\"" => event.usage = some(skim)?,
            b"\"error\"" => event.error = some(skim)?,
            b"\"promptFeedback\"" => object(skim, |skim, key| {
                match skim.slice(key) {
                    b"\"blockReason\"" => event.blocked = some(skim)?.is_some(),
                    _ => skim.skip()?,
                }
                Ok(())
            })?,
            b"\"candidates\"" => array(skim, |skim, at| candidate(skim, at, event))?,
            _ => skim.skip()?,
        }
        Ok(())
    })
}

fn candidate(skim: &mut Skim<'_>, at: usize, event: &mut Glance) -> Walked {
    let mut choice = Choice { index: at as u64, ..Choice::default() };
    object(skim, |skim, key| {
        match skim.slice(key) {
            b"\"index\"" => {
                let range = skim.value()?;
                choice.index = number(skim.slice(&range)).unwrap_or(choice.index);
            }
            b"\"finishReason\"" => {
                choice.finish =
                    some(skim)?.filter(|word| skim.slice(word) != b"\"FINISH_REASON_UNSPECIFIED\"");
            }
            b"\"content\"" => object(skim, |skim, key| match skim.slice(key) {
                b"\"parts\"" => array(skim, |skim, _| part(skim, &mut choice, event)),
                _ => skim.skip(),
            })?,
            _ => skim.skip()?,
        }
        Ok(())
    })?;
    event.choices.push(choice);
    Ok(())
}

fn part(skim: &mut Skim<'_>, choice: &mut Choice, event: &mut Glance) -> Walked {
    let (mut text, mut thought) = (None, false);
    object(skim, |skim, key| {
        match skim.slice(key) {
            b"\"text\"" => text = filled(skim)?,
            b"\"thought\"" => {
                let range = skim.value()?;
                thought = skim.slice(&range) == b"true";
            }
            b"\"thoughtSignature\"" => skim.skip()?,
            b"\"functionCall\"" => {
                event.content |= some(skim)?.is_some();
                event.tool_calls = true;
            }
            _ => event.content |= filled(skim)?.is_some(),
        }
        Ok(())
    })?;
    event.content |= text.is_some();
    if !thought {
        choice.texts.extend(text);
    }
    Ok(())
}

impl Glance {
    fn text<'a>(&self, data: &'a [u8], range: Option<&Range<usize>>) -> Option<std::borrow::Cow<'a, str>> {
        let raw = data.get(range?.clone())?;
        (raw.first() == Some(&b'"')).then(|| crate::skim::text(raw))
    }

    fn value(&self, data: &[u8], range: Option<&Range<usize>>) -> Option<Value> {
        serde_json::from_slice(data.get(range?.clone())?).ok()
    }

    fn apply(&mut self, state: &mut ScannerState, data: &[u8]) {
        if state.id.is_none() {
            state.id = self.text(data, self.id.as_ref()).map(|id| clip(&id));
        }
        if state.model.is_none() {
            state.model = self.text(data, self.model.as_ref()).map(|model| clip(&model));
        }
        if self.usage.is_some() {
            let usage = self.value(data, self.usage.as_ref());
            state.count(usage.as_ref().and_then(|usage| TokenUsage::read(state.dialect, usage)));
        }
        if self.blocked {
            // The prompt was refused: there will be no candidate.
            state.finish(0, "SAFETY");
        }
        state.tool_calls |= self.tool_calls;
        for choice in std::mem::take(&mut self.choices) {
            self.apply_choice(state, data, &choice);
        }
        match state.dialect {
            Dialect::OpenAiChat | Dialect::Gemini => {
                if let Some(error) = self.value(data, self.error.as_ref()) {
                    state.fail(StreamError::read(&error));
                }
            }
            Dialect::OpenAiResponses => self.apply_responses(state, data),
            Dialect::Anthropic => self.apply_anthropic(state, data),
        }
        state.content_events += u64::from(self.content);
    }

    fn apply_choice(&self, state: &mut ScannerState, data: &[u8], choice: &Choice) {
        state.start(choice.index);
        if let Some(word) = self.text(data, choice.finish.as_ref()) {
            state.finish(choice.index, &word);
        }
        if choice.index != 0 || state.collect_bytes == 0 {
            return;
        }
        for range in &choice.texts {
            if let Some(text) = self.text(data, Some(range)) {
                state.collect(&text);
            }
        }
        let Some(ids) = choice.ids.as_ref().and_then(|ids| data.get(ids.clone())) else { return };
        // The text has been walked over before, so that this cannot fail.
        let _ = Skim::new(ids).array(|skim, _| {
            let range = skim.value()?;
            if let Some(id) = number(skim.slice(&range)).and_then(|id| u32::try_from(id).ok()) {
                state.collect_id(id);
            }
            Ok(())
        });
    }

    fn apply_responses(&mut self, state: &mut ScannerState, data: &[u8]) {
        let kind = self.text(data, self.kind.as_ref()).unwrap_or_default();
        match kind.as_ref() {
            "response.completed" | "response.incomplete" => {
                state.terminal = true;
                let status = self.text(data, self.status.as_ref());
                let reason = self.text(data, self.finish.as_ref()).or(status);
                state.finish(0, reason.as_deref().unwrap_or("completed"));
            }
            "response.failed" | "error" => {
                // The event itself, or the object in it, has the message.
                let error = self.value(data, self.error.as_ref());
                let error = match error {
                    Some(error) => error,
                    None => serde_json::from_slice(data).unwrap_or(Value::Null),
                };
                state.fail(StreamError::read(&error));
            }
            "response.output_item.added" => {
                let item = self.block.as_ref().and_then(|block| data.get(block.clone())).unwrap_or_default();
                let has = |kind: &[u8]| memchr::memmem::find(item, kind).is_some();
                // Those of the provider's own tools are content, and no call of the client's.
                self.content |= has(b"_call\"");
                state.tool_calls |= has(b"\"function_call\"") || has(b"\"custom_tool_call\"");
            }
            _ if kind.ends_with(".delta") => {
                self.content |= self.delta.is_some();
                if kind == "response.output_text.delta"
                    && let Some(text) = self.text(data, self.delta.as_ref())
                {
                    state.collect(&text);
                }
            }
            // Servers that send errors of the chat dialect: an object without a type.
            "" => {
                if let Some(error) = self.value(data, self.error.as_ref()) {
                    state.fail(StreamError::read(&error));
                }
            }
            _ => {}
        }
    }

    fn apply_anthropic(&mut self, state: &mut ScannerState, data: &[u8]) {
        let kind = self.text(data, self.kind.as_ref()).unwrap_or_default();
        match kind.as_ref() {
            "content_block_start" => {
                let block = self.value(data, self.block.as_ref()).unwrap_or(Value::Null);
                // Those of the provider's own tools are content, and no call of the client's.
                let called = block["type"].as_str().is_some_and(|kind| kind.ends_with("tool_use"));
                state.tool_calls |= block["type"] == "tool_use";
                let text = block["text"].as_str().unwrap_or_default();
                state.collect(text);
                self.content |= called || !text.is_empty() || block["type"] == "redacted_thinking";
            }
            "content_block_delta" => {
                let delta = self.delta.as_ref().and_then(|range| data.get(range.clone())).unwrap_or_default();
                self.anthropic_delta(state, delta);
            }
            "message_delta" => {
                let delta = self.value(data, self.delta.as_ref()).unwrap_or(Value::Null);
                if let Some(reason) = delta["stop_reason"].as_str() {
                    state.finish(0, reason);
                }
            }
            "message_stop" => state.terminal = true,
            _ => {
                if let Some(error) = self.value(data, self.error.as_ref()) {
                    state.fail(StreamError::read(&error));
                }
            }
        }
    }

    fn anthropic_delta(&mut self, state: &mut ScannerState, delta: &[u8]) {
        let mut skim = Skim::new(delta);
        let mut text = None;
        // The text has been walked over before, so that this cannot fail.
        let _ = skim.object(|skim, key| {
            match skim.slice(key) {
                b"\"text\"" => text = filled(skim)?,
                b"\"type\"" | b"\"signature\"" => skim.skip()?,
                _ => self.content |= filled(skim)?.is_some(),
            }
            Ok(())
        });
        self.content |= text.is_some();
        if let Some(text) = text.filter(|_| state.collect_bytes > 0) {
            state.collect(&skim.text(&text));
        }
    }
}
