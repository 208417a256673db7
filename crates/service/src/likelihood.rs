//! Classification, reranking and scoring by a generating model: how likely it is to go on with each label.
//!
//! The prompt of an input is a conversation that asks for one of the labels. A label's log-probability is the sum of
//! those of its tokens; the tokens that may come at a place are scored by one request that generates one token. What
//! prompts have in common (the instruction, the query, an input with several labels) is computed once, by the prefix
//! cache.
//!
//! Relevance is the probability of `yes` against `no`, with the words that Qwen3-Reranker was trained on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use engine::{Event, Params, Request, Ticket};
use inference::{
    Client, Encoded, InputLength, Length, Operation, Output, RequestContext, TextInput, Truncation,
};
use serde_json::{Map, json};
use tokio::sync::mpsc;
use wire::Fault;

use crate::admission::Permit;
use crate::core::Core;
use crate::encode::{check_classify, check_rerank, check_score, empty};
use crate::generation::{fault_of_error, fault_of_refusal};
use crate::model::Generating;
use crate::outbox::{Group, Outbox};
use crate::preparation::{Admitted, Work};
use crate::registry::Lease;

/// Labels of a request.
const MAX_LABELS: usize = 64;
/// Tokens of a label.
const MAX_LABEL_TOKENS: usize = 32;

const JUDGE: &str = "Judge whether the Document meets the requirements based on the Query and the Instruct provided. \
                     Note that the answer can only be \"yes\" or \"no\".";
const INSTRUCTION: &str = "Given a web search query, retrieve relevant passages that answer the query";
const CLASSIFY: &str =
    "Classify the text that the user gives. Answer with exactly one of the labels, and with nothing else.";

/// What is asked of the model for each input.
struct Question {
    /// The conversation up to the answer.
    prompt: Vec<u32>,
    truncated: usize,
}

/// All questions of a request, which have the same answers.
struct Questions {
    all: Vec<Question>,
    /// The tokens of each label.
    labels: Vec<Vec<u32>>,
}

/// The tokens that may come after some of a label's, each one request of the engine.
struct Branch {
    after: Vec<u32>,
    next: Vec<u32>,
}

/// Answers a request for classes or scores.
///
/// # Errors
/// What cannot be asked of the model, texts that are too long, a full queue, a time limit.
pub(crate) async fn answer(
    core: &Core,
    model: Lease,
    operation: Operation,
    context: Arc<RequestContext>,
    time_limit: Option<Duration>,
    admitted: Admitted,
) -> Result<Output, Fault> {
    let generating = model.generation()?.clone();
    let asked = Asked { core, model: Arc::new(model), generating, context, time_limit };
    match operation {
        Operation::Classify(classify) => {
            check_classify(&classify)?;
            check_labels(&classify.labels)?;
            let (raw, labels) = (classify.raw_scores, Arc::<[String]>::from(classify.labels.clone()));
            let read = move |work: &Work| {
                let texts = classify.inputs.iter().enumerate().map(|(at, input)| text_of(at, input));
                let texts: Vec<&str> = texts.collect::<Result<_, Fault>>()?;
                let user = |text: &str| format!("Labels: {}\n\nText: {text}", classify.labels.join(", "));
                questions(work, CLASSIFY, &texts, "inputs", &user, classify.length, None, &classify.labels)
            };
            let (logprobs, lengths) = asked.ask(admitted, read).await?;
            let scores = logprobs.into_iter().map(|row| if raw { row } else { shares(&row) }).collect();
            Ok(Output::Classes { labels, scores: asked.encoded(scores, lengths) })
        }
        Operation::Rerank(rerank) => {
            check_rerank(&rerank)?;
            let raw = rerank.raw_scores;
            let read = move |work: &Work| {
                let texts: Vec<&str> = rerank.documents.iter().map(String::as_str).collect();
                let user = |document: &str| judged(&rerank.query, document);
                let (length, most) = (rerank.length, rerank.document_tokens);
                questions(work, JUDGE, &texts, "documents", &user, length, most, &yes_or_no())
            };
            asked.scores(admitted, raw, read).await
        }
        Operation::Score(score) => {
            check_score(&score)?;
            let raw = score.raw_scores;
            let read = move |work: &Work| {
                let mut all: Option<Questions> = None;
                for (at, (first, second)) in score.pairs.iter().enumerate() {
                    let user = |document: &str| judged(first, document);
                    let field = format!("pairs[{at}]");
                    let one = [second.as_str()];
                    let one = questions(work, JUDGE, &one, &field, &user, score.length, None, &yes_or_no())?;
                    match &mut all {
                        Some(all) => all.all.extend(one.all),
                        None => all = Some(one),
                    }
                }
                all.ok_or_else(|| Fault::internal("there are no pairs"))
            };
            asked.scores(admitted, raw, read).await
        }
        other => Err(asked.model.unable(other.name())),
    }
}

