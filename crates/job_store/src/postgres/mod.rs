//! A store in PostgreSQL: any number of servers on any number of machines. Connects when it is first needed and again after
//! a failure, without TLS: over a Unix socket, or a network that is trusted.
//!
//! Times are those of the servers that ask. A lease is compared with the clock of whoever sweeps, so the clocks of all
//! servers are to agree to some seconds, which is little beside a lease of a minute; what a wrong clock can do is run a
//! request again, and the epoch of the first run is then refused.

mod connection;
mod listener;

use crate::backend::{Backend, Kept};
use crate::common::transaction;
use crate::copy::{Copied, copy_all};
use crate::error::StoreError;
use crate::ops::files;
use crate::ops::parts::Stored;
use crate::sql::{Act, Sql, act, values};
use crate::sqlite::SqliteStore;
use crate::store::Answer;
use crate::types::StoreLimits;
use connection::{PostgresSql, failed};
use jobs::schedule::Credits;
use jobs::{File, Millis};
use listener::Listener;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_postgres::Config;

/// Connections of one server.
const CONNECTIONS: usize = 6;

/// Rows of one counter at most; two servers may share some.
const SHARDS: i64 = 16;

/// How long connecting may take, unless the configuration says otherwise.
const CONNECT: Duration = Duration::from_secs(2);

/// How long a transaction may take, with the wait for a connection.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a transaction is tried that fails because of others.
const ATTEMPTS: usize = 5;

/// A [`crate::Store`] in PostgreSQL. Its bounds are kept loosely: transactions at the same time do not see each other's jobs.
pub struct PostgresStore {
    config: Config,
    turns: Semaphore,
    free: Mutex<Vec<PostgresSql>>,
    shard: AtomicI64,
    listener: Listener,
    credits: Mutex<Credits>,
    limits: StoreLimits,
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").field("place", &self.place()).finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// A store by its URL, such as `postgres://user:password@host/database`, or by `key=value` words. Does not connect.
    ///
    /// # Errors
    /// If the text is none of both.
    pub fn new(url: &str, limits: StoreLimits) -> Result<PostgresStore, StoreError> {
        let mut config: Config = url.parse().map_err(|error| failed(&error))?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_application_name().is_none() {
            config.application_name("gristmill");
        }
        Ok(PostgresStore {
            listener: Listener::new(config.clone()),
            config,
            turns: Semaphore::new(CONNECTIONS),
            free: Mutex::default(),
            shard: AtomicI64::new(0),
            credits: Mutex::default(),
            limits,
        })
    }

    /// Copies everything of a store in a folder into this one, which must be empty; all ids stay. A copy that was interrupted
    /// begins anew in another empty database.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if this store is not empty, and whatever either store says.
    pub async fn copy_from(&self, from: &SqliteStore) -> Result<Copied, StoreError> {
        copy_all(from, self).await
    }

    /// The database, for messages: never the password.
    fn place(&self) -> String {
        format!("PostgreSQL database `{}`", self.config.get_dbname().unwrap_or("of the user"))
    }

    /// Does a transaction. If the future is dropped, its connection is closed, and the server undoes what was not committed.
    async fn run<T>(&self, act: Act<T>, reads: bool) -> Result<T, StoreError> {
        let slow = |_| StoreError::Unavailable(format!("{} does not answer", self.place()));
        timeout(PATIENCE, self.run_patiently(act, reads)).await.map_err(slow)?
    }

    async fn run_patiently<T>(&self, act: Act<T>, reads: bool) -> Result<T, StoreError> {
        let closed = |_| StoreError::Unavailable("PostgreSQL: the store is closed".to_owned());
        let _turn = self.turns.acquire().await.map_err(closed)?;
        let mut sql = self.take().await?;
        let mut attempt = 1;
        loop {
            sql.begin(reads).await?;
            let result = match act(&mut sql).await {
                Ok(done) => sql.commit().await.map(|()| done),
                refused => refused,
            };
            if result.is_ok() {
                self.free.lock().unwrap_or_else(PoisonError::into_inner).push(sql);
                return result;
            }
            let again = sql.roll_back().await?;
            if !again || attempt == ATTEMPTS {
                self.free.lock().unwrap_or_else(PoisonError::into_inner).push(sql);
                return result;
            }
            attempt += 1;
        }
    }

