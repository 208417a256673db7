//! An answer as it comes: server-sent events, or lines of JSON.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use inference::{End, Event, Generation, Part, PromptScores, Token};
use serde::Serialize;
use service::unix_seconds;
use tokio::time::{Instant, Sleep};
use tokio_stream::Stream;
use wire::logprobs::Position;
use wire::{Fault, Usage, chat, completion, logprobs, sse};

use crate::answer::FINGERPRINT;
use crate::scores;
use crate::shown::Shown;

/// Bytes of events that are gathered before they are sent, when more are ready at once.
const GATHER_BYTES: usize = 16 << 10;

/// How one endpoint writes its events.
pub(crate) trait Dialect: Send {
    /// What a choice has to say.
    fn write(&mut self, generation: &Generation, choice: usize, event: Event, out: &mut String);
    /// After the last choice's end.
    fn end(&mut self, generation: &Generation, out: &mut String);
    /// The end, for this reason.
    fn fail(&mut self, fault: &Fault, out: &mut String);
    /// What breaks a silence.
    fn ping(&self) -> Cow<'static, str> {
        sse::PING.into()
    }
    /// The type of what it writes.
    fn content_type(&self) -> &'static str {
        "text/event-stream; charset=utf-8"
    }
}

/// The response of a stream. Its headers leave at once.
pub(crate) fn response(generation: Generation, dialect: Box<dyn Dialect>, ping: Duration) -> Response {
    let silence = Box::pin(tokio::time::sleep(ping));
    let content_type = dialect.content_type();
    let events = Events { generation: Some(generation), dialect, ping, silence };
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "no-store"),
        // nginx would gather the events otherwise.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, Body::from_stream(events)).into_response()
}

struct Events {
    generation: Option<Generation>,
    dialect: Box<dyn Dialect>,
    ping: Duration,
    silence: Pin<Box<Sleep>>,
}

impl Events {
    /// The events of what is ready now; none when nothing is.
    fn gather(&mut self, context: &mut Context<'_>) -> Option<String> {
        let mut out = String::new();
        while let Some(generation) = &mut self.generation {
            if generation.is_over() {
                self.dialect.end(generation, &mut out);
                self.generation = None;
                break;
            }
            match generation.events.poll(context) {
                Poll::Pending => break,
                Poll::Ready(Ok((choice, event))) => self.dialect.write(generation, choice, event, &mut out),
                Poll::Ready(Err(fault)) => {
                    self.fail(&fault, &mut out);
                    break;
                }
            }
            if out.len() >= GATHER_BYTES {
                break;
            }
        }
        Some(out).filter(|out| !out.is_empty())
    }

    fn fail(&mut self, fault: &Fault, out: &mut String) {
        self.dialect.fail(fault, out);
        self.generation = None;
    }
}

impl Stream for Events {
    type Item = Result<String, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.generation.is_none() {
            return Poll::Ready(None);
        }
        let out = match this.gather(context) {
            Some(out) => out,
            None if this.silence.as_mut().poll(context).is_pending() => return Poll::Pending,
            None => this.dialect.ping().into_owned(),
        };
        this.silence.as_mut().reset(Instant::now() + this.ping);
        Poll::Ready(Some(Ok(out)))
    }
}

/// Writes chunks of chat and plain completions.
pub(crate) struct Writer {
    id: String,
    shown: Shown,
    created: u64,
    model: String,
    /// A choice: whether its first event was written.
    begun: Vec<bool>,
    /// A choice: characters written, for `text_offset`.
    offsets: Vec<usize>,
    /// A choice: the prompt's tokens, until they are told.
    prompts: Vec<Option<Arc<[u32]>>>,
    /// A choice: the lists of its echoed prompt, until they are told.
    echoed: Vec<Option<logprobs::Completion>>,
}

/// What an event says beside its text.
#[derive(Default)]
struct Beside<'a> {
    positions: &'a [Position],
    /// Of the echoed prompt.
    echoed: Option<logprobs::Completion>,
    id: Option<u32>,
    end: Option<End>,
}

impl Writer {
    pub(crate) fn new(generation: &Generation, shown: Shown, id: String) -> Writer {
        let choices = generation.choices();
        let told = shown.resumed;
        let ids =
            |choice| generation.prompt_of(choice).filter(|_| !told).and_then(|prompt| prompt.ids.clone());
        Writer {
            id,
            created: unix_seconds(),
            model: generation.model.clone(),
            begun: vec![shown.resumed; choices],
            offsets: vec![0; choices],
            prompts: (0..choices).map(ids).collect(),
            echoed: vec![None; choices],
            shown,
        }
    }

