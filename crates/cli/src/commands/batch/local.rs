//! The engine in this process as who answers.

use std::sync::Arc;
use std::time::Duration;

use ::batch::{AskError, BoxFuture, Reply, Runner};
use serde_json::{Value, json};
use server::{Asker, WholeAnswer};

use super::flags::Args;
use crate::Failure;
use crate::commands::serve;

/// A model of this process.
pub(super) struct Local {
    runner: Arc<LocalRunner>,
    identity: String,
    concurrency: usize,
}

struct LocalRunner {
    asker: Asker,
}

impl Local {
    /// Loads the model.
    ///
    /// # Errors
    /// Those of `serve`.
    pub(super) fn start(args: &Args) -> Result<Local, Failure> {
        let started = serve::in_process(args.model.as_deref(), &args.serve)?;
        let asker = started.server.asker();
        let concurrency = args.concurrency.map_or(2 * started.parallel, usize::from);
        let identity = asker.fingerprint().unwrap_or_else(|| started.model.clone());
        Ok(Local { runner: Arc::new(LocalRunner { asker }), identity, concurrency })
    }

    pub(super) fn runner(&self) -> Arc<dyn Runner> {
        self.runner.clone()
    }

    pub(super) fn identity(&self) -> &str {
        &self.identity
    }

    pub(super) fn concurrency(&self) -> usize {
        self.concurrency
    }
}

impl Runner for LocalRunner {
    fn ask<'a>(&'a self, path: &'a str, body: Vec<u8>) -> BoxFuture<'a, Result<Reply, AskError>> {
        Box::pin(async move {
            let WholeAnswer { status, body, retry_after_s } = self.asker.ask(path, body).await;
            Ok(Reply { status, body, retry_after: retry_after_s.map(Duration::from_secs) })
        })
    }

    fn count<'a>(&'a self, path: &'a str, bodies: Vec<Vec<u8>>) -> BoxFuture<'a, Option<Vec<u64>>> {
        Box::pin(async move {
            let mut counts = Vec::with_capacity(bodies.len());
            for body in bodies {
                let question = question(path, &body)?;
                let answer = self.asker.ask("/tokenize", question).await;
                counts.push(counted(answer.status, &answer.body)?);
            }
            Some(counts)
        })
    }
}

/// The request of `/tokenize` for the prompt of a request; none where that cannot be said.
pub(super) fn question(path: &str, body: &[u8]) -> Option<Vec<u8>> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let question = match path {
        "/v1/chat/completions" => json!({"messages": body["messages"]}),
        "/v1/completions" if body["prompt"].is_string() => json!({"prompt": body["prompt"]}),
        "/v1/embeddings" if body["input"].is_string() => json!({"prompt": body["input"]}),
        _ => return None,
    };
    Some(question.to_string().into_bytes())
}

/// The count of an answer of `/tokenize`.
pub(super) fn counted(status: u16, body: &[u8]) -> Option<u64> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    (status == 200).then(|| answer["count"].as_u64())?
}
