//! An upstream's stream as its client gets it: events whole, without what only the gateway asked for, translated where
//! the dialects differ, and continued where another upstream took over.

use std::sync::Arc;

use privacy::Redaction;
use serde_json::Value;
use translation::{
    Dialect, Ending, Framing, Scanner, ScannerOptions, StreamError, StreamTranslator, TokenUsage,
};

use crate::redaction::RestoredStream;
use crate::translate::{self, Asker};

/// Most bytes of an answer's text, and of its token ids, that are kept to continue it elsewhere.
const KEPT_BYTES: usize = 256 << 10;

/// A stream on its way to the client.
pub(crate) struct Relay {
    scanner: Scanner,
    is_chat: bool,
    translator: Option<StreamTranslator>,
    continued: Option<Continued>,
    /// Bytes between scanner and translator; kept to be filled again.
    between: Vec<u8>,
    /// Token ids of the upstreams before this one.
    prior_ids: Vec<u32>,
    /// Text of the upstreams before this one, for `resume`; a replay sends it again.
    prior_text: String,
    full: bool,
    /// Puts values back into what the client gets.
    restored: Option<RestoredStream>,
}

/// What a relay is to do.
pub(crate) struct Options {
    pub(crate) upstream: Dialect,
    pub(crate) client: Dialect,
    pub(crate) max_event_bytes: usize,
    /// Whether the usage at the end was asked for by the gateway alone.
    pub(crate) strip_usage: bool,
    /// Whether token ids were asked for by the gateway alone.
    pub(crate) strip_ids: bool,
    /// Whether log-probabilities were asked for by the gateway alone.
    pub(crate) strip_logprobs: bool,
    /// Whether text and token ids are kept.
    pub(crate) keep: bool,
    pub(crate) asker: Asker,
    /// The placeholders of the request that was sent.
    pub(crate) redaction: Option<Arc<Redaction>>,
}

/// Why a stream cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Broken {
    /// An event is longer than the limit.
    TooLong,
    /// A replay differs from what the client has seen.
    Differs,
}

/// How another upstream's stream goes on where one ended.
struct Continued {
    /// Text that the client has, and the new stream sends again.
    skip: String,
    id: Option<Value>,
    created: Option<Value>,
    /// Bytes of an event that has not ended.
    rest: Vec<u8>,
}

impl Relay {
    /// A stream from its beginning.
    pub(crate) fn new(options: &Options) -> Relay {
        let translator = (options.upstream != options.client)
            .then(|| translate::stream(options.upstream, options.client, &options.asker));
        Relay {
            scanner: Scanner::new(options.upstream, Framing::Events, Relay::scanner(options)),
            is_chat: options.upstream == Dialect::OpenAiChat,
            translator,
            continued: None,
            between: Vec::new(),
            prior_ids: Vec::new(),
            prior_text: String::new(),
            full: false,
            restored: Relay::restored(options),
        }
    }

    fn scanner(options: &Options) -> ScannerOptions {
        let mut drop_fields = Vec::new();
        if options.strip_ids {
            drop_fields.extend(["token_ids", "prompt_token_ids"]);
        }
        if options.strip_logprobs {
            drop_fields.push("logprobs");
        }
        ScannerOptions {
            max_event_bytes: options.max_event_bytes,
            collect_bytes: if options.keep { KEPT_BYTES } else { 0 },
            strip_usage: options.strip_usage,
            drop_fields,
        }
    }

    fn restored(options: &Options) -> Option<RestoredStream> {
        options.redaction.clone().map(|redaction| RestoredStream::new(redaction, options.client))
    }

