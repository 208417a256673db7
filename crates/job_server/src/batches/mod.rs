//! What is done with a batch beside running its lines.

use crate::shared::Jobs;

/// Does what is next for a batch that is due.
pub(crate) async fn step(_jobs: &Jobs, _batch: jobs::Batch) {}
