//! A chat in the terminal.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};
use serde_json::{Value, json};

use super::answer;
use super::session::Session;
use crate::term::err;
use crate::{Failure, term};

/// Lines that the history file keeps.
const HISTORY_LINES: usize = 1000;

const HELP: &str = "\
/clear        forget the conversation
/system TEXT  new instructions; also forgets
/help         this
/exit         leave, as does Ctrl-D
Ctrl-C        stop the answer
A line that ends with \\ goes on on the next.";

type Lines = Editor<(), FileHistory>;

/// Reads lines and answers them until Ctrl-D.
pub(super) fn talk(session: &Session) -> Result<(), Failure> {
    let config = Config::builder().max_history_size(HISTORY_LINES)?.auto_add_history(true).build();
    let mut lines: Lines = Editor::with_config(config)?;
    let history = history_file();
    if let Some(file) = &history {
        // The first chat has no history yet; a damaged one is no reason not to chat.
        let _ = lines.load_history(file);
    }
    let stop = watch_interrupts()?;
    err!("{}: /help tells more, Ctrl-D leaves", session.args.model);
    let mut messages = session.system();
    while let Some(line) = read(&mut lines)? {
        match line.trim() {
            "" => {}
            "/exit" | "/quit" => break,
            "/help" | "/?" => err!("{HELP}"),
            "/clear" => messages = session.system(),
            other => match other.strip_prefix("/system ") {
                Some(system) => messages = vec![json!({ "role": "system", "content": system.trim() })],
                None if is_command(other) => err!("no command {other}; /help lists them"),
                None => turn(session, &mut messages, &line, &stop),
            },
        }
    }
    if let Some(file) = &history
        && let Err(error) = lines.save_history(file)
    {
        err!("the history was not kept in {}: {error}", file.display());
    }
    Ok(())
}

/// Whether a line looks like a command: a slash and one word. A path or a sentence that begins with a slash is text.
fn is_command(line: &str) -> bool {
    line.strip_prefix('/')
        .is_some_and(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase()))
}

/// The next message, of one or more lines; none at Ctrl-D. Ctrl-C drops what was typed.
fn read(lines: &mut Lines) -> Result<Option<String>, Failure> {
    let mut message = String::new();
    loop {
        let sign = if message.is_empty() { "> " } else { ". " };
        match lines.readline(sign) {
            Ok(line) => match line.strip_suffix('\\') {
                Some(begun) => {
                    message.push_str(begun);
                    message.push('\n');
                }
                None => {
                    message.push_str(&line);
                    return Ok(Some(message));
                }
            },
            Err(ReadlineError::Interrupted) => message.clear(),
            Err(ReadlineError::Eof) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}

/// One question and its answer. What fails costs the question, never the chat.
fn turn(session: &Session, messages: &mut Vec<Value>, line: &str, stop: &AtomicBool) {
    messages.push(json!({ "role": "user", "content": line }));
    stop.store(false, Ordering::Relaxed);
    let answered =
        session.conversation(messages).and_then(|prompt| answer::stream(session, prompt, Some(stop), true));
    match answered {
        Ok(answer) => {
            term::write("\n");
            if answer.was_cancelled() {
                err!("(stopped)");
            }
            if session.args.timings {
                answer.say_timings(session.load);
            }
            messages.push(json!({ "role": "assistant", "content": answer.text }));
        }
        Err(failure) => {
            messages.pop();
            term::failure(&failure);
            err!("(/clear forgets the conversation)");
        }
    }
}

/// Beside the models, as the chats are about them; none if there is no place for it.
fn history_file() -> Option<PathBuf> {
    let root = crate::store::home().ok()?.root().to_owned();
    std::fs::create_dir_all(&root).ok()?;
    Some(root.join("chat-history"))
}

/// A flag that Ctrl-C raises from now on, in place of ending the process.
fn watch_interrupts() -> Result<Arc<AtomicBool>, Failure> {
    let raised = Arc::new(AtomicBool::new(false));
    let flag = raised.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let guard = runtime.enter();
    let mut interrupts = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?;
    drop(guard);
    cpu::thread::spawn("interrupts", move || {
        runtime.block_on(async {
            while interrupts.recv().await.is_some() {
                flag.store(true, Ordering::Relaxed);
            }
        });
    })?;
    Ok(raised)
}

#[cfg(test)]
mod tests {
    use super::is_command;

    #[test]
    fn a_sentence_is_no_command() {
        assert!(
            is_command("/clera")
                && !is_command("/etc/passwd is what?")
                && !is_command("/")
                && !is_command("hi")
        );
    }
}
