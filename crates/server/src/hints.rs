//! What is likely meant by a path that is not there, or by a method that a path does not answer.

use axum::http::{Method, Uri};
use axum::response::Response;
use wire::Fault;

use crate::faults;

/// Beginnings of paths that other servers have, and what to say of them.
const ABSENT: [(&str, &str); 19] = [
    ("/embedding", "use /v1/embeddings or /embed"),
    ("/v1/fim", "use /infill, or /v1/completions with a suffix"),
    ("/api/pull", "models are fetched with `gristmill pull NAME` on the machine, and served when it starts"),
    (
        "/api/create",
        "models are not made here; `gristmill serve` takes a GGUF or a folder of safetensors as it is",
    ),
    ("/api/blobs", "files are not taken over HTTP; `gristmill serve` takes a path on the machine"),
    ("/api/delete", "models are removed with `gristmill rm NAME` on the machine"),
    ("/api/copy", "models are not copied here; `gristmill serve --alias NAME` adds a name"),
    ("/api/push", "models are not published from here"),
    ("/api", OLLAMA),
    ("/v1/audio", "sound is not built into this server"),
    ("/v1/images", "images are not built into this server"),
    ("/v1/files", "files are not kept by this server"),
    (
        "/v1/batches",
        "batches are not built into this server; priority \"batch\" makes a request wait for others",
    ),
    ("/v1/moderations", "moderation is not built into this server"),
    ("/v1/assistants", "assistants are not built into this server; use /v1/responses"),
    ("/v1/threads", "threads are not built into this server; use /v1/responses"),
    ("/v1/fine_tuning", "training is not built into this server"),
    ("/lora-adapters", "adapters are not built into this server"),
    ("/v1/complete", "use /v1/completions or /v1/messages"),
];
const OLLAMA: &str =
    "of Ollama's API there are /api/chat, generate, embed, embeddings, tags, show, ps and version";

pub(crate) async fn nothing_there(uri: Uri) -> Response {
    let mut fault = Fault::not_found(uri.path());
    if let Some(hint) = hint(uri.path()) {
        fault.message.push_str(": ");
        fault.message.push_str(&hint);
    }
    faults::of_path(uri.path(), &fault)
}

pub(crate) async fn wrong_method(method: Method, uri: Uri) -> Response {
    let mut fault = Fault::method(method.as_str(), uri.path());
    let methods: Vec<&str> = wire::routes::at(uri.path()).map(|route| route.method).collect();
    if !methods.is_empty() {
        fault.message.push_str(&format!("; it answers {}", methods.join(" and ")));
    }
    faults::of_path(uri.path(), &fault)
}

fn hint(path: &str) -> Option<String> {
    let is_route = |path: &str| wire::routes::ROUTES.iter().any(|route| route.path == path);
    let clean = clean(path);
    let begins = |(known, _): &&(&str, &str)| {
        clean.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if is_route(&clean) {
        return Some(format!("is {clean} meant?"));
    }
    if let Some((_, why)) = ABSENT.iter().find(begins) {
        return Some((*why).to_owned());
    }
    let with = format!("/v1{clean}");
    if is_route(&with) {
        return Some(format!("is {with} meant? The base URL of clients ends with /v1"));
    }
    // A base URL with more or less than clients put behind it.
    let end = [
        "/chat/completions",
        "/completions",
        "/embeddings",
        "/rerank",
        "/pooling",
        "/classify",
        "/responses",
        "/messages",
        "/models",
        "/tokenize",
        "/completion",
        "/infill",
        "/api/chat",
        "/api/generate",
        "/api/tags",
    ]
    .into_iter()
    .find(|end| clean.ends_with(end))?;
    let meant = [format!("/v1{end}"), end.to_owned()].into_iter().find(|path| is_route(path))?;
    Some(format!("is {meant} meant?"))
}

/// The path in lower case, without slashes that stand twice or at the end.
fn clean(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    format!("/{}", parts.join("/")).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::hint;

    #[test]
    fn said_badly_a_path_without_v1_gives_a_hint() {
        for (path, words) in [
            ("/chat/completions", "/v1/chat/completions"),
            ("/responses", "/v1/responses"),
            ("/models", "/v1/models"),
            ("/messages", "/v1/messages"),
            ("/v1/chat/completions/", "/v1/chat/completions"),
            ("/v1/v1/chat/completions", "/v1/chat/completions"),
            ("/openai/v1/models", "/v1/models"),
            ("//v1//models", "/v1/models"),
            ("/V1/Models", "/v1/models"),
            ("/v1/pooling", "/pooling"),
            ("/entities", "/v1/entities"),
            ("/v1/v1/embeddings", "/v1/embeddings"),
            ("/embedding", "/v1/embeddings"),
            ("/api/chat/", "/api/chat"),
            ("/v1/api/tags", "/api/tags"),
            ("/api/pull", "gristmill pull"),
            ("/api/blobs/sha256:0", "path on the machine"),
            ("/api/me", "Ollama"),
            ("/v1/infill", "/infill"),
            ("/v1/fim/completions", "/infill"),
            ("/v1/audio/speech", "not built"),
        ] {
            let hint = hint(path).unwrap_or_default();
            assert!(hint.contains(words), "{path}: {hint}");
        }
        for path in ["/nothing", "/v1/chat", "/apiary", "/favicon.ico"] {
            assert_eq!(hint(path), None, "{path}");
        }
    }
}
