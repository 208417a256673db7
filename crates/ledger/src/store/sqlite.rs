//! A store in an SQLite file: one machine, whose replicas share the file. Survives `kill -9` and power loss: write-ahead
//! log with full synchronization, one transaction an exchange.

use super::account::{BucketRow, LeaseRow, apply};
use super::rows::{
    SUMS, bucket_of, check_query, group_columns, kept_periods, receipt_numbers, report_row, totals_of,
};
use super::schema::{scripts_after, version};
use super::{Answer, Exchange, Granted, Line, ReportQuery, Store, StoreError};
use crate::calendar::{Moment, date, timestamp};
use crate::receipt::{BucketTotal, MAX_REPORT_ROWS, Receipt, ReportRow};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// How long a transaction waits for those of other processes.
const BUSY: Duration = Duration::from_secs(5);

/// Rows that one exchange deletes at most.
const PRUNE_ROWS: i64 = 5_000;

/// A [`Store`] in a file.
#[derive(Debug)]
pub struct SqliteStore {
    exchanges: Lane,
    /// Reports may take long, and exchanges do not wait for them.
    reports: Lane,
    path: PathBuf,
}

/// A connection for one kind of calls.
#[derive(Clone, Debug)]
struct Lane {
    connection: Arc<Mutex<Connection>>,
    /// One call at a time: those that wait are futures, not blocked threads.
    turn: Arc<Semaphore>,
}

impl Lane {
    fn new(connection: Connection) -> Lane {
        Lane { connection: Arc::new(Mutex::new(connection)), turn: Arc::new(Semaphore::new(1)) }
    }

    /// Runs a transaction on a thread that may block. If the future is dropped, the transaction still ends, and the next
    /// waits for it.
    async fn run<T: Send + 'static>(
        self,
        behavior: TransactionBehavior,
        act: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let gone = || StoreError::Unavailable("SQLite: the call was ended by the runtime".to_owned());
        let turn = self.turn.acquire_owned().await.map_err(|_| gone())?;
        let done = spawn_blocking(move || {
            let _turn = turn;
            // After a panic, the transaction was rolled back by its guard.
            let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
            let transaction = connection.transaction_with_behavior(behavior)?;
            let result = act(&transaction)?;
            transaction.commit()?;
            Ok(result)
        });
        done.await.map_err(|_| gone())?
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        StoreError::Unavailable(format!("SQLite: {error}"))
    }
}

impl SqliteStore {
    /// Opens a file, makes it if it is absent, and brings its tables up to date. Blocks.
    ///
    /// # Errors
    /// If the file cannot be opened or written, is no database, or is of a later version.
    pub fn open(path: &Path) -> Result<SqliteStore, StoreError> {
        let named = |error: StoreError| match error {
            StoreError::Unavailable(why) => StoreError::Unavailable(format!("{}: {why}", path.display())),
            other => other,
        };
        let exchanges = Lane::new(open(path).map_err(named)?);
        let reports = Lane::new(open(path).map_err(named)?);
        Ok(SqliteStore { exchanges, reports, path: path.to_owned() })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A transaction that writes.
    fn with<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<'_, T> {
        Box::pin(self.exchanges.clone().run(TransactionBehavior::Immediate, act))
    }

    /// A transaction that reads.
    fn read<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<'_, T> {
        Box::pin(self.reports.clone().run(TransactionBehavior::Deferred, act))
    }
}

fn open(path: &Path) -> Result<Connection, StoreError> {
    let mut connection = Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "journal_size_limit", 16 << 20)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    migrate(&transaction, path)?;
    transaction.commit()?;
    Ok(connection)
}

