//! Errors of all providers: what class they are of, and what a client of another dialect gets.

use serde_json::{Value, json};

use crate::Dialect;
use crate::scanner::StreamError;

/// What an error means for the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// Too many requests or tokens for this account and model: closed until `Retry-After`.
    RateLimited,
    /// The provider has no capacity.
    Overloaded,
    /// The prompt does not fit the model: another model may take it.
    ContextLength,
    /// The provider's filter refused the prompt or the answer.
    ContentFilter,
    /// The key is wrong, or may not do this.
    Auth,
    /// The account has no money or quota left: waiting does not help.
    Billing,
    /// No such model or path.
    NotFound,
    /// The request is wrong: another try with the same body fails, too.
    BadRequest,
    /// The provider failed.
    Server,
}

impl ErrorClass {
    /// The name in reports and metrics.
    pub fn name(self) -> &'static str {
        match self {
            ErrorClass::RateLimited => "rate_limited",
            ErrorClass::Overloaded => "overloaded",
            ErrorClass::ContextLength => "context_length",
            ErrorClass::ContentFilter => "content_filter",
            ErrorClass::Auth => "auth",
            ErrorClass::Billing => "billing",
            ErrorClass::NotFound => "not_found",
            ErrorClass::BadRequest => "bad_request",
            ErrorClass::Server => "server",
        }
    }
}

/// What an error's body says.
#[derive(Debug, Default)]
struct ErrorBody {
    message: Option<String>,
    kind: Option<String>,
    code: Option<String>,
    param: Option<String>,
    /// Gemini's reason, such as `API_KEY_INVALID`, and the names of the quotas that were exceeded.
    reasons: Vec<String>,
}

/// Most bytes of a message that is passed on.
const MAX_MESSAGE: usize = 4 << 10;

fn read(body: &[u8]) -> ErrorBody {
    let Ok(value) = serde_json::from_slice::<Value>(body) else {
        // A page of a proxy, or plain text.
        let text = String::from_utf8_lossy(body.get(..body.len().min(500)).unwrap_or_default());
        let text = text.trim();
        let page = text.is_empty() || text.starts_with('<');
        return ErrorBody { message: (!page).then(|| text.to_owned()), ..ErrorBody::default() };
    };
    // Gemini's streams without SSE have a list around it.
    let value = value.get(0).unwrap_or(&value);
    let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
    let text = |name: &str| match error.get(name) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let message = error.as_str().map(str::to_owned).or_else(|| text("message")).or_else(|| text("detail"));
    let mut reasons = Vec::new();
    for detail in error.get("details").and_then(Value::as_array).into_iter().flatten().take(16) {
        let reason = detail.get("reason").and_then(Value::as_str);
        let violations = detail.get("violations").and_then(Value::as_array).into_iter().flatten().take(16);
        let quotas = violations.filter_map(|violation| violation.get("quotaId")?.as_str());
        reasons.extend(reason.into_iter().chain(quotas).map(str::to_owned));
    }
    ErrorBody {
        message: message.map(|message| cut(&message)),
        kind: text("type").or_else(|| text("status")),
        code: text("code"),
        param: text("param"),
        reasons,
    }
}

fn cut(message: &str) -> String {
    let mut end = message.len().min(MAX_MESSAGE);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message.get(..end).unwrap_or_default().to_owned()
}

/// The class of a provider's error, by its body where that says more than the status.
pub fn classify(status: u16, body: &[u8]) -> ErrorClass {
    class_of(Some(status), &read(body))
}

/// The class of an error within a stream.
pub fn classify_stream(error: &StreamError) -> ErrorClass {
    let body = ErrorBody {
        message: Some(error.message.clone()),
        kind: error.code.clone(),
        code: error.code.clone(),
        ..ErrorBody::default()
    };
    class_of(error.status, &body)
}

/// Codes and types of all providers that say what an error is, whatever its status.
const CODES: &[(&str, ErrorClass)] = &[
    ("insufficient_quota", ErrorClass::Billing),
    ("billing_error", ErrorClass::Billing),
    ("billing_hard_limit_reached", ErrorClass::Billing),
    ("billing_not_active", ErrorClass::Billing),
    ("account_deactivated", ErrorClass::Auth),
    ("rate_limit_exceeded", ErrorClass::RateLimited),
    ("rate_limit_error", ErrorClass::RateLimited),
    ("queue_full", ErrorClass::RateLimited),
    ("wait_too_long", ErrorClass::RateLimited),
    ("resource_exhausted", ErrorClass::RateLimited),
    ("overloaded_error", ErrorClass::Overloaded),
    ("server_overloaded", ErrorClass::Overloaded),
    ("unavailable", ErrorClass::Overloaded),
    ("context_length_exceeded", ErrorClass::ContextLength),
    ("string_above_max_length", ErrorClass::ContextLength),
    ("content_filter", ErrorClass::ContentFilter),
    ("content_policy_violation", ErrorClass::ContentFilter),
    ("responsibleaipolicyviolation", ErrorClass::ContentFilter),
    ("bio_policy", ErrorClass::ContentFilter),
    ("misalignment_policy_violation", ErrorClass::ContentFilter),
    ("invalid_api_key", ErrorClass::Auth),
    ("api_key_invalid", ErrorClass::Auth),
    ("authentication_error", ErrorClass::Auth),
    ("permission_error", ErrorClass::Auth),
    ("permission_denied", ErrorClass::Auth),
    ("unauthenticated", ErrorClass::Auth),
    ("model_not_found", ErrorClass::NotFound),
    ("deploymentnotfound", ErrorClass::NotFound),
    ("not_found_error", ErrorClass::NotFound),
    ("not_found", ErrorClass::NotFound),
];

