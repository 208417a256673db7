//! Streams from one dialect into another, event by event.

use serde_json::Value;

use crate::answers::{AnswerOptions, KeptOptions};
use crate::dialects::anthropic::stream::{AnthropicReader, AnthropicWriter};
use crate::dialects::gemini::stream::{GeminiReader, GeminiWriter};
use crate::dialects::openai_chat::stream::{ChatReader, ChatWriter};
use crate::dialects::openai_responses::stream::{ResponsesReader, ResponsesWriter};
use crate::errors;
use crate::neutral::Piece;
use crate::scanner::{Ending, MAX_EVENT_BYTES, StreamError};
use crate::sse::{self, EventCutter, EventTooLong};
use crate::{Dialect, FinishReason, TokenUsage};

/// Most bytes of a stream that is translated: the last events of some dialects repeat the whole answer, so that it is held.
pub const MAX_STREAM_BYTES: usize = 64 << 20;

/// What a translated stream has brought so far, for receipts and restarts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamProgress {
    /// Whether a client has something to show.
    pub has_content: bool,
    /// The tokens counted so far.
    pub usage: Option<TokenUsage>,
    /// The first choice's reason to end.
    pub finish: Option<FinishReason>,
    /// The error that the stream carries.
    pub error: Option<StreamError>,
    /// The model that the upstream says has answered.
    pub model: Option<String>,
    /// Events that are not JSON.
    pub malformed: u64,
}

#[derive(Debug)]
enum Reader {
    Chat(ChatReader),
    Responses(ResponsesReader),
    Anthropic(AnthropicReader),
    Gemini(GeminiReader),
}

#[derive(Debug)]
enum Writer {
    Chat(ChatWriter),
    Responses(Box<ResponsesWriter>),
    Anthropic(AnthropicWriter),
    Gemini(GeminiWriter),
}

/// Translates a stream. What is written are whole events; a stream that is cut ends with an error event of the client's
/// dialect.
#[derive(Debug)]
pub struct StreamTranslator {
    to: Dialect,
    options: KeptOptions,
    cutter: EventCutter,
    machine: Machine,
    fed: usize,
}

/// What reads one dialect's events and writes another's.
#[derive(Debug)]
struct Machine {
    reader: Reader,
    writer: Writer,
    progress: StreamProgress,
    pieces: Vec<Piece>,
    /// Choices that have begun and ended.
    started: u128,
    finished: u128,
    /// The stream's last event has come, or an error: nothing is written after it.
    terminal: bool,
    /// Whether the call that is open stands for the answer's schema.
    in_schema_call: bool,
}

impl StreamTranslator {
    /// A translator of one stream. The dialects may be the same: the events are then written anew.
    pub fn new(from: Dialect, to: Dialect, options: AnswerOptions<'_>) -> StreamTranslator {
        let kept = KeptOptions::new(&options);
        let reader = match from {
            Dialect::OpenAiChat => Reader::Chat(ChatReader::default()),
            Dialect::OpenAiResponses => Reader::Responses(ResponsesReader::default()),
            Dialect::Anthropic => Reader::Anthropic(AnthropicReader::default()),
            Dialect::Gemini => Reader::Gemini(GeminiReader::default()),
        };
        let writer = match to {
            Dialect::OpenAiChat => Writer::Chat(ChatWriter::new(&options)),
            Dialect::OpenAiResponses => Writer::Responses(Box::new(ResponsesWriter::new(&options))),
            Dialect::Anthropic => Writer::Anthropic(AnthropicWriter::new()),
            Dialect::Gemini => Writer::Gemini(GeminiWriter::new(&options)),
        };
        let machine = Machine {
            reader,
            writer,
            progress: StreamProgress::default(),
            pieces: Vec::new(),
            started: 0,
            finished: 0,
            terminal: false,
            in_schema_call: false,
        };
        StreamTranslator { to, options: kept, cutter: EventCutter::new(MAX_EVENT_BYTES), machine, fed: 0 }
    }

