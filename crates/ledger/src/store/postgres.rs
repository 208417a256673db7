//! A store in PostgreSQL: any number of replicas on any number of machines. Connects when it is first needed and again
//! after a failure, without TLS: over a Unix socket, or a network that is trusted.

use super::account::{BucketRow, LeaseRow, apply};
use super::postgres_read::{report, totals};
use super::rows::{kept_periods, receipt_numbers};
use super::schema::{scripts_after, version};
use super::{Answer, Exchange, Granted, ReportQuery, Store, StoreError};
use crate::calendar::{Moment, timestamp};
use crate::receipt::{BucketTotal, Receipt, ReportRow};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::error::Error as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_postgres::{Client, Config, NoTls, Transaction};

/// How long connecting may take, unless the configuration says otherwise.
const CONNECT: Duration = Duration::from_secs(2);

/// What the server ends by itself, so that a replica that vanishes holds no rows for long.
const SETTINGS: &str = "SET statement_timeout = '5s'; SET lock_timeout = '3s';
    SET idle_in_transaction_session_timeout = '10s'; SET synchronous_commit = on";

/// Rows that one exchange deletes at most.
const PRUNE_ROWS: i64 = 5_000;

/// The key of the lock under which tables are made: any number that nobody else uses ("grist" in ASCII).
const MIGRATION_LOCK: i64 = 0x67_72_69_73_74;

/// The lines of an exchange as a table, from one parameter of JSON.
const LINES: &str =
    "json_to_recordset($1::TEXT::JSON) AS l(ord BIGINT, scope TEXT, name TEXT, span TEXT, unit TEXT,
    period BIGINT, account BIGINT, ceiling BIGINT, spent BIGINT, uncertain BIGINT, leased BIGINT, hold BIGINT,
    lease_spent BIGINT, lease_uncertain BIGINT)";

/// A [`Store`] in PostgreSQL.
pub struct PostgresStore {
    config: Config,
    exchanges: Lane,
    /// Reports may take long, and exchanges do not wait for them.
    reports: Lane,
}

/// A connection for one kind of calls, one at a time.
struct Lane {
    turn: Semaphore,
    client: Mutex<Option<Client>>,
}

impl Lane {
    fn new() -> Lane {
        Lane { turn: Semaphore::new(1), client: Mutex::new(None) }
    }
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").field("place", &self.place()).finish_non_exhaustive()
    }
}

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> StoreError {
        let detail = match (error.as_db_error(), error.source()) {
            (Some(database), _) => database.message().to_owned(),
            (None, Some(source)) => format!("{error}: {source}"),
            (None, None) => error.to_string(),
        };
        StoreError::Unavailable(format!("PostgreSQL: {detail}"))
    }
}

/// A connection, and the turn to use it.
struct Held<'a> {
    client: Client,
    lane: &'a Lane,
    _turn: SemaphorePermit<'a>,
}

impl PostgresStore {
    /// A store by its URL, such as `postgres://user:password@host/database`, or by `key=value` words. Does not connect.
    ///
    /// # Errors
    /// If the text is none of both.
    pub fn new(url: &str) -> Result<PostgresStore, StoreError> {
        let mut config: Config = url.parse()?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_application_name().is_none() {
            config.application_name("gristmill");
        }
        Ok(PostgresStore { config, exchanges: Lane::new(), reports: Lane::new() })
    }

    /// The hosts and the database, for messages: never the password.
    fn place(&self) -> String {
        format!("PostgreSQL database `{}`", self.config.get_dbname().unwrap_or("of the user"))
    }

    async fn connect(&self) -> Result<Client, StoreError> {
        let (mut client, connection) = self.config.connect(NoTls).await?;
        // Ends when the client is dropped.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "the connection to PostgreSQL ended");
            }
        });
        client.batch_execute(SETTINGS).await?;
        migrate(&mut client, &self.place()).await?;
        Ok(client)
    }

    async fn take<'a>(&'a self, lane: &'a Lane) -> Result<Held<'a>, StoreError> {
        let turn = lane.turn.acquire().await;
        let _turn =
            turn.map_err(|_| StoreError::Unavailable("PostgreSQL: the store is closed".to_owned()))?;
        let kept = lane.client.lock().unwrap_or_else(PoisonError::into_inner).take();
        let client = match kept.filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => self.connect().await?,
        };
        Ok(Held { client, lane, _turn })
    }
}

