//! Sends what was planned when it was planned, and collects what became of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::Failure;

use super::body::Style;
use super::dataset::Conversation;
use super::metrics::Outcome;
use crate::http::Client;

/// A load, ready to be put on a server.
pub(super) struct Load {
    pub(super) client: Arc<Client>,
    /// How to ask each model.
    pub(super) styles: Vec<Arc<Style>>,
    pub(super) conversations: Vec<Conversation>,
    /// Seconds from the start at which each conversation begins, in order.
    pub(super) times: Vec<f64>,
    /// Conversations under way at once.
    pub(super) max_concurrency: Option<usize>,
}

impl Load {
    /// Runs it. Gives one outcome for each request, conversation after conversation, and the seconds it took.
    ///
    /// # Errors
    /// A task that panicked.
    pub(super) async fn run(self, bar: &ProgressBar) -> Result<(Vec<Outcome>, f64), Failure> {
        let most = self.max_concurrency.unwrap_or(Semaphore::MAX_PERMITS).min(Semaphore::MAX_PERMITS);
        let places = Arc::new(Semaphore::new(most));
        let count = self.conversations.len();
        let began = Instant::now();
        let mut tasks = JoinSet::new();
        for (index, (conversation, at)) in self.conversations.into_iter().zip(self.times).enumerate() {
            let due = began + Duration::try_from_secs_f64(at).unwrap_or_default();
            tokio::time::sleep_until(due.into()).await;
            let (client, places) = (self.client.clone(), places.clone());
            let style = self.styles[conversation.model].clone();
            let (arrived, bar) = (Instant::now(), bar.clone());
            tasks.spawn(async move {
                // The semaphore is never closed.
                let place = places.acquire_owned().await;
                let outcomes = if style.endpoint.embeds() {
                    let outcome = embed(&client, &style, &conversation, began, arrived).await;
                    bar.inc(conversation.turns.len() as u64);
                    vec![outcome]
                } else {
                    talk(&client, &style, &conversation, began, arrived, &bar).await
                };
                drop(place);
                let model = conversation.model;
                let outcomes = outcomes.into_iter().map(|outcome| Outcome { model, ..outcome });
                (index, outcomes.collect())
            });
        }
        let mut all: Vec<Vec<Outcome>> = vec![Vec::new(); count];
        while let Some(done) = tasks.join_next().await {
            let (index, outcomes) = done?;
            all[index] = outcomes;
        }
        let duration = began.elapsed().as_secs_f64();
        Ok((all.into_iter().flatten().collect(), duration))
    }
}

/// One request for the vectors of all texts.
async fn embed(
    client: &Client,
    style: &Style,
    conversation: &Conversation,
    began: Instant,
    arrived: Instant,
) -> Outcome {
    let tokens = conversation.turns.iter().map(|turn| turn.input_tokens).sum();
    let body = style.body(conversation, 0, &[]);
    let queue = arrived.elapsed().as_secs_f64();
    let texts = conversation.turns.len();
    let outcome = client.embed(&style.endpoint.path, body, (texts, tokens), began).await;
    Outcome { queue, ..outcome }
}

/// The turns of a conversation, each after the answer to the one before. A turn that fails ends it: those after it
/// have failed too.
async fn talk(
    client: &Client,
    style: &Style,
    conversation: &Conversation,
    began: Instant,
    arrived: Instant,
    bar: &ProgressBar,
) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut answers: Vec<String> = Vec::new();
    let mut held = conversation.system_tokens;
    for (turn, asked) in conversation.turns.iter().enumerate() {
        held += asked.input_tokens;
        let outcome = match outcomes.last().and_then(|last| last.error.as_ref()) {
            Some(_) => Outcome {
                start: began.elapsed().as_secs_f64(),
                error: Some("not sent: the turn before it failed".to_owned()),
                ..Outcome::default()
            },
            None => {
                let body = style.body(conversation, turn, &answers);
                let queue = if turn == 0 { arrived.elapsed().as_secs_f64() } else { 0.0 };
                let outcome = client.ask(&style.endpoint.path, body, held, began).await;
                Outcome { queue, ..outcome }
            }
        };
        held += outcome.output_tokens;
        answers.push(outcome.text.clone());
        outcomes.push(outcome);
        bar.inc(1);
    }
    outcomes
}
