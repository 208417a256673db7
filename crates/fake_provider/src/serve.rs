//! From a request to its answer or fault.

use crate::answer::Answer;
use crate::answer_body::{AnswerBody, Cut};
use crate::attempt::{Arrival, Attempt, Shared, unix_seconds};
use crate::dialect::{Question, Route};
use crate::dialects::errors::Trouble;
use crate::dialects::whole;
use crate::fault::Draw;
use crate::produce::{SILENCE, Sender, stream, whole_slowly};
use crate::repeat::Repeated;
use crate::socket::ResetFlag;
use crate::{Dialect, Fault, FaultRule, Outcome, Script, Usage};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Bytes of a request's body.
const BODY: usize = 64 << 20;

/// Frames of an answer that wait for the connection.
const FRAMES: usize = 1;

type Answered = Result<Response<AnswerBody>, Cut>;

fn respond(status: u16, content_type: &'static str, body: AnswerBody) -> Response<AnswerBody> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn json(status: u16, body: String) -> Response<AnswerBody> {
    respond(status, "application/json", AnswerBody::whole(body))
}

fn trouble(dialect: Dialect, trouble: &Trouble) -> Response<AnswerBody> {
    json(trouble.status, trouble.body(dialect).to_string())
}

/// Answers a request.
pub(crate) async fn serve(shared: Arc<Shared>, reset: ResetFlag, request: Request<Incoming>) -> Answered {
    let (head, body) = request.into_parts();
    let body = match Limited::new(body, BODY).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => return Ok(trouble(Dialect::Chat, &Trouble::of(413))),
    };
    let path = head.uri.path();
    if let Some(name) = path.strip_prefix("/_fake/") {
        return Ok(state(&shared, &head.method, name, &body));
    }
    if head.method == Method::GET && path == "/health" {
        return Ok(json(200, "{}".to_owned()));
    }
    let script = shared.script();
    if script.repeat
        && let Some(last) = shared.repeated(path, &body)
    {
        shared.count_repeated(&script, last.usage);
        return Ok(respond(200, "application/json", AnswerBody::whole(last.answer.clone())));
    }
    if head.method == Method::GET && path == "/v1/models" {
        let rows: Vec<_> = script
            .models
            .iter()
            .map(|name| serde_json::json!({"id": name, "object": "model", "created": 0, "owned_by": "fake"}))
            .collect();
        return Ok(json(200, serde_json::json!({"object": "list", "data": rows}).to_string()));
    }
    let Some(route) = Route::of(path).filter(|_| head.method == Method::POST) else {
        return Ok(trouble(Dialect::Chat, &Trouble { status: 404, ..Trouble::of(404) }));
    };
    let query = head.uri.query().unwrap_or("");
    let read = Question::read(&route, query, &body);
    let arrival = Arrival {
        path: head.uri.path_and_query().map_or(path, |path| path.as_str()),
        dialect: route.dialect,
        question: read.as_ref().ok(),
        headers: &head.headers,
        body: &body,
    };
    let attempt = Attempt::begin(&shared, &script, &arrival);
    let refused = refusal(&script, &head.headers, query, &read, attempt.running);
    let request = Admitted { script: Arc::clone(&script), dialect: route.dialect, attempt, reset };
    match (read, refused) {
        (_, Some(refused)) => Ok(request.refuse(&refused)),
        (Err(message), None) => Ok(request.refuse(&Trouble::invalid(message))),
        (Ok(question), None) => {
            let answered = request.play(&question, &body).await;
            if let Ok((response, usage)) = &answered
                && let Some(answer) = response.body().bytes().filter(|_| response.status() == StatusCode::OK)
            {
                shared.keep(Repeated::keep(&script, path, &body, answer, *usage));
            }
            answered.map(|(response, _)| response)
        }
    }
}

