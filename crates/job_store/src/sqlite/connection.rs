//! A connection to the file, and the shared SQL on it.

use crate::error::StoreError;
use crate::schema::{Dialect, scripts_after, version};
use crate::sql::{Act, Row, Sql, Value};
use crate::store::Answer;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _, ToSql, params_from_iter};
use std::future::ready;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// How long a connection waits for another one of this process, or of somebody who looks into the file.
const BUSY: Duration = Duration::from_secs(5);

/// Statements that a connection keeps ready.
const STATEMENTS: usize = 256;

/// A file up to this length is checked when it is opened: larger ones only by `check`, because that takes long.
const CHECKED_BYTES: u64 = 64 << 20;

const DIALECT: Dialect = Dialect { text: "TEXT", bytes: "BLOB", busy: "" };

/// A connection.
pub(crate) struct SqliteSql {
    pub(crate) connection: Connection,
    place: Arc<str>,
    /// Whether somebody is to be woken after the commit.
    pub(crate) woke: bool,
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Int(number) => ValueRef::Integer(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl SqliteSql {
    /// The connection that writes. Makes the file and brings its tables up to date.
    pub(crate) fn writer(path: &Path) -> Result<SqliteSql, StoreError> {
        let place: Arc<str> = path.display().to_string().into();
        let named = |error| named(error, &place);
        let is_new = !path.exists();
        let connection = Connection::open(path).map_err(named)?;
        let mut sql = SqliteSql { connection, place: place.clone(), woke: false };
        sql.settings()?;
        sql.check()?;
        if is_new {
            sql.pragma("auto_vacuum", "INCREMENTAL")?;
        }
        sql.migrate()?;
        Ok(sql)
    }

    /// A connection that reads. The file is there.
    pub(crate) fn reader(path: &Path) -> Result<SqliteSql, StoreError> {
        let place: Arc<str> = path.display().to_string().into();
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(|error| named(error, &place))?;
        let sql = SqliteSql { connection, place, woke: false };
        sql.settings()?;
        Ok(sql)
    }

    fn settings(&self) -> Result<(), StoreError> {
        self.connection.busy_timeout(BUSY).map_err(|error| self.named(error))?;
        self.connection.set_prepared_statement_cache_capacity(STATEMENTS);
        Ok(())
    }

    fn pragma(&self, name: &str, value: impl ToSql) -> Result<(), StoreError> {
        self.connection.pragma_update(None, name, value).map_err(|error| self.named(error))
    }

    /// Looks for damage before anything is written.
    fn check(&self) -> Result<(), StoreError> {
        let one = |sql: &str| self.connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        let bytes = one("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size");
        let bytes = bytes.map_err(|error| self.named(error))?;
        one("SELECT count(*) FROM sqlite_schema").map_err(|error| self.named(error))?;
        if bytes.unsigned_abs() > CHECKED_BYTES {
            return Ok(());
        }
        let said = self.connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
        let said = said.map_err(|error| self.named(error))?;
        if said == "ok" {
            Ok(())
        } else {
            Err(StoreError::Damaged { place: self.place.to_string(), why: said })
        }
    }

    fn migrate(&mut self) -> Result<(), StoreError> {
        let found = self.found_version()?;
        let known = version();
        if found > known {
            return Err(StoreError::TooNew { place: self.place.to_string(), found, known });
        }
        self.pragma("journal_mode", "WAL")?;
        self.pragma("synchronous", "FULL")?;
        self.pragma("journal_size_limit", 64 << 20)?;
        if found == known {
            return Ok(());
        }
        self.run("BEGIN IMMEDIATE")?;
        for script in scripts_after(found, DIALECT) {
            self.run(&script)?;
        }
        self.run(&format!(
            "CREATE TABLE IF NOT EXISTS job_schema (version BIGINT NOT NULL);
             DELETE FROM job_schema; INSERT INTO job_schema (version) VALUES ({known}); COMMIT"
        ))
    }

    fn found_version(&self) -> Result<i64, StoreError> {
        let there = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'job_schema'";
        let there = self.connection.query_row(there, [], |_| Ok(())).optional();
        if there.map_err(|error| self.named(error))?.is_none() {
            return Ok(0);
        }
        let version = self.connection.query_row("SELECT version FROM job_schema", [], |row| row.get(0));
        version.map_err(|error| self.named(error))
    }

    /// Runs statements without values.
    pub(crate) fn run(&mut self, sql: &str) -> Result<(), StoreError> {
        self.connection.execute_batch(sql).map_err(|error| self.named(error))
    }

    /// Runs statements of control that are used again and again.
    pub(crate) fn control(&mut self, sql: &str) -> Result<(), StoreError> {
        self.change(sql, &[]).map(drop)
    }

    /// Ends a transaction that was left open by a failure.
    pub(crate) fn roll_back(&mut self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.run("ROLLBACK")
        {
            tracing::warn!(%error, "a failed transaction of jobs could not be rolled back");
        }
    }

    /// Does a transaction that reads.
    pub(crate) fn read<T>(&mut self, act: &Act<T>) -> Result<T, StoreError> {
        self.control("BEGIN")?;
        let result = at_once(act(self));
        // Nothing was written.
        self.roll_back();
        result
    }

    fn change(&self, sql: &str, values: &[Value]) -> Result<u64, StoreError> {
        let changed = self
            .connection
            .prepare_cached(&numbered(sql))
            .and_then(|mut statement| statement.execute(params_from_iter(values)));
        changed.map(|count| count as u64).map_err(|error| self.named(error))
    }

    fn rows(&self, sql: &str, values: &[Value]) -> Result<Vec<Row>, StoreError> {
        self.read_rows(sql, values).map_err(|error| self.named(error))
    }

    fn read_rows(&self, sql: &str, values: &[Value]) -> rusqlite::Result<Vec<Row>> {
        let mut statement = self.connection.prepare_cached(&numbered(sql))?;
        let columns = statement.column_count();
        let mut rows = statement.query(params_from_iter(values))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let values = (0..columns).map(|at| row.get_ref(at).map(value_of));
            found.push(Row(values.collect::<rusqlite::Result<_>>()?));
        }
        Ok(found)
    }

    pub(crate) fn named(&self, error: rusqlite::Error) -> StoreError {
        named(error, &self.place)
    }
}

/// SQLite numbers the values of `$1` by their first use, those of `?1` as they say.
fn numbered(sql: &str) -> String {
    sql.replace('$', "?")
}

fn value_of(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Real(number) => Value::Text(number.to_string()),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
    }
}

