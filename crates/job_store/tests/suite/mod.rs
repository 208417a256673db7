//! One suite for all databases.

mod batches;
mod documents;
mod files;
mod jobs;
mod leases;
mod order;
mod sweep;

use crate::common::{Opened, sqlite};
use job_store::{Store, StoreLimits};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// A test of a store that is new.
pub(crate) type Case = fn(Arc<dyn Store>) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// Bounds of the stores of the suite.
pub(crate) const LIMITS: StoreLimits =
    StoreLimits { open_jobs: 300, open_jobs_of_key: 200, open_lines: 3_000, bytes: 64 << 20 };

macro_rules! cases {
    ($($part:ident: $($name:ident),* $(,)?;)*) => {
        /// All tests of the suite, by name.
        #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "each is a test of its own for SQLite"))]
        pub(crate) const CASES: &[(&str, Case)] =
            &[$($((stringify!($name), |store| Box::pin($part::$name(store)))),*),*];

        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let Opened { store, _folder } = sqlite(LIMITS);
                $part::$name(store).await;
            }
        )*)*
    };
}

cases! {
    jobs: a_job_from_offer_to_result, large_bodies_and_results, other_keys_see_nothing, idempotency, limits,
        cancelled_jobs, retried_and_deleted_jobs, lists_are_newest_first, events_are_bounded, responses_tell_webhooks;
    leases: renewals, old_epochs_are_fenced, released_with_a_checkpoint, retries_wait_and_die, lost_leases,
        taken_back_at_the_start, a_cancel_reaches_the_worker, concurrent_workers_share_the_work;
    order: classes_share_by_credits, keys_take_turns, jobs_that_run_alone, not_before_their_time,
        lines_follow_their_ranks;
    batches: a_batch_from_file_to_end, lines_are_added_once, a_failed_batch_forgets_its_lines,
        cancelled_batches, expired_batches, many_lines_in_chunks, lists_of_batches, batches_are_idempotent,
        deleted_batches;
    files: written_sealed_and_read, files_that_are_read_stay, lists_of_files, abuse_names_of_files;
    documents: documents_are_kept_and_taken, workers_are_seen;
    sweep: deadlines, retention_and_tombstones, files_expire, ended_batches_are_forgotten, numbers,
        a_clock_that_jumps_back, waiting_for_work;
}