fn yes_or_no() -> [String; 2] {
    ["yes", "no"].map(str::to_owned)
}

fn judged(query: &str, document: &str) -> String {
    format!("<Instruct>: {INSTRUCTION}\n<Query>: {query}\n<Document>: {document}")
}

fn check_labels(labels: &[String]) -> Result<(), Fault> {
    if labels.len() < 2 || labels.len() > MAX_LABELS {
        let message = format!(
            "labels has {} entries; this model has none of its own and needs 2 to {MAX_LABELS}",
            labels.len()
        );
        return Err(Fault::field("labels", message));
    }
    for (at, label) in labels.iter().enumerate() {
        if label.trim().is_empty() {
            return Err(empty(&format!("labels[{at}]")));
        }
        if let Some(before) = labels[..at].iter().position(|other| other == label) {
            let message = format!("labels[{at}] is the same as labels[{before}]; each must be another");
            return Err(Fault::field(format!("labels[{at}]"), message));
        }
    }
    Ok(())
}

fn text_of(at: usize, input: &TextInput) -> Result<&str, Fault> {
    let field = format!("inputs[{at}]");
    match input {
        TextInput::Text(text) if text.is_empty() => Err(empty(&field)),
        TextInput::Text(text) => Ok(text),
        TextInput::Pair(..) | TextInput::Tokens(_) | TextInput::TypedTokens { .. } => {
            let message = format!("{field} must be a text: this model is asked in words");
            Err(Fault::unsupported(field, message))
        }
    }
}

/// The conversations that ask for one of `labels` after each of `texts`, which is in the list `field`.
fn questions(
    work: &Work,
    system: &str,
    texts: &[&str],
    field: &str,
    user: &dyn Fn(&str) -> String,
    length: Length,
    most: Option<usize>,
    labels: &[String],
) -> Result<Questions, Fault> {
    let labels: Vec<Vec<u32>> =
        labels.iter().map(|label| label_tokens(work, label)).collect::<Result<_, _>>()?;
    let longest = labels.iter().map(Vec::len).max().unwrap_or_default();
    // One token is generated after all but the last of a label's.
    let limit = work.engine.context().saturating_sub(longest);
    let limit = length.tokens.map_or(limit, |tokens| tokens.min(limit));
    let mut all = Vec::with_capacity(texts.len());
    for (at, text) in texts.iter().enumerate() {
        work.goes_on()?;
        let field = if field.ends_with(']') { field.to_owned() } else { format!("{field}[{at}]") };
        all.push(question(
            work,
            system,
            text,
            &field,
            user,
            Limits { limit, most, truncation: length.truncation },
        )?);
    }
    Ok(Questions { all, labels })
}

struct Limits {
    /// Most tokens of the whole conversation.
    limit: usize,
    /// Most tokens of the text.
    most: Option<usize>,
    truncation: Truncation,
}

