//! The files of a batch whose lines have all ended.

use std::sync::Arc;

use job_store::{LineResult, StoreError};
use jobs::output::{Place, anthropic_line, openai_line, place};
use jobs::{Batch, BatchKind, Millis, Purpose};

use crate::faces::files::draft::{About, Draft};
use crate::shared::Jobs;

/// Lines that are read at once.
const LINES: usize = 64;

/// Writes the files of a batch and ends it. What an earlier attempt has chosen and finished stays.
///
/// # Errors
/// A store that is full or out of reach: the next call writes what is missing.
pub(super) async fn finalize(jobs: &Arc<Jobs>, batch: Batch) -> Result<(), StoreError> {
    let batch = if batch.finalizing_at.is_some() { batch } else { choose(jobs, &batch).await? };
    write(jobs, &batch).await?;
    jobs.store.end_batch(&batch.id, jobs.now()).await?;
    jobs.tell(&batch.id);
    Ok(())
}

/// Chooses the ids of the files.
async fn choose(jobs: &Jobs, batch: &Batch) -> Result<Batch, StoreError> {
    let counts = &batch.counts;
    let (output, errors) = match batch.kind {
        BatchKind::OpenAi => (counts.succeeded > 0, counts.total > counts.succeeded),
        BatchKind::Anthropic => (counts.total > 0, false),
    };
    let id = |wanted: bool| wanted.then(|| jobs.id("file-"));
    jobs.store.finalize_batch(&batch.id, id(output), id(errors), jobs.now()).await
}

/// The files that are missing.
struct Files {
    output: Option<Draft>,
    errors: Option<Draft>,
}

async fn write(jobs: &Arc<Jobs>, batch: &Batch) -> Result<(), StoreError> {
    let mut files = Files {
        output: missing(jobs, batch.output_file.as_ref()).await?,
        errors: missing(jobs, batch.error_file.as_ref()).await?,
    };
    if files.output.is_none() && files.errors.is_none() {
        return Ok(());
    }
    let mut next = 0;
    loop {
        let lines = jobs.store.lines(&batch.id, next, LINES, false).await?;
        let Some(last) = lines.last().and_then(|line| line.job.line) else { break };
        for line in &lines {
            files.add(batch.kind, line).await?;
        }
        next = last + 1;
    }
    if let Some(output) = files.output {
        output.seal(about(jobs, batch, "output")).await?;
    }
    if let Some(errors) = files.errors {
        errors.seal(about(jobs, batch, "errors")).await?;
    }
    Ok(())
}

/// A file that is to be written, unless it is there.
async fn missing(jobs: &Arc<Jobs>, id: Option<&String>) -> Result<Option<Draft>, StoreError> {
    let Some(id) = id else { return Ok(None) };
    match jobs.store.file(id, None).await {
        Ok(_) => Ok(None),
        Err(StoreError::NotFound(_) | StoreError::Gone(_)) => Ok(Some(Draft::new(jobs, id.clone()))),
        Err(error) => Err(error),
    }
}

impl Files {
    async fn add(&mut self, kind: BatchKind, line: &LineResult) -> Result<(), StoreError> {
        let (file, mut written) = match (kind, place(&line.job)) {
            (BatchKind::Anthropic, _) => (&mut self.output, anthropic_line(&line.job, &line.result)),
            (BatchKind::OpenAi, Place::Output) => (&mut self.output, openai_line(&line.job, &line.result)),
            (BatchKind::OpenAi, Place::Errors) => (&mut self.errors, openai_line(&line.job, &line.result)),
        };
        written.push(b'\n');
        match file {
            Some(file) => file.write(&written).await,
            None => Ok(()),
        }
    }
}

fn about(jobs: &Jobs, batch: &Batch, what: &str) -> About {
    let kept: Millis = match batch.kind {
        BatchKind::OpenAi => {
            let seconds = batch.output_seconds.map(|seconds| seconds.saturating_mul(1_000));
            jobs.now().saturating_add(seconds.unwrap_or(jobs.options.retention.files))
        }
        BatchKind::Anthropic => batch.created_at.saturating_add(jobs.options.retention.messages),
    };
    About {
        key: batch.key.clone(),
        filename: format!("{}_{what}.jsonl", batch.id),
        purpose: Purpose::BatchOutput,
        expires_at: Some(kept),
        hidden: batch.kind == BatchKind::Anthropic,
    }
}