impl Held<'_> {
    /// Keeps the connection for the next call, unless this one failed by it.
    fn keep<T>(self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if !matches!(result, Err(StoreError::Unavailable(_))) {
            *self.lane.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.client);
        }
        result
    }
}

async fn migrate(client: &mut Client, place: &str) -> Result<(), StoreError> {
    let known = version();
    let transaction = client.transaction().await?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK]).await?;
    let there = transaction.query_one("SELECT to_regclass('ledger_schema') IS NOT NULL", &[]).await?;
    let found: i64 = if there.try_get(0)? {
        transaction.query_one("SELECT version FROM ledger_schema", &[]).await?.try_get(0)?
    } else {
        0
    };
    if found > known {
        return Err(StoreError::TooNew { place: place.to_owned(), found, known });
    }
    if found < known {
        for script in scripts_after(found, "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY") {
            transaction.batch_execute(&script).await?;
        }
        let mark = format!(
            "CREATE TABLE IF NOT EXISTS ledger_schema (version BIGINT NOT NULL);
             DELETE FROM ledger_schema; INSERT INTO ledger_schema (version) VALUES ({known})"
        );
        transaction.batch_execute(&mark).await?;
    }
    transaction.commit().await?;
    Ok(())
}

async fn exchange(client: &mut Client, exchange: &Exchange) -> Result<Vec<Granted>, StoreError> {
    let session = exchange.session;
    let transaction = client.transaction().await?;
    let updated = transaction
        .execute(
            "UPDATE ledger_session SET sequence = $1, expires = $2 WHERE id = $3 AND sequence < $1",
            &[&exchange.sequence, &exchange.expires, &session],
        )
        .await?;
    if updated == 0 {
        let known = transaction.query_opt("SELECT id FROM ledger_session WHERE id = $1", &[&session]).await?;
        return Err(known.map_or(StoreError::SessionClosed(session), |_| StoreError::Late));
    }
    let granted =
        if exchange.lines.is_empty() { Vec::new() } else { exchange_lines(&transaction, exchange).await? };
    append(&transaction, session, &exchange.receipts).await?;
    if let Some(before) = exchange.prune_before {
        prune(&transaction, before).await?;
    }
    transaction.commit().await?;
    Ok(granted)
}

/// The lines of an exchange in five statements, however many they are. Buckets are locked in the order of the lines, which
/// all replicas share.
async fn exchange_lines(
    transaction: &Transaction<'_>,
    exchange: &Exchange,
) -> Result<Vec<Granted>, StoreError> {
    let names = json_lines(exchange, &[]);
    let make = format!(
        "INSERT INTO ledger_bucket SELECT scope, name, span, unit, period, ceiling, 0, 0, 0 FROM {LINES}
         ORDER BY ord ON CONFLICT DO NOTHING"
    );
    transaction.execute(&make, &[&names]).await?;
    let lock = format!(
        "SELECT b.spent, b.uncertain, b.leased FROM {LINES} JOIN ledger_bucket AS b
             USING (scope, name, span, unit, period) ORDER BY ord FOR UPDATE OF b"
    );
    let buckets = transaction.query(&lock, &[&names]).await?;
    let accounts: Vec<i64> = exchange.lines.iter().map(|line| line.account).collect();
    let leases = transaction
        .query(
            "SELECT account, hold, spent, uncertain FROM ledger_lease WHERE session = $1 AND account = ANY($2)",
            &[&exchange.session, &accounts],
        )
        .await?;
    let mut by_account = HashMap::new();
    for row in leases {
        let lease = LeaseRow { hold: row.try_get(1)?, spent: row.try_get(2)?, uncertain: row.try_get(3)? };
        by_account.insert(row.try_get::<_, i64>(0)?, lease);
    }
    if buckets.len() != exchange.lines.len() {
        return Err(StoreError::Unavailable("PostgreSQL: rows of buckets are missing".to_owned()));
    }
    let mut granted = Vec::new();
    let mut rows = Vec::new();
    for (line, row) in exchange.lines.iter().zip(buckets) {
        let mut bucket =
            BucketRow { spent: row.try_get(0)?, uncertain: row.try_get(1)?, leased: row.try_get(2)? };
        let mut lease = by_account.get(&line.account).copied().unwrap_or_default();
        granted.push(apply(&mut bucket, &mut lease, line));
        rows.push((bucket, lease));
    }
    let rows = json_lines(exchange, &rows);
    let update = format!(
        "UPDATE ledger_bucket AS b SET ceiling = l.ceiling, spent = l.spent, uncertain = l.uncertain,
             leased = l.leased FROM {LINES}
         WHERE b.scope = l.scope AND b.name = l.name AND b.span = l.span AND b.unit = l.unit
             AND b.period = l.period"
    );
    transaction.execute(&update, &[&rows]).await?;
    let leases = format!(
        "INSERT INTO ledger_lease SELECT $2, account, scope, name, span, unit, period, hold, lease_spent,
             lease_uncertain FROM {LINES}
         ON CONFLICT (session, account) DO UPDATE SET hold = excluded.hold, spent = excluded.spent,
             uncertain = excluded.uncertain"
    );
    transaction.execute(&leases, &[&rows, &exchange.session]).await?;
    Ok(granted)
}

