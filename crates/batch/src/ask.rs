//! One request: attempts with pauses between them, until it has an answer or has failed.

use crate::fault::{Fault, shortened};
use crate::feed::Ready;
use crate::journal::rows::Finished;
use crate::options::Options;
use crate::report::Tokens;
use crate::request::Key;
use crate::runner::{AskError, Reply, Runner};
use serde_json::Value;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The longest pause that is chosen here.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The longest pause that the other side may ask for.
const LONGEST_ASKED: Duration = Duration::from_secs(300);
/// The largest answer that is kept.
const LARGEST_ANSWER: usize = 64 << 20;

/// What became of a request.
pub(crate) struct Ended {
    pub(crate) finished: Finished,
    /// Attempts that were made again.
    pub(crate) retries: u64,
    /// Whether the fault is not the request's: no connection, an overloaded server, a refused key.
    pub(crate) is_doubtful: bool,
}

/// How attempts are made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Policy {
    attempts: u32,
    first_pause: Duration,
    attempt_limit: Duration,
}

impl Policy {
    pub(crate) fn new(options: &Options) -> Policy {
        Policy {
            attempts: options.attempts,
            first_pause: options.first_pause,
            attempt_limit: options.attempt_limit,
        }
    }

    /// The pause after an attempt, from 1: doubled each time, and spread by a fifth, so that requests which failed together
    /// do not come back together.
    fn pause(&self, attempt: u32, asked: Option<Duration>, key: &Key) -> Duration {
        let doubled = self.first_pause.saturating_mul(1 << (attempt - 1).min(16)).min(LONGEST_PAUSE);
        let spread = f64::from(key[attempt as usize % key.len()]) / 255.0;
        let chosen = doubled.mul_f64(0.8 + 0.4 * spread);
        asked.map_or(chosen, |asked| asked.min(LONGEST_ASKED).max(chosen))
    }
}

/// What an attempt came to.
enum Attempt {
    /// An answer, or a refusal that another attempt would get too.
    Final(Result<Reply, AskError>),
    /// A failure that may pass.
    Passing(Result<Reply, AskError>, Option<Duration>),
}

/// Asks until there is an answer or attempts are used up.
pub(crate) async fn ask(runner: &dyn Runner, policy: Policy, ready: Ready) -> Ended {
    let mut attempt = 1;
    loop {
        let limit = policy.attempt_limit;
        let answer = match timeout(limit, runner.ask(ready.path, ready.body.clone())).await {
            Ok(answer) => answer,
            Err(_) => Err(timed_out(limit)),
        };
        let retries = u64::from(attempt - 1);
        match sorted(answer) {
            Attempt::Final(answer) => return ended(&ready, answer, retries, false),
            Attempt::Passing(answer, _) if attempt >= policy.attempts => {
                return ended(&ready, answer, retries, true);
            }
            Attempt::Passing(_, asked_for) => sleep(policy.pause(attempt, asked_for, &ready.key)).await,
        }
        attempt += 1;
    }
}

fn timed_out(limit: Duration) -> AskError {
    let message = format!("there was no answer within {} s", limit.as_secs_f64());
    AskError { message, retry_after: None, transient: true }
}

fn sorted(answer: Result<Reply, AskError>) -> Attempt {
    match answer {
        Ok(reply) if matches!(reply.status, 408 | 425 | 429 | 500..=599) => {
            let retry_after = reply.retry_after;
            Attempt::Passing(Ok(reply), retry_after)
        }
        Err(error) if error.transient => {
            let retry_after = error.retry_after;
            Attempt::Passing(Err(error), retry_after)
        }
        other => Attempt::Final(other),
    }
}

