//! Texts from a file or standard input, a line each, read by a thread beside the work.
//!
//! A batch is what has arrived: a pipe that is slow is not waited for until a batch is full. Memory is bounded by a few
//! batches, whatever the number of lines.

use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use serde::Deserialize;
use serde_json::Value;
use wire::Fault;

use crate::Failure;

/// Bytes of a line.
const MAX_LINE_BYTES: usize = 16 << 20;
/// Bytes of the texts of a batch, beyond which it gets no further line.
const BATCH_BYTES: usize = 1 << 20;
/// Bytes read at once.
const BUFFER_BYTES: usize = 256 << 10;
/// Batches that wait to be taken.
const WAITING: usize = 2;

/// What a line is.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum InputFormat {
    /// A text.
    #[default]
    Lines,
    /// A JSON object with `text` and, if it likes, an `id`.
    Jsonl,
}

/// A text of the input.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    /// From 1.
    pub(crate) number: u64,
    /// That of the object, else the line's index from 0.
    pub(crate) id: Value,
    pub(crate) text: String,
}

/// Lines that arrived together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) lines: Vec<Line>,
    /// Bytes of the input up to their end.
    pub(crate) bytes: u64,
}

/// The lines of an input.
pub(crate) struct Lines {
    /// What the input is called in messages.
    pub(crate) name: String,
    /// Bytes of the input, if it is a file.
    pub(crate) total_bytes: Option<u64>,
    batches: Receiver<Result<Batch, Failure>>,
}

/// What [`Lines::next`] has.
pub(crate) enum Next {
    Batch(Batch),
    /// Nothing has arrived yet.
    Later,
    End,
}

impl Lines {
    /// Begins to read `file` (none or `-` is standard input), at most `most` lines a batch.
    ///
    /// # Errors
    /// A file that cannot be opened, a terminal where a pipe should be, or no thread.
    pub(crate) fn open(file: Option<&Path>, format: InputFormat, most: usize) -> Result<Lines, Failure> {
        let file = file.filter(|file| *file != Path::new("-"));
        let (name, total_bytes, input): (_, _, Box<dyn Read + Send>) = match file {
            None if std::io::stdin().is_terminal() => {
                return Err(Failure::usage("no texts: give FILE, or texts on standard input"));
            }
            None => ("standard input".to_owned(), None, Box::new(std::io::stdin())),
            Some(path) => {
                let name = path.display().to_string();
                let opened = File::open(path).map_err(|error| unreadable(&name, &error))?;
                let metadata = opened.metadata().map_err(|error| unreadable(&name, &error))?;
                if metadata.is_dir() {
                    return Err(Failure::new(format!("{name} is a folder; a file of texts is needed")));
                }
                (name, metadata.is_file().then_some(metadata.len()), Box::new(opened))
            }
        };
        let (to, batches) = sync_channel(WAITING);
        let mut reader = Reader {
            name: name.clone(),
            format,
            most: most.max(1),
            number: 0,
            bytes: 0,
            input: BufReader::with_capacity(BUFFER_BYTES, input),
        };
        let body = move || reader.run(&to);
        cpu::thread::spawn("reader", body)
            .map_err(|error| Failure::new(format!("no thread to read with: {error}")))?;
        Ok(Lines { name, total_bytes, batches })
    }

    /// The next batch; `waits` until there is one.
    ///
    /// # Errors
    /// A line that is no text, or an input that cannot be read.
    pub(crate) fn next(&self, waits: bool) -> Result<Next, Failure> {
        let batch = if waits {
            self.batches.recv().map_err(|_| TryRecvError::Disconnected)
        } else {
            self.batches.try_recv()
        };
        match batch {
            Ok(batch) => batch.map(Next::Batch),
            Err(TryRecvError::Empty) => Ok(Next::Later),
            Err(TryRecvError::Disconnected) => Ok(Next::End),
        }
    }

    /// A fault about a text of a batch, by its line.
    pub(crate) fn failure(&self, batch: &[Line], fault: &Fault) -> Failure {
        let place = fault.param.as_deref().and_then(|param| {
            let index: usize = param.split_once('[')?.1.split_once(']')?.0.parse().ok()?;
            let field = &param[..=param.find(']')?];
            Some((field, batch.get(index)?.number))
        });
        match place {
            Some((field, number)) => {
                let line = format!("{}, line {number}", self.name);
                Failure::new(fault.message.replacen(field, &line, 1))
            }
            None => Failure::new(fault.message.clone()),
        }
    }
}

struct Reader<R> {
    name: String,
    format: InputFormat,
    most: usize,
    number: u64,
    bytes: u64,
    input: BufReader<R>,
}

impl<R: Read> Reader<R> {
    /// Reads until the end, a failure, or until nobody takes batches any more.
    fn run(&mut self, to: &SyncSender<Result<Batch, Failure>>) {
        loop {
            match self.batch() {
                Ok(batch) if batch.lines.is_empty() => return,
                Ok(batch) => {
                    if to.send(Ok(batch)).is_err() {
                        return;
                    }
                }
                Err(failure) => {
                    let _ = to.send(Err(failure));
                    return;
                }
            }
        }
    }

