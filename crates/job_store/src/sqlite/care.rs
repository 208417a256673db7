//! The care of a store by a command line: looking for damage, and a copy of all of it.

use super::blobs::{ROOTS, sync_folder};
use super::connection::SqliteSql;
use super::place::{Lock, failed};
use crate::error::StoreError;
use crate::ops::tally;
use crate::rows::{batch_status_word, from_json, read_job, status_word};
use crate::sql::{Row, Value, act, values};
use jobs::File;
use jobs::batch::Batch;
use sha2::{Digest as _, Sha256};
use std::collections::HashSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Problems that a report names at most.
const PROBLEMS: usize = 100;

/// Rows that are read at once.
const PAGE: i64 = 1_000;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// What is wrong, in words; at most 100.
    pub problems: Vec<String>,
    /// Whether a server uses the store meanwhile: then leftovers are not looked for.
    pub in_use: bool,
    /// Jobs that are not lines of batches.
    pub jobs: u64,
    /// Lines of batches.
    pub lines: u64,
    /// Batches.
    pub batches: u64,
    /// Files.
    pub files: u64,
    /// Bytes of the tables.
    pub table_bytes: u64,
    /// Bytes of files and large bodies.
    pub blob_bytes: u64,
    /// Files beside the database that no row names; a running server deletes them by and by.
    pub leftovers: u64,
}

impl CheckReport {
    fn problem(&mut self, text: String) {
        if self.problems.len() < PROBLEMS {
            self.problems.push(text);
        }
    }
}

/// What was exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Bytes of the database.
    pub table_bytes: u64,
    /// Files and large bodies.
    pub blobs: u64,
    /// Of these, such as a running server deleted meanwhile.
    pub missing: u64,
}

/// Looks into everything that a folder holds, and changes nothing but the lock.
pub(crate) fn check(dir: &Path) -> Result<CheckReport, StoreError> {
    let path = database(dir)?;
    let lock = match Lock::take(dir) {
        Err(StoreError::InUse { .. }) => None,
        lock => Some(lock?),
    };
    let mut report = CheckReport { in_use: lock.is_none(), ..CheckReport::default() };
    let mut sql = SqliteSql::reader(&path)?;
    match check_tables(&mut sql, &mut report) {
        Ok(()) => check_places(dir, &mut sql, &mut report)?,
        Err(error @ StoreError::Damaged { .. }) => report.problem(error.to_string()),
        Err(error) => return Err(error),
    }
    Ok(report)
}

fn database(dir: &Path) -> Result<PathBuf, StoreError> {
    let path = dir.join("jobs.db");
    std::fs::metadata(&path).map_err(|error| failed(&path, &error))?;
    Ok(path)
}

fn query(sql: &mut SqliteSql, select: &'static str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
    sql.read(&act(move |sql| sql.query(select, values.clone())))
}

fn number(sql: &mut SqliteSql, select: &'static str) -> Result<u64, StoreError> {
    query(sql, select, Vec::new())?.first().map_or(Ok(0), |row| row.count(0))
}

