//! A model that says what its script says, byte by byte, whatever it is asked.

use std::sync::Arc;
use std::time::Instant;

use engine::{Detokenizer, Engine, Forward, Limits, Rows, Vocabulary};
use serde_json::{Map, Value};
use server::{LoadedModel, TextPipeline};
use text::{Prompt, ReasoningTags, ToolCallStyle};

use super::{Running, options, unready};

/// Tokens are bytes; the last one ends an answer.
const END: u32 = 256;
const PROMPT: usize = 3;

struct Bytes;

impl Vocabulary for Bytes {
    fn is_end(&self, id: u32) -> bool {
        id == END
    }

    fn ends(&self) -> Vec<u32> {
        vec![END]
    }

    fn bytes(&self, id: u32) -> Vec<u8> {
        u8::try_from(id).map_or_else(|_| Vec::new(), |byte| vec![byte])
    }

    fn detokenizer(self: Arc<Self>, _shown: &[u32]) -> Box<dyn Detokenizer> {
        Box::new(Bytes)
    }
}

impl Detokenizer for Bytes {
    fn push(&mut self, id: u32, out: &mut String) {
        out.extend(self.bytes(id).into_iter().map(char::from));
    }

    fn finish(&mut self, _out: &mut String) {}
}

/// Says its script after any prompt, letter by letter.
struct Script {
    text: Vec<u8>,
    logits: Vec<f32>,
}

impl Forward for Script {
    fn vocab(&self) -> usize {
        257
    }

    fn context(&self) -> usize {
        2048
    }

    fn blocks(&self) -> usize {
        256
    }

    fn block_tokens(&self) -> usize {
        16
    }

    fn forward(&mut self, rows: &Rows<'_>) -> Result<&[f32], String> {
        self.logits.clear();
        for sequence in rows.sequences {
            for row in sequence.rows.clone().filter(|row| rows.want.contains(row)) {
                let said = sequence.first_position + row - sequence.rows.start + 1 - PROMPT;
                let next = self.text.get(said).map_or(END as usize, |byte| usize::from(*byte));
                self.logits.extend((0..257).map(|id| if id == next { 20.0 } else { 0.0 }));
            }
        }
        Ok(&self.logits)
    }
}

struct Talk;

impl TextPipeline for Talk {
    fn render(
        &self,
        _messages: &[Value],
        _tools: Option<&[Value]>,
        _generate: bool,
        _arguments: &Map<String, Value>,
    ) -> Result<Prompt, String> {
        Ok("abc".to_owned().into())
    }

    fn encode_prompt(&self, prompt: &Prompt) -> Result<Vec<u32>, String> {
        Ok(prompt.text.bytes().map(u32::from).collect())
    }

    fn encode(&self, text: &str, _wrapped: bool) -> Result<Vec<u32>, String> {
        Ok(text.bytes().map(u32::from).collect())
    }

    fn decode(&self, tokens: &[u32]) -> String {
        tokens.iter().flat_map(|t| self.bytes(*t)).map(char::from).collect()
    }

    fn bytes(&self, token: u32) -> Vec<u8> {
        Bytes.bytes(token)
    }

    fn is_end(&self, token: u32) -> bool {
        token == END
    }

    fn tags(&self) -> Option<ReasoningTags> {
        Some(ReasoningTags { open: "<think>", close: "</think>" })
    }

    fn style(&self) -> Option<ToolCallStyle> {
        Some(ToolCallStyle::Hermes)
    }

    fn calls_from_json(&self) -> bool {
        true
    }
}

/// A server over a model that says this text.
pub(crate) fn saying(text: &str) -> Running {
    let mut running = unready(options(), std::time::Duration::from_secs(5));
    let script = Script { text: text.into(), logits: Vec::new() };
    let watch = running.server.watch("tiny");
    let engine = Engine::start_with(script, Arc::new(Bytes), Limits::default(), watch).unwrap();
    running
        .server
        .ready(LoadedModel::new(vec!["tiny".into()], engine.clone(), Arc::new(Talk)), Instant::now());
    running.engine = Some(engine);
    running
}