fn migrate(transaction: &Transaction<'_>, path: &Path) -> Result<(), StoreError> {
    transaction.execute("CREATE TABLE IF NOT EXISTS ledger_schema (version BIGINT NOT NULL)", [])?;
    let found: Option<i64> =
        transaction.query_row("SELECT version FROM ledger_schema", [], |row| row.get(0)).optional()?;
    let (found, known) = (found.unwrap_or(0), version());
    if found > known {
        return Err(StoreError::TooNew { place: path.display().to_string(), found, known });
    }
    for script in scripts_after(found, "INTEGER PRIMARY KEY AUTOINCREMENT") {
        transaction.execute_batch(&script)?;
    }
    transaction.execute("DELETE FROM ledger_schema", [])?;
    transaction.execute("INSERT INTO ledger_schema (version) VALUES (?1)", [known])?;
    Ok(())
}

fn exchange(transaction: &Transaction<'_>, exchange: &Exchange) -> Result<Vec<Granted>, StoreError> {
    let session = exchange.session;
    let updated = transaction
        .prepare_cached(
            "UPDATE ledger_session SET sequence = ?1, expires = ?2 WHERE id = ?3 AND sequence < ?1",
        )?
        .execute([exchange.sequence, exchange.expires, session])?;
    if updated == 0 {
        let known: Option<i64> = transaction
            .query_row("SELECT id FROM ledger_session WHERE id = ?1", [session], |row| row.get(0))
            .optional()?;
        return Err(known.map_or(StoreError::SessionClosed(session), |_| StoreError::Late));
    }
    let granted: Result<Vec<Granted>, StoreError> =
        exchange.lines.iter().map(|line| exchange_line(transaction, session, line)).collect();
    for (number, receipt) in &exchange.receipts {
        append(transaction, session, *number, receipt)?;
    }
    if let Some(before) = exchange.prune_before {
        prune(transaction, before)?;
    }
    granted
}

fn exchange_line(transaction: &Transaction<'_>, session: i64, line: &Line) -> Result<Granted, StoreError> {
    let bucket = &line.bucket;
    let names = [bucket.scope.word(), &bucket.name, bucket.window.word(), bucket.unit.word()];
    let [scope, name, span, unit] = names;
    let row = transaction
        .prepare_cached(
            "SELECT spent, uncertain, leased FROM ledger_bucket
             WHERE scope = ?1 AND name = ?2 AND span = ?3 AND unit = ?4 AND period = ?5",
        )?
        .query_row(params![scope, name, span, unit, line.period], |row| {
            Ok(BucketRow { spent: row.get(0)?, uncertain: row.get(1)?, leased: row.get(2)? })
        })
        .optional()?;
    let lease = transaction
        .prepare_cached(
            "SELECT hold, spent, uncertain FROM ledger_lease WHERE session = ?1 AND account = ?2",
        )?
        .query_row([session, line.account], |row| {
            Ok(LeaseRow { hold: row.get(0)?, spent: row.get(1)?, uncertain: row.get(2)? })
        })
        .optional()?;
    let (mut row, mut lease) = (row.unwrap_or_default(), lease.unwrap_or_default());
    let granted = apply(&mut row, &mut lease, line);
    transaction
        .prepare_cached("INSERT OR REPLACE INTO ledger_bucket VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?
        .execute(params![
            scope,
            name,
            span,
            unit,
            line.period,
            line.limit,
            row.spent,
            row.uncertain,
            row.leased
        ])?;
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO ledger_lease VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![
            session,
            line.account,
            scope,
            name,
            span,
            unit,
            line.period,
            lease.hold,
            lease.spent,
            lease.uncertain
        ])?;
    Ok(granted)
}

fn append(
    transaction: &Transaction<'_>,
    session: i64,
    number: i64,
    receipt: &Receipt,
) -> Result<(), StoreError> {
    let attempts = serde_json::to_string(&receipt.attempts).unwrap_or_default();
    let [input, output, own_ms, invoice, possibly, saved] = receipt_numbers(receipt);
    transaction
        .prepare_cached(
            "INSERT OR IGNORE INTO ledger_receipt (session, number, time, day, request, key_name, team, model,
                 upstream, label, input_tokens, output_tokens, own_ms, invoice, possibly, saved, attempts)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
        )?
        .execute(params![
            session,
            number,
            receipt.time,
            Moment::at(receipt.time).day,
            receipt.request,
            receipt.key,
            receipt.team,
            receipt.model,
            receipt.upstream,
            receipt.label,
            input,
            output,
            own_ms,
            invoice,
            possibly,
            saved,
            attempts
        ])?;
    Ok(())
}

