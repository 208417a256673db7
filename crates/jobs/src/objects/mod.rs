//! What clients see of jobs, batches and files: objects of the APIs, field for field.
//!
//! An object borrows from the row that it shows and is written by serde.

mod batch;
mod file;
mod job;
mod list;
mod message_batch;
mod rfc3339;
mod usage;

pub use batch::{BatchObject, batch_object};
pub use file::{FileObject, file_object};
pub use job::{JobContext, JobObject, MAX_INLINE_RESULT, job_object};
pub use list::{Deleted, DeletedMessageBatch, List, MessageList};
pub use message_batch::{MessageBatchObject, message_batch_object};
pub use rfc3339::rfc3339;
pub use usage::{UsageObject, usage_object};

#[cfg(test)]
mod tests;