/// Words of messages, in lower case, of providers that have no code for it.
const WORDS: &[(&str, ErrorClass)] = &[
    ("credit balance", ErrorClass::Billing),
    ("exceeded your current quota, please check your plan and billing", ErrorClass::Billing),
    ("insufficient credits", ErrorClass::Billing),
    ("prompt is too long", ErrorClass::ContextLength),
    ("maximum context length", ErrorClass::ContextLength),
    ("context window", ErrorClass::ContextLength),
    ("context limit", ErrorClass::ContextLength),
    ("input token count", ErrorClass::ContextLength),
    ("exceeds the maximum number of tokens", ErrorClass::ContextLength),
    ("content management policy", ErrorClass::ContentFilter),
    ("content filtering policy", ErrorClass::ContentFilter),
    ("api key not valid", ErrorClass::Auth),
    ("overloaded", ErrorClass::Overloaded),
];

fn class_of(status: Option<u16>, body: &ErrorBody) -> ErrorClass {
    let named = body.code.iter().chain(&body.kind).chain(&body.reasons);
    let mut found: Option<ErrorClass> = None;
    for name in named {
        // A quota of a day is not refilled by waiting a minute.
        if name.contains("PerDay") {
            return ErrorClass::Billing;
        }
        let name = name.to_ascii_lowercase();
        let class = CODES.iter().find(|(code, _)| *code == name).map(|(_, class)| *class);
        found = found.or(class);
    }
    let message = body.message.as_deref().unwrap_or_default().to_lowercase();
    let said = || WORDS.iter().find(|(words, _)| message.contains(words)).map(|(_, class)| *class);
    match (found, status) {
        // Words say more than a general code: billing among rate limits, the length among requests that are wrong.
        (Some(ErrorClass::RateLimited) | None, _) if said() == Some(ErrorClass::Billing) => {
            ErrorClass::Billing
        }
        (Some(class), _) => class,
        (None, Some(400 | 413 | 422 | 500 | 503) | None) if said().is_some() => {
            said().unwrap_or(ErrorClass::Server)
        }
        (None, Some(status)) => by_status(status),
        (None, None) => by_kind(body.kind.as_deref().unwrap_or_default()),
    }
}

fn by_status(status: u16) -> ErrorClass {
    match status {
        401 | 403 => ErrorClass::Auth,
        402 => ErrorClass::Billing,
        404 => ErrorClass::NotFound,
        429 => ErrorClass::RateLimited,
        503 | 529 => ErrorClass::Overloaded,
        408 | 500..=599 => ErrorClass::Server,
        _ => ErrorClass::BadRequest,
    }
}

fn by_kind(kind: &str) -> ErrorClass {
    match kind {
        "invalid_request_error" | "invalid_prompt" | "INVALID_ARGUMENT" | "FAILED_PRECONDITION" => {
            ErrorClass::BadRequest
        }
        _ => ErrorClass::Server,
    }
}

/// An error in the client's format, with the provider's message and code. The status changes only where a dialect has a
/// status of its own: Anthropic's 529 is 503 elsewhere.
pub fn error(to: Dialect, status: u16, body: &[u8]) -> (u16, Vec<u8>) {
    let read = read(body);
    let class = class_of(Some(status), &read);
    let message =
        read.message.clone().unwrap_or_else(|| format!("the upstream answered with status {status}"));
    let status = match (to, status, class) {
        (Dialect::Anthropic, 503, ErrorClass::Overloaded) => 529,
        (Dialect::Anthropic, ..) => status,
        (_, 529, _) => 503,
        // Gemini says 400 to a wrong key, Anthropic 400 to an empty account.
        (_, 400, ErrorClass::Auth) => 401,
        (_, 400, ErrorClass::Billing) => 402,
        _ => status,
    };
    let value = match to {
        Dialect::OpenAiChat | Dialect::OpenAiResponses => json!({"error": {
            "message": message,
            "type": openai_type(class),
            "param": read.param,
            "code": openai_code(class).or(read.code.as_deref()).or(read.kind.as_deref()),
        }}),
        Dialect::Anthropic => {
            json!({"type": "error", "error": {"type": anthropic_type(class), "message": message}})
        }
        Dialect::Gemini => {
            json!({"error": {"code": status, "message": message, "status": gemini_status(class, status)}})
        }
    };
    (status, value.to_string().into_bytes())
}

