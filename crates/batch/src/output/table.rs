//! Output as a table: kept columns of the input, and what the answer adds.

use crate::error::Error;
use crate::hashing::Digested;
use crate::input::row::{Reading, Row, as_text};
use crate::options::Format;
use crate::output::answer::{finish_reason, result, settle, text};
use crate::output::sink::Sink;
use crate::output::view::View;
use serde_json::{Value, json};
use std::io::{self, Write};

/// The columns of a table.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    /// Kept columns of the input; `None` for all that a row has.
    pub(crate) kept: Option<Vec<String>>,
    /// The names of the added columns.
    added: Vec<String>,
    /// Whether answers are texts.
    is_text: bool,
}

impl Columns {
    /// The columns of a table. An added column whose name is taken by one of `all` gets the prefix `answer_`.
    pub(crate) fn new(kept: Option<Vec<String>>, all: &[String], is_text: bool) -> Columns {
        let names: &[&str] = if is_text {
            &["text", "finish_reason", "usage", "error"]
        } else {
            &["result", "usage", "error"]
        };
        let taken = kept.as_deref().unwrap_or(all);
        let free = |name: &&str| {
            let mut name = (*name).to_owned();
            while taken.contains(&name) {
                name.insert_str(0, "answer_");
            }
            name
        };
        Columns { added: names.iter().map(free).collect(), kept, is_text }
    }

    /// The names of all columns, of which the kept ones are `kept`.
    fn names<'a>(&'a self, kept: &'a [String]) -> impl Iterator<Item = &'a String> {
        kept.iter().chain(&self.added)
    }

    /// The row of a line.
    pub(crate) fn row(&self, view: &View<'_>, reading: &Reading, reproducible: bool) -> Row {
        let input = view.record.and_then(|record| reading.row(record).ok()).unwrap_or_default();
        let mut row = match &self.kept {
            None => input,
            Some(kept) => {
                kept.iter().map(|name| (name.clone(), input.get(name).cloned().unwrap_or_default())).collect()
            }
        };
        let mut body = Value::Null;
        if let (None, Some(answer)) = (view.fault, view.answer) {
            body = serde_json::from_slice(&answer.body).unwrap_or_default();
            if reproducible {
                settle(&mut body, &answer.key);
            }
        }
        let error =
            view.fault.map_or(Value::Null, |fault| json!({"code": fault.code, "message": fault.message}));
        let usage = body["usage"].clone();
        let values = match self.is_text {
            true => vec![text(&body).into(), finish_reason(&body), usage, error],
            false => vec![if view.fault.is_some() { Value::Null } else { result(&body) }, usage, error],
        };
        row.extend(self.added.iter().cloned().zip(values));
        row
    }
}

/// A table that is being written.
pub(crate) enum Table {
    Json(Sink),
    Delimited(Box<csv::Writer<Sink>>, Vec<String>),
    #[cfg(feature = "parquet")]
    Parquet(Box<crate::columnar::writer::Writer>),
}

impl Table {
    /// Begins a table; `all` are the columns that the input has.
    pub(crate) fn new(format: Format, sink: Sink, columns: &Columns, all: &[String]) -> Result<Table, Error> {
        let kept = columns.kept.as_deref().unwrap_or(all);
        let names: Vec<String> = columns.names(kept).cloned().collect();
        let delimiter = match format {
            Format::Jsonl => return Ok(Table::Json(sink)),
            #[cfg(feature = "parquet")]
            Format::Parquet => {
                return Ok(Table::Parquet(Box::new(crate::columnar::writer::Writer::new(sink, names)?)));
            }
            #[cfg(not(feature = "parquet"))]
            Format::Parquet => return Err(Error::Usage("this build writes no Parquet".to_owned())),
            Format::Csv => b',',
            Format::Tsv => b'\t',
        };
        let mut writer = csv::WriterBuilder::new().delimiter(delimiter).from_writer(sink);
        writer.write_record(&names).map_err(written)?;
        Ok(Table::Delimited(Box::new(writer), names))
    }

    /// Appends a row.
    pub(crate) fn push(&mut self, row: Row) -> Result<(), Error> {
        match self {
            Table::Json(sink) => writeln!(sink, "{}", Value::Object(row)).map_err(unwritten),
            Table::Delimited(writer, names) => {
                let cells = names.iter().map(|name| row.get(name).map(as_text).unwrap_or_default());
                writer.write_record(cells).map_err(written)
            }
            #[cfg(feature = "parquet")]
            Table::Parquet(writer) => writer.push(&row),
        }
    }

    /// Completes the table.
    pub(crate) fn finish(self) -> Result<Digested, Error> {
        match self {
            Table::Json(sink) => sink.finish(),
            Table::Delimited(writer, _) => {
                writer.into_inner().map_err(|error| unwritten(io::Error::other(error.to_string())))?.finish()
            }
            #[cfg(feature = "parquet")]
            Table::Parquet(writer) => writer.finish(),
        }
    }
}

fn unwritten(error: io::Error) -> Error {
    Error::io("write", std::path::Path::new("the output"))(error)
}

fn written(error: csv::Error) -> Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => unwritten(error),
        other => unwritten(io::Error::other(format!("{other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_added_column_gives_way_to_a_kept_one() {
        let all = ["text".to_owned(), "answer_text".to_owned(), "id".to_owned()];
        assert_eq!(Columns::new(None, &all, true).added[0], "answer_answer_text");
        assert_eq!(Columns::new(Some(vec!["id".to_owned()]), &all, true).added[0], "text");
        assert_eq!(Columns::new(None, &all, false).added, ["result", "usage", "error"]);
    }
}
