//! The tables, in the SQL that SQLite and PostgreSQL share. Users may read them for reports of their own.
//!
//! A database has a row with the version of its tables. A later version of the program brings them up to date by the
//! scripts after that; an earlier one refuses.

/// Scripts, one a version: the first makes version 1. `{id}` stands for a primary key that the database numbers.
/// A script that was released does not change.
pub(crate) const MIGRATIONS: &[&str] = &["
CREATE TABLE ledger_session (
    id {id},
    replica TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    expires BIGINT NOT NULL
);
CREATE TABLE ledger_bucket (
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    span TEXT NOT NULL,
    unit TEXT NOT NULL,
    period BIGINT NOT NULL,
    ceiling BIGINT NOT NULL,
    spent BIGINT NOT NULL CHECK (spent >= 0),
    uncertain BIGINT NOT NULL CHECK (uncertain >= 0),
    leased BIGINT NOT NULL CHECK (leased >= 0),
    PRIMARY KEY (scope, name, span, unit, period)
);
CREATE TABLE ledger_lease (
    session BIGINT NOT NULL,
    account BIGINT NOT NULL,
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    span TEXT NOT NULL,
    unit TEXT NOT NULL,
    period BIGINT NOT NULL,
    hold BIGINT NOT NULL,
    spent BIGINT NOT NULL CHECK (spent >= 0),
    uncertain BIGINT NOT NULL CHECK (uncertain >= 0),
    PRIMARY KEY (session, account),
    CHECK (hold >= spent)
);
CREATE TABLE ledger_receipt (
    id {id},
    session BIGINT NOT NULL,
    number BIGINT NOT NULL,
    time BIGINT NOT NULL,
    day BIGINT NOT NULL,
    request TEXT NOT NULL,
    key_name TEXT NOT NULL,
    team TEXT NOT NULL,
    model TEXT NOT NULL,
    upstream TEXT NOT NULL,
    label TEXT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    own_ms BIGINT NOT NULL,
    invoice BIGINT NOT NULL,
    possibly BIGINT NOT NULL,
    saved BIGINT NOT NULL,
    attempts TEXT NOT NULL,
    UNIQUE (session, number)
);
CREATE INDEX ledger_receipt_time ON ledger_receipt (time);
CREATE INDEX ledger_bucket_period ON ledger_bucket (span, period);
CREATE INDEX ledger_lease_period ON ledger_lease (span, period);
CREATE INDEX ledger_lease_bucket ON ledger_lease (scope, name, span, unit, period);
"];

/// The version that the program knows.
pub(crate) fn version() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// The scripts after a version, with the database's words for a numbered key.
pub(crate) fn scripts_after(found: i64, id: &str) -> Vec<String> {
    let done = usize::try_from(found).unwrap_or(0);
    MIGRATIONS.iter().skip(done).map(|script| script.replace("{id}", id)).collect()
}
