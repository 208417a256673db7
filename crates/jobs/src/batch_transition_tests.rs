#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use super::*;
use crate::job::Face;
use proptest::prelude::*;

const NOW: Millis = 1_000_000;
const END: Millis = NOW + 86_400_000;

fn validating() -> Batch {
    Batch::new("batch_1".to_owned(), BatchKind::OpenAi, "/v1/chat/completions".to_owned(), NOW, END)
}

fn in_progress(lines: u64) -> Batch {
    let mut batch = validating();
    batch.add_lines(0, lines).unwrap();
    batch.begin(NOW + 1).unwrap();
    batch
}

fn line_ends(batch: &mut Batch, outcome: LineOutcome) {
    assert_eq!(batch.line_ended(outcome, None, None), Ok(BatchChange::LineEnded));
}

fn settled() -> Batch {
    let mut batch = in_progress(1);
    line_ends(&mut batch, LineOutcome::Succeeded);
    batch
}

fn finalizing() -> Batch {
    let mut batch = settled();
    batch.finalize(Some("file-a".to_owned()), None, NOW + 2).unwrap();
    batch
}

fn cancelling(open: u64) -> Batch {
    let mut batch = in_progress(open);
    batch.cancel(NOW + 2).unwrap();
    batch
}

fn ended() -> [Batch; 4] {
    let mut completed = finalizing();
    completed.end(NOW + 3).unwrap();
    let mut failed = validating();
    failed.fail(vec![], NOW + 3).unwrap();
    let mut expired = validating();
    expired.expire(END).unwrap();
    expired.finalize(None, None, END).unwrap();
    expired.end(END).unwrap();
    let mut cancelled = validating();
    cancelled.cancel(NOW).unwrap();
    cancelled.finalize(None, None, NOW).unwrap();
    cancelled.end(NOW).unwrap();
    [completed, failed, expired, cancelled]
}

fn refused(
    batch: &Batch,
    event: impl FnOnce(&mut Batch) -> Result<BatchChange, BatchRefused>,
) -> BatchRefused {
    let mut tried = batch.clone();
    let refused = event(&mut tried).unwrap_err();
    assert_eq!(tried, *batch);
    refused
}

#[test]
fn lines_are_added_in_order() {
    let mut batch = validating();
    assert_eq!(batch.add_lines(0, 1_000), Ok(BatchChange::LinesAdded));
    assert_eq!(batch.add_lines(1_000, 7), Ok(BatchChange::LinesAdded));
    assert_eq!((batch.lines_read, batch.counts.total), (1_007, 1_007));
    let other = BatchRefused::OtherPlace { lines_read: 1_007 };
    assert_eq!(refused(&batch, |batch| batch.add_lines(0, 1_000)), other);
    assert_eq!(refused(&batch, |batch| batch.add_lines(1_008, 1)), other);
    assert_eq!(refused(&in_progress(3), |batch| batch.add_lines(3, 1)), BatchRefused::NotValidating);
}

#[test]
fn a_batch_with_lines_begins() {
    let mut batch = validating();
    assert_eq!(refused(&batch, |batch| batch.begin(NOW)), BatchRefused::Empty);
    batch.add_lines(0, 2).unwrap();
    assert_eq!(batch.begin(NOW + 5), Ok(BatchChange::InProgress));
    assert_eq!((batch.status, batch.in_progress_at), (BatchStatus::InProgress, Some(NOW + 5)));
    assert_eq!(refused(&batch, |batch| batch.begin(NOW)), BatchRefused::NotValidating);
}

#[test]
fn a_batch_with_a_bad_file_fails() {
    let error = FileError { code: "empty_file".to_owned(), message: String::new(), line: None, param: None };
    let mut batch = validating();
    batch.add_lines(0, 2).unwrap();
    assert_eq!(batch.fail(vec![error.clone(); 101], NOW + 5), Ok(BatchChange::Failed));
    assert_eq!((batch.status, batch.failed_at), (BatchStatus::Failed, Some(NOW + 5)));
    assert_eq!((batch.errors.len(), batch.counts), (100, Counts::default()));
    assert_eq!(refused(&in_progress(1), |batch| batch.fail(vec![error], NOW)), BatchRefused::NotValidating);
}

