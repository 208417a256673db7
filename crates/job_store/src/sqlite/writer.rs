//! The one writer: transactions that wait together are committed together, with one synchronization of the disk.
//!
//! Each transaction is a savepoint of its group, so that one that fails does not undo the others. While a group is
//! committed, the next ones gather; whoever finds no group running starts the work on a thread that may block.

use super::connection::{SqliteSql, at_once};
use crate::error::StoreError;
use crate::sql::Act;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::spawn_blocking;

/// Transactions of a group at most.
const GROUP: usize = 64;

/// Transactions that wait at most; further callers wait before they are in the queue.
const WAITING: usize = 1_024;

/// How long a store waits for its last transactions when it is closed.
const CLOSING: Duration = Duration::from_secs(5);

/// A transaction that waits.
trait Call: Send {
    /// Does it, inside the group.
    fn run(&mut self, sql: &mut SqliteSql) -> bool;

    /// Tells the caller, after the group.
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

struct Write<T> {
    act: Act<T>,
    result: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
    _room: OwnedSemaphorePermit,
}

impl<T: Send> Call for Write<T> {
    fn run(&mut self, sql: &mut SqliteSql) -> bool {
        let result = at_once((self.act)(sql));
        let done = result.is_ok();
        self.result = Some(result);
        done
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        let result = match (committed, self.result) {
            // It was refused by itself, whatever became of the others.
            (_, Some(Err(error))) => Err(error),
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => Err(StoreError::Unavailable("a transaction was not run".to_owned())),
            (Err(error), _) => Err(error),
        };
        // The caller may have gone.
        let _ = self.reply.send(result);
    }
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Box<dyn Call>>,
    running: bool,
}

/// The writer.
pub(crate) struct Writer {
    queue: Mutex<Queue>,
    room: Arc<Semaphore>,
    sql: Mutex<SqliteSql>,
    pub(crate) woken: Notify,
    /// Told when no group runs.
    idle: Condvar,
}

impl Writer {
    pub(crate) fn new(sql: SqliteSql) -> Writer {
        Writer {
            queue: Mutex::default(),
            room: Arc::new(Semaphore::new(WAITING)),
            sql: Mutex::new(sql),
            woken: Notify::new(),
            idle: Condvar::new(),
        }
    }

    /// Does a transaction. If the future is dropped, it may still be done.
    pub(crate) async fn write<T: Send + 'static>(self: Arc<Self>, act: Act<T>) -> Result<T, StoreError> {
        let gone = || StoreError::Unavailable("SQLite: the call was ended by the runtime".to_owned());
        let room = self.room.clone().acquire_owned().await.map_err(|_| gone())?;
        let (reply, answer) = oneshot::channel();
        self.enqueue(Box::new(Write { act, result: None, reply, _room: room }));
        answer.await.map_err(|_| gone())?
    }

    fn enqueue(self: Arc<Self>, call: Box<dyn Call>) {
        let mut queue = self.lock_queue();
        queue.waiting.push_back(call);
        if !queue.running {
            queue.running = true;
            drop(queue);
            self.start();
        }
    }

    /// Blocks until nothing is written any more, at most for [`CLOSING`].
    pub(crate) fn wait_until_idle(&self) {
        let queue = self.lock_queue();
        // If it takes longer, SQLite's own locks still keep two processes apart.
        let _ = self.idle.wait_timeout_while(queue, CLOSING, |queue| queue.running);
    }

    fn start(self: Arc<Self>) {
        let turn = Turn(self);
        drop(spawn_blocking(move || while turn.0.group() {}));
    }

    fn lock_queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does a group. Returns whether there was one.
    fn group(&self) -> bool {
        let mut calls: Vec<Box<dyn Call>> = {
            let mut queue = self.lock_queue();
            let count = queue.waiting.len().min(GROUP);
            queue.waiting.drain(..count).collect()
        };
        if calls.is_empty() {
            return false;
        }
        // After a panic, what it left open is rolled back here.
        let mut sql = self.sql.lock().unwrap_or_else(PoisonError::into_inner);
        sql.roll_back();
        sql.woke = false;
        let committed = run_group(&mut sql, &mut calls);
        if committed.is_err() {
            sql.roll_back();
        }
        let woke = sql.woke && committed.is_ok();
        drop(sql);
        for call in calls {
            call.answer(committed.clone());
        }
        if woke {
            self.woken.notify_one();
        }
        true
    }
}

fn run_group(sql: &mut SqliteSql, calls: &mut [Box<dyn Call>]) -> Result<(), StoreError> {
    sql.control("BEGIN IMMEDIATE")?;
    for call in calls.iter_mut() {
        sql.control("SAVEPOINT call")?;
        if !call.run(sql) {
            if sql.connection.is_autocommit() {
                // A full disk ends the whole transaction.
                return Err(StoreError::Full("a transaction of the same group found no space".to_owned()));
            }
            sql.control("ROLLBACK TO call")?;
        }
        sql.control("RELEASE call")?;
    }
    sql.control("COMMIT")
}

/// The right to work on the queue. Given back when the queue is empty, and after a panic.
struct Turn(Arc<Writer>);

impl Drop for Turn {
    fn drop(&mut self) {
        let mut queue = self.0.lock_queue();
        // Something may have come since the last look, when nobody else started.
        let more = !queue.waiting.is_empty() && tokio::runtime::Handle::try_current().is_ok();
        queue.running = more;
        drop(queue);
        if more {
            self.0.clone().start();
        } else {
            self.0.idle.notify_all();
        }
    }
}
