//! A server behind a URL as who answers.

use std::time::Duration;

use ::batch::{AskError, BoxFuture, Options, Reply, Runner};
use hyper::header;

use super::flags::Args;
use super::local::{counted, question};
use crate::Failure;
use crate::http::{Client, Reach, read_bytes};

/// A server.
pub(super) struct Remote {
    client: Client,
    identity: String,
}

impl Remote {
    /// # Errors
    /// An address, key or certificate that is none.
    pub(super) fn new(args: &Args, url: &str, options: &Options) -> Result<Remote, Failure> {
        let client = client(args, url, options.attempt_limit)?;
        let model = args.model.as_deref().unwrap_or_default();
        Ok(Remote { client, identity: format!("{url} {model}") })
    }

    pub(super) fn identity(&self) -> String {
        self.identity.clone()
    }
}

/// A client of the server at `url`.
pub(super) fn client(args: &Args, url: &str, timeout: Duration) -> Result<Client, Failure> {
    Client::new(&Reach {
        base_url: url,
        api_key: args.api_key.as_deref(),
        headers: &[],
        ca_file: args.ca_file.as_deref(),
        timeout,
    })
}

impl Runner for Remote {
    fn ask<'a>(&'a self, path: &'a str, body: Vec<u8>) -> BoxFuture<'a, Result<Reply, AskError>> {
        Box::pin(async move {
            let answered = async {
                let response = self.client.send(path, Some(body.into())).await?;
                let status = response.status().as_u16();
                let retry_after = response.headers().get(header::RETRY_AFTER);
                let retry_after = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
                let body = read_bytes(response).await?.to_vec();
                Ok(Reply { status, body, retry_after: retry_after.map(Duration::from_secs) })
            };
            let failed = |message| AskError { message, retry_after: None, transient: true };
            self.client.in_time(answered).await.map_err(failed)
        })
    }

    fn count<'a>(&'a self, path: &'a str, bodies: Vec<Vec<u8>>) -> BoxFuture<'a, Option<Vec<u64>>> {
        Box::pin(async move {
            let mut counts = Vec::with_capacity(bodies.len());
            for body in bodies {
                let answer = self.ask("/tokenize", question(path, &body)?).await.ok()?;
                counts.push(counted(answer.status, &answer.body)?);
            }
            Some(counts)
        })
    }
}