#[test]
fn an_open_batch_is_cancelled_after_its_lines() {
    for mut batch in [validating(), in_progress(2)] {
        assert_eq!(batch.cancel(NOW + 5), Ok(BatchChange::Cancelling));
        assert_eq!((batch.status, batch.cancelling_at), (BatchStatus::Cancelling, Some(NOW + 5)));
        assert_eq!(refused(&batch, |batch| batch.cancel(NOW + 6)), BatchRefused::Cancelling);
        assert_eq!(refused(&batch, |batch| batch.add_lines(0, 1)), BatchRefused::NotValidating);
        while !batch.is_settled() {
            assert_eq!(refused(&batch, |batch| batch.finalize(None, None, NOW)), BatchRefused::Open);
            line_ends(&mut batch, LineOutcome::Cancelled);
        }
        assert_eq!(batch.finalize(None, Some("file-e".to_owned()), NOW + 7), Ok(BatchChange::Finalizing));
        assert_eq!(batch.status, BatchStatus::Cancelling);
        assert_eq!(batch.end(NOW + 8), Ok(BatchChange::Cancelled));
        assert_eq!((batch.status, batch.cancelled_at), (BatchStatus::Cancelled, Some(NOW + 8)));
        assert_eq!(refused(&batch, |batch| batch.cancel(NOW + 9)), BatchRefused::Cancelling);
    }
}

#[test]
fn a_batch_without_open_lines_is_not_cancelled() {
    let [completed, failed, expired, _] = ended();
    for batch in [finalizing(), completed, failed, expired] {
        assert_eq!(refused(&batch, |batch| batch.cancel(NOW)), BatchRefused::Ended);
    }
}

/// litellm #27944: the cost of batches was 0.
#[test]
fn fault_a_completed_batch_counts_its_lines() {
    let mut batch = in_progress(3);
    let usage = Usage { input_tokens: 5, cached_tokens: 1, output_tokens: 2, reasoning_tokens: 1 };
    batch.line_ended(LineOutcome::Succeeded, Some(usage), Some(7)).unwrap();
    batch.line_ended(LineOutcome::Errored, Some(usage), None).unwrap();
    assert!(!batch.is_settled());
    batch.line_ended(LineOutcome::Succeeded, None, Some(5)).unwrap();
    assert_eq!(batch.counts, Counts { total: 3, succeeded: 2, errored: 1, cancelled: 0, expired: 0 });
    assert_eq!((batch.usage.input_tokens, batch.usage.output_tokens), (10, 4));
    assert_eq!(batch.cost_micros, Some(12));
    assert!(batch.is_settled());
    assert_eq!(
        refused(&batch, |batch| batch.line_ended(LineOutcome::Succeeded, None, None)),
        BatchRefused::Settled
    );
    assert_eq!(refused(&batch, |batch| batch.end(NOW)), BatchRefused::NotFinalized);
}

/// aibrix #2205: batches stayed in `finalizing`.
#[test]
fn fault_files_are_chosen_once() {
    let mut batch = finalizing();
    assert_eq!(batch.status, BatchStatus::Finalizing);
    let again = refused(&batch, |batch| batch.finalize(Some("file-b".to_owned()), None, NOW + 9));
    assert_eq!(again, BatchRefused::Finalized);
    assert_eq!((batch.output_file.as_deref(), batch.error_file.as_deref()), (Some("file-a"), None));
    assert_eq!(batch.end(NOW + 9), Ok(BatchChange::Completed));
    assert_eq!((batch.status, batch.completed_at), (BatchStatus::Completed, Some(NOW + 9)));
    assert_eq!(refused(&batch, |batch| batch.end(NOW + 10)), BatchRefused::Ended);
}