    async fn take(&self) -> Result<PostgresSql, StoreError> {
        loop {
            let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match free {
                Some(sql) if sql.is_closed() => {}
                Some(sql) => return Ok(sql),
                None => break,
            }
        }
        let shard = self.shard.fetch_add(1, Ordering::Relaxed) % SHARDS;
        PostgresSql::connect(&self.config, &self.place(), shard).await
    }
}

/// The server's clock in Unix milliseconds: only to know how old bytes are that were never sealed.
async fn server_time(sql: &mut dyn Sql) -> Result<Millis, StoreError> {
    let select = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)";
    sql.query(select, Vec::new()).await?.first().map_or(Ok(0), |row| row.int(0))
}

async fn write_bytes(sql: &mut dyn Sql, id: &str, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
    let at = server_time(sql).await?;
    files::write_rows(sql, id, offset, bytes, at).await
}

async fn discard(sql: &mut dyn Sql, id: &str) -> Result<(), StoreError> {
    sql.execute("DELETE FROM job_chunk WHERE file = $1 AND sealed = 0", values![id]).await?;
    Ok(())
}

async fn tidy(sql: &mut dyn Sql) -> Result<(), StoreError> {
    const DAY: Millis = 24 * 3_600_000;
    let before = server_time(sql).await? - DAY;
    let delete = "DELETE FROM job_chunk WHERE (file, sealed, start) IN
        (SELECT file, sealed, start FROM job_chunk WHERE sealed = 0 AND at < $1 LIMIT 100)";
    sql.execute(delete, values![before]).await?;
    Ok(())
}

impl Backend for PostgresStore {
    fn write<T: Send + 'static>(&self, act: Act<T>) -> Answer<'_, T> {
        Box::pin(self.run(act, false))
    }

    fn read<T: Send + 'static>(&self, act: Act<T>) -> Answer<'_, T> {
        Box::pin(self.run(act, true))
    }

    fn keep(&self, bytes: Vec<u8>) -> Answer<'_, Kept> {
        Box::pin(std::future::ready(Ok(Kept { stored: Stored::Rows(bytes), keep: None })))
    }

    fn load(&self, place: String) -> Answer<'_, Vec<u8>> {
        let nowhere = StoreError::Unavailable(format!("PostgreSQL: bytes lie outside of it, at {place}"));
        Box::pin(std::future::ready(Err(nowhere)))
    }

    fn write_bytes(&self, id: String, offset: u64, bytes: Vec<u8>) -> Answer<'_, ()> {
        let input = Arc::new((id, bytes));
        transaction!(write(self), [input], |sql| write_bytes(sql, &input.0, offset, &input.1))
    }

    fn seal(&self, file: File, now: Millis) -> Answer<'_, ()> {
        let limits = self.limits;
        transaction!(write(self), [file], |sql| files::seal_rows(sql, &file, &limits, now))
    }

    fn discard(&self, id: String) -> Answer<'_, ()> {
        transaction!(write(self), [id], |sql| discard(sql, &id))
    }

    fn read_bytes(&self, id: String, offset: u64, most: usize) -> Answer<'_, Vec<u8>> {
        Box::pin(async move {
            transaction!(read(self), [id], |sql| files::place(sql, &id)).await?;
            transaction!(read(self), [id], |sql| files::read_rows(sql, &id, offset, most)).await
        })
    }

    fn tidy(&self, _now: Millis) -> Answer<'_, ()> {
        self.write(act(|sql| Box::pin(tidy(sql))))
    }

    fn is_alone(&self) -> bool {
        false
    }

    fn woken(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.listener.woken())
    }

    fn credits(&self) -> &Mutex<Credits> {
        &self.credits
    }

    fn limits(&self) -> StoreLimits {
        self.limits
    }
}
