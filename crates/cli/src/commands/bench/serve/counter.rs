//! Who counts tokens: a local tokenizer, the server's `/tokenize`, or the server's `usage`.

use serde_json::{Value, json};
use text::{Special, Tokenizer};

use crate::Failure;
use crate::term::err;

use super::body::Style;
use super::words::{Sieve, Words, probes};
use crate::http::Client;

/// Bytes of English text for each token, roughly, where nobody counts.
const BYTES_PER_TOKEN: usize = 4;

pub(super) enum Counter<'a> {
    Local(Box<Tokenizer>),
    /// The server, at this path.
    Server(&'a Client, &'static str, &'a str),
    /// Nobody but `usage` in answers.
    Usage(&'a Client, &'a Style),
}

impl<'a> Counter<'a> {
    /// The local tokenizer if there is one, else the server's, else nobody.
    pub(super) async fn find(local: Option<Tokenizer>, client: &'a Client, style: &'a Style) -> Counter<'a> {
        if let Some(tokenizer) = local {
            return Counter::Local(Box::new(tokenizer));
        }
        for path in ["/tokenize", "/v1/tokenize"] {
            let server = Counter::Server(client, path, &style.model);
            if matches!(server.count("The").await, Ok(Some(1..))) {
                return server;
            }
        }
        Counter::Usage(client, style)
    }

    /// Tokens of `text`, without those that a model wants around it; none where nobody counts.
    ///
    /// # Errors
    /// A tokenizer that fails.
    pub(super) async fn count(&self, text: &str) -> Result<Option<usize>, String> {
        match self {
            Counter::Local(tokenizer) => {
                let ids = tokenizer.encode(text, Special::Plain, false).map_err(|e| e.to_string())?;
                Ok(Some(ids.len()))
            }
            Counter::Server(client, path, model) => {
                let answer = client.json(path, Some(&tokenize(model, text))).await?;
                let listed = answer["tokens"].as_array().map(Vec::len);
                let count = listed.or_else(|| usize::try_from(answer["count"].as_u64()?).ok());
                count.map(Some).ok_or_else(|| format!("{path} answers without tokens"))
            }
            Counter::Usage(..) => Ok(None),
        }
    }

    /// Tokens of `text`, or a guess from its size.
    ///
    /// # Errors
    /// A tokenizer that fails.
    pub(super) async fn count_or_guess(&self, text: &str) -> Result<usize, Failure> {
        let counted = self.count(text).await.map_err(Failure::new)?;
        Ok(counted.unwrap_or(text.len().div_ceil(BYTES_PER_TOKEN)))
    }

    /// What it is, for the line that says so.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Counter::Local(_) => "the local tokenizer",
            Counter::Server(..) => "the server's /tokenize",
            Counter::Usage(..) => "the server's usage",
        }
    }

    /// Words that are one token each.
    ///
    /// # Errors
    /// A tokenizer that fails, or that has too few such words.
    pub(super) async fn words(&self) -> Result<Words, Failure> {
        if let Counter::Usage(client, style) = self {
            return probe(client, style).await;
        }
        let mut sieve = Sieve::new();
        while let Some(text) = sieve.next() {
            let count = self.count(&text).await.map_err(Failure::new)?;
            sieve.counted(count.unwrap_or(0));
        }
        sieve.words().ok_or_else(|| {
            Failure::new(format!(
                "too few English words are one token by {}: use --prompt-as tokens",
                self.name()
            ))
        })
    }
}

/// Text is under `prompt` for vLLM and `content` for llama.cpp; each leaves the other's fields alone.
fn tokenize(model: &str, text: &str) -> Value {
    json!({
        "model": model, "prompt": text, "content": text,
        "add_special_tokens": false, "add_special": false,
    })
}

/// Checks by two prompts' `usage` that words are one token each.
async fn probe(client: &Client, style: &Style) -> Result<Words, Failure> {
    let [short, long] = probes();
    let mut found = [0; 2];
    for (found, (text, _)) in found.iter_mut().zip([&short, &long]) {
        let answer =
            client.json(&style.endpoint.path, Some(&style.probe(text))).await.map_err(Failure::new)?;
        let tokens = answer["usage"]["prompt_tokens"].as_u64();
        let Some(tokens) = tokens.and_then(|tokens| usize::try_from(tokens).ok()) else {
            err!("note: the server tells no prompt_tokens; lengths of prompts are in words, unchecked");
            return Ok(Words::all());
        };
        *found = tokens;
    }
    let (words, tokens) = (long.1 - short.1, found[1].saturating_sub(found[0]));
    if words != tokens {
        err!(
            "note: {words} words are {tokens} tokens to this server; prompts differ from --input-len by as much"
        );
    }
    Ok(Words::all())
}
