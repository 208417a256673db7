//! The SQL that both databases share, behind one small trait: statements with `$1`, `$2`, … and values in and out.
//!
//! The operations are written once, as futures over [`Sql`]. In PostgreSQL they wait for the server; in SQLite each
//! statement is done when its future is made, so that they end at the first poll.

use crate::error::StoreError;
use crate::store::Answer;
use std::sync::Arc;

/// A value of a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// NULL.
    Null,
    /// A number.
    Int(i64),
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::Int(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Int(i64::from(value))
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Value {
        Value::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::Text(value.to_owned())
    }
}

impl From<&String> for Value {
    fn from(value: &String) -> Value {
        Value::Text(value.clone())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Value {
        Value::Text(value)
    }
}

impl From<&[u8]> for Value {
    fn from(value: &[u8]) -> Value {
        Value::Bytes(value.to_vec())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}

/// A list of values.
macro_rules! values {
    ($($value:expr),* $(,)?) => { vec![$($crate::sql::Value::from($value)),*] };
}
pub(crate) use values;

/// A row of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row(pub(crate) Vec<Value>);

impl Row {
    pub(crate) fn int(&self, at: usize) -> Result<i64, StoreError> {
        self.int_or_none(at)?.ok_or_else(|| self.other(at, "a number"))
    }

    pub(crate) fn int_or_none(&self, at: usize) -> Result<Option<i64>, StoreError> {
        match self.0.get(at) {
            Some(Value::Int(number)) => Ok(Some(*number)),
            Some(Value::Null) => Ok(None),
            _ => Err(self.other(at, "a number")),
        }
    }

    /// A number that counts something.
    pub(crate) fn count(&self, at: usize) -> Result<u64, StoreError> {
        Ok(u64::try_from(self.int(at)?).unwrap_or(0))
    }

    pub(crate) fn text(&self, at: usize) -> Result<&str, StoreError> {
        match self.0.get(at) {
            Some(Value::Text(text)) => Ok(text),
            _ => Err(self.other(at, "a text")),
        }
    }

    pub(crate) fn text_or_none(&self, at: usize) -> Result<Option<&str>, StoreError> {
        match self.0.get(at) {
            Some(Value::Null) => Ok(None),
            _ => self.text(at).map(Some),
        }
    }

    pub(crate) fn bytes_or_none(&self, at: usize) -> Result<Option<&[u8]>, StoreError> {
        match self.0.get(at) {
            Some(Value::Bytes(bytes)) => Ok(Some(bytes)),
            Some(Value::Null) => Ok(None),
            _ => Err(self.other(at, "bytes")),
        }
    }

    fn other(&self, at: usize, wanted: &str) -> StoreError {
        StoreError::Unavailable(format!("column {at} of a row of the store is not {wanted}"))
    }
}

/// A transaction of a database.
pub(crate) trait Sql: Send {
    /// Runs a statement; returns how many rows it changed. The text is prepared once: it must not contain values.
    fn execute<'a>(&'a mut self, sql: &'a str, values: Vec<Value>) -> Answer<'a, u64>;

    /// Runs a statement whose text is not used again.
    fn execute_once<'a>(&'a mut self, sql: &'a str, values: Vec<Value>) -> Answer<'a, u64>;

    /// Runs a statement that answers with rows.
    fn query<'a>(&'a mut self, sql: &'a str, values: Vec<Value>) -> Answer<'a, Vec<Row>>;

    /// Bytes of all tables.
    fn table_bytes(&mut self) -> Answer<'_, u64>;

    /// Whether other transactions run beside this one, so that rows are to be locked.
    fn is_shared(&self) -> bool;

    /// Which of the rows of a counter this connection adds to, so that those of several do not wait for each other.
    fn shard(&self) -> i64;

    /// When the transaction is committed, whoever waits for work is woken.
    fn wake(&mut self);
}

/// The words that lock the rows of a `SELECT`, where that is needed.
pub(crate) fn for_update(sql: &dyn Sql) -> &'static str {
    if sql.is_shared() { " FOR UPDATE" } else { "" }
}

/// As [`for_update`], leaving out rows that others have locked.
pub(crate) fn skip_locked(sql: &dyn Sql) -> &'static str {
    if sql.is_shared() { " FOR UPDATE SKIP LOCKED" } else { "" }
}

/// A transaction as a value. Done again if the database asks for that.
pub(crate) type Act<T> = Arc<dyn for<'a> Fn(&'a mut dyn Sql) -> Answer<'a, T> + Send + Sync>;

/// Makes an [`Act`] of a closure.
pub(crate) fn act<T, F>(closure: F) -> Act<T>
where
    F: for<'a> Fn(&'a mut dyn Sql) -> Answer<'a, T> + Send + Sync + 'static,
{
    Arc::new(closure)
}