fn check_tables(sql: &mut SqliteSql, report: &mut CheckReport) -> Result<(), StoreError> {
    for row in query(sql, "PRAGMA integrity_check(20)", Vec::new())? {
        if row.text(0)? != "ok" {
            report.problem(row.text(0)?.to_owned());
        }
    }
    report.jobs = number(sql, "SELECT count(*) FROM job WHERE batch IS NULL")?;
    report.lines = number(sql, "SELECT count(*) FROM job WHERE batch IS NOT NULL")?;
    report.batches = number(sql, "SELECT count(*) FROM job_batch")?;
    report.files = number(sql, "SELECT count(*) FROM job_file")?;
    report.table_bytes =
        number(sql, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")?;
    report.blob_bytes = number(sql, "SELECT coalesce(sum(n), 0) FROM job_tally WHERE what = 'blobs'")?;
    for wrong in sql.read(&act(|sql| Box::pin(tally::wrong(sql))))? {
        report.problem(wrong);
    }
    check_jobs(sql, report)?;
    check_batches(sql, report)
}

/// Every row of a job can be read, and its columns say the same as its JSON.
fn check_jobs(sql: &mut SqliteSql, report: &mut CheckReport) -> Result<(), StoreError> {
    const SELECT: &str = "SELECT json, prefix_rank, id, status FROM job WHERE id > $1 ORDER BY id LIMIT $2";
    let mut last = String::new();
    loop {
        let rows = query(sql, SELECT, values![&last, PAGE])?;
        let Some(row) = rows.last() else { return Ok(()) };
        last = row.text(2)?.to_owned();
        for row in &rows {
            let (id, status) = (row.text(2)?, row.text(3)?);
            match read_job(row) {
                Ok(job) if job.id == id && status_word(job.status) == status => {}
                Ok(job) => report.problem(format!(
                    "the row of job {id} ({status}) tells of {} ({})",
                    job.id,
                    status_word(job.status)
                )),
                Err(error) => report.problem(format!("the row of job {id}: {error}")),
            }
        }
    }
}

/// The counts of every batch whose lines are there are those of its lines.
fn check_batches(sql: &mut SqliteSql, report: &mut CheckReport) -> Result<(), StoreError> {
    const SELECT: &str = "SELECT json, status, (SELECT count(*) FROM job WHERE batch = b.id),
            (SELECT count(*) FROM job WHERE batch = b.id
             AND status IN ('succeeded', 'failed', 'cancelled', 'expired'))
        FROM job_batch AS b WHERE id > $1 AND (todo IS NULL OR todo NOT IN ('clear', 'delete'))
        ORDER BY id LIMIT $2";
    let mut last = String::new();
    loop {
        let rows = query(sql, SELECT, values![&last, PAGE])?;
        if rows.is_empty() {
            return Ok(());
        }
        for row in &rows {
            let batch: Batch = from_json(row.text(0)?)?;
            let (total, ended) = (row.count(2)?, row.count(3)?);
            let cleared = batch.status.is_terminal() && total == 0;
            if !cleared && (batch.counts.total, batch.counts.ended()) != (total, ended) {
                report.problem(format!(
                    "batch {} counts {} lines, {} ended; there are {total}, {ended} ended",
                    batch.id,
                    batch.counts.total,
                    batch.counts.ended()
                ));
            }
            if batch_status_word(batch.status) != row.text(1)? {
                report.problem(format!("the row of batch {} has another status", batch.id));
            }
            last = batch.id;
        }
    }
}

/// What rows name is there and has the right hash; what is there and is not named is counted.
fn check_places(dir: &Path, sql: &mut SqliteSql, report: &mut CheckReport) -> Result<(), StoreError> {
    let mut named = HashSet::new();
    for row in query(sql, "SELECT DISTINCT blob, size FROM job_bytes WHERE blob IS NOT NULL", Vec::new())? {
        let place = row.text(0)?.to_owned();
        let hash = place.rsplit('/').next().unwrap_or_default().to_owned();
        check_place(dir, &place, row.count(1)?, &hash, report);
        named.insert(place);
    }
    for row in query(sql, "SELECT place, json FROM job_file WHERE place IS NOT NULL", Vec::new())? {
        let file: File = from_json(row.text(1)?)?;
        let place = row.text(0)?.to_owned();
        check_place(dir, &place, file.bytes, &file.sha256, report);
        named.insert(place);
    }
    if !report.in_use {
        report.leftovers = places(dir).filter(|place| !named.contains(place)).count() as u64;
    }
    Ok(())
}

fn check_place(dir: &Path, place: &str, size: u64, sha256: &str, report: &mut CheckReport) {
    match hash_file(&dir.join(place)) {
        Err(error) => report.problem(format!("{place}: {error}")),
        Ok((found, _)) if found != size => {
            report.problem(format!("{place} has {found} bytes, not {size}"));
        }
        Ok((_, hash)) if !hash.eq_ignore_ascii_case(sha256) => {
            report.problem(format!("{place} is damaged: its SHA-256 is {hash}"));
        }
        Ok(_) => {}
    }
}

fn hash_file(path: &Path) -> std::io::Result<(u64, String)> {
    let mut file = std::fs::File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    let mut size = 0;
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            let hash = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
            return Ok((size, hash));
        }
        hash.update(&buffer[..count]);
        size += count as u64;
    }
}

/// All places beside the database.
fn places(dir: &Path) -> impl Iterator<Item = String> + '_ {
    let folders =
        ROOTS.into_iter().flat_map(|root| (0..=255_u8).map(move |byte| format!("{root}/{byte:02x}")));
    folders.flat_map(move |folder| {
        let entries = std::fs::read_dir(dir.join(&folder)).into_iter().flatten().flatten();
        entries.map(move |entry| format!("{folder}/{}", entry.file_name().to_string_lossy()))
    })
}

/// Copies a store, also while a server uses it. The target is absent, and is there as a whole or not at all.
pub(crate) fn export(dir: &Path, to: &Path) -> Result<Exported, StoreError> {
    let path = database(dir)?;
    if to.exists() {
        return Err(StoreError::Conflict(format!("{} is there already", to.display())));
    }
    let mut name = to.as_os_str().to_owned();
    name.push(".part");
    let part = PathBuf::from(name);
    if part.exists() {
        // Of an export that was interrupted.
        std::fs::remove_dir_all(&part).map_err(|error| failed(&part, &error))?;
    }
    super::place::make_folder(&part)?;
    let exported = export_into(dir, &path, &part)?;
    std::fs::rename(&part, to).map_err(|error| failed(to, &error))?;
    sync_folder(to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))?;
    Ok(exported)
}

fn export_into(dir: &Path, path: &Path, part: &Path) -> Result<Exported, StoreError> {
    let target = part.join("jobs.db");
    let sql = SqliteSql::reader(path)?;
    let name = target.to_string_lossy().into_owned();
    sql.connection.execute("VACUUM INTO ?1", [name]).map_err(|error| sql.named(error))?;
    drop(sql);
    let file = std::fs::File::open(&target).map_err(|error| failed(&target, &error))?;
    file.sync_all().map_err(|error| failed(&target, &error))?;
    let table_bytes = file.metadata().map_err(|error| failed(&target, &error))?.len();
    let mut exported = Exported { table_bytes, ..Exported::default() };
    let mut copy = SqliteSql::reader(&target)?;
    let select = "SELECT blob FROM job_bytes WHERE blob IS NOT NULL
        UNION SELECT place FROM job_file WHERE place IS NOT NULL";
    for row in query(&mut copy, select, Vec::new())? {
        let place = row.text(0)?;
        let (from, to) = (dir.join(place), part.join(place));
        exported.blobs += 1;
        exported.missing += u64::from(!copy_place(&from, &to)?);
    }
    sync_folder(part)?;
    Ok(exported)
}

/// Copies a file. Returns whether it was there.
fn copy_place(from: &Path, to: &Path) -> Result<bool, StoreError> {
    let folder = to.parent().unwrap_or(to);
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
    match std::fs::copy(from, to) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        copied => copied.map_err(|error| failed(to, &error))?,
    };
    let synced = std::fs::File::open(to).and_then(|file| file.sync_all());
    synced.map_err(|error| failed(to, &error))?;
    sync_folder(folder)?;
    Ok(true)
}
