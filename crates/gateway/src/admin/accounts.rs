//! What was spent: budgets as they stand, and reports summed from receipts. Money is decimal text.

use std::time::Duration;

use ledger::store::ReportQuery;
use ledger::{Amount, BucketTotal, Cap, GroupBy, Ledger, ReportRow, Unit};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use wire::Fault;

use crate::budget::caps;
use crate::clock::now;
use crate::state::Shared;

/// For the store to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Seconds of a day.
const DAY: i64 = 86_400;
/// Days of a report unless the question says.
const USUAL_DAYS: i64 = 30;
/// Most rows that are told.
const MOST_ROWS: usize = 10_000;

/// The question of a report.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    /// First day, `2026-11-01`, or Unix seconds.
    from: Option<String>,
    /// Day after the last, or Unix seconds.
    to: Option<String>,
    /// What rows are by, with commas between.
    by: Option<String>,
}

fn store(shared: &Shared) -> Result<std::sync::Arc<Ledger>, Fault> {
    let missing =
        || Fault::unsupported("store", "the configuration has no [store]: nothing is kept of what was spent");
    shared.budgets.ledger().ok_or_else(missing)
}

async fn answer<T>(answer: ledger::store::Answer<'_, T>) -> Result<T, Fault> {
    match tokio::time::timeout(TIMEOUT, answer).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Fault::unavailable("store_unavailable", error.to_string(), 5)),
        Err(_) => {
            let message = format!("the store has not answered within {TIMEOUT:?}");
            Err(Fault::unavailable("store_unavailable", message, 5))
        }
    }
}

/// `GET /gateway/budgets`: each cap of the configuration with what is used.
pub(super) async fn budgets(shared: &Shared) -> Result<Value, Fault> {
    let snapshot = shared.snapshot.load_full();
    let caps = caps(&snapshot.config);
    let totals = match caps.is_empty() {
        true => Vec::new(),
        false => answer(store(shared)?.store().totals(now())).await?,
    };
    let budgets: Vec<Value> = caps.iter().map(|cap| budget(cap, &totals)).collect();
    Ok(json!({"currency": snapshot.config.gateway.currency, "budgets": budgets}))
}

fn budget(cap: &Cap, totals: &[BucketTotal]) -> Value {
    let total = totals.iter().find(|total| total.bucket == cap.bucket);
    let quantity = |quantity: i64| match cap.bucket.unit {
        Unit::Money => Value::from(Amount::from_nano(quantity.max(0)).to_string()),
        Unit::Tokens | Unit::Requests => Value::from(quantity),
    };
    let (spent, leased) = total.map_or((0, 0), |total| (total.spent, total.leased));
    let share = match cap.limit {
        0 => 1.0,
        limit => (spent as f64 + leased as f64) / limit as f64,
    };
    json!({
        "scope": cap.bucket.scope.word(),
        "name": cap.bucket.name,
        "window": cap.bucket.window.word(),
        "unit": cap.bucket.unit.word(),
        "limit": quantity(cap.limit),
        "used": quantity(spent),
        "reserved": quantity(leased),
        "possibly": quantity(total.map_or(0, |total| total.uncertain)),
        "share": share,
        "resets": total.and_then(BucketTotal::resets_at).map(ledger::timestamp),
    })
}

/// `GET /gateway/report`.
pub(super) async fn report(shared: &Shared, asked: &Asked) -> Result<Value, Fault> {
    let query = asked.query(now())?;
    let rows = answer(store(shared)?.store().report(query.clone())).await?;
    if rows.len() > MOST_ROWS {
        let message = format!("the report has {} rows; at most {MOST_ROWS} are told", rows.len());
        return Err(Fault::field("by", message));
    }
    let rows: Vec<Value> = rows.iter().map(|row| told(row, &query.group_by)).collect();
    let by: Vec<&str> = query.group_by.iter().map(|by| word(*by)).collect();
    Ok(json!({
        "from": ledger::timestamp(query.from),
        "to": ledger::timestamp(query.to),
        "by": by,
        "currency": shared.snapshot.load().config.gateway.currency,
        "rows": rows,
    }))
}

fn told(row: &ReportRow, by: &[GroupBy]) -> Value {
    let groups =
        by.iter().zip(&row.group).map(|(by, value)| (word(*by).to_owned(), Value::from(value.as_str())));
    let mut told: Map<String, Value> = groups.collect();
    told.insert("requests".to_owned(), row.requests.into());
    for (name, count) in
        [("input_tokens", row.input_tokens), ("output_tokens", row.output_tokens), ("own_ms", row.own_ms)]
    {
        told.insert(name.to_owned(), i64::try_from(count).unwrap_or(i64::MAX).into());
    }
    for (name, nanos) in [("invoice", row.invoice), ("possibly", row.possibly), ("saved", row.saved)] {
        told.insert(name.to_owned(), money(nanos).into());
    }
    Value::Object(told)
}

