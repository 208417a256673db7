//! Requests of a batch, checked and made ready to be run.

use std::sync::Arc;

use job_store::NewLine;
use jobs::batch::FileError;
use jobs::{Batch, BatchKind, Class, Face, Job, Orderer, beginning, sha256_hex};
use wire::Fault;

use super::input::Item;
use crate::executor::{Checked, Executor};
use crate::shared::Jobs;

/// Hashes of blocks that are remembered to find the order of a batch: 32 MiB.
const BLOCKS: usize = 4 << 20;

/// A request that was checked.
pub(super) struct Prepared {
    pub(super) index: u64,
    pub(super) custom_id: String,
    /// What is kept of it; a request that is at fault is kept as it is, and answered with its error when it is run.
    pub(super) checked: Checked,
}

/// Checks requests, and finds the order in which they share the most.
pub(super) struct Preparer {
    executor: Arc<dyn Executor>,
    endpoint: String,
    key: String,
    kind: BatchKind,
    pub(super) orderer: Orderer,
}

impl Preparer {
    pub(super) fn new(jobs: &Jobs, batch: &Batch) -> Preparer {
        Preparer {
            executor: jobs.executor.clone(),
            endpoint: batch.endpoint.clone(),
            key: batch.key.clone(),
            kind: batch.kind,
            orderer: Orderer::with_blocks(BLOCKS),
        }
    }

    /// Checks requests. Those before `from` are known to the store and only take part in the order. Blocks.
    ///
    /// # Errors
    /// What is wrong with the input as a whole.
    pub(super) fn prepare(&mut self, items: Vec<Item>, from: u64) -> Result<Vec<Prepared>, FileError> {
        let mut ready = Vec::with_capacity(items.len());
        for item in items {
            let checked = self.check(&item)?;
            let output = checked.output_limit.unwrap_or(0);
            self.orderer.add(item.index, &beginning(&checked.body), output);
            if item.index >= from {
                ready.push(Prepared { index: item.index, custom_id: item.custom_id, checked });
            }
        }
        Ok(ready)
    }

    fn check(&self, item: &Item) -> Result<Checked, FileError> {
        match self.executor.check(&self.endpoint, &item.body, &self.key) {
            Ok(checked) => Ok(checked),
            Err(fault) if self.kind == BatchKind::OpenAi && fault.code == Some("model_not_found") => {
                Err(model_error(item, &fault))
            }
            Err(_) => Ok(Checked { model: String::new(), body: item.body.clone(), output_limit: None }),
        }
    }
}

fn model_error(item: &Item, fault: &Fault) -> FileError {
    FileError {
        code: "model_not_found".to_owned(),
        message: fault.message.clone(),
        line: Some(item.line),
        param: Some("body.model".to_owned()),
    }
}

/// A request as a line of its batch.
pub(super) fn line(jobs: &Jobs, batch: &Batch, prepared: Prepared) -> NewLine {
    let Prepared { index, custom_id, checked } = prepared;
    let face = match batch.kind {
        BatchKind::OpenAi => Face::BatchLine,
        BatchKind::Anthropic => Face::MessageLine,
    };
    let mut job = Job::new(jobs.id("batch_req_"), face, batch.endpoint.clone(), jobs.now());
    job.key.clone_from(&batch.key);
    job.batch = Some(batch.id.clone());
    job.line = Some(index);
    job.custom_id = Some(custom_id);
    job.model = checked.model;
    job.body_sha256 = sha256_hex(&checked.body);
    job.class = Class::Batch;
    job.deadline = Some(batch.expires_at);
    job.max_attempts = jobs.options.attempts;
    job.progress.output_limit = checked.output_limit;
    NewLine { job, body: checked.body }
}
