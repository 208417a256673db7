//! The tables, in the SQL that SQLite and PostgreSQL share. Operators may read them for reports of their own.
//!
//! A job, a batch or a file is kept whole as JSON in its row; beside it stand the columns by which rows are found. The
//! columns are written with the JSON, from it. Only `prefix_rank` is the truth itself, because it is set for many rows at
//! once.
//!
//! A database has a row with the version of its tables. A later version of the program brings them up to date by the
//! scripts after that; an earlier one refuses.

/// Scripts, one a version: the first makes version 1. `{text}` and `{bytes}` stand for the database's types of texts that
/// sort by bytes, and of bytes; `{busy}` for options of a table whose rows change often. A script that was released does
/// not change.
const MIGRATIONS: &[&str] = &["
CREATE TABLE job (
    id {text} PRIMARY KEY,
    key {text} NOT NULL,
    class BIGINT NOT NULL,
    status {text} NOT NULL,
    ready BIGINT NOT NULL,
    alone BIGINT NOT NULL,
    batch {text},
    line BIGINT,
    model {text} NOT NULL,
    run_at BIGINT NOT NULL,
    prefix_rank BIGINT NOT NULL,
    deadline BIGINT,
    lease_until BIGINT,
    retain_until BIGINT,
    dead BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    json {text} NOT NULL
) {busy};
CREATE INDEX job_claim ON job (class, key, run_at, prefix_rank, id) WHERE status = 'queued' AND ready = 1;
CREATE INDEX job_lease ON job (lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX job_deadline ON job (deadline) WHERE deadline IS NOT NULL AND batch IS NULL;
CREATE INDEX job_retain ON job (retain_until) WHERE retain_until IS NOT NULL;
CREATE INDEX job_dead ON job (created_at, id) WHERE dead = 1;
CREATE INDEX job_newest ON job (created_at, id);
CREATE INDEX job_of_key ON job (key, created_at, id) WHERE batch IS NULL;
CREATE UNIQUE INDEX job_line ON job (batch, line) WHERE batch IS NOT NULL;
CREATE INDEX job_line_open ON job (batch, line) WHERE batch IS NOT NULL AND status IN ('queued', 'running');
CREATE INDEX job_line_unready ON job (batch, line) WHERE batch IS NOT NULL AND ready = 0;
CREATE TABLE job_bytes (
    job {text} NOT NULL,
    part BIGINT NOT NULL,
    n BIGINT NOT NULL,
    size BIGINT NOT NULL,
    bytes {bytes},
    blob {text},
    PRIMARY KEY (job, part, n)
);
CREATE INDEX job_bytes_blob ON job_bytes (blob) WHERE blob IS NOT NULL;
CREATE TABLE job_event (
    job {text} NOT NULL,
    sequence BIGINT NOT NULL,
    name {text} NOT NULL,
    at BIGINT NOT NULL,
    data {text} NOT NULL,
    PRIMARY KEY (job, sequence)
);
CREATE TABLE job_batch (
    id {text} PRIMARY KEY,
    key {text} NOT NULL,
    kind {text} NOT NULL,
    status {text} NOT NULL,
    settled BIGINT NOT NULL,
    todo {text},
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    clear_at BIGINT,
    delete_at BIGINT,
    input_file {text} NOT NULL,
    json {text} NOT NULL
) {busy};
CREATE INDEX job_batch_status ON job_batch (status, created_at);
CREATE INDEX job_batch_todo ON job_batch (id) WHERE todo IS NOT NULL;
CREATE INDEX job_batch_newest ON job_batch (key, created_at, id);
CREATE INDEX job_batch_input ON job_batch (input_file);
CREATE INDEX job_batch_clear ON job_batch (clear_at) WHERE clear_at IS NOT NULL;
CREATE INDEX job_batch_delete ON job_batch (delete_at) WHERE delete_at IS NOT NULL;
CREATE TABLE job_file (
    id {text} PRIMARY KEY,
    key {text} NOT NULL,
    purpose {text} NOT NULL,
    hidden BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    size BIGINT NOT NULL,
    place {text},
    json {text} NOT NULL
);
CREATE INDEX job_file_newest ON job_file (key, created_at, id);
CREATE INDEX job_file_expires ON job_file (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX job_file_place ON job_file (place) WHERE place IS NOT NULL;
CREATE TABLE job_chunk (
    file {text} NOT NULL,
    sealed BIGINT NOT NULL,
    start BIGINT NOT NULL,
    size BIGINT NOT NULL,
    at BIGINT NOT NULL,
    bytes {bytes} NOT NULL,
    PRIMARY KEY (file, sealed, start)
);
CREATE TABLE job_request (
    key {text} NOT NULL,
    route {text} NOT NULL,
    value {text} NOT NULL,
    fingerprint {text} NOT NULL,
    object {text} NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (key, route, value)
);
CREATE INDEX job_request_expires ON job_request (expires_at);
CREATE TABLE job_document (
    kind {text} NOT NULL,
    id {text} NOT NULL,
    key {text} NOT NULL,
    owner {text} NOT NULL,
    due BIGINT,
    expires_at BIGINT,
    created_at BIGINT NOT NULL,
    json {text} NOT NULL,
    PRIMARY KEY (kind, id)
);
CREATE INDEX job_document_due ON job_document (kind, due) WHERE due IS NOT NULL;
CREATE INDEX job_document_key ON job_document (kind, key);
CREATE INDEX job_document_owner ON job_document (kind, owner, created_at, id);
CREATE INDEX job_document_expires ON job_document (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE job_lane (
    class BIGINT NOT NULL,
    key {text} NOT NULL,
    served BIGINT NOT NULL,
    PRIMARY KEY (class, key)
);
CREATE TABLE job_tally (
    what {text} NOT NULL,
    key {text} NOT NULL,
    shard BIGINT NOT NULL,
    n BIGINT NOT NULL,
    PRIMARY KEY (what, key, shard)
) {busy};
CREATE TABLE job_worker (
    id {text} PRIMARY KEY,
    place {text} NOT NULL,
    seen_at BIGINT NOT NULL
);
CREATE TABLE job_tombstone (
    id {text} PRIMARY KEY,
    key {text} NOT NULL,
    kind {text} NOT NULL,
    until BIGINT NOT NULL
);
CREATE INDEX job_tombstone_until ON job_tombstone (until);
CREATE TABLE job_garbage (
    place {text} PRIMARY KEY
);
"];

/// A table: its name, its columns in the order in which they are copied, and its key.
#[cfg(feature = "postgres")]
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [&'static str],
    pub(crate) key: &'static [&'static str],
}

/// Every table that is copied. Workers tell of themselves again, counters are counted again, and the rest is of places.
#[cfg(feature = "postgres")]
pub(crate) const TABLES: &[Table] = &[
    Table {
        name: "job",
        columns: &[
            "id",
            "key",
            "class",
            "status",
            "ready",
            "alone",
            "batch",
            "line",
            "model",
            "run_at",
            "prefix_rank",
            "deadline",
            "lease_until",
            "retain_until",
            "dead",
            "created_at",
            "json",
        ],
        key: &["id"],
    },
    Table {
        name: "job_bytes",
        columns: &["job", "part", "n", "size", "bytes", "blob"],
        key: &["job", "part", "n"],
    },
    Table {
        name: "job_event",
        columns: &["job", "sequence", "name", "at", "data"],
        key: &["job", "sequence"],
    },
    Table {
        name: "job_batch",
        columns: &[
            "id",
            "key",
            "kind",
            "status",
            "settled",
            "todo",
            "created_at",
            "expires_at",
            "clear_at",
            "delete_at",
            "input_file",
            "json",
        ],
        key: &["id"],
    },
    Table {
        name: "job_file",
        columns: &["id", "key", "purpose", "hidden", "created_at", "expires_at", "size", "place", "json"],
        key: &["id"],
    },
    Table {
        name: "job_request",
        columns: &["key", "route", "value", "fingerprint", "object", "expires_at"],
        key: &["key", "route", "value"],
    },
    Table {
        name: "job_document",
        columns: &["kind", "id", "key", "owner", "due", "expires_at", "created_at", "json"],
        key: &["kind", "id"],
    },
    Table { name: "job_lane", columns: &["class", "key", "served"], key: &["class", "key"] },
    Table { name: "job_tombstone", columns: &["id", "key", "kind", "until"], key: &["id"] },
];

/// How a database writes the types.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialect {
    pub(crate) text: &'static str,
    pub(crate) bytes: &'static str,
    pub(crate) busy: &'static str,
}

/// The version that the program knows.
pub(crate) fn version() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// The scripts after a version.
pub(crate) fn scripts_after(found: i64, dialect: Dialect) -> Vec<String> {
    let done = usize::try_from(found).unwrap_or(0);
    let written = |script: &&str| {
        let script = script.replace("{text}", dialect.text).replace("{bytes}", dialect.bytes);
        script.replace("{busy}", dialect.busy)
    };
    MIGRATIONS.iter().skip(done).map(written).collect()
}
