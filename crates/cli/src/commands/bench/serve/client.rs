//! Requests to the server that is measured, timed. Everything here may wait; nothing here counts tokens.

use std::time::Instant;

use http_body_util::{BodyExt, Limited};
use hyper::body::Bytes;
use serde_json::Value;

use super::events::{Chunk, Events};
use super::metrics::Outcome;
use crate::http::{Client, MAX_BODY_BYTES, accepted, chain};

/// Streams whose answers carry no usage are counted by chunks; text beyond this many bytes is not kept.
const MAX_TEXT_BYTES: usize = 16 << 20;

impl Client {
    /// Asks for a stream and times it. `run` is when the run began; the outcome's `queue` is left to the caller.
    pub(super) async fn ask(&self, path: &str, body: Bytes, prompt_tokens: usize, run: Instant) -> Outcome {
        let sent = Instant::now();
        let start = sent.duration_since(run).as_secs_f64();
        let mut outcome = Outcome { prompt_tokens, asked_tokens: prompt_tokens, start, ..Outcome::default() };
        let mut clock = Clock::new(sent);
        let streamed = self.stream(path, body, &mut clock, &mut outcome);
        if let Err(error) = self.in_time(streamed).await {
            outcome.error = Some(error);
            return outcome;
        }
        if clock.chunks == 0 {
            outcome.error = Some("the stream ended without a chunk".to_owned());
        }
        outcome.latency = clock.last.duration_since(sent).as_secs_f64();
        if outcome.output_tokens == 0 {
            outcome.output_tokens = clock.chunks;
            outcome.counted_by_chunks = true;
        }
        outcome
    }

    /// Asks for the vectors of texts and times the whole answer; `texts` is how many there are, with their tokens.
    pub(super) async fn embed(
        &self,
        path: &str,
        body: Bytes,
        (texts, prompt_tokens): (usize, usize),
        run: Instant,
    ) -> Outcome {
        let sent = Instant::now();
        let start = sent.duration_since(run).as_secs_f64();
        let mut outcome =
            Outcome { prompt_tokens, asked_tokens: prompt_tokens, texts, start, ..Outcome::default() };
        let answer = async {
            let response = accepted(self.send(path, Some(body)).await?).await?;
            let body = Limited::new(response.into_body(), MAX_BODY_BYTES).collect().await;
            body.map(|body| body.to_bytes()).map_err(|error| format!("the answer broke off: {error}"))
        };
        let bytes = self.in_time(answer).await;
        let latency = sent.elapsed().as_secs_f64();
        (outcome.latency, outcome.ttft, outcome.first_text) = (latency, latency, latency);
        match bytes.and_then(|bytes| embeddings(&bytes, texts)) {
            Ok(tokens) => outcome.prompt_tokens = tokens.unwrap_or(prompt_tokens),
            Err(error) => outcome.error = Some(error),
        }
        outcome
    }

    async fn stream(
        &self,
        path: &str,
        body: Bytes,
        clock: &mut Clock,
        outcome: &mut Outcome,
    ) -> Result<(), String> {
        let mut response = accepted(self.send(path, Some(body)).await?).await?;
        let mut events = Events::default();
        while let Some(frame) = response.frame().await {
            let frame = frame.map_err(|error| format!("the stream broke off: {}", chain(&error)))?;
            let Ok(bytes) = frame.into_data() else { continue };
            let now = Instant::now();
            let each = |data: &[u8]| {
                if data == b"[DONE]" {
                    return Ok(());
                }
                let chunk = Chunk::parse(data)?;
                clock.tick(&chunk, now, outcome);
                note(&chunk, outcome);
                Ok(())
            };
            events.push(&bytes, each)?;
        }
        Ok(())
    }
}

/// Checks that an answer has a vector for each of so many texts, and gives back the tokens that it counts.
fn embeddings(bytes: &[u8], texts: usize) -> Result<Option<usize>, String> {
    let answer: Value =
        serde_json::from_slice(bytes).map_err(|error| format!("an answer that is no JSON: {error}"))?;
    let found = answer["data"].as_array().map_or(0, Vec::len);
    if found != texts {
        return Err(format!("{found} vectors for {texts} texts"));
    }
    Ok(answer["usage"]["prompt_tokens"].as_u64().and_then(|tokens| usize::try_from(tokens).ok()))
}

/// When chunks came.
struct Clock {
    sent: Instant,
    last: Instant,
    chunks: usize,
    spoke: bool,
}

impl Clock {
    fn new(sent: Instant) -> Clock {
        Clock { sent, last: sent, chunks: 0, spoke: false }
    }

    fn tick(&mut self, chunk: &Chunk, now: Instant, outcome: &mut Outcome) {
        if !chunk.counts() {
            return;
        }
        let since_sent = now.duration_since(self.sent).as_secs_f64();
        if self.chunks == 0 {
            outcome.ttft = since_sent;
        } else {
            outcome.itls.push(now.duration_since(self.last).as_secs_f64());
        }
        if !self.spoke && chunk.says_something() {
            self.spoke = true;
            outcome.first_text = since_sent;
        } else if !self.spoke {
            // An answer without any text has its first chunk's time, or its last empty one's.
            outcome.first_text = since_sent;
        }
        self.chunks += 1;
        self.last = now;
    }
}

/// Text and counts of a chunk.
fn note(chunk: &Chunk, outcome: &mut Outcome) {
    if outcome.text.len() < MAX_TEXT_BYTES {
        outcome.text.push_str(chunk.text());
    }
    if let Some(usage) = &chunk.usage {
        outcome.prompt_tokens = usage.prompt_tokens.unwrap_or(outcome.prompt_tokens);
        outcome.output_tokens = usage.completion_tokens.unwrap_or(outcome.output_tokens);
        outcome.cached_tokens = usage.cached_tokens();
    }
}
