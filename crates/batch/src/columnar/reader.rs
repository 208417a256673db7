//! Unpacks a table of Parquet to lines of JSON.

use crate::error::Error;
use crate::output::whole::Whole;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use serde_json::{Map, Number, Value};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Rows between two questions whether to go on.
const ROWS: usize = 1_000;

/// Writes the rows of the table `path` to `copy`, one object a line. Bytes that are no text become null.
pub(crate) fn unpack(
    path: &Path,
    copy: &Path,
    go_on: &dyn Fn(u64) -> Result<(), Error>,
) -> Result<(), Error> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    let reader = SerializedFileReader::new(file).map_err(unreadable(path))?;
    let mut whole = Whole::create(copy)?;
    let mut written = 0;
    for (number, row) in reader.get_row_iter(None).map_err(unreadable(path))?.enumerate() {
        let line = format!("{}\n", object(&row.map_err(unreadable(path))?));
        whole.write_all(line.as_bytes()).map_err(Error::io("write", copy))?;
        written += line.len() as u64;
        if number % ROWS == 0 {
            go_on(written)?;
        }
    }
    whole.finish().map(drop)
}

fn unreadable(path: &Path) -> impl Fn(ParquetError) -> Error + use<'_> {
    |error| Error::io("read", path)(io::Error::other(error))
}

fn object(row: &Row) -> Value {
    let fields: Map<String, Value> =
        row.get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect();
    Value::Object(fields)
}

fn value(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Bool(value) => (*value).into(),
        Field::Byte(value) => (*value).into(),
        Field::Short(value) => (*value).into(),
        Field::Int(value) => (*value).into(),
        Field::Long(value) => (*value).into(),
        Field::UByte(value) => (*value).into(),
        Field::UShort(value) => (*value).into(),
        Field::UInt(value) => (*value).into(),
        Field::ULong(value) => (*value).into(),
        // The shortest decimal of the narrow number, not that of the wide one which is nearest to it.
        Field::Float(value) => value.to_string().parse().map_or(Value::Null, number),
        Field::Float16(value) => number(f64::from(*value)),
        Field::Double(value) => number(*value),
        Field::Str(text) => text.as_str().into(),
        Field::Bytes(bytes) => std::str::from_utf8(bytes.data()).map_or(Value::Null, Value::from),
        Field::Group(row) => object(row),
        Field::ListInternal(list) => list.elements().iter().map(value).collect(),
        Field::MapInternal(map) => {
            map.entries().iter().map(|(name, field)| (text(name), value(field))).collect::<Map<_, _>>().into()
        }
        // Decimals, days and times as they are shown to people.
        other => other.to_string().into(),
    }
}

fn number(value: f64) -> Value {
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

fn text(field: &Field) -> String {
    match value(field) {
        Value::String(text) => text,
        other => other.to_string(),
    }
}