fn prune(transaction: &Transaction<'_>, before: i64) -> Result<(), StoreError> {
    transaction.execute(
        "DELETE FROM ledger_receipt WHERE id IN (SELECT id FROM ledger_receipt WHERE time < ?1 LIMIT ?2)",
        [before, PRUNE_ROWS],
    )?;
    for (span, period) in kept_periods(before) {
        for table in ["ledger_bucket", "ledger_lease"] {
            transaction.execute(
                &format!("DELETE FROM {table} WHERE span = ?1 AND period < ?2"),
                params![span, period],
            )?;
        }
    }
    Ok(())
}

fn reclaim(transaction: &Transaction<'_>, replica: &str, now: i64) -> Result<u64, StoreError> {
    let mut found = transaction.prepare("SELECT id, expires FROM ledger_session WHERE replica = ?1")?;
    let sessions: Vec<(i64, i64)> =
        found.query_map([replica], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    let expired: Vec<i64> =
        sessions.iter().filter(|(_, at)| *at <= now).map(|(session, _)| *session).collect();
    let until = sessions.iter().map(|(_, expires)| *expires).max();
    if let (true, Some(until)) = (expired.is_empty(), until) {
        return Err(StoreError::Alive { replica: replica.to_owned(), until: timestamp(until) });
    }
    let mut count = 0;
    for session in expired {
        count += transaction.query_row(
            "SELECT count(*) FROM ledger_lease WHERE session = ?1 AND hold > spent",
            [session],
            |row| row.get::<_, i64>(0),
        )?;
        transaction.execute(
            "UPDATE ledger_bucket AS b SET leased = leased - open.sum FROM
                 (SELECT scope, name, span, unit, period, sum(hold - spent) AS sum FROM ledger_lease
                  WHERE session = ?1 GROUP BY scope, name, span, unit, period) AS open
             WHERE b.scope = open.scope AND b.name = open.name AND b.span = open.span AND b.unit = open.unit
                 AND b.period = open.period",
            [session],
        )?;
        transaction.execute("DELETE FROM ledger_lease WHERE session = ?1", [session])?;
        transaction.execute("DELETE FROM ledger_session WHERE id = ?1", [session])?;
    }
    Ok(u64::try_from(count).unwrap_or(0))
}

fn close(transaction: &Transaction<'_>, session: i64) -> Result<(), StoreError> {
    transaction.execute("DELETE FROM ledger_lease WHERE session = ?1 AND hold = spent", [session])?;
    transaction.execute(
        "DELETE FROM ledger_session WHERE id = ?1 AND NOT EXISTS
             (SELECT 1 FROM ledger_lease WHERE session = ?1)",
        [session],
    )?;
    Ok(())
}

fn totals(transaction: &Transaction<'_>, now: i64) -> Result<Vec<BucketTotal>, StoreError> {
    let mut statement = transaction.prepare(
        "SELECT scope, name, span, unit, period, ceiling, spent, uncertain, leased, (
             SELECT coalesce(sum(hold - l.spent), 0) FROM ledger_lease AS l LEFT JOIN ledger_session AS s
                 ON s.id = l.session
             WHERE l.scope = b.scope AND l.name = b.name AND l.span = b.span AND l.unit = b.unit
                 AND l.period = b.period AND (s.id IS NULL OR s.expires <= ?1))
         FROM ledger_bucket AS b
         WHERE span = 'total' OR (span = 'day' AND period = ?2) OR (span = 'month' AND period = ?3)",
    )?;
    let moment = Moment::at(now);
    let read = |row: &Row<'_>| -> rusqlite::Result<Option<BucketTotal>> {
        let [scope, span, unit]: [String; 3] = [row.get(0)?, row.get(2)?, row.get(3)?];
        let numbers: [i64; 6] = [4, 5, 6, 7, 8, 9].map(|at| row.get(at).unwrap_or(i64::MAX));
        let [period, limit, spent, uncertain, leased, lost] = numbers;
        let bucket = bucket_of(&scope, row.get(1)?, &span, &unit);
        Ok(bucket.map(|bucket| BucketTotal { bucket, period, limit, spent, uncertain, leased, lost }))
    };
    let rows: Vec<Option<BucketTotal>> =
        statement.query_map([now, moment.day, moment.month], read)?.collect::<Result<_, _>>()?;
    Ok(totals_of(rows.into_iter().flatten().collect(), now))
}