    /// Counts what another node has sent of a choice.
    fn resume(&mut self, choice: usize, tokens: &[Token]) {
        let characters = |part: &Part| match part {
            Part::Content(text) => text.chars().count(),
            Part::Reasoning(_) | Part::Call { .. } | Part::Arguments { .. } => 0,
        };
        self.offsets[choice] += tokens.iter().flat_map(|token| &token.parts).map(characters).sum::<usize>();
    }

    /// All that a token or the end makes certain, as one event.
    fn joined(&mut self, choice: usize, parts: Vec<Part>, beside: Beside<'_>, out: &mut String) {
        let mut delta = chat::MessageDelta::default();
        for part in parts {
            match part {
                Part::Content(text) => delta.content.get_or_insert_default().push_str(&text),
                Part::Reasoning(text) => delta.reasoning_content.get_or_insert_default().push_str(&text),
                Part::Call { .. } => delta.tool_calls.extend(call(part)),
                Part::Arguments { index, ref text } => match delta.tool_calls.last_mut() {
                    Some(last) if last.index == Some(index) => last.function.arguments.push_str(text),
                    _ => delta.tool_calls.extend(call(part)),
                },
            }
        }
        if self.shown.chat {
            self.piece(choice, delta, String::new(), beside, out);
        } else {
            let text = delta.content.take().unwrap_or_default();
            self.piece(choice, chat::MessageDelta::default(), text, beside, out);
        }
    }

    fn part(&mut self, choice: usize, part: Part, beside: Beside<'_>, out: &mut String) {
        let mut saying = chat::MessageDelta::default();
        match part {
            Part::Content(text) => return self.text(choice, text, beside, out),
            Part::Reasoning(text) => saying.reasoning_content = Some(text),
            Part::Call { .. } | Part::Arguments { .. } => saying.tool_calls.extend(call(part)),
        }
        self.piece(choice, saying, String::new(), beside, out);
    }

    /// The role, or the echoed prompt. Sent with the first token and not before, so that a client's time to the first
    /// event is the time to the first token.
    fn begin(&mut self, generation: &Generation, choice: usize, out: &mut String) {
        if self.shown.chat {
            let saying = chat::MessageDelta {
                role: Some("assistant"),
                content: Some(String::new()),
                ..chat::MessageDelta::default()
            };
            self.piece(choice, saying, String::new(), Beside::default(), out);
        } else if let Some(echo) = self.echo(generation, choice) {
            let echo = echo.to_owned();
            let echoed = self.echoed[choice].take();
            self.text(choice, echo, Beside { echoed, ..Beside::default() }, out);
        }
    }

    /// Keeps the lists of an echoed prompt until the echo is sent.
    fn score(&mut self, generation: &Generation, choice: usize, scores: &PromptScores) {
        let echo = self.echo(generation, choice);
        if let Some((lists, offset)) = echo.and_then(|echo| scores::echoed(&self.shown, scores, echo)) {
            (self.echoed[choice], self.offsets[choice]) = (Some(lists), offset);
        }
    }

