//! The dialects, and where they keep what is not in the body.

use std::fmt;
use std::str::FromStr;

/// An API's format of requests and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `POST /v1/chat/completions`. [`crate::Head`] and [`crate::Scanner`] also read OpenAI's other bodies as this one:
    /// completions, embeddings, rerank.
    OpenAiChat,
    /// `POST /v1/responses`.
    OpenAiResponses,
    /// `POST /v1/messages`.
    Anthropic,
    /// `POST /v1beta/models/MODEL:generateContent` and `:streamGenerateContent?alt=sse`.
    Gemini,
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Dialect; 4] =
        [Dialect::OpenAiChat, Dialect::OpenAiResponses, Dialect::Anthropic, Dialect::Gemini];

    /// The name in configurations, reports and warnings.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::OpenAiChat => "openai-chat",
            Dialect::OpenAiResponses => "openai-responses",
            Dialect::Anthropic => "anthropic",
            Dialect::Gemini => "gemini",
        }
    }

    /// The path and query of a request, under the API's root. Gemini has the model and streaming in the path; characters
    /// of the model other than letters, digits and `-._~/` are percent-encoded.
    pub fn path(self, model: &str, stream: bool) -> String {
        match self {
            Dialect::OpenAiChat => "/v1/chat/completions".to_owned(),
            Dialect::OpenAiResponses => "/v1/responses".to_owned(),
            Dialect::Anthropic => "/v1/messages".to_owned(),
            Dialect::Gemini => {
                let method = if stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
                format!("/v1beta/models/{}:{method}", percent_encode(model))
            }
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for Dialect {
    type Err = String;

    fn from_str(name: &str) -> Result<Dialect, String> {
        Dialect::ALL.into_iter().find(|dialect| dialect.name() == name).ok_or_else(|| {
            let known = Dialect::ALL.map(Dialect::name).join(", ");
            format!("{} is no dialect; known: {known}", wire::error::quote(name))
        })
    }
}

/// A path of the Gemini API: `/v1beta/models/MODEL:METHOD`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeminiPath {
    /// The model, percent-decoded.
    pub model: String,
    /// `generateContent`, `streamGenerateContent`, `embedContent`, `countTokens`, …
    pub method: String,
}

impl GeminiPath {
    /// The parts of a path, with or without its query; nothing if it is not one of the Gemini API.
    pub fn parse(path: &str) -> Option<GeminiPath> {
        let path = path.split('?').next()?;
        let rest = ["/v1beta/models/", "/v1/models/", "/v1alpha/models/"]
            .iter()
            .find_map(|prefix| path.strip_prefix(prefix))?;
        let (model, method) = rest.rsplit_once(':')?;
        let model = percent_decode(model)?;
        (!model.is_empty() && !method.is_empty()).then(|| GeminiPath { model, method: method.to_owned() })
    }

    /// Whether the answer is a stream.
    pub fn streams(&self) -> bool {
        self.method == "streamGenerateContent"
    }
}

fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn percent_decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        out.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gemini_paths_are_read_as_written() {
        for (model, stream) in [("gemini-2.5-pro", false), ("a b/ü:x", true), ("tuned/x", true)] {
            let path = GeminiPath::parse(&Dialect::Gemini.path(model, stream)).unwrap();
            assert_eq!((path.model.as_str(), path.streams()), (model, stream));
        }
        for other in
            ["/v1/models", "/v1/models/x", "/v1beta/models/:x", "/v1beta/models/%zz:y", "/v1/messages"]
        {
            assert_eq!(GeminiPath::parse(other), None, "{other}");
        }
    }
}