    /// The lines that are there, at least one unless the input has ended.
    fn batch(&mut self) -> Result<Batch, Failure> {
        let mut batch = Batch::default();
        let mut bytes = 0;
        while batch.lines.len() < self.most && bytes < BATCH_BYTES {
            // What has arrived is not held back for what has not.
            if !batch.lines.is_empty() && self.input.buffer().is_empty() {
                break;
            }
            let Some(line) = self.line()? else { break };
            bytes += line.text.len();
            batch.lines.push(line);
        }
        batch.bytes = self.bytes;
        Ok(batch)
    }

    fn line(&mut self) -> Result<Option<Line>, Failure> {
        let mut bytes = Vec::new();
        let mut input = self.input.by_ref().take(MAX_LINE_BYTES as u64 + 1);
        let read = input.read_until(b'\n', &mut bytes).map_err(|error| unreadable(&self.name, &error))?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        self.bytes += read as u64;
        if bytes.pop_if(|byte| *byte == b'\n').is_some() {
            bytes.pop_if(|byte| *byte == b'\r');
        }
        let (name, number) = (&self.name, self.number);
        if bytes.len() > MAX_LINE_BYTES {
            return Err(Failure::new(format!("{name}, line {number} has more than {MAX_LINE_BYTES} bytes")));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            Failure::new(format!("{name}, line {number} is not UTF-8: byte {at} begins no character"))
        })?;
        match self.format {
            InputFormat::Lines => Ok(Some(Line { number, id: (number - 1).into(), text })),
            InputFormat::Jsonl => object(&text, number)
                .map(Some)
                .map_err(|problem| Failure::new(format!("{name}, line {number}: {problem}"))),
        }
    }
}

/// A line of JSONL; other fields are for others.
#[derive(Deserialize)]
struct Object {
    text: String,
    #[serde(default)]
    id: Option<Value>,
}

fn object(text: &str, number: u64) -> Result<Line, String> {
    let Object { text, id } =
        serde_json::from_str(text).map_err(|error| format!("no JSON object with the field text: {error}"))?;
    match id {
        None | Some(Value::Null) => Ok(Line { number, id: (number - 1).into(), text }),
        Some(id @ (Value::String(_) | Value::Number(_))) => Ok(Line { number, id, text }),
        Some(other) => Err(format!("id is {other}; a text or a number is needed")),
    }
}

fn unreadable(name: &str, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot read {name}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(input: &str, format: InputFormat, most: usize) -> Reader<&[u8]> {
        let input = BufReader::with_capacity(BUFFER_BYTES, input.as_bytes());
        Reader { name: "f".into(), format, most, number: 0, bytes: 0, input }
    }

    fn texts(batch: &Batch) -> Vec<&str> {
        batch.lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn lines_come_in_batches_with_their_numbers() {
        let mut reader = reader("a\r\nb\n\nd", InputFormat::Lines, 3);
        let first = reader.batch().unwrap();
        assert_eq!((texts(&first), first.bytes), (vec!["a", "b", ""], 6));
        let second = reader.batch().unwrap();
        assert_eq!((texts(&second), second.bytes), (vec!["d"], 7));
        assert_eq!((second.lines[0].number, &second.lines[0].id), (4, &Value::from(3)));
        assert!(reader.batch().unwrap().lines.is_empty());
    }

    #[test]
    fn objects_have_a_text_and_may_have_an_id() {
        let mut good = reader(
            "{\"text\": \"a\", \"id\": \"x\", \"more\": 1}\n{\"text\": \"b\"}\n",
            InputFormat::Jsonl,
            9,
        );
        let ids: Vec<Value> = good.batch().unwrap().lines.into_iter().map(|line| line.id).collect();
        assert_eq!(ids, [Value::from("x"), Value::from(1)]);
        for (bad, problem) in [
            ("{\"text\": \"a\"}\n[]", "f, line 2: no JSON object with the field text: "),
            ("{\"text\": 1}", "f, line 1: no JSON object with the field text: "),
            ("{\"text\": \"a\", \"id\": []}", "f, line 1: id is []; a text or a number is needed"),
        ] {
            let message = reader(bad, InputFormat::Jsonl, 9).batch().unwrap_err().message;
            assert!(message.starts_with(problem), "{message}");
        }
    }

    #[test]
    fn a_fault_names_the_line() {
        let (_to, batches) = sync_channel(1);
        let lines = Lines { name: "f".into(), total_bytes: None, batches };
        let line = |number| Line { number, id: Value::Null, text: String::new() };
        let fault = Fault::field("input[1]", "input[1] has 600 tokens; this model's limit is 512");
        let failure = lines.failure(&[line(7), line(8)], &fault);
        assert_eq!(failure.message, "f, line 8 has 600 tokens; this model's limit is 512");
        let fault = Fault::field("dimensions", "dimensions is 0");
        assert_eq!(lines.failure(&[line(7)], &fault).message, "dimensions is 0");
    }
}