fn named(error: rusqlite::Error, place: &str) -> StoreError {
    let why = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full(format!("{place}: {why}")),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Damaged { place: place.to_owned(), why }
        }
        Some(ErrorCode::ConstraintViolation) => StoreError::Conflict(format!("{place}: {why}")),
        _ => StoreError::Unavailable(format!("{place}: {why}")),
    }
}

/// The result of an operation on SQLite, which never waits.
pub(crate) fn at_once<T>(mut answer: Answer<'_, T>) -> Result<T, StoreError> {
    match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(StoreError::Unavailable("an operation on SQLite waits".to_owned())),
    }
}

impl Sql for SqliteSql {
    fn execute<'a>(&'a mut self, sql: &'a str, values: Vec<Value>) -> Answer<'a, u64> {
        Box::pin(ready(self.change(sql, &values)))
    }

    fn execute_once<'a>(&'a mut self, sql: &'a str, values: Vec<Value>) -> Answer<'a, u64> {
        let changed = self.connection.execute(&numbered(sql), params_from_iter(values));
        Box::pin(ready(changed.map(|count| count as u64).map_err(|error| self.named(error))))
    }

    fn query<'a>(&'a mut self, sql: &'a str, values: Vec<Value>) -> Answer<'a, Vec<Row>> {
        Box::pin(ready(self.rows(sql, &values)))
    }

    fn table_bytes(&mut self) -> Answer<'_, u64> {
        let select = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
        let bytes = self.rows(select, &[]).and_then(|rows| rows.first().map_or(Ok(0), |row| row.count(0)));
        Box::pin(ready(bytes))
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn shard(&self) -> i64 {
        0
    }

    fn wake(&mut self) {
        self.woke = true;
    }
}
