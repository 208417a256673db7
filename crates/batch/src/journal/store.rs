//! The journal as an SQLite file in write-ahead mode: a request is finished when the commit with its answer is durable.

use crate::error::Error;
use crate::fault::Fault;
use crate::journal::lock::Lock;
use crate::journal::rows::{Answer, Entry, Finished, Line, Pending};
use crate::output::whole::{remove, sync_folder, with_ending};
use crate::report::{Counts, Tokens};
use crate::request::{Key, copy_key};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, Transaction, params};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS run (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS line (number INTEGER PRIMARY KEY, at INTEGER NOT NULL, request INTEGER, fault TEXT);
CREATE TABLE IF NOT EXISTS request (
    id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, copy INTEGER NOT NULL, position INTEGER NOT NULL,
    length INTEGER NOT NULL, state INTEGER NOT NULL DEFAULT 0, status INTEGER, fault TEXT,
    prompt INTEGER NOT NULL DEFAULT 0, cached INTEGER NOT NULL DEFAULT 0, completion INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS request_open ON request (id) WHERE state = 0;
CREATE TABLE IF NOT EXISTS answer (request INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS copy (key BLOB PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS custom_id (hash BLOB PRIMARY KEY) WITHOUT ROWID;
";

/// States of a request.
const SUCCEEDED: i64 = 1;
const FAILED: i64 = 2;

/// The journal of a run. Its methods block.
pub(crate) struct Journal {
    connection: Mutex<Connection>,
    path: PathBuf,
    _lock: Option<Lock>,
}

/// Makes an error of what the database says.
fn told(path: &Path) -> impl Fn(rusqlite::Error) -> Error + use<'_> {
    |error| match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Error::Full(path.to_owned()),
        _ => Error::Journal { path: path.to_owned(), why: error.to_string() },
    }
}

impl Journal {
    /// Opens the journal at `path`, whose lock is held, and makes it if it is absent.
    pub(crate) fn open(path: &Path, lock: Lock) -> Result<Journal, Error> {
        if !path.exists() {
            // A log without its database is of a journal that was being removed.
            remove_logs(path)?;
        }
        let connection = Connection::open(path).map_err(told(path))?;
        prepare(&connection).map_err(told(path))?;
        sync_folder(path)?;
        Ok(Journal { connection: Mutex::new(connection), path: path.to_owned(), _lock: Some(lock) })
    }

    /// A journal that is gone when it is dropped.
    pub(crate) fn temporary() -> Result<Journal, Error> {
        let path = PathBuf::from("(temporary)");
        let connection = Connection::open("").map_err(told(&path))?;
        prepare(&connection).map_err(told(&path))?;
        Ok(Journal { connection: Mutex::new(connection), path, _lock: None })
    }

    /// A value that was kept.
    pub(crate) fn value(&self, name: &str) -> Result<Option<String>, Error> {
        let connection = self.connection();
        connection
            .query_row("SELECT value FROM run WHERE name = ?1", [name], |row| row.get(0))
            .optional()
            .map_err(told(&self.path))
    }

    /// Keeps values, all or none.
    pub(crate) fn keep(&self, values: &[(&str, &str)]) -> Result<(), Error> {
        self.write(|transaction| {
            for (name, value) in values {
                transaction.execute("INSERT OR REPLACE INTO run VALUES (?1, ?2)", params![name, value])?;
            }
            Ok(())
        })
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) -> Result<(), Error> {
        self.write(|transaction| {
            for table in ["run", "line", "request", "answer", "copy", "custom_id"] {
                transaction.execute(&format!("DELETE FROM {table}"), [])?;
            }
            Ok(())
        })
    }

    /// Enters lines, all or none.
    pub(crate) fn enter(&self, entries: &[Entry]) -> Result<(), Error> {
        self.write(|transaction| entries.iter().try_for_each(|entry| enter(transaction, entry)))
    }

    /// Keeps the answers of requests, all or none.
    pub(crate) fn finish(&self, finished: &[Finished]) -> Result<(), Error> {
        self.write(|transaction| finished.iter().try_for_each(|one| finish(transaction, one)))
    }

    /// Opens the requests again that have failed.
    pub(crate) fn reopen_failed(&self) -> Result<(), Error> {
        self.write(|transaction| {
            transaction.execute(
                "DELETE FROM answer WHERE request IN (SELECT id FROM request WHERE state = ?1)",
                [FAILED],
            )?;
            let reopen = "UPDATE request SET state = 0, status = NULL, fault = NULL, prompt = 0, cached = 0, \
                          completion = 0 WHERE state = ?1";
            transaction.execute(reopen, [FAILED]).map(drop)
        })
    }

    /// Requests that are to be run, of those behind `after`: at most `count`, and about `bytes` of input.
    pub(crate) fn open_after(&self, after: i64, count: usize, bytes: u64) -> Result<Vec<Pending>, Error> {
        let query =
            "SELECT id, key, copy, position, length FROM request WHERE state = 0 AND id > ?1 ORDER BY id";
        let read = |connection: &Connection| {
            let mut statement = connection.prepare_cached(query)?;
            let (mut found, mut sum) = (Vec::new(), 0);
            for pending in statement.query_map([after], pending)? {
                let pending = pending?;
                sum += pending.length;
                found.push(pending);
                if found.len() >= count || sum >= bytes {
                    break;
                }
            }
            Ok(found)
        };
        read(&self.connection()).map_err(told(&self.path))
    }

    /// Counts of lines and requests, and the tokens so far.
    pub(crate) fn counts(&self) -> Result<(Counts, Tokens), Error> {
        let connection = self.connection();
        let lines = "SELECT count(*), count(fault) FROM line";
        let requests = "SELECT count(*), ifnull(sum(state = 1), 0), ifnull(sum(state = 2), 0), \
                        ifnull(sum(prompt), 0), ifnull(sum(cached), 0), ifnull(sum(completion), 0) FROM request";
        let read = || {
            let (lines, malformed) = connection.query_row(lines, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
            connection.query_row(requests, [], |row| {
                let requests = row.get(0)?;
                let counts = Counts {
                    lines,
                    malformed,
                    requests,
                    duplicates: lines.saturating_sub(malformed).saturating_sub(requests),
                    succeeded: row.get(1)?,
                    failed: row.get(2)?,
                };
                Ok((counts, Tokens { prompt: row.get(3)?, cached: row.get(4)?, completion: row.get(5)? }))
            })
        };
        read().map_err(told(&self.path))
    }

    /// Shows every line in the order of the input.
    pub(crate) fn lines(&self, mut show: impl FnMut(Line) -> Result<(), Error>) -> Result<(), Error> {
        let query = "SELECT number, line.fault, key, status, body, request.fault FROM line \
                     LEFT JOIN request ON request.id = line.request LEFT JOIN answer ON answer.request = line.request \
                     ORDER BY number";
        let connection = self.connection();
        let mut statement = connection.prepare(query).map_err(told(&self.path))?;
        for line in statement.query_map([], line).map_err(told(&self.path))? {
            show(line.map_err(told(&self.path))?)?;
        }
        Ok(())
    }

    /// The first lines that are no requests, with their numbers of lines of text.
    pub(crate) fn faults(&self, count: usize) -> Result<Vec<(u64, String)>, Error> {
        let connection = self.connection();
        let read = || {
            let query = "SELECT at, fault FROM line WHERE fault IS NOT NULL ORDER BY number LIMIT ?1";
            let mut statement = connection.prepare(query)?;
            let rows = statement.query_map([count as i64], |row| {
                Ok((row.get(0)?, fault(row, 1)?.map(|fault| fault.message).unwrap_or_default()))
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        read().map_err(told(&self.path))
    }

    /// Removes the journal's files. The lock is let go last.
    pub(crate) fn remove(self) -> Result<(), Error> {
        let Journal { connection, path, _lock } = self;
        let connection = connection.into_inner().unwrap_or_else(PoisonError::into_inner);
        connection.close().map_err(|(_, error)| told(&path)(error))?;
        remove_files(&path)
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        // After a panic, the transaction was rolled back by its guard.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, act: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()>) -> Result<(), Error> {
        let mut connection = self.connection();
        let commit = || {
            let transaction = connection.transaction()?;
            act(&transaction)?;
            transaction.commit()
        };
        commit().map_err(told(&self.path))
    }
}

fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "journal_size_limit", 16 << 20)?;
    // In KiB, when negative.
    connection.pragma_update(None, "cache_size", -16_384)?;
    connection.execute_batch(SCHEMA)
}

/// Removes the files of a journal whose lock is held.
pub(crate) fn remove_files(path: &Path) -> Result<(), Error> {
    // In this order: a log that outlives its database would be read into the next one.
    remove_logs(path)?;
    remove(path)?;
    sync_folder(path)
}

fn remove_logs(path: &Path) -> Result<(), Error> {
    ["-wal", "-shm"].iter().try_for_each(|ending| remove(&with_ending(path, ending)))
}

fn enter(transaction: &Transaction<'_>, entry: &Entry) -> rusqlite::Result<()> {
    let (mut request, mut fault) = (None, None);
    match &entry.request {
        Err(wrong) => fault = Some(wrong.clone()),
        Ok(asked) if !is_new_id(transaction, asked.custom_id.as_ref())? => {
            fault = Some(Fault::new("duplicate_custom_id", "an earlier line has the same `custom_id`"));
        }
        Ok(asked) => {
            let copy = if asked.is_repeatable { 0 } else { count_copy(transaction, &asked.key)? };
            request = Some(enter_request(transaction, entry, copy_key(&asked.key, copy), copy)?);
        }
    }
    let fault = fault.map(|fault| as_json(&fault));
    transaction
        .prepare_cached("INSERT INTO line (number, at, request, fault) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![entry.number, entry.at, request, fault])
        .map(drop)
}

fn is_new_id(transaction: &Transaction<'_>, custom_id: Option<&Key>) -> rusqlite::Result<bool> {
    let Some(hash) = custom_id else { return Ok(true) };
    let mut insert = transaction.prepare_cached("INSERT OR IGNORE INTO custom_id VALUES (?1)")?;
    Ok(insert.execute([hash])? == 1)
}

/// The number of earlier requests with the same key.
fn count_copy(transaction: &Transaction<'_>, key: &Key) -> rusqlite::Result<u64> {
    let count = "INSERT INTO copy VALUES (?1, 1) ON CONFLICT (key) DO UPDATE SET count = count + 1 RETURNING count - 1";
    transaction.prepare_cached(count)?.query_row([key], |row| row.get(0))
}

fn enter_request(transaction: &Transaction<'_>, entry: &Entry, key: Key, copy: u64) -> rusqlite::Result<i64> {
    let insert = "INSERT INTO request (key, copy, position, length) VALUES (?1, ?2, ?3, ?4) \
                  ON CONFLICT (key) DO NOTHING RETURNING id";
    let new = transaction
        .prepare_cached(insert)?
        .query_row(params![key, copy, entry.offset, entry.length], |row| row.get(0))
        .optional()?;
    match new {
        Some(id) => Ok(id),
        None => transaction
            .prepare_cached("SELECT id FROM request WHERE key = ?1")?
            .query_row([key], |row| row.get(0)),
    }
}

fn finish(transaction: &Transaction<'_>, one: &Finished) -> rusqlite::Result<()> {
    let state = if one.fault.is_none() { SUCCEEDED } else { FAILED };
    let Tokens { prompt, cached, completion } = one.tokens;
    let update = "UPDATE request SET state = ?2, status = ?3, fault = ?4, prompt = ?5, cached = ?6, completion = ?7 \
                  WHERE id = ?1 AND state = 0";
    let changed = transaction.prepare_cached(update)?.execute(params![
        one.id,
        state,
        one.status,
        one.fault.as_ref().map(as_json),
        prompt,
        cached,
        completion
    ])?;
    if changed == 1 {
        transaction
            .prepare_cached("INSERT OR REPLACE INTO answer VALUES (?1, ?2)")?
            .execute(params![one.id, one.body])?;
    }
    Ok(())
}

fn pending(row: &Row<'_>) -> rusqlite::Result<Pending> {
    Ok(Pending {
        id: row.get(0)?,
        key: row.get(1)?,
        copy: row.get(2)?,
        offset: row.get(3)?,
        length: row.get(4)?,
    })
}

fn line(row: &Row<'_>) -> rusqlite::Result<Line> {
    let key: Option<Key> = row.get(2)?;
    let answer = match key {
        Some(key) => Some(Answer {
            key,
            status: row.get(3)?,
            body: row.get::<_, Option<Vec<u8>>>(4)?.unwrap_or_default(),
            fault: fault(row, 5)?,
        }),
        None => None,
    };
    Ok(Line { number: row.get(0)?, fault: fault(row, 1)?, answer })
}

fn as_json(fault: &Fault) -> String {
    serde_json::json!(fault).to_string()
}

fn fault(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Fault>> {
    let text: Option<String> = row.get(column)?;
    // Written by `as_json`; should it be damaged, the line still has failed.
    let read = |text: String| serde_json::from_str(&text).unwrap_or_else(|_| Fault::new("error", text));
    Ok(text.map(read))
}