/// The lines as JSON, with the rows that they change to, if these are known.
fn json_lines(exchange: &Exchange, rows: &[(BucketRow, LeaseRow)]) -> String {
    let line = |(ord, line): (usize, &super::Line)| {
        let (bucket, lease) = rows.get(ord).copied().unwrap_or_default();
        json!({
            "ord": ord,
            "scope": line.bucket.scope.word(),
            "name": line.bucket.name,
            "span": line.bucket.window.word(),
            "unit": line.bucket.unit.word(),
            "period": line.period,
            "account": line.account,
            "ceiling": line.limit,
            "spent": bucket.spent,
            "uncertain": bucket.uncertain,
            "leased": bucket.leased,
            "hold": lease.hold,
            "lease_spent": lease.spent,
            "lease_uncertain": lease.uncertain,
        })
    };
    Value::Array(exchange.lines.iter().enumerate().map(line).collect()).to_string()
}

async fn append(
    transaction: &Transaction<'_>,
    session: i64,
    receipts: &[(i64, Receipt)],
) -> Result<(), StoreError> {
    if receipts.is_empty() {
        return Ok(());
    }
    let row = |(number, receipt): &(i64, Receipt)| {
        let [input_tokens, output_tokens, own_ms, invoice, possibly, saved] = receipt_numbers(receipt);
        json!({
            "number": number,
            "time": receipt.time,
            "day": Moment::at(receipt.time).day,
            "request": receipt.request,
            "key_name": receipt.key,
            "team": receipt.team,
            "model": receipt.model,
            "upstream": receipt.upstream,
            "label": receipt.label,
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "own_ms": own_ms,
            "invoice": invoice,
            "possibly": possibly,
            "saved": saved,
            "attempts": serde_json::to_string(&receipt.attempts).unwrap_or_default(),
        })
    };
    let rows = Value::Array(receipts.iter().map(row).collect()).to_string();
    let columns =
        "number, time, day, request, key_name, team, model, upstream, label, input_tokens, output_tokens,
        own_ms, invoice, possibly, saved, attempts";
    let insert = format!(
        "INSERT INTO ledger_receipt (session, {columns}) SELECT $2, {columns}
         FROM json_populate_recordset(NULL::ledger_receipt, $1::TEXT::JSON)
         ON CONFLICT (session, number) DO NOTHING"
    );
    transaction.execute(&insert, &[&rows, &session]).await?;
    Ok(())
}

/// Deletes what nobody else has locked; the rest is for the next time.
async fn prune(transaction: &Transaction<'_>, before: i64) -> Result<(), StoreError> {
    transaction
        .execute(
            "DELETE FROM ledger_receipt WHERE id IN
                 (SELECT id FROM ledger_receipt WHERE time < $1 LIMIT $2 FOR UPDATE SKIP LOCKED)",
            &[&before, &PRUNE_ROWS],
        )
        .await?;
    for (span, period) in kept_periods(before) {
        for table in ["ledger_bucket", "ledger_lease"] {
            let delete = format!(
                "DELETE FROM {table} WHERE ctid IN
                     (SELECT ctid FROM {table} WHERE span = $1 AND period < $2 LIMIT $3 FOR UPDATE SKIP LOCKED)"
            );
            transaction.execute(&delete, &[&span, &period, &PRUNE_ROWS]).await?;
        }
    }
    Ok(())
}