fn question(
    work: &Work,
    system: &str,
    text: &str,
    field: &str,
    user: &dyn Fn(&str) -> String,
    Limits { limit, most, truncation }: Limits,
) -> Result<Question, Fault> {
    let cut = |text: &str, keep: usize| -> Result<(String, usize), Fault> {
        let tokens = work.encode(field, text, false, work.most_counted())?;
        let gone = tokens.len().saturating_sub(keep);
        let kept = match truncation {
            Truncation::Start => &tokens[gone..],
            Truncation::Refuse | Truncation::End | Truncation::Chunk => &tokens[..tokens.len() - gone],
        };
        Ok(if gone == 0 { (text.to_owned(), 0) } else { (work.text.decode(kept), gone) })
    };
    let (mut text, mut truncated) = match most {
        Some(most) => cut(text, most)?,
        None => (text.to_owned(), 0),
    };
    let prompt = conversation(work, system, &user(&text), field)?;
    if prompt.len() <= limit {
        return Ok(Question { prompt, truncated });
    }
    let over = prompt.len() - limit;
    let tokens = work.encode(field, &text, false, work.most_counted())?.len();
    if matches!(truncation, Truncation::Refuse | Truncation::Chunk) || over >= tokens {
        let message =
            format!("{field} has {} tokens with what is asked about it; the limit is {limit}", prompt.len());
        return Err(Fault { code: Some("context_length_exceeded"), ..Fault::field(field, message) });
    }
    let (rest, gone) = cut(&text, tokens - over)?;
    (text, truncated) = (rest, truncated + gone);
    let mut prompt = conversation(work, system, &user(&text), field)?;
    // A cut within a word may make other tokens of its parts, by one or two at most.
    if prompt.len() > limit {
        let tokens = work.encode(field, &text, false, work.most_counted())?.len();
        let (rest, gone) = cut(&text, tokens.saturating_sub(prompt.len() - limit + 1))?;
        truncated += gone;
        prompt = conversation(work, system, &user(&rest), field)?;
    }
    if prompt.len() > limit {
        let message = format!("{field} cannot be cut to {limit} tokens");
        return Err(Fault { code: Some("context_length_exceeded"), ..Fault::field(field, message) });
    }
    Ok(Question { prompt, truncated })
}

/// A conversation up to the model's answer, without a thought.
fn conversation(work: &Work, system: &str, user: &str, field: &str) -> Result<Vec<u32>, Fault> {
    if work.text.template().is_none() {
        return work.encode(field, &format!("{system}\n\n{user}\nAnswer:"), true, work.most_counted());
    }
    let messages = [json!({"role": "system", "content": system}), json!({"role": "user", "content": user})];
    let arguments = Map::from_iter([("enable_thinking".to_owned(), json!(false))]);
    let prompt = work.text.render(&messages, None, true, &arguments).map_err(Fault::template)?;
    work.encode_prompt(&prompt, work.most_counted())
}

fn label_tokens(work: &Work, label: &str) -> Result<Vec<u32>, Fault> {
    let spaced = if work.text.template().is_none() { format!(" {label}") } else { label.to_owned() };
    let tokens = work.encode("labels", &spaced, false, work.most_counted())?;
    if tokens.is_empty() || tokens.len() > MAX_LABEL_TOKENS {
        let message = format!(
            "the label {} has {} tokens; 1 to {MAX_LABEL_TOKENS} are allowed",
            wire::error::quote(label),
            tokens.len()
        );
        return Err(Fault::field("labels", message));
    }
    Ok(tokens)
}

/// What comes after which tokens, for all labels.
fn branches(labels: &[Vec<u32>]) -> Vec<Branch> {
    let mut next: BTreeMap<&[u32], Vec<u32>> = BTreeMap::new();
    for label in labels {
        for at in 0..label.len() {
            let ids = next.entry(&label[..at]).or_default();
            if !ids.contains(&label[at]) {
                ids.push(label[at]);
            }
        }
    }
    next.into_iter().map(|(after, next)| Branch { after: after.to_vec(), next }).collect()
}

