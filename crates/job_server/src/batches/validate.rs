//! A batch's input becomes jobs.

use std::sync::Arc;

use job_store::StoreError;
use jobs::Batch;
use jobs::batch::FileError;
use tokio::task::spawn_blocking;

use super::input::{Input, Item};
use super::prepare::{Preparer, line};
use crate::shared::Jobs;

/// Bytes of the input that are read at once.
const PIECE: usize = 256 << 10;
/// Lines that one transaction adds.
const LINES: usize = 1_000;
/// Bytes of lines that wait to be added.
const BYTES: usize = 8 << 20;

/// Reads the input of a batch and adds its lines, those that the store does not have yet; then they may be run. An input that
/// is at fault makes the batch fail.
///
/// # Errors
/// A store that is full or out of reach: the next call goes on where this one ended.
pub(super) async fn validate(jobs: &Arc<Jobs>, batch: Batch) -> Result<(), StoreError> {
    let preparer = Preparer::new(jobs, &batch);
    let mut work = Validation { jobs, batch, preparer: Some(preparer), waiting: Vec::new(), bytes: 0 };
    match work.read().await? {
        Err(errors) => {
            jobs.store.fail_batch(&work.batch.id, errors, jobs.now()).await?;
        }
        Ok(()) => work.begin().await?,
    }
    Ok(())
}

struct Validation<'a> {
    jobs: &'a Arc<Jobs>,
    batch: Batch,
    /// Away while it works on another thread.
    preparer: Option<Preparer>,
    waiting: Vec<Item>,
    bytes: usize,
}

/// What is wrong with an input.
type Faulty = Result<(), Vec<FileError>>;

impl Validation<'_> {
    async fn read(&mut self) -> Result<Faulty, StoreError> {
        let mut input = Input::of(&self.batch, &self.jobs.options);
        let mut at = 0;
        while !input.is_over() {
            let piece = match self.jobs.store.read_file(&self.batch.input_file, at, PIECE).await {
                Ok(piece) => piece,
                Err(StoreError::NotFound(_) | StoreError::Gone(_)) => {
                    return Ok(Err(vec![lost(&self.batch)]));
                }
                Err(error) => return Err(error),
            };
            if piece.is_empty() {
                break;
            }
            at += piece.len() as u64;
            let items = input.feed(&piece);
            if let Err(errors) = self.take(items, input.is_faulty()).await? {
                return Ok(Err(errors));
            }
        }
        let (items, errors) = input.finish();
        if !errors.is_empty() {
            return Ok(Err(errors));
        }
        let taken = self.take(items, false).await?;
        if taken.is_err() {
            return Ok(taken);
        }
        self.flush().await
    }

    /// Takes requests, and adds them when there are enough. Of a faulty input, only the other faults are of interest.
    async fn take(&mut self, items: Vec<Item>, faulty: bool) -> Result<Faulty, StoreError> {
        if faulty {
            self.waiting.clear();
            return Ok(Ok(()));
        }
        for item in items {
            self.bytes += item.body.len();
            self.waiting.push(item);
            if self.waiting.len() >= LINES || self.bytes >= BYTES {
                let flushed = self.flush().await?;
                if flushed.is_err() {
                    return Ok(flushed);
                }
            }
        }
        Ok(Ok(()))
    }

    async fn flush(&mut self) -> Result<Faulty, StoreError> {
        let items = std::mem::take(&mut self.waiting);
        self.bytes = 0;
        let Some(mut preparer) = self.preparer.take() else { return Err(stopped()) };
        let from = self.batch.lines_read;
        let work = spawn_blocking(move || {
            let prepared = preparer.prepare(items, from);
            (preparer, prepared)
        });
        let (preparer, prepared) = work.await.map_err(|_| stopped())?;
        self.preparer = Some(preparer);
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Ok(Err(vec![error])),
        };
        if !prepared.is_empty() {
            let lines = prepared.into_iter().map(|prepared| line(self.jobs, &self.batch, prepared)).collect();
            self.batch = self.jobs.store.add_lines(&self.batch.id, from, lines, self.jobs.now()).await?;
        }
        Ok(Ok(()))
    }

    /// Sets the order of the lines, which may be run from now on.
    async fn begin(self) -> Result<(), StoreError> {
        let Some(preparer) = self.preparer else { return Err(stopped()) };
        let order = spawn_blocking(move || preparer.orderer.finish()).await.map_err(|_| stopped())?;
        let reuse = order.reuse.share();
        self.jobs.store.begin_batch(&self.batch.id, order.ranks, self.jobs.now()).await?;
        tracing::info!(batch = self.batch.id, lines = self.batch.lines_read, reuse, "a batch begins");
        Ok(())
    }
}

fn stopped() -> StoreError {
    StoreError::Unavailable("requests of a batch were not checked: the server stops".to_owned())
}

fn lost(batch: &Batch) -> FileError {
    FileError {
        code: "file_not_found".to_owned(),
        message: format!("The input file {} is no longer there.", batch.input_file),
        line: None,
        param: Some("input_file_id".to_owned()),
    }
}
