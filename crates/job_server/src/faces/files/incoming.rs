//! A large body that is read as it comes: with a place among the uploads, and bounded in time.

use std::sync::Arc;

use axum::body::{Body, BodyDataStream};
use axum::extract::Request;
use axum::http::header;
use bytes::Bytes;
use tokio::sync::SemaphorePermit;
use tokio::time::Instant;
use tokio_stream::StreamExt;
use wire::Fault;

use crate::shared::Jobs;

/// Bytes that are read on after a fault, so that the client gets to see the answer instead of a broken connection.
const READ_ON: usize = 8 << 20;

/// A body that is read as it comes.
pub(crate) struct Incoming<'a> {
    body: BodyDataStream,
    jobs: &'a Arc<Jobs>,
    end: Instant,
    _place: SemaphorePermit<'a>,
}

impl<'a> Incoming<'a> {
    /// The body of a request, whose length must not exceed `most` as far as it is told.
    ///
    /// # Errors
    /// 429 if too many are being read, 413 for a length that is too large, 415 for a compressed one.
    pub(crate) fn of(jobs: &'a Arc<Jobs>, request: Request, most: u64) -> Result<Incoming<'a>, Fault> {
        let headers = request.headers();
        if let Some(encoding) =
            headers.get(header::CONTENT_ENCODING).filter(|encoding| *encoding != "identity")
        {
            let mut fault = Fault::content_encoding(encoding.to_str().unwrap_or("not ASCII"));
            fault.message = "a body of this size is not taken compressed".to_owned();
            return Err(fault);
        }
        let declared =
            headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if declared.is_some_and(|length| length > most) {
            return Err(Fault::too_large(usize::try_from(most).unwrap_or(usize::MAX)));
        }
        let place = jobs.uploads.try_acquire().map_err(|_| {
            let most = jobs.options.max_uploads;
            Fault::busy(format!("{most} files are being put in already, which is the limit"), 5)
        })?;
        let body: Body = request.into_body();
        let end = Instant::now() + jobs.options.upload_time;
        Ok(Incoming { body: body.into_data_stream(), jobs, end, _place: place })
    }

    /// The next bytes; none at the end.
    ///
    /// # Errors
    /// 408 for a body that stands still, 400 for one that breaks off.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        let options = &self.jobs.options;
        let until = self.end.min(Instant::now() + options.upload_idle);
        let read = tokio::select! {
            read = tokio::time::timeout_at(until, self.body.next()) => read,
            () = self.jobs.closed() => {
                return Err(Fault::unavailable("draining", "the server stops; send the body again", 5));
            }
        };
        match read {
            Ok(None) => Ok(None),
            Ok(Some(Ok(bytes))) => Ok(Some(bytes)),
            Ok(Some(Err(error))) => Err(Fault::body(format!("the body could not be read: {error}"))),
            Err(_) if Instant::now() >= self.end => Err(Fault::slow_body(options.upload_time.as_secs())),
            Err(_) => {
                let mut fault = Fault::slow_body(options.upload_idle.as_secs());
                fault.message =
                    format!("nothing of the body arrived within {} s", options.upload_idle.as_secs());
                Err(fault)
            }
        }
    }

    /// Reads on a little after a fault.
    pub(crate) async fn pass(mut self) {
        let mut passed = 0;
        while let Ok(Some(bytes)) = self.next().await {
            passed += bytes.len();
            if passed > READ_ON {
                return;
            }
        }
    }
}