    /// Takes bytes from the upstream and adds to `out` what the client gets.
    ///
    /// # Errors
    /// An event that is too long, or a replay that differs.
    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        let Some(mut restored) = self.restored.take() else { return self.pass(bytes, out) };
        let mut passed = Vec::new();
        let fed = self.pass(bytes, &mut passed);
        restored.feed(&passed, out);
        self.restored = Some(restored);
        fed
    }

    fn pass(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        if self.translator.is_none() && self.continued.is_none() {
            return self.scanner.filter(bytes, out).map_err(|_| Broken::TooLong);
        }
        self.between.clear();
        let fed = self.scanner.filter(bytes, &mut self.between).map_err(|_| Broken::TooLong);
        self.forward(out)?;
        fed
    }

    /// Passes on what lies between scanner and translator.
    fn forward(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        let mut bytes = std::mem::take(&mut self.between);
        if let Some(continued) = &mut self.continued {
            let mut changed = Vec::with_capacity(bytes.len());
            continued.feed(&bytes, &mut changed)?;
            bytes = changed;
        }
        match &mut self.translator {
            None => out.extend_from_slice(&bytes),
            Some(translator) => translator.feed(&bytes, out).map_err(|_| Broken::TooLong)?,
        }
        self.between = bytes;
        Ok(())
    }

    /// The ending, when the upstream's bytes have ended. Nothing ends for the client but by [`Relay::close`].
    ///
    /// # Errors
    /// A replay that differs in its last event.
    pub(crate) fn ending(&mut self, out: &mut Vec<u8>) -> Result<Ending, Broken> {
        let Some(mut restored) = self.restored.take() else { return self.last(out) };
        let mut passed = Vec::new();
        let ending = self.last(&mut passed);
        restored.feed(&passed, out);
        restored.finish(out);
        self.restored = Some(restored);
        ending
    }

    fn last(&mut self, out: &mut Vec<u8>) -> Result<Ending, Broken> {
        self.between.clear();
        let mut rest = Vec::new();
        let ending = self.scanner.finish(&mut rest);
        self.between = rest;
        if self.translator.is_none() && self.continued.is_none() {
            out.extend_from_slice(&self.between);
        } else {
            self.forward(out)?;
        }
        if ending == Ending::Complete && self.continued.as_ref().is_some_and(|c| !c.skip.is_empty()) {
            // The new answer is shorter than what the client has.
            return Err(Broken::Differs);
        }
        Ok(ending)
    }

    /// Ends the client's stream after a complete answer.
    pub(crate) fn close(&mut self, out: &mut Vec<u8>) {
        let mut passed = Vec::new();
        self.end(&mut passed);
        match &mut self.restored {
            None => out.append(&mut passed),
            Some(restored) => {
                restored.feed(&passed, out);
                restored.finish(out);
            }
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if let Some(translator) = &mut self.translator {
            translator.finish(out);
        } else if !self.scanner.state().terminal && self.is_chat {
            // Some providers leave it out, and clients wait for it.
            out.extend_from_slice(wire::sse::DONE.as_bytes());
        }
    }

    /// Ends the client's stream with an error, in its dialect.
    pub(crate) fn fail(&mut self, client: Dialect, message: &str, out: &mut Vec<u8>) {
        match &mut self.translator {
            Some(translator) => translator.fail(&translate::stream_error(message), out),
            None => out.extend(translation::stream_error(client, &translate::stream_error(message), 0)),
        }
    }

    /// Goes on with another upstream's stream, which continues the text (`resume`).
    pub(crate) fn resume(&mut self, options: &Options) {
        self.keep_prior();
        self.go_on(options, String::new());
    }

    /// Goes on with another upstream's stream, which begins the text again.
    pub(crate) fn replay(&mut self, options: &Options) {
        self.keep_prior();
        self.prior_ids.clear();
        let skip = std::mem::take(&mut self.prior_text);
        self.go_on(options, skip);
    }

    fn keep_prior(&mut self) {
        let state = self.scanner.state();
        self.prior_ids.extend_from_slice(&state.token_ids);
        // What an earlier replay still had to skip was never sent again.
        self.prior_text.push_str(&state.text);
        self.full |= state.collect_full;
    }

    fn go_on(&mut self, options: &Options, skip: String) {
        let before = self.continued.take();
        let (id, created) = match before {
            Some(before) => (before.id, before.created),
            None => (self.scanner.state().id.clone().map(Value::from), None),
        };
        if self.restored.is_none() {
            self.restored = Relay::restored(options);
        }
        self.scanner = Scanner::new(options.upstream, Framing::Events, Relay::scanner(options));
        self.continued = Some(Continued { skip, id, created, rest: Vec::new() });
    }

    /// Whether the client has been sent content.
    pub(crate) fn has_content(&self) -> bool {
        self.scanner.state().has_content()
    }

    /// Whether the stream has ended by an event of its own, whatever bytes may follow.
    pub(crate) fn is_over(&self) -> bool {
        let state = self.scanner.state();
        state.terminal || state.error.is_some()
    }

    /// The error that the stream carries.
    pub(crate) fn error(&self) -> Option<&StreamError> {
        self.scanner.state().error.as_ref()
    }

    /// Tokens that the upstream has reported.
    pub(crate) fn usage(&self) -> Option<TokenUsage> {
        self.scanner.state().usage
    }

    /// Events with content so far: the tokens of a stream that reports no usage, nearly.
    pub(crate) fn content_events(&self) -> u64 {
        self.scanner.state().content_events
    }

    /// Token ids of the whole answer so far; none if some are not known.
    pub(crate) fn token_ids(&self) -> Option<Vec<u32>> {
        let state = self.scanner.state();
        let full = self.full || state.collect_full;
        (!full).then(|| [self.prior_ids.as_slice(), &state.token_ids].concat())
    }

    /// Whether the answer calls tools.
    pub(crate) fn calls_tools(&self) -> bool {
        self.scanner.state().tool_calls
    }

    /// Text of the present upstream, where it is kept.
    pub(crate) fn text(&self) -> &str {
        &self.scanner.state().text
    }

    /// Whether all of the text so far is known, and nothing but text has been sent.
    pub(crate) fn can_replay(&self) -> bool {
        let state = self.scanner.state();
        !self.full && !state.collect_full && !state.tool_calls && !state.text.is_empty()
    }
}