    /// Reads the upstream's bytes and writes the client's.
    ///
    /// # Errors
    /// An event is longer than 1 MiB or the stream than [`MAX_STREAM_BYTES`]. The caller reads no further and calls
    /// [`StreamTranslator::finish`], which writes the error event.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), EventTooLong> {
        self.fed = self.fed.saturating_add(bytes.len());
        if self.fed > MAX_STREAM_BYTES {
            return Err(EventTooLong { limit: MAX_STREAM_BYTES });
        }
        let (machine, options) = (&mut self.machine, self.options.lent());
        self.cutter.feed(bytes, |raw| machine.event(raw, &options, out))
    }

    /// What the stream has brought so far.
    pub fn progress(&self) -> &StreamProgress {
        &self.machine.progress
    }

    /// Ends the stream when the upstream's bytes have ended, and writes what is missing: the client's last events if the
    /// answer is complete, else an error event.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Ending {
        let rest = self.cutter.rest();
        if !rest.is_empty() {
            self.machine.event(&rest, &self.options.lent(), out);
        }
        let machine = &mut self.machine;
        if machine.progress.error.is_none() && !machine.terminal {
            let complete = machine.finished != 0 && machine.started & !machine.finished == 0;
            if !complete {
                let message = "the upstream's stream ended before the answer was complete";
                let code = Some("upstream_cut".to_owned());
                self.fail(&StreamError { message: message.to_owned(), code, status: Some(502) }, out);
                return Ending::Cut;
            }
            machine.terminal = true;
            machine.writer.write(Piece::Done, &self.options.lent(), out);
        }
        match machine.progress.error.clone() {
            None => Ending::Complete,
            Some(error) => {
                self.fail(&error, out);
                Ending::Error
            }
        }
    }

    /// Ends the stream with an error of the gateway's own, such as a time limit.
    pub fn fail(&mut self, error: &StreamError, out: &mut Vec<u8>) {
        self.machine.terminal = true;
        let sequence = match &self.machine.writer {
            Writer::Responses(writer) => writer.sequence(),
            Writer::Chat(_) | Writer::Anthropic(_) | Writer::Gemini(_) => 0,
        };
        out.extend(errors::stream_error(self.to, error, sequence));
    }
}

impl Machine {
    fn event(&mut self, raw: &[u8], options: &AnswerOptions<'_>, out: &mut Vec<u8>) {
        if self.terminal || self.progress.error.is_some() {
            return;
        }
        let event = sse::parse(raw);
        self.progress.malformed += u64::from(event.foreign);
        let Some(data) = event.data else { return };
        if data.trim_ascii() == b"[DONE]" {
            self.take(Piece::Done, options, out);
            return;
        }
        let Ok(value) = serde_json::from_slice::<Value>(&data) else {
            self.progress.malformed += 1;
            return;
        };
        let mut pieces = std::mem::take(&mut self.pieces);
        match &mut self.reader {
            Reader::Chat(reader) => reader.read(&value, &mut pieces),
            Reader::Responses(reader) => reader.read(&value, &mut pieces),
            Reader::Anthropic(reader) => reader.read(&value, &mut pieces),
            Reader::Gemini(reader) => reader.read(&value, &mut pieces),
        }
        for piece in pieces.drain(..) {
            self.take(piece, options, out);
        }
        self.pieces = pieces;
    }

    fn take(&mut self, piece: Piece, options: &AnswerOptions<'_>, out: &mut Vec<u8>) {
        if self.terminal || self.progress.error.is_some() {
            return;
        }
        let Some(piece) = self.schema_call(piece, options) else { return };
        self.note(&piece);
        if !matches!(piece, Piece::Error(_)) {
            self.writer.write(piece, options, out);
        }
    }

    /// Makes the call of the tool that stands for the answer's schema the answer's text.
    fn schema_call(&mut self, piece: Piece, options: &AnswerOptions<'_>) -> Option<Piece> {
        let Some(tool) = options.schema_tool else { return Some(piece) };
        match piece {
            Piece::Call { ref name, .. } if name == tool => {
                self.in_schema_call = true;
                None
            }
            Piece::Arguments { choice, text } if self.in_schema_call => Some(Piece::Text { choice, text }),
            Piece::Finish { choice, reason: FinishReason::ToolCalls, stop_sequence }
                if self.in_schema_call =>
            {
                Some(Piece::Finish { choice, reason: FinishReason::Stop, stop_sequence })
            }
            Piece::Call { .. } | Piece::Text { .. } => {
                self.in_schema_call = false;
                Some(piece)
            }
            piece => Some(piece),
        }
    }

    fn note(&mut self, piece: &Piece) {
        let progress = &mut self.progress;
        let bit = |choice: u64| 1_u128.checked_shl(u32::try_from(choice).unwrap_or(u32::MAX)).unwrap_or(0);
        match piece {
            Piece::Text { choice, .. }
            | Piece::Refusal { choice, .. }
            | Piece::Thought { choice, .. }
            | Piece::ThoughtSignature { choice, .. }
            | Piece::Call { choice, .. }
            | Piece::Arguments { choice, .. }
            | Piece::Logprobs { choice, .. } => {
                progress.has_content = true;
                self.started |= bit(*choice);
            }
            Piece::Finish { choice, reason, .. } => {
                self.finished |= bit(*choice);
                if *choice == 0 {
                    progress.finish = Some(*reason);
                }
            }
            Piece::Usage(usage) => progress.usage = Some(progress.usage.unwrap_or_default().merge(*usage)),
            Piece::Start { model, .. } => progress.model.clone_from(model),
            Piece::Error(error) => progress.error = Some(error.clone()),
            Piece::Done => self.terminal = true,
        }
    }
}

impl Writer {
    fn write(&mut self, piece: Piece, options: &AnswerOptions<'_>, out: &mut Vec<u8>) {
        match self {
            Writer::Chat(writer) => writer.write(piece, options, out),
            Writer::Responses(writer) => writer.write(piece, options, out),
            Writer::Anthropic(writer) => writer.write(piece, options, out),
            Writer::Gemini(writer) => writer.write(piece, options, out),
        }
    }
}