    /// The prompt that a choice's text begins with, if it does.
    fn echo<'a>(&self, generation: &'a Generation, choice: usize) -> Option<&'a str> {
        generation.prompt_of(choice)?.text.as_deref().filter(|_| self.shown.echo)
    }

    fn text(&mut self, choice: usize, text: String, beside: Beside<'_>, out: &mut String) {
        if self.shown.chat {
            let saying = chat::MessageDelta { content: Some(text), ..chat::MessageDelta::default() };
            self.piece(choice, saying, String::new(), beside, out);
        } else {
            self.piece(choice, chat::MessageDelta::default(), text, beside, out);
        }
    }

    fn piece(
        &mut self,
        index: usize,
        delta: chat::MessageDelta,
        text: String,
        beside: Beside<'_>,
        out: &mut String,
    ) {
        let Beside { positions, echoed, id, end } = beside;
        let token_ids = id.map(|id| vec![id]);
        let (finish_reason, stop_reason) = end.map_or((None, None), |end| (Some(end.reason), Some(end.stop)));
        let prompt = self.prompts[index].take();
        if self.shown.chat {
            let logprobs = (!positions.is_empty()).then(|| logprobs::Chat::new(positions));
            let delta = chat::ChoiceDelta { index, delta, logprobs, finish_reason, stop_reason, token_ids };
            self.chat_chunk(vec![delta], prompt.as_deref(), None, out);
            return;
        }
        let logprobs = echoed.or_else(|| {
            let (lists, next) = logprobs::Completion::new(positions, self.offsets[index]);
            self.offsets[index] = next;
            (!positions.is_empty()).then_some(lists)
        });
        let choice = completion::Choice {
            index,
            text,
            logprobs,
            finish_reason,
            stop_reason,
            token_ids,
            prompt_token_ids: prompt.map(|prompt| prompt.to_vec()),
            prompt_logprobs: None,
        };
        self.completion_chunk(vec![choice], None, out);
    }

    /// The event that has the usage and no choices.
    fn last(&self, usage: Usage, out: &mut String) {
        if self.shown.chat {
            self.chat_chunk(Vec::new(), None, Some(usage), out);
        } else {
            self.completion_chunk(Vec::new(), Some(usage), out);
        }
    }

    fn chat_chunk(
        &self,
        choices: Vec<chat::ChoiceDelta>,
        prompt_token_ids: Option<&[u32]>,
        usage: Option<Usage>,
        out: &mut String,
    ) {
        let chunk = chat::ChatCompletionChunk {
            id: &self.id,
            object: "chat.completion.chunk",
            created: self.created,
            model: &self.model,
            system_fingerprint: FINGERPRINT,
            choices,
            prompt_token_ids,
            usage: self.shown.stream.usage.then_some(usage),
        };
        push(&chunk, out);
    }

    fn completion_chunk(&self, choices: Vec<completion::Choice>, usage: Option<Usage>, out: &mut String) {
        let chunk = completion::Answer {
            id: &self.id,
            object: "text_completion",
            created: self.created,
            model: &self.model,
            system_fingerprint: FINGERPRINT,
            choices,
            usage: self.shown.stream.usage.then_some(usage),
        };
        push(&chunk, out);
    }
}

impl Dialect for Writer {
    fn write(&mut self, generation: &Generation, choice: usize, event: Event, out: &mut String) {
        let (mut parts, position, mut id, end) = match event {
            Event::Prompt(scores) => return self.score(generation, choice, &scores),
            Event::Resumed(tokens) => return self.resume(choice, &tokens),
            Event::Token(token) => {
                let position = self.shown.position(token.ends, token.score.as_ref());
                (token.parts, position, Some(token.id), None)
            }
            Event::Done { parts, end } => (parts, None, None, Some(end)),
        };
        let first = !std::mem::replace(&mut self.begun[choice], true);
        if first {
            self.begin(generation, choice, out);
        }
        id = id.filter(|_| self.shown.ids.returned);
        // The first token is told even if it is no text yet, as its time is measured by it.
        if parts.is_empty()
            && (position.is_some() || id.is_some() || (first && !self.shown.chat && end.is_none()))
        {
            parts.push(Part::Content(String::new()));
        }
        if self.shown.ids.returned {
            // One event a token: text and token ids arrive together or not at all, so that another node can go on after
            // whichever event was the last.
            if !parts.is_empty() || end.is_some() {
                let beside = Beside { positions: position.as_slice(), id, end, ..Beside::default() };
                self.joined(choice, parts, beside, out);
            }
            return;
        }
        // A token is scored once, beside the first part that it made certain.
        let mut scored = position.as_slice();
        for part in parts {
            let beside =
                Beside { positions: std::mem::take(&mut scored), id: id.take(), ..Beside::default() };
            self.part(choice, part, beside, out);
        }
        if end.is_some() {
            let beside = Beside { end, ..Beside::default() };
            self.piece(choice, chat::MessageDelta::default(), String::new(), beside, out);
        }
    }

    fn end(&mut self, generation: &Generation, out: &mut String) {
        if self.shown.stream.usage {
            self.last(generation.usage(), out);
        }
        out.push_str(sse::DONE);
    }

    fn fail(&mut self, fault: &Fault, out: &mut String) {
        out.push_str(&sse::fault(fault));
        out.push_str(sse::DONE);
    }
}

/// The piece of a tool call that a part is, if it is one.
fn call(part: Part) -> Option<chat::ToolCall> {
    match part {
        Part::Call { index, id, name } => Some(chat::ToolCall {
            index: Some(index),
            id: Some(id),
            r#type: Some("function"),
            function: chat::FunctionCall { name: Some(name), arguments: String::new() },
        }),
        Part::Arguments { index, text } => Some(chat::ToolCall {
            index: Some(index),
            id: None,
            r#type: None,
            function: chat::FunctionCall { name: None, arguments: text },
        }),
        Part::Content(_) | Part::Reasoning(_) => None,
    }
}

fn push<T: Serialize>(chunk: &T, out: &mut String) {
    out.push_str(&sse::data(chunk));
}