/// The event that ends a stream with an error. `sequence` is the number of the event in the Responses API.
pub fn stream_error(to: Dialect, error: &StreamError, sequence: u64) -> Vec<u8> {
    let class = classify_stream(error);
    let code = openai_code(class).or(error.code.as_deref());
    let openai = json!({"message": error.message, "type": openai_type(class), "param": null, "code": code});
    match to {
        Dialect::OpenAiChat => wire::sse::data(&json!({"error": openai})).into_bytes(),
        // The fields of OpenAI's event, and the object by which its clients know that they must raise an error.
        Dialect::OpenAiResponses => {
            let event = json!({
                "type": "error", "code": code, "message": error.message, "param": null,
                "sequence_number": sequence, "error": openai,
            });
            wire::sse::named("error", &event).into_bytes()
        }
        Dialect::Anthropic => {
            let inner = json!({"type": anthropic_type(class), "message": error.message});
            wire::sse::named("error", &json!({"type": "error", "error": inner})).into_bytes()
        }
        Dialect::Gemini => {
            let status = error.status.unwrap_or(status_of(class));
            let inner =
                json!({"code": status, "message": error.message, "status": gemini_status(class, status)});
            wire::sse::data(&json!({"error": inner})).into_bytes()
        }
    }
}

fn status_of(class: ErrorClass) -> u16 {
    match class {
        ErrorClass::RateLimited => 429,
        ErrorClass::Overloaded => 503,
        ErrorClass::ContextLength | ErrorClass::ContentFilter | ErrorClass::BadRequest => 400,
        ErrorClass::Auth => 401,
        ErrorClass::Billing => 402,
        ErrorClass::NotFound => 404,
        ErrorClass::Server => 500,
    }
}

fn openai_type(class: ErrorClass) -> &'static str {
    match class {
        ErrorClass::RateLimited => "rate_limit_error",
        ErrorClass::Overloaded | ErrorClass::Server => "server_error",
        ErrorClass::Auth => "authentication_error",
        ErrorClass::Billing => "insufficient_quota",
        ErrorClass::ContextLength
        | ErrorClass::ContentFilter
        | ErrorClass::NotFound
        | ErrorClass::BadRequest => "invalid_request_error",
    }
}

/// OpenAI's code, by which its clients tell errors apart.
fn openai_code(class: ErrorClass) -> Option<&'static str> {
    match class {
        ErrorClass::RateLimited => Some("rate_limit_exceeded"),
        ErrorClass::ContextLength => Some("context_length_exceeded"),
        ErrorClass::ContentFilter => Some("content_filter"),
        ErrorClass::Auth => Some("invalid_api_key"),
        ErrorClass::Billing => Some("insufficient_quota"),
        ErrorClass::NotFound => Some("model_not_found"),
        ErrorClass::Overloaded | ErrorClass::BadRequest | ErrorClass::Server => None,
    }
}

fn anthropic_type(class: ErrorClass) -> &'static str {
    match class {
        ErrorClass::RateLimited => "rate_limit_error",
        ErrorClass::Overloaded => "overloaded_error",
        ErrorClass::Auth => "authentication_error",
        ErrorClass::Billing => "billing_error",
        ErrorClass::NotFound => "not_found_error",
        ErrorClass::ContextLength | ErrorClass::ContentFilter | ErrorClass::BadRequest => {
            "invalid_request_error"
        }
        ErrorClass::Server => "api_error",
    }
}

/// Google's status of the class (google.rpc.Code).
fn gemini_status(class: ErrorClass, status: u16) -> &'static str {
    match (class, status) {
        (ErrorClass::RateLimited | ErrorClass::Billing, _) => "RESOURCE_EXHAUSTED",
        (ErrorClass::Overloaded, _) => "UNAVAILABLE",
        (ErrorClass::Auth, 403) => "PERMISSION_DENIED",
        (ErrorClass::Auth, _) => "UNAUTHENTICATED",
        (ErrorClass::NotFound, _) => "NOT_FOUND",
        (ErrorClass::ContextLength | ErrorClass::ContentFilter | ErrorClass::BadRequest, _) => {
            "INVALID_ARGUMENT"
        }
        (ErrorClass::Server, 504) => "DEADLINE_EXCEEDED",
        (ErrorClass::Server, _) => "INTERNAL",
    }
}
