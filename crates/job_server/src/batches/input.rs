//! The requests of a batch's input, whichever API it came by.

use jobs::batch::FileError;
use jobs::requests::{RequestReader, RequestRules, RequestsError};
use jobs::{Batch, BatchKind, FileRules, Line, Validator};

use crate::shared::Options;

/// A request of a batch.
pub(super) struct Item {
    /// Its number among the requests, from 0.
    pub(super) index: u64,
    /// Its line in the file, from 1.
    pub(super) line: u64,
    /// The client's name for it.
    pub(super) custom_id: String,
    /// The body.
    pub(super) body: Vec<u8>,
}

/// Reads an input in pieces.
pub(super) struct Input {
    reader: Reader,
    /// The number of the next request.
    next: u64,
}

enum Reader {
    Lines(Box<Validator>),
    Requests(Box<RequestReader>, Vec<FileError>),
}

impl Input {
    /// The input of a batch, from its beginning.
    pub(super) fn of(batch: &Batch, options: &Options) -> Input {
        let reader = match batch.kind {
            BatchKind::OpenAi => Reader::Lines(Box::new(Validator::new(FileRules {
                max_lines: options.max_batch_lines,
                max_line_bytes: options.max_line_bytes,
                ..FileRules::for_endpoint(&batch.endpoint)
            }))),
            BatchKind::Anthropic => {
                let rules = RequestRules {
                    max_requests: options.max_message_requests,
                    max_request_bytes: options.max_line_bytes,
                };
                Reader::Requests(Box::new(RequestReader::new(rules)), Vec::new())
            }
        };
        Input { reader, next: 0 }
    }

    /// Takes the next bytes. Returns the requests that end in them.
    pub(super) fn feed(&mut self, piece: &[u8]) -> Vec<Item> {
        match &mut self.reader {
            Reader::Lines(validator) => {
                let items = number(validator.feed(piece), self.next);
                self.next += items.len() as u64;
                items
            }
            Reader::Requests(reader, errors) => {
                let mut items = Vec::new();
                let fed = reader.feed(piece, |request| {
                    items.push(Item {
                        index: request.index,
                        line: request.index + 1,
                        custom_id: request.custom_id,
                        body: request.params,
                    });
                });
                errors.extend(fed.err().map(told));
                items
            }
        }
    }

    /// The input has ended. Returns its last request, if no line feed ended it, and all errors.
    pub(super) fn finish(self) -> (Vec<Item>, Vec<FileError>) {
        match self.reader {
            Reader::Lines(validator) => {
                let (lines, errors) = validator.finish();
                (number(lines, self.next), errors)
            }
            Reader::Requests(reader, mut errors) => {
                if errors.is_empty() {
                    errors.extend(reader.finish().err().map(told));
                }
                (Vec::new(), errors)
            }
        }
    }

    /// Whether the input is at fault so far: its requests are not run.
    pub(super) fn is_faulty(&self) -> bool {
        match &self.reader {
            Reader::Lines(validator) => !validator.errors().is_empty(),
            Reader::Requests(_, errors) => !errors.is_empty(),
        }
    }

    /// Whether the rest need not be read.
    pub(super) fn is_over(&self) -> bool {
        match &self.reader {
            Reader::Lines(validator) => validator.is_over(),
            Reader::Requests(_, errors) => !errors.is_empty(),
        }
    }
}

/// Lines as requests, from a number on.
fn number(lines: Vec<Line>, from: u64) -> Vec<Item> {
    let numbered = (from..).zip(lines);
    let item = |(index, line): (u64, Line)| Item {
        index,
        line: line.number,
        custom_id: line.custom_id,
        body: line.body,
    };
    numbered.map(item).collect()
}

fn told(error: RequestsError) -> FileError {
    FileError {
        code: "invalid_request".to_owned(),
        message: error.to_string(),
        line: None,
        param: Some(error.place),
    }
}
