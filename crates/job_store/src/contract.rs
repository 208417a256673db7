//! The contract of a store over any database.

use crate::backend::Backend;
use crate::common::{Common, transaction};
use crate::error::StoreError;
use crate::ops::{accept, batches, documents, files, jobs, stats};
use crate::rows::{BODY, RESULT};
use crate::store::{Answer, Store};
use crate::types::{
    Accepted, BatchFilter, CancelOutcome, Claim, Claimed, Document, DocumentFilter, FileFilter, Finish,
    Finished, IdempotencyKey, JobEvent, JobFilter, LineResult, NewJob, NewLine, Page, Renewal, Renewed,
    Stats, Swept, Worker,
};
use ::jobs::batch::{Batch, FileError};
use ::jobs::{File, Job, Millis};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// The most bytes of a file that one call reads.
const READ: usize = 16 << 20;

/// Ids of files are names of files too.
fn check_file_id(id: &str) -> Result<(), StoreError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if (1..=128).contains(&id.len()) && id.bytes().all(plain) {
        Ok(())
    } else {
        Err(StoreError::NotFound("file"))
    }
}

impl<B: Backend> Store for B {
    fn accept(&self, job: NewJob, key: Option<IdempotencyKey>, now: Millis) -> Answer<'_, Accepted> {
        let limits = self.limits();
        Box::pin(async move {
            let size = job.body.len() as u64;
            let (job, body) = (Arc::new(job.job), job.body);
            // Before large bytes are written for nothing.
            transaction!(read(self), [job], |sql| accept::check(sql, &job, size, &limits)).await?;
            let kept = self.keep(body).await?;
            let input = Arc::new((job, kept, key));
            let accept = transaction!(write(self), [input], |sql| accept::accept(
                sql,
                &input.0,
                &input.1.stored,
                input.2.as_ref(),
                &limits,
                now
            ));
            accept.await
        })
    }

    fn job(&self, id: &str, key: Option<&str>) -> Answer<'_, Job> {
        let (id, key) = owned(id, key);
        transaction!(read(self), [id, key], |sql| jobs::get(sql, &id, key.as_deref()))
    }

    fn body(&self, id: &str) -> Answer<'_, Vec<u8>> {
        let id = id.to_owned();
        Box::pin(async move { Common(self).part(id, BODY).await })
    }

    fn result(&self, id: &str) -> Answer<'_, Vec<u8>> {
        let id = id.to_owned();
        Box::pin(async move { Common(self).part(id, RESULT).await })
    }

    fn jobs(&self, filter: JobFilter) -> Answer<'_, Page<Job>> {
        transaction!(read(self), [filter], |sql| jobs::list(sql, &filter))
    }

    fn events(&self, id: &str, after: u64) -> Answer<'_, Vec<JobEvent>> {
        let id = id.to_owned();
        transaction!(read(self), [id], |sql| jobs::events(sql, &id, after))
    }

    fn claim(&self, claim: Claim, now: Millis) -> Answer<'_, Vec<Claimed>> {
        Box::pin(async move { Common(self).claim(claim, now).await })
    }

    fn renew(&self, renewals: Vec<Renewal>, now: Millis) -> Answer<'_, Vec<Renewed>> {
        Box::pin(async move { Common(self).renew(renewals, now).await })
    }

    fn finish(&self, id: &str, epoch: u64, finish: Finish, now: Millis) -> Answer<'_, Finished> {
        let id = id.to_owned();
        Box::pin(async move { Common(self).finish(id, epoch, finish, now).await })
    }

    fn cancel(&self, id: &str, key: Option<&str>, now: Millis) -> Answer<'_, Job> {
        let (id, key) = owned(id, key);
        transaction!(write(self), [id, key], |sql| jobs::cancel(sql, &id, key.as_deref(), now))
    }

    fn retry(&self, id: &str, key: Option<&str>, deadline: Option<Millis>, now: Millis) -> Answer<'_, Job> {
        let (id, key) = owned(id, key);
        transaction!(write(self), [id, key], |sql| jobs::retry(sql, &id, key.as_deref(), deadline, now))
    }

    fn delete(&self, id: &str, key: Option<&str>, now: Millis) -> Answer<'_, ()> {
        let (id, key) = owned(id, key);
        transaction!(write(self), [id, key], |sql| jobs::delete(sql, &id, key.as_deref(), now))
    }

    fn create_batch(&self, batch: Batch, key: Option<IdempotencyKey>, now: Millis) -> Answer<'_, Batch> {
        let input = Arc::new((batch, key));
        transaction!(write(self), [input], |sql| accept::create_batch(sql, &input.0, input.1.as_ref(), now))
    }

    fn batch(&self, id: &str, key: Option<&str>) -> Answer<'_, Batch> {
        let (id, key) = owned(id, key);
        transaction!(read(self), [id, key], |sql| batches::get(sql, &id, key.as_deref()))
    }

    fn batches(&self, filter: BatchFilter) -> Answer<'_, Page<Batch>> {
        transaction!(read(self), [filter], |sql| batches::list(sql, &filter))
    }

    fn batches_due(&self, now: Millis) -> Answer<'_, Vec<Batch>> {
        transaction!(read(self), [], |sql| batches::due(sql, now))
    }

    fn add_lines(&self, batch: &str, from: u64, lines: Vec<NewLine>, now: Millis) -> Answer<'_, Batch> {
        let batch = batch.to_owned();
        Box::pin(async move { Common(self).add_lines(batch, from, lines, now).await })
    }

    fn begin_batch(&self, batch: &str, ranks: Vec<(u64, i64)>, now: Millis) -> Answer<'_, Batch> {
        let batch = batch.to_owned();
        Box::pin(async move { Common(self).begin_batch(batch, ranks, now).await })
    }

    fn fail_batch(&self, batch: &str, errors: Vec<FileError>, now: Millis) -> Answer<'_, Batch> {
        let (id, errors) = (batch.to_owned(), Arc::new(errors));
        Box::pin(async move {
            let fail = transaction!(write(self), [id, errors], |sql| batches::fail(sql, &id, &errors, now));
            let batch = fail.await?;
            Common(self).work_off(&id, now).await?;
            Ok(batch)
        })
    }

    fn cancel_batch(&self, batch: &str, key: Option<&str>, now: Millis) -> Answer<'_, CancelOutcome> {
        let (id, key) = owned(batch, key);
        Box::pin(async move {
            let cancel =
                transaction!(write(self), [id, key], |sql| batches::cancel(sql, &id, key.as_deref(), now));
            let outcome = cancel.await?;
            let CancelOutcome::Cancelling(_) = outcome else { return Ok(outcome) };
            Common(self).work_off(&id, now).await?;
            let batch = Common(self).batch_now(id).await?;
            Ok(CancelOutcome::Cancelling(Box::new(batch)))
        })
    }

    fn expire_batch(&self, batch: &str, now: Millis) -> Answer<'_, Batch> {
        let id = batch.to_owned();
        Box::pin(async move {
            transaction!(write(self), [id], |sql| batches::expire(sql, &id, now)).await?;
            Common(self).work_off(&id, now).await?;
            Common(self).batch_now(id).await
        })
    }

    fn finalize_batch(
        &self,
        batch: &str,
        output: Option<String>,
        errors: Option<String>,
        now: Millis,
    ) -> Answer<'_, Batch> {
        let input = Arc::new((batch.to_owned(), output, errors));
        transaction!(write(self), [input], |sql| batches::finalize(
            sql,
            &input.0,
            input.1.as_ref(),
            input.2.as_ref(),
            now
        ))
    }

    fn end_batch(&self, batch: &str, now: Millis) -> Answer<'_, Batch> {
        let id = batch.to_owned();
        transaction!(write(self), [id], |sql| batches::end(sql, &id, now))
    }

    fn delete_batch(&self, batch: &str, key: Option<&str>, now: Millis) -> Answer<'_, ()> {
        let (id, key) = owned(batch, key);
        Box::pin(async move {
            transaction!(write(self), [id, key], |sql| batches::delete(sql, &id, key.as_deref(), now))
                .await?;
            Common(self).work_off(&id, now).await?;
            Ok(())
        })
    }

    fn lines(&self, batch: &str, from: u64, limit: usize, gapless: bool) -> Answer<'_, Vec<LineResult>> {
        let batch = batch.to_owned();
        Box::pin(async move { Common(self).lines(batch, from, limit, gapless).await })
    }

    fn write_file(&self, id: &str, offset: u64, bytes: Vec<u8>) -> Answer<'_, ()> {
        let (id, limits) = (id.to_owned(), self.limits());
        Box::pin(async move {
            check_file_id(&id)?;
            let more = offset.saturating_add(bytes.len() as u64);
            transaction!(read(self), [], |sql| files::check_space(sql, more, &limits)).await?;
            self.write_bytes(id, offset, bytes).await
        })
    }

    fn seal_file(&self, file: File, now: Millis) -> Answer<'_, File> {
        Box::pin(async move {
            check_file_id(&file.id)?;
            self.seal(file.clone(), now).await?;
            Ok(file)
        })
    }

    fn discard_file(&self, id: &str) -> Answer<'_, ()> {
        let id = id.to_owned();
        Box::pin(async move {
            check_file_id(&id)?;
            self.discard(id).await
        })
    }

    fn file(&self, id: &str, key: Option<&str>) -> Answer<'_, File> {
        let (id, key) = owned(id, key);
        transaction!(read(self), [id, key], |sql| files::get(sql, &id, key.as_deref()))
    }

    fn read_file(&self, id: &str, offset: u64, most: usize) -> Answer<'_, Vec<u8>> {
        self.read_bytes(id.to_owned(), offset, most.min(READ))
    }

    fn files(&self, filter: FileFilter) -> Answer<'_, Page<File>> {
        transaction!(read(self), [filter], |sql| files::list(sql, &filter))
    }

    fn delete_file(&self, id: &str, key: Option<&str>, now: Millis) -> Answer<'_, ()> {
        let (id, key) = owned(id, key);
        transaction!(write(self), [id, key], |sql| files::delete(sql, &id, key.as_deref(), now))
    }

    fn put_document(&self, document: Document, _now: Millis) -> Answer<'_, ()> {
        transaction!(write(self), [document], |sql| documents::put(sql, &document))
    }

    fn take_due(
        &self,
        kind: &str,
        most: usize,
        lease_until: Millis,
        now: Millis,
    ) -> Answer<'_, Vec<Document>> {
        let kind = kind.to_owned();
        transaction!(write(self), [kind], |sql| documents::take_due(sql, &kind, most, lease_until, now))
    }

    fn documents(&self, filter: DocumentFilter) -> Answer<'_, Page<Document>> {
        transaction!(read(self), [filter], |sql| documents::list(sql, &filter))
    }

    fn seen(&self, worker: Worker, now: Millis) -> Answer<'_, ()> {
        transaction!(write(self), [worker], |sql| documents::seen(sql, &worker, now))
    }

    fn take_back(&self, now: Millis) -> Answer<'_, u64> {
        Box::pin(async move { if self.is_alone() { Common(self).take_back(now).await } else { Ok(0) } })
    }

    fn sweep(&self, now: Millis) -> Answer<'_, Swept> {
        Box::pin(async move { Common(self).sweep(now).await })
    }

    fn stats(&self, _now: Millis) -> Answer<'_, Stats> {
        transaction!(read(self), [], |sql| stats::stats(sql))
    }

    fn wait_for_work(&self, most: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            // Woken or not, the caller asks again.
            let _ = tokio::time::timeout(most, self.woken()).await;
        })
    }
}

fn owned(id: &str, key: Option<&str>) -> (String, Option<String>) {
    (id.to_owned(), key.map(str::to_owned))
}