async fn reclaim(client: &mut Client, replica: &str, now: i64) -> Result<u64, StoreError> {
    let transaction = client.transaction().await?;
    let find = "SELECT id, expires FROM ledger_session WHERE replica = $1 FOR UPDATE";
    let mut expired = Vec::new();
    let mut until = None;
    for row in transaction.query(find, &[&replica]).await? {
        let (session, expires): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        until = until.max(Some(expires));
        if expires <= now {
            expired.push(session);
        }
    }
    if let (true, Some(until)) = (expired.is_empty(), until) {
        return Err(StoreError::Alive { replica: replica.to_owned(), until: timestamp(until) });
    }
    let count = "SELECT count(*) FROM ledger_lease WHERE session = ANY($1) AND hold > spent";
    let count: i64 = transaction.query_one(count, &[&expired]).await?.try_get(0)?;
    transaction
        .execute(
            "UPDATE ledger_bucket AS b SET leased = b.leased - l.open FROM
                 (SELECT scope, name, span, unit, period, sum(hold - spent)::BIGINT AS open FROM ledger_lease
                  WHERE session = ANY($1) GROUP BY scope, name, span, unit, period) AS l
             WHERE b.scope = l.scope AND b.name = l.name AND b.span = l.span AND b.unit = l.unit
                 AND b.period = l.period",
            &[&expired],
        )
        .await?;
    transaction.execute("DELETE FROM ledger_lease WHERE session = ANY($1)", &[&expired]).await?;
    transaction.execute("DELETE FROM ledger_session WHERE id = ANY($1)", &[&expired]).await?;
    transaction.commit().await?;
    Ok(u64::try_from(count).unwrap_or(0))
}

async fn close(client: &mut Client, session: i64) -> Result<(), StoreError> {
    let transaction = client.transaction().await?;
    let leases = "DELETE FROM ledger_lease WHERE session = $1 AND hold = spent";
    transaction.execute(leases, &[&session]).await?;
    transaction
        .execute(
            "DELETE FROM ledger_session WHERE id = $1 AND NOT EXISTS
                 (SELECT 1 FROM ledger_lease WHERE session = $1)",
            &[&session],
        )
        .await?;
    transaction.commit().await?;
    Ok(())
}

impl Store for PostgresStore {
    fn open_session(&self, replica: &str, expires: i64) -> Answer<'_, i64> {
        let replica = replica.to_owned();
        Box::pin(async move {
            let held = self.take(&self.exchanges).await?;
            let insert =
                "INSERT INTO ledger_session (replica, sequence, expires) VALUES ($1, 0, $2) RETURNING id";
            let row = held.client.query_one(insert, &[&replica, &expires]).await;
            held.keep(row.and_then(|row| row.try_get(0)).map_err(StoreError::from))
        })
    }

    fn exchange(&self, request: Arc<Exchange>) -> Answer<'_, Vec<Granted>> {
        Box::pin(async move {
            let mut held = self.take(&self.exchanges).await?;
            let result = exchange(&mut held.client, &request).await;
            held.keep(result)
        })
    }

    fn close_session(&self, session: i64) -> Answer<'_, ()> {
        Box::pin(async move {
            let mut held = self.take(&self.exchanges).await?;
            let result = close(&mut held.client, session).await;
            held.keep(result)
        })
    }

    fn reclaim(&self, replica: &str, now: i64) -> Answer<'_, u64> {
        let replica = replica.to_owned();
        Box::pin(async move {
            let mut held = self.take(&self.exchanges).await?;
            let result = reclaim(&mut held.client, &replica, now).await;
            held.keep(result)
        })
    }

    fn totals(&self, now: i64) -> Answer<'_, Vec<BucketTotal>> {
        Box::pin(async move {
            let held = self.take(&self.reports).await?;
            let result = totals(&held.client, now).await;
            held.keep(result)
        })
    }

    fn report(&self, query: ReportQuery) -> Answer<'_, Vec<ReportRow>> {
        Box::pin(async move {
            let held = self.take(&self.reports).await?;
            let result = report(&held.client, &query).await;
            held.keep(result)
        })
    }
}