impl Continued {
    /// Takes whole events in the chat dialect and adds to `out` what follows what the client has.
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.windows(2).position(|pair| pair == b"\n\n") {
            let event: Vec<u8> = self.rest.drain(..end + 2).collect();
            self.event(&event, out)?;
        }
        Ok(())
    }

    fn event(&mut self, event: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        let data = std::str::from_utf8(event).ok().and_then(|text| text.trim_end().strip_prefix("data:"));
        let Some(mut chunk) = data.and_then(|data| serde_json::from_str::<Value>(data).ok()) else {
            out.extend_from_slice(event);
            return Ok(());
        };
        for (name, first) in [("id", &mut self.id), ("created", &mut self.created)] {
            if let Some(value) = chunk.get_mut(name) {
                match first {
                    Some(first) => *value = first.clone(),
                    None => *first = Some(value.clone()),
                }
            }
        }
        let choice = chunk.get_mut("choices").and_then(|choices| choices.get_mut(0));
        if let Some(choice) = choice {
            let ends = choice.get("finish_reason").is_some_and(|reason| !reason.is_null());
            let delta = choice.get_mut("delta").and_then(Value::as_object_mut);
            let is_chat = delta.is_some();
            if let Some(delta) = delta {
                // The client has been told whose turn it is.
                delta.remove("role");
            }
            let place = if is_chat { choice.pointer_mut("/delta/content") } else { choice.get_mut("text") };
            let mut says = false;
            if let Some(Value::String(text)) = place {
                *text = self.rest_of(text)?;
                says = !text.is_empty();
            }
            let other = choice
                .get("delta")
                .and_then(Value::as_object)
                .is_some_and(|delta| delta.iter().any(|(name, value)| name != "content" && !value.is_null()));
            if !says && !ends && !other {
                return Ok(());
            }
        }
        out.extend_from_slice(format!("data: {chunk}\n\n").as_bytes());
        Ok(())
    }

    /// What of a text follows what the client has.
    fn rest_of(&mut self, text: &str) -> Result<String, Broken> {
        if self.skip.is_empty() {
            return Ok(text.to_owned());
        }
        if let Some(skip) = self.skip.strip_prefix(text) {
            self.skip = skip.to_owned();
            return Ok(String::new());
        }
        let rest = text.strip_prefix(self.skip.as_str()).map(str::to_owned).ok_or(Broken::Differs)?;
        self.skip.clear();
        Ok(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(id: &str, text: &str) -> String {
        format!(
            "data: {{\"id\":\"{id}\",\"created\":1,\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n"
        )
    }

    fn continued(skip: &str) -> Continued {
        Continued { skip: skip.to_owned(), id: Some("first".into()), created: None, rest: Vec::new() }
    }

    #[test]
    fn a_replay_skips_what_the_client_has() {
        let mut continued = continued("one two");
        let mut out = Vec::new();
        for text in ["one", " tw", "o thr", "ee"] {
            continued.feed(chunk("second", text).as_bytes(), &mut out).unwrap();
        }
        assert_eq!(String::from_utf8(out).unwrap(), chunk("first", " thr") + &chunk("first", "ee"));
    }

    #[test]
    fn a_replay_that_differs_is_noticed() {
        let mut continued = continued("one two");
        let mut out = Vec::new();
        continued.feed(chunk("second", "one").as_bytes(), &mut out).unwrap();
        assert_eq!(continued.feed(chunk("second", " 2").as_bytes(), &mut out), Err(Broken::Differs));
        assert!(out.is_empty());
    }
}