/// litellm #33987: a reader fell over such a batch, which has no output file.
#[test]
fn fault_a_batch_whose_lines_all_failed_is_completed() {
    let mut batch = in_progress(1);
    line_ends(&mut batch, LineOutcome::Errored);
    batch.finalize(None, Some("file-e".to_owned()), NOW).unwrap();
    assert_eq!(batch.end(NOW), Ok(BatchChange::Completed));
    assert_eq!(batch.output_file, None);
}

#[test]
fn a_batch_out_of_time_expires_after_its_lines() {
    let mut batch = in_progress(2);
    line_ends(&mut batch, LineOutcome::Succeeded);
    assert_eq!(refused(&batch, |batch| batch.expire(END - 1)), BatchRefused::NotDue);
    assert_eq!(batch.expire(END), Ok(BatchChange::Expiring));
    assert_eq!(refused(&batch, |batch| batch.expire(END)), BatchRefused::Expiring);
    line_ends(&mut batch, LineOutcome::Expired);
    batch.finalize(Some("file-a".to_owned()), Some("file-e".to_owned()), END + 1).unwrap();
    assert_eq!(batch.status, BatchStatus::Finalizing);
    assert_eq!(batch.end(END + 2), Ok(BatchChange::Expired));
    assert_eq!((batch.status, batch.expired_at), (BatchStatus::Expired, Some(END + 2)));
}

#[test]
fn a_batch_expires_while_it_is_validated() {
    let mut batch = validating();
    batch.add_lines(0, 1).unwrap();
    assert_eq!(batch.expire(END), Ok(BatchChange::Expiring));
    assert_eq!(refused(&batch, |batch| batch.add_lines(1, 1)), BatchRefused::NotValidating);
    line_ends(&mut batch, LineOutcome::Expired);
    batch.finalize(None, Some("file-e".to_owned()), END).unwrap();
    assert_eq!(batch.end(END), Ok(BatchChange::Expired));
}

#[test]
fn a_batch_without_open_lines_does_not_expire() {
    assert_eq!(refused(&settled(), |batch| batch.expire(END)), BatchRefused::Ended);
    assert_eq!(refused(&finalizing(), |batch| batch.expire(END)), BatchRefused::Ended);
    assert_eq!(refused(&cancelling(1), |batch| batch.expire(END)), BatchRefused::Cancelling);
    for batch in &ended() {
        assert_eq!(refused(batch, |batch| batch.expire(END)), BatchRefused::Ended);
    }
}

#[test]
fn what_has_ended_stays() {
    for batch in &ended() {
        assert!(batch.status.is_terminal());
        assert_eq!(refused(batch, |batch| batch.add_lines(0, 1)), BatchRefused::NotValidating);
        assert_eq!(refused(batch, |batch| batch.begin(NOW)), BatchRefused::NotValidating);
        assert_eq!(refused(batch, |batch| batch.finalize(None, None, NOW)), BatchRefused::Ended);
        assert_eq!(refused(batch, |batch| batch.end(NOW)), BatchRefused::Ended);
        let counted = refused(batch, |batch| batch.line_ended(LineOutcome::Succeeded, None, None));
        assert_eq!(counted, BatchRefused::Ended);
    }
}

#[test]
fn an_ended_batch_is_archived_once() {
    assert_eq!(refused(&finalizing(), |batch| batch.archive(NOW)), BatchRefused::NotEnded);
    let [mut batch, ..] = ended();
    assert_eq!(batch.archive(NOW + 20), Ok(BatchChange::Archived));
    assert_eq!(batch.archived_at, Some(NOW + 20));
    assert_eq!(refused(&batch, |batch| batch.archive(NOW + 21)), BatchRefused::Archived);
}

