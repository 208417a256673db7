//! Writes the output and the errors from the input and the journal, which are read side by side.

use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::feed::Work;
use crate::hashing::Digested;
use crate::input::row::Row;
use crate::input::source::Records;
use crate::input::split::Piece;
use crate::journal::rows::Line;
use crate::options::Format;
use crate::output::lines;
use crate::output::sink::{Sink, Stream};
use crate::output::table::{Columns, Table};
use crate::output::view::View;
use crate::output::whole::{Whole, remove};
use crate::request::Form;
use crate::setup::{Files, output_format};
use std::io::Write;
use std::path::Path;

/// What was written.
pub(crate) struct Written {
    pub(crate) output: Digested,
    /// Absent if no line has failed.
    pub(crate) errors: Option<Digested>,
    pub(crate) failed_lines: u64,
}

/// Writes the output and the errors. `input` and `columns` are what the input was when it was first read.
pub(crate) fn write(
    work: &Work,
    files: &Files,
    stream: Option<Stream>,
    input: &Digested,
    columns: &[String],
) -> Result<Written, Error> {
    let mut writer = Writer::new(work, files, stream, columns)?;
    let mut records = work.setup.source.records()?;
    let changed = || Error::InputChanged(work.setup.source.path.clone());
    work.journal.lines(|line| {
        work.go_on()?;
        let piece = next(work, &mut records)?.ok_or_else(changed)?;
        writer.line(&line, &piece)
    })?;
    if next(work, &mut records)?.is_some() || records.into_source().into_inner().digest() != *input {
        return Err(changed());
    }
    writer.finish(files)
}

fn next(work: &Work, records: &mut Records) -> Result<Option<Piece>, Error> {
    records.next().map_err(work.setup.source.unreadable())
}

/// In which form answers are written.
enum Answers {
    /// As lines of OpenAI's batches, without those that failed.
    Lines(Sink),
    /// As a row for each line.
    Rows(Table, Columns),
}

struct Writer<'a> {
    work: &'a Work,
    answers: Answers,
    errors: Whole,
    failed_lines: u64,
}

impl Writer<'_> {
    fn new<'a>(
        work: &'a Work,
        files: &Files,
        stream: Option<Stream>,
        all: &[String],
    ) -> Result<Writer<'a>, Error> {
        let (options, recipe) = (&work.options, &work.setup.recipe);
        let sink = Sink::open(files.output.as_deref(), stream)?;
        let format = output_format(options);
        let answers = if recipe.form == Form::OpenAi && format == Format::Jsonl {
            Answers::Lines(sink)
        } else {
            let kept = options.keep.clone().or_else(|| match recipe.form {
                Form::OpenAi => Some(vec!["custom_id".to_owned()]),
                // The columns are the request itself.
                Form::Body => Some(Vec::new()),
                Form::Template => None,
            });
            let is_text = recipe.endpoint.unwrap_or(Endpoint::Chat).generates();
            let columns = Columns::new(kept, all, is_text);
            Answers::Rows(Table::new(format, sink, &columns, all)?, columns)
        };
        Ok(Writer { work, answers, errors: Whole::create(&files.errors)?, failed_lines: 0 })
    }

    fn line(&mut self, line: &Line, piece: &Piece) -> Result<(), Error> {
        let answer = line.answer.as_ref();
        let fault = line.fault.as_ref().or_else(|| answer.and_then(|answer| answer.fault.as_ref()));
        let view =
            View { number: line.number, at: piece.line, record: piece.bytes.as_deref(), fault, answer };
        self.failed_lines += u64::from(fault.is_some());
        let reproducible = self.work.options.reproducible;
        match &mut self.answers {
            Answers::Lines(sink) => {
                let line = lines::line(&view, reproducible);
                match fault {
                    None => writeln!(sink, "{line}").map_err(unwritten),
                    Some(_) => writeln!(self.errors, "{line}").map_err(unwritten),
                }
            }
            Answers::Rows(table, columns) => {
                let row: Row = columns.row(&view, &self.work.setup.reading, reproducible);
                table.push(row)?;
                fault.map_or(Ok(()), |fault| {
                    writeln!(self.errors, "{}", lines::error(&view, fault)).map_err(unwritten)
                })
            }
        }
    }

    /// Completes both files; the errors only if there are some.
    fn finish(self, files: &Files) -> Result<Written, Error> {
        let errors = if self.failed_lines > 0 {
            Some(self.errors.finish()?)
        } else {
            drop(self.errors);
            remove(&files.errors)?;
            None
        };
        let output = match self.answers {
            Answers::Lines(sink) => sink.finish()?,
            Answers::Rows(table, _) => table.finish()?,
        };
        Ok(Written { output, errors, failed_lines: self.failed_lines })
    }
}

fn unwritten(error: std::io::Error) -> Error {
    Error::io("write", Path::new("the output"))(error)
}
