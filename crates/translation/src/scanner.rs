//! A reader of answers that changes nothing: usage, errors, the reason to end, and whether the end came.

mod event;
mod filter;
mod state;
mod whole;

pub use self::state::{ScannerState, StreamError};
use self::whole::WholeAnswer;
use crate::Dialect;
use crate::sse::{self, EventCutter, EventTooLong};

/// Most bytes of one event of a stream, unless told otherwise.
pub const MAX_EVENT_BYTES: usize = 1 << 20;

/// How an answer's bytes are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// `text/event-stream`.
    Events,
    /// One JSON value of any length.
    Json,
}

impl Framing {
    /// The framing of a content type.
    pub fn of(content_type: &str) -> Framing {
        let kind = content_type.split(';').next().unwrap_or_default().trim();
        if kind.eq_ignore_ascii_case("text/event-stream") { Framing::Events } else { Framing::Json }
    }
}

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// The last event, or every choice's reason to end, has come.
    Complete,
    /// The bytes ended before that.
    Cut,
    /// The answer carries an error, or is not in its dialect's format.
    Error,
}

/// What a scanner collects, limits and takes out.
#[derive(Debug, Clone)]
pub struct ScannerOptions {
    /// Most bytes of one event.
    pub max_event_bytes: usize,
    /// Most bytes of the first choice's text and token ids that are kept; 0 keeps none.
    pub collect_bytes: usize,
    /// Takes the chat chunk with usage alone out of what [`Scanner::filter`] writes: the gateway asked for it, the client
    /// did not.
    pub strip_usage: bool,
    /// Fields that [`Scanner::filter`] takes out of each event and its choices, such as `token_ids`.
    pub drop_fields: Vec<&'static str>,
}

impl Default for ScannerOptions {
    fn default() -> ScannerOptions {
        ScannerOptions {
            max_event_bytes: MAX_EVENT_BYTES,
            collect_bytes: 0,
            strip_usage: false,
            drop_fields: Vec::new(),
        }
    }
}

/// Reads an answer as it arrives. Holds at most one event of a stream, and of a whole answer a few values.
#[derive(Debug, Clone)]
pub struct Scanner {
    state: ScannerState,
    options: ScannerOptions,
    frame: Frame,
}

#[derive(Debug, Clone)]
enum Frame {
    Events(EventCutter),
    Json(WholeAnswer),
}

impl Scanner {
    /// A scanner of one answer.
    pub fn new(dialect: Dialect, framing: Framing, options: ScannerOptions) -> Scanner {
        let frame = match framing {
            Framing::Events => Frame::Events(EventCutter::new(options.max_event_bytes)),
            Framing::Json => Frame::Json(WholeAnswer::new()),
        };
        Scanner { state: ScannerState::new(dialect, options.collect_bytes), options, frame }
    }

    /// Reads bytes that are passed on as they are.
    ///
    /// # Errors
    /// An event is longer than the limit; the answer must not be read on.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), EventTooLong> {
        let state = &mut self.state;
        match &mut self.frame {
            Frame::Events(cutter) => cutter.feed(bytes, |raw| {
                read_event(state, raw);
            }),
            Frame::Json(whole) => {
                whole.feed(bytes, state);
                Ok(())
            }
        }
    }

    /// Reads bytes, and writes to `out` what a client gets: whole events, without what the options take out. A whole answer
    /// is written as it came.
    ///
    /// # Errors
    /// An event is longer than the limit; the answer must not be read on.
    pub fn filter(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), EventTooLong> {
        let (state, options) = (&mut self.state, &self.options);
        match &mut self.frame {
            Frame::Events(cutter) => cutter.feed(bytes, |raw| filter_event(state, options, raw, out)),
            Frame::Json(whole) => {
                whole.feed(bytes, state);
                out.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// What has been seen so far.
    pub fn state(&self) -> &ScannerState {
        &self.state
    }

    /// The ending, when the upstream's bytes have ended. What is left of a last event without its empty line is read.
    pub fn end(&mut self) -> Ending {
        self.finish(&mut Vec::new())
    }

    /// As [`Scanner::end`], and writes what [`Scanner::filter`] held back.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Ending {
        match &mut self.frame {
            Frame::Events(cutter) => {
                let rest = cutter.rest();
                // The rest of an event that was cut is not passed on: half an event breaks clients' parsers.
                let before = self.state.malformed;
                let mut written = Vec::new();
                if !rest.is_empty() {
                    filter_event(&mut self.state, &self.options, &rest, &mut written);
                }
                if self.state.malformed == before {
                    out.extend(written);
                }
            }
            Frame::Json(whole) => {
                self.state.terminal = whole.ended();
                if whole.broken() {
                    self.state.malformed += 1;
                    self.state.fail(StreamError {
                        message: "the upstream's answer is not JSON".into(),
                        ..StreamError::default()
                    });
                }
            }
        }
        self.ending()
    }

    fn ending(&self) -> Ending {
        if self.state.error.is_some() {
            return Ending::Error;
        }
        let finished = match self.frame {
            Frame::Events(_) => self.state.terminal || self.state.all_finished(),
            Frame::Json(_) => self.state.terminal,
        };
        if finished { Ending::Complete } else { Ending::Cut }
    }
}

/// Reads a raw event; what kind it is, for filters.
fn read_event(state: &mut ScannerState, raw: &[u8]) -> event::EventKind {
    let event = sse::parse(raw);
    state.malformed += u64::from(event.foreign);
    let Some(data) = event.data else { return event::EventKind::default() };
    state.events += 1;
    if data.trim_ascii() == b"[DONE]" {
        state.terminal = true;
        return event::EventKind::default();
    }
    match event::read(state, &data) {
        Ok(kind) => kind,
        Err(_) => {
            state.malformed += 1;
            event::EventKind::default()
        }
    }
}

fn filter_event(state: &mut ScannerState, options: &ScannerOptions, raw: &[u8], out: &mut Vec<u8>) {
    let before = state.malformed;
    let kind = read_event(state, raw);
    // Clients' parsers fail on what is not JSON; an answer without it is as good as the upstream's.
    if (kind.only_usage && options.strip_usage) || state.malformed != before {
        return;
    }
    let cut = if options.drop_fields.is_empty() { None } else { filter::without(raw, &options.drop_fields) };
    out.extend_from_slice(cut.as_deref().unwrap_or(raw));
}