#[test]
fn webhooks_are_told_of_ends() {
    let told = |change: BatchChange| change.webhook_event(BatchKind::OpenAi);
    assert_eq!(told(BatchChange::Completed), Some("batch.completed"));
    assert_eq!(told(BatchChange::Failed), Some("batch.failed"));
    assert_eq!(told(BatchChange::Expired), Some("batch.expired"));
    assert_eq!(told(BatchChange::Cancelled), Some("batch.cancelled"));
    assert_eq!(told(BatchChange::Finalizing), None);
    assert_eq!(BatchChange::Expired.webhook_event(BatchKind::Anthropic), Some("message_batch.ended"));
    assert_eq!(BatchChange::Cancelling.webhook_event(BatchKind::Anthropic), None);
}

#[test]
fn the_outcome_of_a_line_is_that_of_its_job() {
    let mut job = Job::new("batch_req_1".to_owned(), Face::BatchLine, "/v1/completions".to_owned(), NOW);
    let mut outcome = |status| {
        job.status = status;
        job.outcome()
    };
    assert_eq!(outcome(JobStatus::Queued), None);
    assert_eq!(outcome(JobStatus::Running), None);
    assert_eq!(outcome(JobStatus::Cancelling), None);
    assert_eq!(outcome(JobStatus::Succeeded), Some(LineOutcome::Succeeded));
    assert_eq!(outcome(JobStatus::Failed), Some(LineOutcome::Errored));
    assert_eq!(outcome(JobStatus::Cancelled), Some(LineOutcome::Cancelled));
    assert_eq!(outcome(JobStatus::Expired), Some(LineOutcome::Expired));
}

#[derive(Debug, Clone, Copy)]
enum Event {
    AddLines(u64),
    Begin,
    Fail,
    Cancel,
    LineEnded(LineOutcome),
    Expire,
    Finalize,
    End,
    Archive,
}

fn events() -> impl Strategy<Value = Vec<(Event, Millis)>> {
    use LineOutcome::{Cancelled, Errored, Expired, Succeeded};
    let outcome = prop::sample::select(vec![Succeeded, Errored, Cancelled, Expired]);
    let event = prop_oneof![
        3 => (1..4_u64).prop_map(Event::AddLines),
        3 => Just(Event::Begin),
        9 => outcome.prop_map(Event::LineEnded),
        3 => Just(Event::Finalize),
        3 => Just(Event::End),
        1 => prop::sample::select(vec![Event::Fail, Event::Cancel, Event::Expire, Event::Archive]),
    ];
    proptest::collection::vec((event, 0..10_000_000_i64), 1..60)
}

proptest! {
    #[test]
    fn a_batch_ends_once_and_counts_each_line_once(events in events()) {
        let mut batch = validating();
        let (mut now, mut ends, mut counted) = (NOW, 0, 0);
        for (event, pause) in events {
            now += pause;
            let before = batch.clone();
            let done = match event {
                Event::AddLines(count) => batch.add_lines(batch.lines_read, count),
                Event::Begin => batch.begin(now),
                Event::Fail => batch.fail(vec![], now),
                Event::Cancel => batch.cancel(now),
                Event::LineEnded(outcome) => batch.line_ended(outcome, None, None),
                Event::Expire => batch.expire(now),
                Event::Finalize => batch.finalize(Some(format!("file-{now}")), None, now),
                Event::End => batch.end(now),
                Event::Archive => batch.archive(now),
            };
            let Ok(change) = done else {
                prop_assert_eq!(&batch, &before);
                continue;
            };
            ends += u32::from(change.is_end());
            counted += u64::from(change == BatchChange::LineEnded);
            prop_assert_eq!(ends, u32::from(batch.status.is_terminal()));
            prop_assert!(change == BatchChange::Failed || batch.status == BatchStatus::Failed || batch.counts.ended() == counted);
            prop_assert!(batch.counts.ended() <= batch.counts.total);
            if before.output_file.is_some() {
                prop_assert_eq!(&batch.output_file, &before.output_file);
            }
            if batch.status.is_terminal() {
                prop_assert_eq!(batch.counts.open(), 0);
            }
        }
    }
}