/// An amount as decimal text. Sums may exceed an [`Amount`].
fn money(nanos: i128) -> String {
    let nanos = nanos.max(0);
    let decimals = format!("{:09}", nanos % 1_000_000_000);
    let short = decimals.trim_end_matches('0').len().max(2);
    format!("{}.{}", nanos / 1_000_000_000, decimals.get(..short).unwrap_or_default())
}

fn word(by: GroupBy) -> &'static str {
    match by {
        GroupBy::Day => "day",
        GroupBy::Key => "key",
        GroupBy::Team => "team",
        GroupBy::Model => "model",
        GroupBy::Upstream => "upstream",
        GroupBy::Label => "label",
    }
}

const GROUPS: [GroupBy; 6] =
    [GroupBy::Day, GroupBy::Key, GroupBy::Team, GroupBy::Model, GroupBy::Upstream, GroupBy::Label];

impl Asked {
    /// The ledger's question.
    ///
    /// # Errors
    /// A time, a span or a group that is none.
    fn query(&self, now: i64) -> Result<ReportQuery, Fault> {
        let time = |name: &str, text: &Option<String>, usual: i64| match text {
            None => Ok(usual),
            Some(text) => moment(text).ok_or_else(|| {
                let told = wire::error::quote(text);
                Fault::field(
                    name,
                    format!("{name} is {told}; write a day such as 2026-11-01, or Unix seconds"),
                )
            }),
        };
        let today = now - now.rem_euclid(DAY);
        let to = time("to", &self.to, today + DAY)?;
        let from = time("from", &self.from, to - USUAL_DAYS * DAY)?;
        if from >= to {
            return Err(Fault::field("from", "from is not before to"));
        }
        let mut group_by = Vec::new();
        for name in self.by.as_deref().unwrap_or("day,model").split(',').filter(|name| !name.is_empty()) {
            let group = GROUPS.into_iter().find(|group| word(*group) == name).ok_or_else(|| {
                let known = GROUPS.map(word).join(", ");
                Fault::field("by", format!("by has {}; known are {known}", wire::error::quote(name)))
            })?;
            if !group_by.contains(&group) {
                group_by.push(group);
            }
        }
        Ok(ReportQuery { from, to, group_by })
    }
}

/// Unix seconds of a day in UTC, or of a number.
fn moment(text: &str) -> Option<i64> {
    if let Ok(seconds) = text.parse::<i64>() {
        return (0..=253_402_300_800).contains(&seconds).then_some(seconds);
    }
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return None };
    if (year.len(), month.len(), day.len()) != (4, 2, 2) {
        return None;
    }
    let (year, month, day): (i64, i64, i64) = (year.parse().ok()?, month.parse().ok()?, day.parse().ok()?);
    let day_of = days(year, month, day);
    // What is no day of its month would be told as another day.
    let is_day = year >= 1970 && (1..=12).contains(&month) && (1..=31).contains(&day);
    (is_day && ledger::date(day_of * DAY) == text).then_some(day_of * DAY)
}

/// Days since 1970 of a day of the Gregorian calendar, with years that begin in March (H. Hinnant, "chrono-compatible
/// low-level date algorithms").
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_read() {
        assert_eq!(moment("1970-01-01"), Some(0));
        assert_eq!(moment("2026-11-29"), Some(1_795_910_400));
        assert_eq!(moment("2024-02-29"), Some(1_709_164_800));
        assert_eq!(moment("1795910400"), Some(1_795_910_400));
        for wrong in ["2026-02-29", "2026-13-01", "2026-1-1", "-5", "", "2026-11", "99999-01-01", "today"] {
            assert_eq!(moment(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn questions_have_defaults_and_say_what_is_wrong() {
        let query = Asked::default().query(1_795_910_400 + 5).unwrap();
        assert_eq!((query.to, query.from), (1_795_910_400 + DAY, 1_795_910_400 + DAY - 30 * DAY));
        assert_eq!(query.group_by, [GroupBy::Day, GroupBy::Model]);
        let asked = |from: &str, by: &str| Asked {
            from: Some(from.to_owned()),
            to: Some("2026-11-30".to_owned()),
            by: Some(by.to_owned()),
        };
        assert!(asked("2026-11-01", "key,label").query(0).is_ok());
        assert!(asked("2026-12-01", "key").query(0).unwrap_err().message.contains("not before"));
        assert!(asked("2026-11-01", "colour").query(0).unwrap_err().message.contains("known are day"));
    }

    #[test]
    fn sums_of_money_are_exact() {
        assert_eq!(money(1), "0.000000001");
        assert_eq!(money(1_500_000_000), "1.50");
        assert_eq!(money(i128::from(i64::MAX) * 10), "92233720368.54775807");
    }
}
