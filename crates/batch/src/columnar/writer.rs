//! Writes a table of Parquet whose columns are texts.

use crate::error::Error;
use crate::hashing::Digested;
use crate::input::row::{Row, as_text};
use crate::output::sink::Sink;
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::errors::{ParquetError, Result as Written};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Rows of a group.
const ROWS: usize = 10_000;
/// Bytes of a group, before they are packed.
const BYTES: usize = 32 << 20;

/// A table that is being written, in groups of rows.
pub(crate) struct Writer {
    file: SerializedFileWriter<Sink>,
    names: Vec<String>,
    /// The cells of the group, by column. Absent ones are null.
    columns: Vec<Vec<Option<ByteArray>>>,
    bytes: usize,
}

impl Writer {
    pub(crate) fn new(sink: Sink, names: Vec<String>) -> Result<Writer, Error> {
        let open = || {
            let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
            SerializedFileWriter::new(sink, Arc::new(schema(&names)?), Arc::new(properties))
        };
        let file = open().map_err(unwritten)?;
        Ok(Writer { file, columns: vec![Vec::new(); names.len()], names, bytes: 0 })
    }

    /// Appends a row.
    pub(crate) fn push(&mut self, row: &Row) -> Result<(), Error> {
        for (name, column) in self.names.iter().zip(&mut self.columns) {
            let text = row.get(name).filter(|value| !value.is_null()).map(as_text);
            self.bytes += text.as_ref().map_or(0, String::len);
            column.push(text.map(|text| ByteArray::from(text.into_bytes())));
        }
        let rows = self.columns.first().map_or(0, Vec::len);
        if rows >= ROWS || self.bytes >= BYTES { self.group() } else { Ok(()) }
    }

    /// Completes the table.
    pub(crate) fn finish(mut self) -> Result<Digested, Error> {
        self.group()?;
        self.file.into_inner().map_err(unwritten)?.finish()
    }

    fn group(&mut self) -> Result<(), Error> {
        self.bytes = 0;
        let columns: Vec<Vec<Option<ByteArray>>> = self.columns.iter_mut().map(std::mem::take).collect();
        if columns.first().is_none_or(Vec::is_empty) {
            return Ok(());
        }
        write_group(&mut self.file, columns).map_err(unwritten)
    }
}

fn write_group(file: &mut SerializedFileWriter<Sink>, columns: Vec<Vec<Option<ByteArray>>>) -> Written<()> {
    let mut group = file.next_row_group()?;
    let mut columns = columns.into_iter();
    while let Some(mut writer) = group.next_column()? {
        let cells = columns.next().unwrap_or_default();
        let present: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
        let values: Vec<ByteArray> = cells.into_iter().flatten().collect();
        writer.typed::<ByteArrayType>().write_batch(&values, Some(&present), None)?;
        writer.close()?;
    }
    group.close().map(drop)
}

fn schema(names: &[String]) -> Written<Type> {
    let text = |name: &String| {
        Type::primitive_type_builder(name, Physical::BYTE_ARRAY)
            .with_logical_type(Some(LogicalType::String))
            .with_repetition(Repetition::OPTIONAL)
            .build()
            .map(Arc::new)
    };
    let fields = names.iter().map(text).collect::<Written<_>>()?;
    Type::group_type_builder("rows").with_fields(fields).build()
}

fn unwritten(error: ParquetError) -> Error {
    let error = match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    };
    Error::io("write", Path::new("the output"))(error)
}
