//! A whole store is copied into an empty one of another database, with all ids.
//!
//! Tables are read page by page in the order of their keys. Bytes that lie outside of a database are read there and kept as
//! the other one keeps them.

use crate::backend::Backend;
use crate::common::transaction;
use crate::error::StoreError;
use crate::ops::parts::Stored;
use crate::ops::{files, tally};
use crate::rows::from_json;
use crate::schema::{TABLES, Table};
use crate::sql::{Row, Sql, Value};
use jobs::File;
use std::sync::Arc;

/// Rows of one page.
const PAGE: i64 = 200;

/// Bytes of a file that are copied at once.
const PIECE: usize = 1 << 20;

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Jobs, lines of batches among them.
    pub jobs: u64,
    /// Batches.
    pub batches: u64,
    /// Files.
    pub files: u64,
    /// Rows of all tables.
    pub rows: u64,
}

/// Copies everything. The target is empty.
pub(crate) async fn copy_all<A: Backend, B: Backend>(from: &A, to: &B) -> Result<Copied, StoreError> {
    transaction!(read(to), [], |sql| check_empty(sql)).await?;
    let mut copied = Copied::default();
    for table in TABLES {
        let mut after: Option<Vec<Value>> = None;
        loop {
            let page = transaction!(read(from), [after], |sql| read_page(sql, table, after)).await?;
            let Some(last) = page.last() else { break };
            after = Some(key_of(table, last)?);
            copied.rows += page.len() as u64;
            match table.name {
                "job" => copied.jobs += page.len() as u64,
                "job_batch" => copied.batches += page.len() as u64,
                "job_file" => copied.files += page.len() as u64,
                _ => {}
            }
            copy_page(from, to, table, page).await?;
        }
    }
    transaction!(write(to), [], |sql| tally::recount(sql)).await?;
    Ok(copied)
}

async fn check_empty(sql: &mut dyn Sql) -> Result<(), StoreError> {
    for table in TABLES {
        let select = format!("SELECT 1 FROM {} LIMIT 1", table.name);
        if !sql.query(&select, Vec::new()).await?.is_empty() {
            let text =
                format!("the table {} of the target is not empty; copies go into an empty one", table.name);
            return Err(StoreError::Conflict(text));
        }
    }
    Ok(())
}

fn key_of(table: &Table, row: &Row) -> Result<Vec<Value>, StoreError> {
    let value = |name: &&str| {
        let at = table.columns.iter().position(|column| column == name);
        let missing = || StoreError::Unavailable(format!("the key of the table {} is missing", table.name));
        at.and_then(|at| row.0.get(at)).cloned().ok_or_else(missing)
    };
    table.key.iter().map(value).collect()
}

async fn read_page(
    sql: &mut dyn Sql,
    table: &Table,
    after: Option<Vec<Value>>,
) -> Result<Vec<Row>, StoreError> {
    let (columns, key) = (table.columns.join(", "), table.key.join(", "));
    let mut values = after.unwrap_or_default();
    let holds =
        if values.is_empty() { String::new() } else { format!("WHERE ({key}) > ({})", places(values.len())) };
    values.push(Value::Int(PAGE));
    let select =
        format!("SELECT {columns} FROM {} {holds} ORDER BY {key} LIMIT ${}", table.name, values.len());
    sql.query(&select, values).await
}

/// `$1, $2, …`
fn places(count: usize) -> String {
    (1..=count).map(|at| format!("${at}")).collect::<Vec<_>>().join(", ")
}

async fn copy_page<A: Backend, B: Backend>(
    from: &A,
    to: &B,
    table: &'static Table,
    page: Vec<Row>,
) -> Result<(), StoreError> {
    match table.name {
        "job_file" => {
            for row in page {
                copy_file(from, to, from_json(row.text(table.columns.len() - 1)?)?).await?;
            }
            Ok(())
        }
        "job_bytes" => {
            let (outside, inside): (Vec<Row>, Vec<Row>) =
                page.into_iter().partition(|row| matches!(row.text_or_none(5), Ok(Some(_))));
            for row in outside {
                copy_bytes(from, to, &row).await?;
            }
            insert(to, table, inside).await
        }
        _ => insert(to, table, page).await,
    }
}

async fn insert<B: Backend>(to: &B, table: &'static Table, rows: Vec<Row>) -> Result<(), StoreError> {
    let rows = Arc::new(rows);
    transaction!(write(to), [rows], |sql| insert_rows(sql, table, &rows)).await
}

async fn insert_rows(sql: &mut dyn Sql, table: &Table, rows: &[Row]) -> Result<(), StoreError> {
    let (columns, places) = (table.columns.join(", "), places(table.columns.len()));
    let insert = format!("INSERT INTO {} ({columns}) VALUES ({places})", table.name);
    for row in rows {
        sql.execute(&insert, row.0.clone()).await?;
    }
    Ok(())
}

/// Copies a part of a job that lies outside of its database.
async fn copy_bytes<A: Backend, B: Backend>(from: &A, to: &B, row: &Row) -> Result<(), StoreError> {
    let (job, part) = (row.text(0)?.to_owned(), row.int(1)?);
    let bytes = from.load(row.text(5)?.to_owned()).await?;
    let kept = Arc::new(to.keep(bytes).await?);
    transaction!(write(to), [job, kept], |sql| put_part(sql, &job, part, &kept.stored)).await
}

async fn put_part(sql: &mut dyn Sql, job: &str, part: i64, stored: &Stored) -> Result<(), StoreError> {
    // Bytes are counted at the end.
    let mut work = crate::ops::work::Work::new(sql, 0);
    work.put_part(job, part, stored).await
}

async fn copy_file<A: Backend, B: Backend>(from: &A, to: &B, file: File) -> Result<(), StoreError> {
    let mut offset = 0;
    while offset < file.bytes {
        let piece = from.read_bytes(file.id.clone(), offset, PIECE).await?;
        if piece.is_empty() {
            return Err(files::wrong_length(&file, offset));
        }
        let length = piece.len() as u64;
        to.write_bytes(file.id.clone(), offset, piece).await?;
        offset += length;
    }
    let now = file.created_at;
    to.seal(file, now).await
}
