//! `gristmill run`: one answer, or a chat in the terminal. `docs/run.md` is its manual.

mod answer;
mod chat;
mod session;

use std::io::{IsTerminal, Read};

use serde_json::json;

use crate::{Failure, term};
pub(crate) use session::Args;
use session::Session;

/// Longest prompt read from a pipe: far more than any context holds.
const MAX_PROMPT_BYTES: u64 = 64 << 20;

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let prompt = prompt(&args)?;
    if prompt.is_none() && args.json {
        return Err(Failure::usage("--json answers one prompt: give a PROMPT, or pipe one in"));
    }
    let session = Session::open(args)?;
    match prompt {
        Some(prompt) => once(&session, &prompt),
        None => chat::talk(&session),
    }
}

/// The prompt of a single answer; none means a chat.
fn prompt(args: &Args) -> Result<Option<String>, Failure> {
    match args.prompt.as_deref() {
        Some("-") => stdin().map(Some),
        Some(text) => Ok(Some(text.to_owned())),
        None if std::io::stdin().is_terminal() => Ok(None),
        None => stdin().map(Some),
    }
}

fn stdin() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(MAX_PROMPT_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::new(format!("cannot read the prompt from standard input: {error}")))?;
    if bytes.len() as u64 > MAX_PROMPT_BYTES {
        return Err(Failure::new(format!(
            "the prompt on standard input is longer than {MAX_PROMPT_BYTES} bytes"
        )));
    }
    // What a program writes ends with a newline; a model that is to go on from there would see a line that is over.
    bytes.pop_if(|byte| *byte == b'\n');
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::new(format!("the prompt on standard input is not UTF-8: byte {at} begins no character"))
    })
}

/// One prompt, one answer.
fn once(session: &Session, prompt: &str) -> Result<(), Failure> {
    let mut messages = session.system();
    messages.push(json!({ "role": "user", "content": prompt }));
    let prompt = session.conversation(&messages)?;
    let (args, shown) = (&session.args, !session.args.json);
    let answer = answer::stream(session, prompt.clone(), None, shown)?;
    if args.json {
        term::json(&answer.report(&prompt, session.load, args.logprobs.is_some()))?;
    } else {
        term::write(if answer.text.ends_with('\n') { "" } else { "\n" });
    }
    if args.timings {
        answer.say_timings(session.load);
    }
    Ok(())
}
