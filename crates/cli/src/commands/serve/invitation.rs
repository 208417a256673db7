//! What is said when the server is ready: how to reach it, and a request to try.

use std::net::SocketAddr;
use std::time::Instant;

use service::EncoderHeads;

use super::operations::LogFormat;

/// How to reach the server, for the line to try.
pub(super) struct Invitation {
    pub(super) log: LogFormat,
    pub(super) scheme: &'static str,
    pub(super) address: SocketAddr,
    pub(super) keyed: bool,
    pub(super) page: bool,
}

/// What is said when the server is ready.
pub(super) struct Ready {
    pub(super) name: String,
    pub(super) example: Example,
    pub(super) facts: String,
}

/// A request to try.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Example {
    Chat,
    Completion,
    Embeddings,
    Rerank,
    Classify,
    Entities,
}

impl Example {
    /// What to try with an encoder.
    pub(super) fn of(heads: &EncoderHeads) -> Example {
        let able = heads.operations();
        let examples = [
            ("embed", Example::Embeddings),
            ("classify_tokens", Example::Entities),
            ("classify", if heads.ranks() { Example::Rerank } else { Example::Classify }),
        ];
        let found = examples.into_iter().find(|(operation, _)| able.contains(operation));
        found.map_or(Example::Rerank, |(_, example)| example)
    }

    /// Path and body.
    fn request(self) -> (&'static str, &'static str) {
        match self {
            Example::Chat => (
                "v1/chat/completions",
                r#"{"messages": [{"role": "user", "content": "What is a grist mill?"}]}"#,
            ),
            Example::Completion => ("v1/completions", r#"{"prompt": "A grist mill is", "max_tokens": 48}"#),
            Example::Embeddings => ("v1/embeddings", r#"{"input": "What is a grist mill?"}"#),
            Example::Rerank => (
                "v1/rerank",
                r#"{"query": "What is a grist mill?", "documents": ["A mill that grinds grain.", "A river."]}"#,
            ),
            Example::Classify => ("classify", r#"{"input": "The mill grinds well."}"#),
            Example::Entities => ("classify", r#"{"input": "Oliver Evans built mills in Delaware."}"#),
        }
    }
}

impl Ready {
    /// Says that the server is ready, and how to try it.
    pub(super) fn say(&self, to: &Invitation, began: Instant) {
        let log = to.log;
        log.say(&format!(
            "{} is ready after {:.2} s: {}",
            self.name,
            began.elapsed().as_secs_f64(),
            self.facts
        ));
        let (path, body) = self.example.request();
        let key = if to.keyed { " -H \"authorization: Bearer $GRISTMILL_API_KEY\"" } else { "" };
        // The certificate is for a name, and this is an address; -k is for this machine alone.
        let insecure = if to.scheme == "https" { "-k " } else { "" };
        let first =
            if to.keyed { "export GRISTMILL_API_KEY=…  # one of the server's keys\n  " } else { "" };
        let url = format!("{}://{}", to.scheme, to.address);
        if to.page && self.example == Example::Chat {
            log.say(&format!("chat in a browser: {url}"));
        }
        log.say(&format!(
            "try it:\n  {first}curl {insecure}{url}/{path} -H 'content-type: application/json'{key} -d '{body}'"
        ));
    }
}
