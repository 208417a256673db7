//! Calls of a store that take more than one transaction, or bytes from outside the database.

use crate::backend::Backend;
use crate::error::StoreError;
use crate::ops::leases::{self, Ending, Lost};
use crate::ops::parts::Loaded;
use crate::ops::{batch_lines, batches, claim, files, jobs, sweep};
use crate::rows::sha256_hex;
use crate::types::{Claim, Claimed, Finish, Finished, LineResult, NewLine, Renewal, Renewed, Swept};
use ::jobs::Millis;
use ::jobs::batch::Batch;
use std::sync::{Arc, PoisonError};

/// Transactions that one sweep makes of each kind.
const SWEEPS: usize = 4;

/// Bytes of results in one answer about lines, unless a single one is larger.
const LINE_BYTES: usize = 64 << 20;

/// A transaction of a database that calls an operation; what stands in brackets is cloned for each attempt.
macro_rules! transaction {
    ($way:ident($database:expr), [$($name:ident),*], |$sql:ident| $call:expr) => {{
        $(let $name = $name.clone();)*
        $database.$way($crate::sql::act(move |$sql| {
            $(let $name = $name.clone();)*
            Box::pin(async move { $call.await })
        }))
    }};
}
pub(crate) use transaction;

/// What is the same for all databases.
pub(crate) struct Common<'a, B>(pub(crate) &'a B);