fn ended(ready: &Ready, answer: Result<Reply, AskError>, retries: u64, is_used_up: bool) -> Ended {
    let mut finished =
        Finished { id: ready.id, status: None, body: Vec::new(), fault: None, tokens: Tokens::default() };
    // A server that answers 500 is there: it cannot do this request.
    let mut is_doubtful = is_used_up && !matches!(&answer, Ok(reply) if reply.status == 500);
    match answer {
        Err(error) => finished.fault = Some(Fault::new("request_failed", error.message)),
        Ok(reply) => {
            is_doubtful |= matches!(reply.status, 401 | 403);
            finished.status = Some(reply.status);
            match read(&reply) {
                Ok(tokens) => finished.tokens = tokens,
                Err(fault) => finished.fault = Some(fault),
            }
            if reply.body.len() <= LARGEST_ANSWER {
                finished.body = reply.body;
            }
        }
    }
    Ended { finished, retries, is_doubtful }
}

/// The tokens of an answer, or the fault that it tells.
fn read(reply: &Reply) -> Result<Tokens, Fault> {
    let bytes = reply.body.len();
    if bytes > LARGEST_ANSWER {
        let message = format!("the answer has {bytes} bytes; at most {LARGEST_ANSWER} are kept");
        return Err(Fault::new("answer_too_large", message));
    }
    let body: Option<Value> = serde_json::from_slice(&reply.body).ok();
    if !(200..300).contains(&reply.status) {
        let status = reply.status;
        let told =
            body.as_ref().and_then(told).unwrap_or_else(|| shortened(&String::from_utf8_lossy(&reply.body)));
        return Err(Fault::new(&format!("http_{status}"), format!("status {status}: {told}")));
    }
    let body = body.ok_or_else(|| Fault::new("invalid_answer", "the answer is no JSON"))?;
    Ok(tokens(&body["usage"]))
}

/// The message of an error, in the forms of OpenAI, Anthropic and others.
fn told(body: &Value) -> Option<String> {
    const LONGEST: usize = 2_000;
    let message = [&body["error"]["message"], &body["message"], &body["error"], &body["detail"]];
    message.into_iter().find_map(Value::as_str).map(|text| text.chars().take(LONGEST).collect())
}

/// The tokens that `usage` tells, in the forms of OpenAI and Anthropic.
fn tokens(usage: &Value) -> Tokens {
    let first = |places: &[&str]| places.iter().find_map(|place| usage.pointer(place)?.as_u64()).unwrap_or(0);
    Tokens {
        prompt: first(&["/prompt_tokens", "/input_tokens"]),
        cached: first(&[
            "/prompt_tokens_details/cached_tokens",
            "/input_tokens_details/cached_tokens",
            "/cache_read_input_tokens",
        ]),
        completion: first(&["/completion_tokens", "/output_tokens"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn reply(status: u16, body: &Value) -> Reply {
        Reply { status, body: body.to_string().into_bytes(), retry_after: None }
    }

    #[test]
    fn tokens_are_read_in_each_form() {
        let openai = json!({"usage": {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}});
        let responses = json!({"usage": {"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}}});
        for body in [openai, responses] {
            assert_eq!(read(&reply(200, &body)).unwrap(), Tokens { prompt: 9, cached: 4, completion: 2 });
        }
    }

    #[test]
    fn a_refusal_is_told_in_its_own_words() {
        let fault = read(&reply(400, &json!({"error": {"message": "too long"}}))).unwrap_err();
        assert_eq!((fault.code.as_str(), fault.message.as_str()), ("http_400", "status 400: too long"));
        assert_eq!(
            read(&Reply { body: b"{".to_vec(), ..reply(200, &json!(0)) }).unwrap_err().code,
            "invalid_answer"
        );
    }

    #[test]
    fn pauses_double_and_honour_what_is_asked_for() {
        let policy = Policy {
            attempts: 9,
            first_pause: Duration::from_secs(1),
            attempt_limit: Duration::from_secs(1),
        };
        let pause = |attempt, asked: Option<u64>| {
            policy.pause(attempt, asked.map(Duration::from_secs), &[0; 32]).as_secs()
        };
        assert_eq!((pause(2, None), pause(4, None), pause(30, None)), (1, 6, 48));
        assert_eq!((pause(1, Some(20)), pause(1, Some(9_999))), (20, 300));
    }
}
