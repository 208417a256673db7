//! Bytes of jobs: requests, results and checkpoints. Small ones lie in rows; where large ones lie is the database's.

use super::tally;
use super::work::Work;
use crate::error::StoreError;
use crate::sql::{Sql, values};

/// Bytes of one row at most.
pub(crate) const ROW_BYTES: usize = 1 << 20;

/// Bytes that are ready to be named by a row.
#[derive(Clone, Debug)]
pub(crate) enum Stored {
    /// They are written into rows.
    Rows(Vec<u8>),
    /// They lie at a place outside the database.
    Outside {
        /// The place, from the folder of the store.
        place: String,
        /// How many.
        size: u64,
    },
}

/// What rows say of bytes.
#[derive(Clone, Debug, Default)]
pub(crate) enum Loaded {
    /// There are none.
    #[default]
    Nothing,
    /// They are these.
    Rows(Vec<u8>),
    /// They lie at a place outside the database.
    Outside(String),
}

/// The bytes of a part of a job, or where they are.
pub(crate) async fn read_part(sql: &mut dyn Sql, job: &str, part: i64) -> Result<Loaded, StoreError> {
    let select = "SELECT bytes, blob FROM job_bytes WHERE job = $1 AND part = $2 ORDER BY n";
    let mut found = Loaded::Nothing;
    for row in sql.query(select, values![job, part]).await? {
        if let Some(place) = row.text_or_none(1)? {
            return Ok(Loaded::Outside(place.to_owned()));
        }
        let bytes = row.bytes_or_none(0)?.unwrap_or_default();
        match &mut found {
            Loaded::Rows(before) => before.extend_from_slice(bytes),
            _ => found = Loaded::Rows(bytes.to_vec()),
        }
    }
    Ok(found)
}

impl Work<'_> {
    /// Keeps a part of a job that has none yet.
    pub(crate) async fn put_part(&mut self, job: &str, part: i64, stored: &Stored) -> Result<(), StoreError> {
        const INSERT: &str =
            "INSERT INTO job_bytes (job, part, n, size, bytes, blob) VALUES ($1, $2, $3, $4, $5, $6)";
        match stored {
            Stored::Outside { place, size } => {
                let no_bytes: Option<&[u8]> = None;
                let row = values![job, part, 0_i64, *size, no_bytes, place];
                self.sql.execute(INSERT, row).await?;
                self.count_bytes(*size, true, 1);
            }
            Stored::Rows(bytes) => {
                for (n, piece) in bytes.chunks(ROW_BYTES).enumerate() {
                    let no_place: Option<&str> = None;
                    let row = values![job, part, n as i64, piece.len() as i64, piece, no_place];
                    self.sql.execute(INSERT, row).await?;
                }
                self.count_bytes(bytes.len() as u64, false, 1);
            }
        }
        Ok(())
    }

    /// Keeps a part of a job in place of an earlier one.
    pub(crate) async fn replace_part(
        &mut self,
        job: &str,
        part: i64,
        stored: &Stored,
    ) -> Result<(), StoreError> {
        self.drop_parts(job, Some(part)).await?;
        self.put_part(job, part, stored).await
    }

    /// Forgets the bytes of a job, or one part of them.
    pub(crate) async fn drop_parts(&mut self, job: &str, part: Option<i64>) -> Result<(), StoreError> {
        let (first, last) = part.map_or((0, i64::MAX), |part| (part, part));
        let select = "SELECT size, blob FROM job_bytes WHERE job = $1 AND part >= $2 AND part <= $3";
        let rows = self.sql.query(select, values![job, first, last]).await?;
        if rows.is_empty() {
            return Ok(());
        }
        for row in &rows {
            let place = row.text_or_none(1)?;
            self.count_bytes(row.count(0)?, place.is_some(), -1);
            if let Some(place) = place {
                self.drop_place(place).await?;
            }
        }
        let delete = "DELETE FROM job_bytes WHERE job = $1 AND part >= $2 AND part <= $3";
        self.sql.execute(delete, values![job, first, last]).await?;
        Ok(())
    }

    /// Notes a place outside the database that may no longer be named by any row.
    pub(crate) async fn drop_place(&mut self, place: &str) -> Result<(), StoreError> {
        let insert = "INSERT INTO job_garbage (place) VALUES ($1) ON CONFLICT (place) DO NOTHING";
        self.sql.execute(insert, values![place]).await?;
        Ok(())
    }

    /// Counts bytes that are kept from now on, or no longer.
    pub(crate) fn count_bytes(&mut self, size: u64, outside: bool, sign: i64) {
        let size = i64::try_from(size).unwrap_or(i64::MAX);
        self.count(tally::BYTES, "", sign * size);
        if outside {
            self.count(tally::BLOBS, "", sign * size);
        }
    }
}