/// The log-probability of each label, of those of the tokens of each branch.
fn of_labels(labels: &[Vec<u32>], branches: &[Branch], found: &[Vec<f32>]) -> Vec<f32> {
    let token = |after: &[u32], id: u32| {
        let at = branches.iter().position(|branch| branch.after == after)?;
        let next = branches[at].next.iter().position(|other| *other == id)?;
        found[at].get(next).map(|logprob| f64::from(*logprob))
    };
    let whole = |label: &Vec<u32>| {
        let tokens = (0..label.len()).filter_map(|at| token(&label[..at], label[at]));
        tokens.sum::<f64>() as f32
    };
    labels.iter().map(whole).collect()
}

/// Probabilities of labels of which one is true.
fn shares(logprobs: &[f32]) -> Vec<f32> {
    let most = logprobs.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights: Vec<f64> = logprobs.iter().map(|logprob| f64::from(logprob - most).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| (weight / sum) as f32).collect()
}

/// A request, and the model that is in use until it ends.
struct Asked<'a> {
    core: &'a Core,
    model: Arc<Lease>,
    generating: Generating,
    context: Arc<RequestContext>,
    time_limit: Option<Duration>,
}

impl Asked<'_> {
    /// The relevance of each question: the probability of the first of two labels.
    async fn scores(
        &self,
        admitted: Admitted,
        raw: bool,
        read: impl FnOnce(&Work) -> Result<Questions, Fault> + Send + 'static,
    ) -> Result<Output, Fault> {
        let (logprobs, lengths) = self.ask(admitted, read).await?;
        let score = |row: Vec<f32>| if raw { row[0] - row[1] } else { shares(&row)[0] };
        Ok(Output::Scores(self.encoded(logprobs.into_iter().map(score).collect(), lengths)))
    }

    /// The log-probability of each label for each question.
    async fn ask(
        &self,
        admitted: Admitted,
        read: impl FnOnce(&Work) -> Result<Questions, Fault> + Send + 'static,
    ) -> Result<(Vec<Vec<f32>>, Vec<InputLength>), Fault> {
        let (generating, context, lease) =
            (self.generating.clone(), self.context.clone(), self.model.clone());
        let work = move |_: &mut Admitted, stop| {
            let questions = read(&Work::new(generating, stop, context));
            drop(lease);
            questions
        };
        let (mut admitted, Questions { all, labels }) = admitted.run(work).await?;
        let permit = match admitted.take_permit() {
            Some(permit) => permit,
            None => self.core.admission.enter()?,
        };
        drop(admitted);
        let length = |question: &Question| InputLength {
            tokens: question.prompt.len(),
            truncated: question.truncated,
        };
        let lengths = all.iter().map(length).collect();
        let branches = branches(&labels);
        let found = self.compute(all, &branches, permit).await?;
        let rows = found.chunks(branches.len()).map(|found| of_labels(&labels, &branches, found));
        Ok((rows.collect(), lengths))
    }

    /// Has the engine compute all branches of all questions, some at a time. `[questions, branches]`
    async fn compute(
        &self,
        questions: Vec<Question>,
        branches: &[Branch],
        mut permit: Permit,
    ) -> Result<Vec<Vec<f32>>, Fault> {
        self.context.record_submission(self.model.name());
        let all = questions.len() * branches.len();
        // As many as are computed at once, and as many that wait for them: more would only fill the queue.
        let together = (2 * self.core.options.parallel).min(all).max(1);
        let together = (1..=together).rev().find(|places| permit.grow(*places).is_ok()).unwrap_or(1);
        // An answer is two events, and all that are read make room before the next is asked for.
        let (sender, mut receiver) = mpsc::channel(4 * together);
        let mut tickets: BTreeMap<usize, Ticket> = BTreeMap::new();
        let mut found: Vec<Vec<f32>> = vec![Vec::new(); all];
        let mut groups: Vec<Option<Arc<Group>>> = vec![None; questions.len()];
        let mut asked = 0;
        while asked < all || !tickets.is_empty() {
            while asked < all && tickets.len() < together {
                let (question, branch) = (asked / branches.len(), asked % branches.len());
                let group =
                    groups[question].get_or_insert_with(|| Arc::new(Group::new(branches.len()))).clone();
                let request = self.request(&questions[question], &branches[branch]);
                tickets.insert(asked, self.submit(request, asked, group, &sender)?);
                asked += 1;
            }
            let Some((choice, event)) = receiver.recv().await else {
                return Err(Fault::internal("the engine has stopped"));
            };
            match event {
                Event::Token { logprobs: Some(logprobs), .. } => {
                    found[choice] = logprobs.top.into_iter().map(|(_, logprob)| logprob).collect();
                }
                Event::Done { .. } if found[choice].is_empty() => {
                    return Err(Fault::unavailable(
                        "draining",
                        "the server shut down before the answer was complete",
                        5,
                    ));
                }
                Event::Done { .. } => drop(tickets.remove(&choice)),
                Event::Failed { error, .. } => return Err(fault_of_error(&error)),
                Event::Prompt { .. } | Event::Resumed { .. } | Event::Token { .. } => {}
            }
        }
        Ok(found)
    }

    fn request(&self, question: &Question, branch: &Branch) -> Request {
        let mut prompt = question.prompt.clone();
        prompt.extend(&branch.after);
        let Client(client) = self.context.client();
        Request {
            prompt,
            max_tokens: Some(1),
            params: Params { logprobs: Some(0), scored_ids: branch.next.clone(), ..Params::greedy() },
            time_limit: self.time_limit,
            caller: engine::Caller { priority: engine::Priority::Default, client },
            cache_salt: client,
            ..Request::default()
        }
    }

    fn submit(
        &self,
        request: Request,
        choice: usize,
        group: Arc<Group>,
        sender: &mpsc::Sender<(usize, Event)>,
    ) -> Result<Ticket, Fault> {
        let metrics = self.core.metrics.model(self.model.name());
        let outbox = Outbox {
            choice,
            sender: sender.clone(),
            metrics: metrics.clone(),
            admission: self.core.admission.clone(),
            group,
            overflow: Arc::new(AtomicBool::new(false)),
            last: None,
            max_tokens: Some(1),
            context: self.context.clone(),
        };
        let ticket = self.generating.engine.submit(request, Box::new(outbox));
        ticket.map_err(|refused| fault_of_refusal(self.core, &metrics, refused, "inputs"))
    }

    fn encoded<T>(&self, results: Vec<T>, lengths: Vec<InputLength>) -> Encoded<T> {
        Encoded { model: self.model.name().to_owned(), fingerprint: Arc::from(""), results, lengths }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_as_likely_as_its_tokens_one_after_the_other() {
        let labels = vec![vec![1], vec![2, 3], vec![2, 4, 5]];
        let branches = branches(&labels);
        let after: Vec<(&[u32], &[u32])> =
            branches.iter().map(|branch| (branch.after.as_slice(), branch.next.as_slice())).collect();
        assert_eq!(after, [(&[][..], &[1, 2][..]), (&[2], &[3, 4]), (&[2, 4], &[5])]);
        let found = [vec![-1.0, -0.5], vec![-2.0, -0.25], vec![-0.125]];
        assert_eq!(of_labels(&labels, &branches, &found), [-1.0, -2.5, -0.875]);
        let shares = shares(&[-1.0, -1.0, f32::NEG_INFINITY]);
        assert_eq!(shares, [0.5, 0.5, 0.0]);
    }

    #[test]
    fn labels_are_at_least_two_and_all_different() {
        let check = |labels: &[&str]| {
            let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
            check_labels(&labels).map_err(|fault| (fault.param.unwrap(), fault.message))
        };
        assert_eq!(check(&["a", "b"]), Ok(()));
        assert_eq!(check(&["a"]).unwrap_err().0, "labels");
        assert_eq!(check(&["a", " "]).unwrap_err().0, "labels[1]");
        let (field, message) = check(&["a", "b", "a"]).unwrap_err();
        assert_eq!(field, "labels[2]");
        assert_eq!(message, "labels[2] is the same as labels[0]; each must be another");
    }
}
