//! Loading a model and asking it several things at once.

#![allow(dead_code, reason = "each test file uses its part")]

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use cpu::{Pool, Tier};
use engine::{Engine, Event, FinishReason, Handle, Limits, Params, Request, TokenLogprobs};
use kernels::{Compute, Precision};
use model::Model;
use text::Tokenizer;

/// What an engine is made of.
pub(crate) struct Parts {
    pub(crate) model: Arc<Model>,
    pub(crate) tokenizer: Arc<Tokenizer>,
    pub(crate) compute: Compute,
}

/// Loads the model at `path` for `threads` threads.
pub(crate) fn load(path: &Path, threads: usize) -> Parts {
    let opened = weights::open(path).expect("a model");
    let tier =
        std::env::var("GRISTMILL_ISA").map_or_else(|_| Tier::best(), |name| name.parse().expect("a tier"));
    let compute = Compute::new(tier, Pool::new(threads, None).expect("threads"));
    let model = Model::load(&opened, &compute, Precision::Fast, &mut |_| {}).expect("weights");
    let tokenizer = Tokenizer::open(&opened).expect("a tokenizer");
    Parts { model: Arc::new(model), tokenizer: Arc::new(tokenizer), compute }
}

pub(crate) fn engine(parts: Parts, limits: Limits) -> Handle {
    Engine::start(parts.model, parts.tokenizer, parts.compute, limits).expect("an engine")
}

pub(crate) fn request(prompt: Vec<u32>, max_tokens: usize, params: Params) -> Request {
    Request { prompt, max_tokens: Some(max_tokens), params, ..Request::default() }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) prompt: Vec<TokenLogprobs>,
    pub(crate) tokens: Vec<u32>,
    pub(crate) text: String,
    pub(crate) reason: FinishReason,
}

/// Submits all, then reads all.
pub(crate) fn ask(handle: &Handle, requests: Vec<Request>) -> Vec<Answer> {
    let running: Vec<_> = requests
        .into_iter()
        .map(|request| {
            let (to, from) = channel();
            (handle.submit(request, Box::new(to)).expect("accepted"), from)
        })
        .collect();
    let read = |from: &std::sync::mpsc::Receiver<Event>| {
        let (mut prompt, mut tokens, mut all) = (Vec::new(), Vec::new(), String::new());
        loop {
            match from.recv_timeout(Duration::from_secs(600)).expect("an answer") {
                Event::Prompt { logprobs } => prompt = logprobs,
                Event::Resumed { tokens: resumed } => {
                    all.extend(resumed.iter().map(|(_, text)| text.as_str()));
                    tokens.extend(resumed.iter().map(|(id, _)| *id));
                }
                Event::Token { text, id, .. } => {
                    tokens.push(id);
                    all.push_str(&text);
                }
                Event::Done { text, reason, .. } => {
                    all.push_str(&text);
                    return Answer { prompt, tokens, text: all, reason };
                }
                Event::Failed { error, .. } => panic!("{error}"),
            }
        }
    };
    running.iter().map(|(_ticket, from)| read(from)).collect()
}
