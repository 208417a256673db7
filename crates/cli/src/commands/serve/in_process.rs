//! A server without a socket: the same models, limits and arithmetic for a command that asks in this process.

use std::sync::Arc;
use std::time::Instant;

use clap::{CommandFactory, FromArgMatches, Parser};
use server::Server;

use super::{Args, load, many, options};
use crate::Failure;

/// A server of this process.
pub(crate) struct InProcess {
    pub(crate) server: Server,
    /// What it was asked to serve.
    pub(crate) model: String,
    /// Answers computed at once.
    pub(crate) parallel: usize,
}

/// The flags alone.
#[derive(Parser)]
#[command(name = "serve", no_binary_name = true)]
#[group(skip)]
struct Flags {
    #[command(flatten)]
    args: Args,
}

/// Loads a model with flags of `serve`, and waits until it is there. Called within the async runtime.
///
/// # Errors
/// Flags that `serve` does not have, and what `serve` fails by.
pub(crate) fn in_process(model: Option<&str>, words: &[String]) -> Result<InProcess, Failure> {
    let words = model.into_iter().chain(words.iter().map(String::as_str));
    let matches = Flags::command().try_get_matches_from(words);
    let flags = matches.and_then(|matches| Flags::from_arg_matches(&matches));
    let args = flags.map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        let first = first.strip_prefix("error: ").unwrap_or(first);
        Failure::usage(format!("flags of serve: {first}"))
    })?;
    let args = Arc::new(args.args);
    let options = options(&args)?;
    let parallel = options.service.parallel;
    let server = Server::new(options);
    let (began, model) = (Instant::now(), args.model().to_owned());
    if args.is_many() {
        many::start(&args, &server, &tokio::runtime::Handle::current(), began)?;
    } else {
        load(&args, &server, began)?;
    }
    Ok(InProcess { server, model, parallel })
}
