//! A record as a row: names of columns and their values.

use crate::fault::{Fault, listed, shortened};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// Columns and their values, in the order of the input.
pub(crate) type Row = Map<String, Value>;

/// How records are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Each record is a JSON object.
    Json,
    /// Each record has one field for each column.
    Delimited {
        /// What separates fields.
        delimiter: u8,
        /// The names in the header.
        columns: Vec<String>,
    },
}

impl Reading {
    /// Reads a record.
    pub(crate) fn row(&self, bytes: &[u8]) -> Result<Row, Fault> {
        if let Err(error) = std::str::from_utf8(bytes) {
            let place = error.valid_up_to() + 1;
            return Err(Fault::new("invalid_utf8", format!("byte {place} of the line is not valid UTF-8")));
        }
        match self {
            Reading::Json => json(bytes),
            Reading::Delimited { delimiter, columns } => delimited(bytes, *delimiter, columns),
        }
    }
}

fn json(bytes: &[u8]) -> Result<Row, Fault> {
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(row)) => Ok(row),
        Ok(_) => Err(Fault::new("invalid_json_line", "the line is JSON, but no object")),
        Err(error) => Err(Fault::new("invalid_json_line", format!("the line is no JSON object: {error}"))),
    }
}

fn delimited(bytes: &[u8], delimiter: u8, columns: &[String]) -> Result<Row, Fault> {
    let fields = fields(bytes, delimiter)?;
    if fields.len() != columns.len() {
        let (found, wanted) = (fields.len(), columns.len());
        return Err(Fault::new(
            "invalid_csv_row",
            format!("the row has {found} fields, the header has {wanted}"),
        ));
    }
    Ok(columns.iter().cloned().zip(fields.into_iter().map(Value::String)).collect())
}

/// The fields of one record.
fn fields(bytes: &[u8], delimiter: u8) -> Result<Vec<String>, Fault> {
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).flexible(true).delimiter(delimiter).from_reader(bytes);
    let mut record = csv::StringRecord::new();
    match reader.read_record(&mut record) {
        Ok(_) => Ok(record.iter().map(str::to_owned).collect()),
        Err(error) => Err(Fault::new("invalid_csv_row", error.to_string())),
    }
}

/// The names of columns in a header.
pub(crate) fn header(bytes: &[u8], delimiter: u8) -> Result<Vec<String>, String> {
    std::str::from_utf8(bytes).map_err(|error| format!("the header is not valid UTF-8: {error}"))?;
    let columns = fields(bytes, delimiter).map_err(|fault| fault.message)?;
    let mut seen = HashSet::new();
    for name in &columns {
        if !seen.insert(name) {
            let all = listed(columns.iter().map(String::as_str));
            return Err(format!("the header names the column {:?} twice: {all}", shortened(name)));
        }
    }
    Ok(columns)
}

/// A value as text: a string as it is, nothing for null, everything else as JSON.
pub(crate) fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn comma(columns: &[&str]) -> Reading {
        Reading::Delimited {
            delimiter: b',',
            columns: columns.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn fields_get_the_names_of_the_header() {
        let row = comma(&["a", "b"]).row(b"1,\"x, \"\"y\"\"\nz\"").unwrap();
        assert_eq!(Value::Object(row), json!({"a": "1", "b": "x, \"y\"\nz"}));
    }

    #[test]
    fn a_row_of_another_width_is_a_fault() {
        let fault = comma(&["a", "b"]).row(b"1,2,3").unwrap_err();
        assert_eq!(fault.message, "the row has 3 fields, the header has 2");
    }

    #[test]
    fn abuse_invalid_utf8_is_a_fault_that_names_the_byte() {
        assert_eq!(Reading::Json.row(b"{\"a\":\"\xff\"}").unwrap_err().code, "invalid_utf8");
        assert!(comma(&["a"]).row(b"a\xc3").unwrap_err().message.starts_with("byte 2 "));
    }

    #[test]
    fn a_header_names_each_column_once() {
        assert!(header(b"a,b,a", b',').unwrap_err().contains("\"a\" twice"));
        assert_eq!(header(b"a\tb", b'\t').unwrap(), ["a", "b"]);
    }
}
