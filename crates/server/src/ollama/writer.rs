//! Answers of `/api/chat` and `/api/generate` as lines of JSON.

use std::borrow::Cow;
use std::time::Instant;

use inference::{Event, Generation, Part, Token};
use wire::Fault;
use wire::logprobs::Position;
use wire::ollama::{self, Answer, Called, Said};

use super::answer::{Wanted, metrics, now};
use crate::stream::Dialect;

/// Writes a stream: a line for what each token made certain, and a last one with counts and times. Calls of tools are sent
/// whole.
pub(super) struct Writer {
    wanted: Wanted,
    /// The call whose arguments still come.
    call: Option<Call>,
    /// When the first token came.
    first: Option<Instant>,
}

/// A call so far.
struct Call {
    index: usize,
    id: String,
    name: String,
    arguments: String,
}

impl Call {
    fn complete(self) -> Option<Called> {
        Called::complete(self.index, &self.id, &self.name, &self.arguments)
    }
}

/// What a line says.
#[derive(Default)]
struct News {
    content: String,
    thinking: String,
    calls: Vec<Called>,
}

impl News {
    fn is_empty(&self) -> bool {
        self.content.is_empty() && self.thinking.is_empty() && self.calls.is_empty()
    }
}

impl Writer {
    pub(super) fn new(wanted: Wanted) -> Writer {
        Writer { wanted, call: None, first: None }
    }

    /// What some parts say; a call is said once it is complete.
    fn news(&mut self, parts: Vec<Part>) -> News {
        let mut news = News::default();
        for part in parts {
            match part {
                Part::Content(text) => news.content.push_str(&text),
                Part::Reasoning(text) => news.thinking.push_str(&text),
                Part::Call { index, id, name } => {
                    let call = Call { index, id, name, arguments: String::new() };
                    news.calls.extend(self.call.replace(call).and_then(Call::complete));
                }
                Part::Arguments { text, .. } => {
                    if let Some(call) = &mut self.call {
                        call.arguments.push_str(&text);
                    }
                }
            }
        }
        news
    }

    fn said(&self, news: News) -> Said {
        let News { content, thinking, calls } = news;
        if self.wanted.chat {
            Said::chat(content, thinking, calls)
        } else {
            Said::Text { response: content, thinking }
        }
    }

    fn line(&self, model: &str, news: News, positions: &[Position]) -> String {
        ollama::line(&Answer {
            model: self.wanted.model.as_deref().unwrap_or(model),
            created_at: now(),
            said: self.said(news),
            done: false,
            done_reason: None,
            logprobs: ollama::logprobs(positions),
            metrics: None,
        })
    }
}

impl Dialect for Writer {
    fn write(&mut self, generation: &Generation, _choice: usize, event: Event, out: &mut String) {
        let (parts, position, end) = match event {
            Event::Prompt(_) | Event::Resumed(_) => return,
            Event::Token(Token { parts, ends, score, .. }) => {
                self.first.get_or_insert_with(Instant::now);
                let most = self.wanted.logprobs;
                // A token that ends an answer has no text.
                let score = score.filter(|_| !ends);
                (parts, score.and_then(|score| Some(score.position(most?, false))), None)
            }
            Event::Done { parts, end } => (parts, None, Some(end)),
        };
        let mut news = self.news(parts);
        if end.is_some() {
            news.calls.extend(self.call.take().and_then(Call::complete));
        }
        if !news.is_empty() || position.is_some() {
            out.push_str(&self.line(&generation.model, news, position.as_slice()));
        }
        let Some(end) = end else { return };
        out.push_str(&ollama::line(&Answer {
            model: self.wanted.model.as_deref().unwrap_or(&generation.model),
            created_at: now(),
            said: self.said(News::default()),
            done: true,
            done_reason: Some(ollama::done_reason(end.reason)),
            logprobs: None,
            metrics: Some(metrics(generation, &self.wanted, self.first)),
        }));
    }

    fn end(&mut self, _generation: &Generation, _out: &mut String) {}

    fn fail(&mut self, fault: &Fault, out: &mut String) {
        out.push_str(&ollama::line(&ollama::fault(fault)));
    }

    /// Nothing new, in a line of its own: clients read every line as JSON.
    fn ping(&self) -> Cow<'static, str> {
        self.line("", News::default(), &[]).into()
    }

    fn content_type(&self) -> &'static str {
        "application/x-ndjson"
    }
}