/// Why a request is refused by a provider without faults.
fn refusal(
    script: &Script,
    headers: &HeaderMap,
    query: &str,
    read: &Result<Question, String>,
    running: u64,
) -> Option<Trouble> {
    let value = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let given = value("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let given = given.or_else(|| ["x-api-key", "api-key", "x-goog-api-key"].into_iter().find_map(value));
    let given = given.or_else(|| query.split('&').find_map(|pair| pair.strip_prefix("key=")));
    if script.key.is_some() && script.key.as_deref() != given {
        return Some(Trouble::of(401));
    }
    if script.max_concurrent > 0 && running > script.max_concurrent {
        return Some(Trouble::of(429));
    }
    let model = read.as_ref().ok().map(|question| &question.model);
    model
        .filter(|model| !script.models.is_empty() && !script.models.contains(model))
        .map(|_| Trouble::of(404))
}

/// Reads or changes the provider's state: for programs that run it as a process.
fn state(shared: &Shared, method: &Method, name: &str, body: &[u8]) -> Response<AnswerBody> {
    let error = |message: String| json(400, serde_json::json!({"error": message}).to_string());
    let written = match (method, name) {
        (&Method::GET, "totals") => serde_json::to_string(&shared.totals()),
        (&Method::GET, "log") => serde_json::to_string(&shared.log()),
        (&Method::PUT, "script") => {
            let script = std::str::from_utf8(body).map_err(|e| e.to_string());
            match script.and_then(|text| Script::parse(text).map_err(|e| e.to_string())) {
                Ok(script) => shared.set_script(script),
                Err(message) => return error(message),
            }
            Ok("{}".to_owned())
        }
        _ => return error(format!("no {method} /_fake/{name}: there are GET totals, GET log, PUT script")),
    };
    written.map_or_else(|e| error(e.to_string()), |text| json(200, text))
}

/// A request with a number.
struct Admitted {
    script: Arc<Script>,
    dialect: Dialect,
    attempt: Attempt,
    reset: ResetFlag,
}

impl Admitted {
    /// The answer that is an error. The request then has ended.
    fn refuse(mut self, refused: &Trouble) -> Response<AnswerBody> {
        self.attempt.status = refused.status;
        self.attempt.end(Outcome::Failed);
        trouble(self.dialect, refused)
    }

    fn rule(&self, question: &Question, body: &[u8]) -> Option<FaultRule> {
        if self.script.faults.is_empty() {
            return None;
        }
        let draw = Draw {
            seed: self.script.seed,
            number: self.attempt.number,
            model: &question.model,
            stream: question.stream,
            body: &String::from_utf8_lossy(body),
        };
        let mut rules = self.script.faults.iter().enumerate();
        rules.find(|(index, rule)| rule.hits(*index, &draw)).map(|(_, rule)| rule.clone())
    }

    /// Plays the fault that hits the request, or answers it.
    async fn play(mut self, question: &Question, body: &[u8]) -> Result<(Response<AnswerBody>, Usage), Cut> {
        let rule = self.rule(question, body);
        let mut answer =
            Answer::to(&self.script, self.dialect, question, self.attempt.number, unix_seconds());
        if let Some(FaultRule { fault: Fault::Filtered { after_tokens }, .. }) = &rule {
            answer = answer.filtered_after(*after_tokens);
        }
        answer.without_usage = rule.as_ref().is_some_and(|rule| rule.fault == Fault::NoUsage);
        self.attempt.planned = answer.usage;
        self.attempt.billed_whole = rule.as_ref().is_some_and(|rule| rule.billed);
        self.attempt.fault = rule.as_ref().map(|rule| rule.fault.name());
        let fault = rule.map(|rule| rule.fault);
        match &fault {
            Some(Fault::Reset) => {
                self.reset.set();
                self.attempt.end(Outcome::Failed);
                Err(Cut)
            }
            Some(Fault::NoResponse) => {
                tokio::time::sleep(SILENCE).await;
                self.attempt.end(Outcome::Failed);
                Err(Cut)
            }
            Some(fault) if self.is_refusal(fault, question.stream) => {
                Ok((self.refusal(fault, question), Usage::default()))
            }
            _ => {
                let usage = answer.usage;
                Ok((self.answer(question, answer, fault).await, usage))
            }
        }
    }

    /// Whether a fault is an answer by itself.
    fn is_refusal(&self, fault: &Fault, stream: bool) -> bool {
        match fault {
            Fault::RateLimited { .. }
            | Fault::Status { .. }
            | Fault::HtmlError { .. }
            | Fault::ContextLength
            | Fault::ContentFilter
            | Fault::EmptyBody => true,
            Fault::ErrorEvent { .. } => !stream,
            _ => false,
        }
    }

    fn refusal(mut self, fault: &Fault, question: &Question) -> Response<AnswerBody> {
        match fault {
            Fault::RateLimited { retry_after } => {
                let mut response = self.refuse(&Trouble::of(429));
                let value = retry_after.as_ref().and_then(|value| HeaderValue::from_str(value).ok());
                if let Some(value) = value {
                    response.headers_mut().insert(RETRY_AFTER, value);
                }
                response
            }
            Fault::Status { status } => self.refuse(&Trouble::of(*status)),
            Fault::ContextLength => {
                let refused = Trouble::context_length(self.dialect, question.prompt_tokens);
                self.refuse(&refused)
            }
            Fault::ContentFilter => self.refuse(&Trouble::content_filter()),
            Fault::HtmlError { status } => {
                self.attempt.status = *status;
                self.attempt.end(Outcome::Failed);
                let page =
                    format!("<html>\n<head><title>{status}</title></head>\n<body>nginx</body>\n</html>\n");
                respond(*status, "text/html", AnswerBody::whole(page))
            }
            Fault::EmptyBody => {
                self.attempt.status = 200;
                self.attempt.end(Outcome::Failed);
                json(200, String::new())
            }
            _ => self.refuse(&Trouble::of(500)),
        }
    }

    /// The answer after its first wait; what is slow or breaks off is sent by a task.
    async fn answer(
        mut self,
        question: &Question,
        answer: Answer,
        fault: Option<Fault>,
    ) -> Response<AnswerBody> {
        let extra = match &fault {
            Some(Fault::SlowFirstToken { delay_ms }) => *delay_ms,
            _ => 0,
        };
        wait(self.script.first_token_ms.saturating_add(extra)).await;
        self.attempt.status = 200;
        let id = HeaderValue::from_str(&format!("req_{}", answer.id)).ok();
        let mut response = if question.stream && self.dialect != Dialect::Embeddings {
            self.stream(question.array, answer, fault.clone())
        } else {
            self.whole(answer, fault.clone()).await
        };
        if fault == Some(Fault::WrongContentType) {
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html"));
        }
        response.headers_mut().extend(id.map(|id| (HeaderName::from_static("x-request-id"), id)));
        response
    }

    fn sender(&self, fault: Option<&Fault>) -> (Sender, AnswerBody) {
        let (frames, receiver) = mpsc::channel(FRAMES);
        let byte_gap = match fault {
            Some(Fault::SlowBytes { gap_ms }) => Some(Duration::from_millis(*gap_ms)),
            _ => None,
        };
        (Sender { frames, reset: self.reset.clone(), byte_gap }, AnswerBody::Sent(receiver))
    }

    fn stream(self, array: bool, answer: Answer, fault: Option<Fault>) -> Response<AnswerBody> {
        let (sender, body) = self.sender(fault.as_ref());
        let Self { script, attempt, .. } = self;
        tokio::spawn(async move { stream(sender, attempt, &script, &answer, array, fault).await });
        respond(200, if array { "application/json" } else { "text/event-stream" }, body)
    }

    async fn whole(mut self, answer: Answer, fault: Option<Fault>) -> Response<AnswerBody> {
        for generated in 0..answer.tokens.len() {
            if self.script.gap_ms == 0 {
                break;
            }
            self.attempt.generated(generated + 1);
            wait(if generated == 0 { 0 } else { self.script.gap_ms }).await;
        }
        match fault {
            Some(
                fault @ (Fault::Cut { .. }
                | Fault::Stall { .. }
                | Fault::EndlessLine { .. }
                | Fault::SlowBytes { .. }),
            ) => {
                let (sender, body) = self.sender(Some(&fault));
                let length = match &fault {
                    Fault::EndlessLine { .. } => None,
                    _ => Some(HeaderValue::from(whole(&answer).to_string().len())),
                };
                let attempt = self.attempt;
                tokio::spawn(async move { whole_slowly(sender, attempt, &answer, fault).await });
                let mut response = respond(200, "application/json", body);
                response.headers_mut().extend(length.map(|length| (CONTENT_LENGTH, length)));
                response
            }
            Some(Fault::MalformedEvent { .. }) => {
                let mut text = whole(&answer).to_string();
                text.truncate(text.floor_char_boundary(text.len() / 2));
                self.attempt.generated(answer.tokens.len());
                self.attempt.end(Outcome::Failed);
                json(200, text)
            }
            _ => {
                self.attempt.end(Outcome::Completed);
                respond(200, "application/json", AnswerBody::whole(Bytes::from(whole(&answer).to_string())))
            }
        }
    }
}

async fn wait(milliseconds: u64) {
    if milliseconds > 0 {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    }
}
