//! What is read of a store in PostgreSQL: totals and reports.

use super::rows::{SUMS, bucket_of, check_query, group_columns, report_row, totals_of};
use super::{ReportQuery, StoreError};
use crate::calendar::{Moment, date};
use crate::receipt::{BucketTotal, MAX_REPORT_ROWS, ReportRow};
use tokio_postgres::{Client, Row};

pub(crate) async fn totals(client: &Client, now: i64) -> Result<Vec<BucketTotal>, StoreError> {
    let moment = Moment::at(now);
    let rows = client
        .query(
            "SELECT scope, name, span, unit, period, ceiling, spent, uncertain, leased, (
                 SELECT coalesce(sum(hold - l.spent), 0)::BIGINT FROM ledger_lease AS l
                     LEFT JOIN ledger_session AS s ON s.id = l.session
                 WHERE l.scope = b.scope AND l.name = b.name AND l.span = b.span AND l.unit = b.unit
                     AND l.period = b.period AND (s.id IS NULL OR s.expires <= $1))
             FROM ledger_bucket AS b
             WHERE span = 'total' OR (span = 'day' AND period = $2) OR (span = 'month' AND period = $3)",
            &[&now, &moment.day, &moment.month],
        )
        .await?;
    let mut found = Vec::new();
    for row in rows {
        let words: [&str; 3] = [row.try_get(0)?, row.try_get(2)?, row.try_get(3)?];
        let Some(bucket) = bucket_of(words[0], row.try_get(1)?, words[1], words[2]) else { continue };
        found.push(BucketTotal {
            bucket,
            period: row.try_get(4)?,
            limit: row.try_get(5)?,
            spent: row.try_get(6)?,
            uncertain: row.try_get(7)?,
            leased: row.try_get(8)?,
            lost: row.try_get(9)?,
        });
    }
    Ok(totals_of(found, now))
}

pub(crate) async fn report(client: &Client, query: &ReportQuery) -> Result<Vec<ReportRow>, StoreError> {
    check_query(query)?;
    let columns = group_columns(query);
    let sums = SUMS.map(|column| format!("coalesce(sum({column}), 0)::TEXT")).join(", ");
    let mut fields: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
    fields.extend(["count(*)".to_owned(), sums]);
    // Ordered by bytes, as everywhere else.
    let order = |column: &&str| match *column {
        "day" => "day".to_owned(),
        text => format!("{text} COLLATE \"C\""),
    };
    let order: Vec<String> = columns.iter().map(order).collect();
    let by = match columns.as_slice() {
        [] => String::new(),
        _ => format!("GROUP BY {} ORDER BY {}", columns.join(", "), order.join(", ")),
    };
    let sql = format!(
        "SELECT {} FROM ledger_receipt WHERE time >= $1 AND time < $2 {by} LIMIT {}",
        fields.join(", "),
        MAX_REPORT_ROWS + 1
    );
    let rows = client.query(&sql, &[&query.from, &query.to]).await?;
    if rows.len() > MAX_REPORT_ROWS {
        return Err(StoreError::TooManyRows(MAX_REPORT_ROWS));
    }
    let rows: Result<Vec<ReportRow>, StoreError> = rows.iter().map(|row| read_row(row, &columns)).collect();
    // One row of nothing is no row.
    Ok(rows?.into_iter().filter(|row| row.requests > 0).collect())
}

fn read_row(row: &Row, columns: &[&str]) -> Result<ReportRow, StoreError> {
    let value = |(at, column): (usize, &&str)| match *column {
        "day" => row.try_get::<_, i64>(at).map(|day| date(day * 86_400)),
        _ => row.try_get::<_, String>(at),
    };
    let group: Vec<String> = columns.iter().enumerate().map(value).collect::<Result<_, _>>()?;
    let mut sums = [0_i128; 6];
    for (at, sum) in (columns.len() + 1..).zip(&mut sums) {
        let text: &str = row.try_get(at)?;
        *sum = text.parse().map_err(|_| StoreError::Unavailable(format!("PostgreSQL: the sum {text}")))?;
    }
    Ok(report_row(group, row.try_get(columns.len())?, sums))
}
