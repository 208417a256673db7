//! Golden probes: requests whose answers are known, which another generation of a model must pass before it answers others.

use std::sync::Arc;
use std::time::Duration;

use inference::{
    Classify, Embed, Embedding, Event, Generate, Generation, InputPrompt, Operation, Output, Part, Request,
    RequestContext, TextInput,
};
use serde_json::json;
use wire::{ChatRequest, CompletionRequest, Fault};

use crate::registry::ModelId;
use crate::service::{Service, Takes};

/// The longest that the answer to a probe may take.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// A request whose answer is known.
#[derive(Debug, Clone, PartialEq)]
pub enum Probe {
    /// A message to a model that generates, at temperature 0; the answer has these words in it.
    Chat {
        /// The user's message.
        message: String,
        /// Words of the answer; case makes no difference.
        contains: String,
        /// Most tokens of the answer.
        max_tokens: usize,
    },
    /// A text to a model that generates, at temperature 0; what it continues with has these words in it.
    Continue {
        /// The text.
        prompt: String,
        /// Words of the continuation; case makes no difference.
        contains: String,
        /// Most tokens of the continuation.
        max_tokens: usize,
    },
    /// Two texts to an embedding model; the cosine of their vectors is at least this.
    Near {
        /// The texts.
        texts: [String; 2],
        /// The least cosine.
        cosine: f32,
    },
    /// A text to a classifier; this is its most probable label.
    Label {
        /// The text.
        text: String,
        /// The label.
        label: String,
    },
}

/// Puts the probes to a model, one after another.
///
/// # Errors
/// In words: the first probe that is not answered as it should be, with the answer.
pub async fn check(service: &Service, model: ModelId, probes: &[Probe]) -> Result<(), String> {
    for (index, probe) in probes.iter().enumerate() {
        let failed = |why: String| format!("probe {}: {why}", index + 1);
        let output = ask(service, model, probe).await.map_err(|fault| failed(fault.message))?;
        judge(probe, output).await.map_err(failed)?;
    }
    Ok(())
}

async fn ask(service: &Service, model: ModelId, probe: &Probe) -> Result<Output, Fault> {
    let context: Arc<RequestContext> = RequestContext::new(None, "probe".into(), "", None, None, None);
    let operation = operation(probe)?;
    let takes = if matches!(operation, Operation::Generate(_)) { Takes::Answers } else { Takes::Texts };
    let admitted = service.admit(takes, &context, 0).await?;
    let lease = service.registry().acquire(model).await?;
    service.answer_with(lease, Request { operation, context, time_limit: Some(TIME_LIMIT) }, admitted).await
}

fn operation(probe: &Probe) -> Result<Operation, Fault> {
    let input = |text: &String| TextInput::Text(text.clone());
    Ok(match probe {
        Probe::Chat { message, max_tokens, .. } => {
            let messages = json!([{"role": "user", "content": message}]);
            let body = json!({"messages": messages, "max_tokens": max_tokens, "temperature": 0});
            Operation::Generate(Generate::chat(ChatRequest::parse(body.to_string().as_bytes())?))
        }
        Probe::Continue { prompt, max_tokens, .. } => {
            let body = json!({"prompt": prompt, "max_tokens": max_tokens, "temperature": 0});
            Operation::Generate(Generate::text(CompletionRequest::parse(body.to_string().as_bytes())?))
        }
        Probe::Near { texts, .. } => {
            let (inputs, prompt) = (texts.iter().map(input).collect(), InputPrompt::default());
            Operation::Embed(Embed { inputs, prompt, normalize: Some(true), ..Embed::default() })
        }
        Probe::Label { text, .. } => {
            Operation::Classify(Classify { inputs: vec![input(text)], ..Classify::default() })
        }
    })
}

async fn judge(probe: &Probe, output: Output) -> Result<(), String> {
    match (probe, output) {
        (Probe::Chat { contains, .. } | Probe::Continue { contains, .. }, Output::Generation(generation)) => {
            let answer = text_of(generation).await.map_err(|fault| fault.message)?;
            let has = answer.to_lowercase().contains(&contains.to_lowercase());
            has.then_some(()).ok_or_else(|| format!("the answer {answer:?} does not contain {contains:?}"))
        }
        (Probe::Near { cosine, .. }, Output::Embeddings(vectors)) => match vectors.results.as_slice() {
            [Embedding::Dense(first), Embedding::Dense(second)] => {
                let found: f32 = first.iter().zip(second).map(|(a, b)| a * b).sum();
                let near = found >= *cosine;
                near.then_some(()).ok_or_else(|| format!("the cosine is {found:.4}, less than {cosine}"))
            }
            _ => Err("the model gives no two vectors for two texts".into()),
        },
        (Probe::Label { label, .. }, Output::Classes { labels, scores }) => {
            let scores = scores.results.first().into_iter().flatten();
            let best = labels.iter().zip(scores).max_by(|(_, a), (_, b)| a.total_cmp(b));
            let found = best.map_or("", |(found, _)| found.as_str());
            (found == label).then_some(()).ok_or_else(|| format!("the label is {found:?}, not {label:?}"))
        }
        _ => Err("the model answers with something else".into()),
    }
}

/// The text of the first answer, the thought left out.
async fn text_of(mut generation: Generation) -> Result<String, Fault> {
    let mut text = String::new();
    while !generation.events.is_over() {
        let (_, event): (usize, Event) = generation.next().await?;
        let (parts, end) = event.split();
        for part in parts {
            if let Part::Content(piece) = part {
                text.push_str(&piece);
            }
        }
        if end.is_some() {
            break;
        }
    }
    Ok(text)
}