impl<B: Backend> Common<'_, B> {
    pub(crate) async fn load(&self, loaded: Loaded) -> Result<Vec<u8>, StoreError> {
        match loaded {
            Loaded::Nothing => Ok(Vec::new()),
            Loaded::Rows(bytes) => Ok(bytes),
            Loaded::Outside(place) => self.0.load(place).await,
        }
    }

    pub(crate) async fn part(&self, id: String, part: i64) -> Result<Vec<u8>, StoreError> {
        let loaded = transaction!(read(self.0), [id], |sql| jobs::part(sql, &id, part));
        self.load(loaded.await?).await
    }

    pub(crate) async fn claim(&self, wish: Claim, now: Millis) -> Result<Vec<Claimed>, StoreError> {
        let credits = self.0.credits().lock().unwrap_or_else(PoisonError::into_inner).clone();
        let done = transaction!(write(self.0), [wish, credits], |sql| claim::claim(sql, &wish, credits, now));
        let (taken, credits) = done.await?;
        *self.0.credits().lock().unwrap_or_else(PoisonError::into_inner) = credits;
        let mut claimed = Vec::with_capacity(taken.len());
        for taken in taken {
            let body = self.load(taken.body).await?;
            let checkpoint = match taken.checkpoint {
                Loaded::Nothing => None,
                found => Some(self.load(found).await?),
            };
            claimed.push(Claimed { job: taken.job, body, checkpoint });
        }
        Ok(claimed)
    }

    pub(crate) async fn renew(
        &self,
        renewals: Vec<Renewal>,
        now: Millis,
    ) -> Result<Vec<Renewed>, StoreError> {
        let mut kept = Vec::new();
        let mut wishes = Vec::with_capacity(renewals.len());
        for mut renewal in renewals {
            let stored = match renewal.checkpoint.take() {
                Some(bytes) => {
                    let bytes = self.0.keep(bytes).await?;
                    let stored = bytes.stored.clone();
                    kept.push(bytes);
                    Some(stored)
                }
                None => None,
            };
            wishes.push((renewal, stored));
        }
        // The bytes are kept until the rows that name them are there.
        let wishes = Arc::new((wishes, kept));
        let done = transaction!(write(self.0), [wishes], |sql| leases::renew(sql, &wishes.0, now));
        done.await
    }

    pub(crate) async fn finish(
        &self,
        id: String,
        epoch: u64,
        mut finish: Finish,
        now: Millis,
    ) -> Result<Finished, StoreError> {
        let bytes = match &mut finish {
            Finish::Succeeded { result, .. } | Finish::Failed { result, .. } => Some(std::mem::take(result)),
            Finish::Released { checkpoint } => checkpoint.take(),
            Finish::Retry { .. } | Finish::Cancelled { .. } => None,
        };
        let (mut sha256, mut size) = (String::new(), 0);
        let mut kept = None;
        if let Some(bytes) = bytes {
            sha256 = sha256_hex(&bytes);
            size = bytes.len() as u64;
            kept = Some(self.0.keep(bytes).await?);
        }
        let stored = kept.as_ref().map(|kept| kept.stored.clone());
        let ending = Arc::new((Ending { finish, bytes: stored, sha256, size }, kept));
        let done =
            transaction!(write(self.0), [id, ending], |sql| leases::finish(sql, &id, epoch, &ending.0, now));
        done.await
    }

    pub(crate) async fn add_lines(
        &self,
        batch: String,
        from: u64,
        lines: Vec<NewLine>,
        now: Millis,
    ) -> Result<Batch, StoreError> {
        let limits = self.0.limits();
        let mut keeps = Vec::new();
        let mut rows = Vec::with_capacity(lines.len());
        for line in lines {
            let kept = self.0.keep(line.body).await?;
            rows.push((line.job, kept.stored));
            keeps.extend(kept.keep);
        }
        let rows = Arc::new((rows, keeps));
        let done = transaction!(write(self.0), [batch, rows], |sql| batch_lines::add(
            sql, &batch, from, &rows.0, &limits, now
        ));
        done.await
    }

    /// Does what is to be done to the lines of a batch, to the end. Returns the jobs that have ended by it.
    pub(crate) async fn work_off(&self, batch: &str, now: Millis) -> Result<Vec<String>, StoreError> {
        let mut ended = Vec::new();
        let batch = batch.to_owned();
        loop {
            let step = transaction!(write(self.0), [batch], |sql| batch_lines::step(sql, &batch, now));
            let (more, jobs) = step.await?;
            ended.extend(jobs);
            if !more {
                return Ok(ended);
            }
        }
    }

    pub(crate) async fn batch_now(&self, id: String) -> Result<Batch, StoreError> {
        let read = transaction!(read(self.0), [id], |sql| batches::get(sql, &id, None));
        read.await
    }

    pub(crate) async fn begin_batch(
        &self,
        id: String,
        ranks: Vec<(u64, i64)>,
        now: Millis,
    ) -> Result<Batch, StoreError> {
        for chunk in ranks.chunks(batch_lines::LINES) {
            let chunk: Arc<[(u64, i64)]> = chunk.into();
            let rank = transaction!(write(self.0), [id, chunk], |sql| batch_lines::rank(sql, &id, &chunk));
            rank.await?;
        }
        let begin = transaction!(write(self.0), [id], |sql| batches::begin(sql, &id, now));
        begin.await?;
        self.work_off(&id, now).await?;
        self.batch_now(id).await
    }

    pub(crate) async fn lines(
        &self,
        batch: String,
        from: u64,
        limit: usize,
        gapless: bool,
    ) -> Result<Vec<LineResult>, StoreError> {
        let found =
            transaction!(read(self.0), [batch], |sql| batch_lines::list(sql, &batch, from, limit, gapless));
        let mut lines = Vec::new();
        let mut bytes = 0;
        for (job, result) in found.await? {
            if bytes > LINE_BYTES {
                break;
            }
            let result = self.load(result).await?;
            bytes += result.len();
            lines.push(LineResult { job, result });
        }
        Ok(lines)
    }

    pub(crate) async fn take_back(&self, now: Millis) -> Result<u64, StoreError> {
        let mut all = 0;
        loop {
            let lose = transaction!(write(self.0), [], |sql| leases::lose(sql, Lost::All, now));
            let (count, _) = lose.await?;
            all += count;
            if count == 0 {
                return Ok(all);
            }
        }
    }

    pub(crate) async fn sweep(&self, now: Millis) -> Result<Swept, StoreError> {
        let mut swept = Swept::default();
        for _ in 0..SWEEPS {
            let lose = transaction!(write(self.0), [], |sql| leases::lose(sql, Lost::Overdue, now));
            let (lost, ended) = lose.await?;
            let expired = transaction!(write(self.0), [], |sql| leases::expire(sql, now)).await?;
            let retained = transaction!(write(self.0), [], |sql| sweep::retain(sql, now)).await?;
            swept.leases_lost += lost;
            swept.expired += expired.len() as u64;
            swept.deleted += retained;
            let changed = lost + expired.len() as u64 + retained;
            swept.ended.extend(ended.into_iter().chain(expired));
            if changed == 0 {
                break;
            }
        }
        swept.deleted += transaction!(write(self.0), [], |sql| batches::retire(sql, now)).await?;
        swept.deleted += transaction!(write(self.0), [], |sql| files::expire(sql, now)).await?;
        let unfinished = transaction!(read(self.0), [], |sql| batch_lines::unfinished(sql)).await?;
        for batch in unfinished {
            for _ in 0..SWEEPS {
                let step = transaction!(write(self.0), [batch], |sql| batch_lines::step(sql, &batch, now));
                let (more, ended) = step.await?;
                swept.ended.extend(ended);
                if !more {
                    break;
                }
            }
        }
        transaction!(write(self.0), [], |sql| sweep::small(sql, now)).await?;
        self.0.tidy(now).await?;
        Ok(swept)
    }
}
