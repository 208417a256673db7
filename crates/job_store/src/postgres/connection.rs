//! A connection to the server, and the shared SQL on it.

use crate::error::StoreError;
use crate::schema::{Dialect, scripts_after, version};
use crate::sql::{Row, Sql, Value};
use crate::store::Answer;
use std::collections::HashMap;
use std::error::Error as _;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Config, NoTls, Statement};

/// What the server ends by itself, so that a server of jobs that vanishes holds no rows for long.
const SETTINGS: &str = "SET statement_timeout = '20s'; SET lock_timeout = '10s';
    SET idle_in_transaction_session_timeout = '20s'; SET synchronous_commit = on";

/// The key of the lock under which tables are made: any number that nobody else uses ("gristjob" in ASCII).
const MIGRATION_LOCK: i64 = 0x67_72_69_73_74_6a_6f_62;

/// The channel on which servers tell each other that there is work.
pub(crate) const CHANNEL: &str = "gristmill_jobs";

/// Statements that a connection keeps ready; there are fewer texts than that.
const STATEMENTS: usize = 512;

/// Columns of texts sort by their bytes, as in SQLite. Rows of jobs change often, and old versions are collected soon.
const DIALECT: Dialect = Dialect {
    text: "TEXT COLLATE \"C\"",
    bytes: "BYTEA",
    busy: "WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01)",
};

/// A connection.
pub(crate) struct PostgresSql {
    client: Client,
    statements: HashMap<String, Statement>,
    shard: i64,
    /// Whether others are to be woken with the commit.
    woke: bool,
    /// Whether the transaction failed because of others, and may succeed the next time.
    again: bool,
}

impl ToSql for Value {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Value::Null => Ok(IsNull::Yes),
            Value::Int(number) if *ty == Type::INT4 => i32::try_from(*number)?.to_sql(ty, out),
            Value::Int(number) => number.to_sql(ty, out),
            Value::Text(text) => text.to_sql(ty, out),
            Value::Bytes(bytes) => bytes.to_sql(ty, out),
        }
    }

    fn accepts(_ty: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl PostgresSql {
    /// Connects, and brings the tables up to date.
    pub(crate) async fn connect(config: &Config, place: &str, shard: i64) -> Result<PostgresSql, StoreError> {
        let (client, connection) = config.connect(NoTls).await.map_err(|error| failed(&error))?;
        // Ends when the client is dropped.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "the connection of the jobs to PostgreSQL ended");
            }
        });
        let mut sql = PostgresSql { client, statements: HashMap::new(), shard, woke: false, again: false };
        sql.run(SETTINGS).await?;
        sql.migrate(place).await?;
        Ok(sql)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Begins a transaction.
    pub(crate) async fn begin(&mut self, reads: bool) -> Result<(), StoreError> {
        self.woke = false;
        self.again = false;
        self.run(if reads { "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" } else { "BEGIN" }).await
    }

    /// Commits a transaction.
    pub(crate) async fn commit(&mut self) -> Result<(), StoreError> {
        if self.woke {
            self.run(&format!("NOTIFY {CHANNEL}; COMMIT")).await
        } else {
            self.run("COMMIT").await
        }
    }

    /// Undoes a transaction. Returns whether it may succeed the next time.
    pub(crate) async fn roll_back(&mut self) -> Result<bool, StoreError> {
        self.run("ROLLBACK").await?;
        Ok(self.again)
    }

    async fn run(&mut self, sql: &str) -> Result<(), StoreError> {
        self.client.batch_execute(sql).await.map_err(|error| self.note(&error))
    }

    async fn migrate(&mut self, place: &str) -> Result<(), StoreError> {
        let known = version();
        let mut found = self.found_version().await?;
        if found < known {
            self.run("BEGIN").await?;
            self.run(&format!("SELECT pg_advisory_xact_lock({MIGRATION_LOCK})")).await?;
            // Another server may have been quicker.
            found = self.found_version().await?;
            if found < known {
                for script in scripts_after(found, DIALECT) {
                    self.run(&script).await?;
                }
                let mark = format!(
                    "CREATE TABLE IF NOT EXISTS job_schema (version BIGINT NOT NULL);
                     DELETE FROM job_schema; INSERT INTO job_schema (version) VALUES ({known})"
                );
                self.run(&mark).await?;
                found = known;
            }
            self.run("COMMIT").await?;
        }
        if found > known {
            return Err(StoreError::TooNew { place: place.to_owned(), found, known });
        }
        Ok(())
    }

    async fn found_version(&mut self) -> Result<i64, StoreError> {
        // Not `to_regclass`: within a transaction it may answer as it did before.
        let there = "SELECT 1 FROM pg_class WHERE relname = 'job_schema' AND pg_table_is_visible(oid)";
        let there = self.query(there, Vec::new()).await?;
        if there.is_empty() {
            return Ok(0);
        }
        let rows = self.query("SELECT version FROM job_schema", Vec::new()).await?;
        rows.first().map_or(Ok(0), |row| row.int(0))
    }

    async fn prepared(&mut self, sql: &str) -> Result<Statement, tokio_postgres::Error> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).await?;
        if self.statements.len() < STATEMENTS {
            self.statements.insert(sql.to_owned(), statement.clone());
        }
        Ok(statement)
    }

    async fn change(&mut self, sql: &str, values: &[Value]) -> Result<u64, StoreError> {
        let done = match self.prepared(sql).await {
            Ok(statement) => self.client.execute(&statement, &by_reference(values)).await,
            Err(error) => Err(error),
        };
        done.map_err(|error| self.note(&error))
    }

    async fn rows(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>, StoreError> {
        let done = match self.prepared(sql).await {
            Ok(statement) => self.client.query(&statement, &by_reference(values)).await,
            Err(error) => Err(error),
        };
        let rows = done.map_err(|error| self.note(&error))?;
        rows.iter().map(|row| read_row(row).map_err(|error| failed(&error))).collect()
    }

    /// Notes what a failure means for the transaction.
    fn note(&mut self, error: &tokio_postgres::Error) -> StoreError {
        self.again |= matches!(
            error.code(),
            Some(&SqlState::T_R_DEADLOCK_DETECTED | &SqlState::T_R_SERIALIZATION_FAILURE)
        );
        failed(error)
    }
}

