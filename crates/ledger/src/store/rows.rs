//! What stores share: present periods, and reports summed in memory.

use super::{ReportQuery, StoreError};
use crate::bucket::{Bucket, Scope, Unit};
use crate::calendar::{Moment, Window, date};
use crate::receipt::{BucketTotal, GroupBy, MAX_REPORT_ROWS, Receipt, ReportRow};
use std::collections::BTreeMap;

/// The rows of present periods, in the order of their buckets.
pub(crate) fn totals_of(mut rows: Vec<BucketTotal>, now: i64) -> Vec<BucketTotal> {
    let moment = Moment::at(now);
    rows.retain(|row| row.period == row.bucket.window.period(moment));
    rows.sort_by(|a, b| a.bucket.cmp(&b.bucket));
    rows
}

/// Checks the question of a report.
pub(crate) fn check_query(query: &ReportQuery) -> Result<(), StoreError> {
    let twice = |at: usize| query.group_by[..at].contains(&query.group_by[at]);
    if (0..query.group_by.len()).any(twice) {
        return Err(StoreError::Invalid("a report cannot be grouped twice by the same".to_owned()));
    }
    if query.from >= query.to {
        let (from, to) = (query.from, query.to);
        return Err(StoreError::Invalid(format!("a report from {from} to {to} has no time in it")));
    }
    Ok(())
}

/// An empty row of a group.
pub(crate) fn empty_row(group: Vec<String>) -> ReportRow {
    ReportRow {
        group,
        requests: 0,
        input_tokens: 0,
        output_tokens: 0,
        own_ms: 0,
        invoice: 0,
        possibly: 0,
        saved: 0,
    }
}

/// A report over receipts in memory.
pub(crate) fn sum_report<'a>(
    receipts: impl Iterator<Item = &'a Receipt>,
    query: &ReportQuery,
) -> Result<Vec<ReportRow>, StoreError> {
    check_query(query)?;
    let mut groups: BTreeMap<Vec<String>, ReportRow> = BTreeMap::new();
    for receipt in receipts.filter(|receipt| (query.from..query.to).contains(&receipt.time)) {
        let value = |by: &GroupBy| match by {
            GroupBy::Day => date(receipt.time),
            GroupBy::Key => receipt.key.clone(),
            GroupBy::Team => receipt.team.clone(),
            GroupBy::Model => receipt.model.clone(),
            GroupBy::Upstream => receipt.upstream.clone(),
            GroupBy::Label => receipt.label.clone(),
        };
        let group: Vec<String> = query.group_by.iter().map(value).collect();
        let row = groups.entry(group.clone()).or_insert_with(|| empty_row(group));
        row.requests += 1;
        row.input_tokens += i128::from(receipt.input_tokens);
        row.output_tokens += i128::from(receipt.output_tokens);
        row.own_ms += i128::from(receipt.own_ms);
        row.invoice += i128::from(receipt.invoice.nano());
        row.possibly += i128::from(receipt.possibly.nano());
        row.saved += i128::from(receipt.saved.nano());
    }
    if groups.len() > MAX_REPORT_ROWS {
        return Err(StoreError::TooManyRows(MAX_REPORT_ROWS));
    }
    Ok(groups.into_values().collect())
}

/// A receipt's sums as the columns of a table.
pub(crate) fn receipt_numbers(receipt: &Receipt) -> [i64; 6] {
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    [
        number(receipt.input_tokens),
        number(receipt.output_tokens),
        number(receipt.own_ms),
        receipt.invoice.nano(),
        receipt.possibly.nano(),
        receipt.saved.nano(),
    ]
}

/// The columns that a report is by, as the tables name them.
pub(crate) fn group_columns(query: &ReportQuery) -> Vec<&'static str> {
    let column = |by: &GroupBy| match by {
        GroupBy::Day => "day",
        GroupBy::Key => "key_name",
        GroupBy::Team => "team",
        GroupBy::Model => "model",
        GroupBy::Upstream => "upstream",
        GroupBy::Label => "label",
    };
    query.group_by.iter().map(column).collect()
}

/// The names of the columns of [`receipt_numbers`].
pub(crate) const SUMS: [&str; 6] =
    ["input_tokens", "output_tokens", "own_ms", "invoice", "possibly", "saved"];

/// A row of a report from a group's values, its count and the sums of [`SUMS`].
pub(crate) fn report_row(group: Vec<String>, requests: i64, sums: [i128; 6]) -> ReportRow {
    let [input_tokens, output_tokens, own_ms, invoice, possibly, saved] = sums;
    let requests = u64::try_from(requests).unwrap_or(0);
    ReportRow { group, requests, input_tokens, output_tokens, own_ms, invoice, possibly, saved }
}

/// A bucket from the words of its row; `None` for words that this program does not know.
pub(crate) fn bucket_of(scope: &str, name: String, span: &str, unit: &str) -> Option<Bucket> {
    let scope = Scope::ALL.into_iter().find(|known| known.word() == scope)?;
    let window = Window::ALL.into_iter().find(|known| known.word() == span)?;
    let unit = Unit::ALL.into_iter().find(|known| known.word() == unit)?;
    Some(Bucket { scope, name, window, unit })
}

/// The first periods that are kept when everything before a time is deleted: of days and of months.
pub(crate) fn kept_periods(before: i64) -> [(&'static str, i64); 2] {
    let moment = Moment::at(before);
    [(Window::Day.word(), moment.day), (Window::Month.word(), moment.month)]
}