/// Sums are of high and low parts, because SQLite's of 64 bits may overflow.
fn report(transaction: &Transaction<'_>, query: &ReportQuery) -> Result<Vec<ReportRow>, StoreError> {
    const LOW: i128 = 1 << 31;
    check_query(query)?;
    let columns = group_columns(query);
    let sums = SUMS.map(|column| format!("sum({column} / {LOW}), sum({column} % {LOW})")).join(", ");
    let mut fields: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
    fields.extend(["count(*)".to_owned(), sums]);
    let by = if columns.is_empty() {
        String::new()
    } else {
        format!("GROUP BY {0} ORDER BY {0}", columns.join(", "))
    };
    let sql = format!(
        "SELECT {} FROM ledger_receipt WHERE time >= ?1 AND time < ?2 {by} LIMIT {}",
        fields.join(", "),
        MAX_REPORT_ROWS + 1
    );
    let read = |row: &Row<'_>| -> rusqlite::Result<ReportRow> {
        let value = |(at, column): (usize, &&str)| match *column {
            "day" => row.get::<_, i64>(at).map(|day| date(day * 86_400)),
            _ => row.get::<_, String>(at),
        };
        let group: Vec<String> = columns.iter().enumerate().map(value).collect::<Result<_, _>>()?;
        let first = columns.len() + 1;
        let mut sums = [0_i128; 6];
        for (index, sum) in sums.iter_mut().enumerate() {
            let part = |at| row.get::<_, Option<i64>>(at).map(|part| i128::from(part.unwrap_or(0)));
            *sum = part(first + 2 * index)? * LOW + part(first + 2 * index + 1)?;
        }
        Ok(report_row(group, row.get(columns.len())?, sums))
    };
    let mut statement = transaction.prepare(&sql)?;
    let rows: Vec<ReportRow> =
        statement.query_map([query.from, query.to], read)?.collect::<Result<_, _>>()?;
    if rows.len() > MAX_REPORT_ROWS {
        return Err(StoreError::TooManyRows(MAX_REPORT_ROWS));
    }
    // One row of nothing is no row.
    Ok(rows.into_iter().filter(|row| row.requests > 0).collect())
}

impl Store for SqliteStore {
    fn open_session(&self, replica: &str, expires: i64) -> Answer<'_, i64> {
        let replica = replica.to_owned();
        self.with(move |transaction| {
            transaction.execute(
                "INSERT INTO ledger_session (replica, sequence, expires) VALUES (?1, 0, ?2)",
                params![replica, expires],
            )?;
            Ok(transaction.last_insert_rowid())
        })
    }

    fn exchange(&self, request: Arc<Exchange>) -> Answer<'_, Vec<Granted>> {
        self.with(move |transaction| exchange(transaction, &request))
    }

    fn close_session(&self, session: i64) -> Answer<'_, ()> {
        self.with(move |transaction| close(transaction, session))
    }

    fn reclaim(&self, replica: &str, now: i64) -> Answer<'_, u64> {
        let replica = replica.to_owned();
        self.with(move |transaction| reclaim(transaction, &replica, now))
    }

    fn totals(&self, now: i64) -> Answer<'_, Vec<BucketTotal>> {
        self.read(move |transaction| totals(transaction, now))
    }

    fn report(&self, query: ReportQuery) -> Answer<'_, Vec<ReportRow>> {
        self.read(move |transaction| report(transaction, &query))
    }
}