fn by_reference(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

fn read_row(row: &tokio_postgres::Row) -> Result<Row, tokio_postgres::Error> {
    let value = |(at, column): (usize, &tokio_postgres::Column)| match *column.type_() {
        Type::INT8 => Ok(row.try_get::<_, Option<i64>>(at)?.into()),
        Type::INT4 => Ok(row.try_get::<_, Option<i32>>(at)?.map(i64::from).into()),
        Type::BYTEA => Ok(row.try_get::<_, Option<&[u8]>>(at)?.into()),
        _ => Ok(row.try_get::<_, Option<&str>>(at)?.into()),
    };
    let values = row.columns().iter().enumerate().map(value).collect::<Result<_, _>>()?;
    Ok(Row(values))
}

/// An error of the server or the connection as one of the store.
pub(crate) fn failed(error: &tokio_postgres::Error) -> StoreError {
    let detail = match (error.as_db_error(), error.source()) {
        (Some(database), _) => database.message().to_owned(),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    };
    let text = format!("PostgreSQL: {detail}");
    match error.code() {
        Some(&SqlState::UNIQUE_VIOLATION) => StoreError::Conflict(text),
        Some(&SqlState::DISK_FULL) => StoreError::Full(text),
        _ => StoreError::Unavailable(text),
    }
}

impl Sql for PostgresSql {
    fn execute<'a>(&'a mut self, sql: &'a str, values: Vec<Value>) -> Answer<'a, u64> {
        Box::pin(async move { self.change(sql, &values).await })
    }

    fn execute_once<'a>(&'a mut self, sql: &'a str, values: Vec<Value>) -> Answer<'a, u64> {
        Box::pin(async move {
            let done = self.client.execute(sql, &by_reference(&values)).await;
            done.map_err(|error| self.note(&error))
        })
    }

    fn query<'a>(&'a mut self, sql: &'a str, values: Vec<Value>) -> Answer<'a, Vec<Row>> {
        Box::pin(async move { self.rows(sql, &values).await })
    }

    fn table_bytes(&mut self) -> Answer<'_, u64> {
        Box::pin(async move {
            let select = "SELECT CAST(coalesce(sum(pg_total_relation_size(oid)), 0) AS BIGINT) FROM pg_class
                WHERE relkind = 'r' AND (relname = 'job' OR starts_with(relname::TEXT, 'job_'))
                AND relnamespace = current_schema()::REGNAMESPACE";
            self.rows(select, &[]).await?.first().map_or(Ok(0), |row| row.count(0))
        })
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn shard(&self) -> i64 {
        self.shard
    }

    fn wake(&mut self) {
        self.woke = true;
    }
}
