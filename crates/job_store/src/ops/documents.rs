//! Documents of other parts, and workers.

use super::jobs::PAGE;
use crate::error::StoreError;
use crate::sql::{Row, Sql, Value, skip_locked, values};
use crate::types::{Document, DocumentFilter, Page, Worker};
use jobs::Millis;

const COLUMNS: &str = "kind, id, key, owner, due, expires_at, created_at, json";

/// Documents that are taken at once at most.
const TAKEN: usize = 1_000;

fn read(row: &Row) -> Result<Document, StoreError> {
    Ok(Document {
        kind: row.text(0)?.to_owned(),
        id: row.text(1)?.to_owned(),
        key: row.text(2)?.to_owned(),
        group: row.text(3)?.to_owned(),
        due: row.int_or_none(4)?,
        expires_at: row.int_or_none(5)?,
        created_at: row.int(6)?,
        json: Some(row.text(7)?.to_owned()),
    })
}

/// Keeps or deletes a document.
pub(crate) async fn put(sql: &mut dyn Sql, document: &Document) -> Result<(), StoreError> {
    let Document { kind, id, key, group, due, expires_at, created_at, json } = document;
    let Some(json) = json else {
        sql.execute("DELETE FROM job_document WHERE kind = $1 AND id = $2", values![kind, id]).await?;
        return Ok(());
    };
    let put = "INSERT INTO job_document (kind, id, key, owner, due, expires_at, created_at, json)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
        ON CONFLICT (kind, id) DO UPDATE SET key = excluded.key, owner = excluded.owner, due = excluded.due,
            expires_at = excluded.expires_at, created_at = excluded.created_at, json = excluded.json";
    sql.execute(put, values![kind, id, key, group, *due, *expires_at, *created_at, json]).await?;
    Ok(())
}

/// Takes documents that are due.
pub(crate) async fn take_due(
    sql: &mut dyn Sql,
    kind: &str,
    most: usize,
    lease_until: Millis,
    now: Millis,
) -> Result<Vec<Document>, StoreError> {
    let lock = skip_locked(sql);
    let select = format!(
        "SELECT {COLUMNS} FROM job_document WHERE kind = $1 AND due IS NOT NULL AND due <= $2
         ORDER BY due, id LIMIT $3{lock}"
    );
    let rows = sql.query(&select, values![kind, now, most.min(TAKEN) as i64]).await?;
    let mut taken: Vec<Document> = rows.iter().map(read).collect::<Result<_, _>>()?;
    for document in &mut taken {
        document.due = Some(lease_until);
        let update = "UPDATE job_document SET due = $3 WHERE kind = $1 AND id = $2";
        sql.execute(update, values![&document.kind, &document.id, lease_until]).await?;
    }
    Ok(taken)
}

/// Documents of a kind, newest first.
pub(crate) async fn list(sql: &mut dyn Sql, filter: &DocumentFilter) -> Result<Page<Document>, StoreError> {
    let mut holds = "kind = $1".to_owned();
    let mut values = values![&filter.kind];
    let asked = [("id", &filter.id), ("key", &filter.key), ("owner", &filter.group)];
    for (column, value) in asked {
        if let Some(value) = value {
            values.push(Value::from(value));
            holds.push_str(&format!(" AND {column} = ${}", values.len()));
        }
    }
    if let Some(after) = &filter.after {
        values.push(Value::from(after));
        let at = values.len();
        holds.push_str(&format!(
            " AND (created_at, id) < (SELECT created_at, id FROM job_document WHERE kind = $1 AND id = ${at})"
        ));
    }
    let limit = filter.limit.clamp(1, PAGE);
    values.push(Value::Int(limit as i64 + 1));
    let select = format!(
        "SELECT {COLUMNS} FROM job_document WHERE {holds} ORDER BY created_at DESC, id DESC LIMIT ${}",
        values.len()
    );
    let rows = sql.query(&select, values).await?;
    let more = rows.len() > limit;
    let rows = rows.iter().take(limit).map(read).collect::<Result<_, _>>()?;
    Ok(Page { rows, more })
}

/// Says that a worker lives.
pub(crate) async fn seen(sql: &mut dyn Sql, worker: &Worker, now: Millis) -> Result<(), StoreError> {
    let put = "INSERT INTO job_worker (id, place, seen_at) VALUES ($1, $2, $3)
        ON CONFLICT (id) DO UPDATE SET place = excluded.place, seen_at = excluded.seen_at";
    sql.execute(put, values![&worker.id, &worker.place, now]).await?;
    Ok(())
}
