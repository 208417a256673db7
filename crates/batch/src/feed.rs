//! Hands out the requests that are to be run, window by window, in the order that shares beginnings.

use crate::cancel::Cancel;
use crate::error::Error;
use crate::input::source::Places;
use crate::journal::rows::Pending;
use crate::journal::store::Journal;
use crate::options::{Options, Order};
use crate::request::{Key, Request, copy_key};
use crate::setup::Setup;
use jobs::{Orderer, Reuse, beginning};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// Requests whose bodies are read at once.
const READ_AHEAD: usize = 64;
/// Bytes of lines that are read at once.
const READ_AHEAD_BYTES: u64 = 8 << 20;

/// What all parts of a run share.
pub(crate) struct Work {
    pub(crate) options: Options,
    pub(crate) setup: Setup,
    pub(crate) journal: Journal,
    pub(crate) cancel: Cancel,
}

impl Work {
    /// Fails once the run was cancelled.
    pub(crate) fn go_on(&self) -> Result<(), Error> {
        if self.cancel.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Reads a request anew, and checks that it is the one that was entered.
    pub(crate) fn request(&self, places: &mut Places<'_>, pending: &Pending) -> Result<Request, Error> {
        let record = places.record(pending.offset, pending.length)?;
        let request =
            record.and_then(|record| self.setup.recipe.request(&self.setup.reading, 0, &record).ok());
        request
            .filter(|request| copy_key(&request.key(), pending.copy) == pending.key)
            .ok_or_else(|| Error::InputChanged(self.setup.source.path.clone()))
    }
}

/// A request with the body that is sent.
pub(crate) struct Ready {
    pub(crate) id: i64,
    pub(crate) key: Key,
    pub(crate) path: &'static str,
    pub(crate) body: Vec<u8>,
    /// The most tokens that the answer may have, where told.
    pub(crate) output_limit: Option<u64>,
}

/// Hands out requests.
pub(crate) struct Feed {
    work: Arc<Work>,
    /// The last request of the windows so far.
    last: i64,
    window: VecDeque<Pending>,
    ready: VecDeque<Ready>,
    reuse: Reuse,
}

impl Feed {
    pub(crate) fn new(work: Arc<Work>) -> Feed {
        Feed { work, last: 0, window: VecDeque::new(), ready: VecDeque::new(), reuse: Reuse::default() }
    }

    /// Bytes of beginnings in the windows so far, and those that the order shares.
    pub(crate) fn reuse(&self) -> Reuse {
        self.reuse
    }

    /// The next request; `None` after the last one.
    pub(crate) async fn next(&mut self) -> Result<Option<Ready>, Error> {
        if self.ready.is_empty() {
            if self.window.is_empty() {
                self.open_window().await?;
            }
            self.read_ahead().await?;
        }
        Ok(self.ready.pop_front())
    }

    async fn open_window(&mut self) -> Result<(), Error> {
        let (work, last) = (Arc::clone(&self.work), self.last);
        let window = blocking(move || window(&work, last)).await?;
        self.last = window.last.unwrap_or(self.last);
        self.reuse.total += window.reuse.total;
        self.reuse.shared += window.reuse.shared;
        self.window = window.order;
        Ok(())
    }

    async fn read_ahead(&mut self) -> Result<(), Error> {
        let mut bytes = 0;
        let fits = |pending: &&Pending| {
            let first = bytes == 0;
            bytes += pending.length;
            first || bytes <= READ_AHEAD_BYTES
        };
        let count = self.window.iter().take(READ_AHEAD).take_while(fits).count();
        let pending: Vec<Pending> = self.window.drain(..count).collect();
        let work = Arc::clone(&self.work);
        self.ready = blocking(move || read(&work, &pending)).await?;
        Ok(())
    }
}

/// Runs what blocks on a thread that may.
pub(crate) async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    spawn_blocking(act).await.map_err(|error| Error::Internal(error.to_string()))?
}

fn read(work: &Work, pending: &[Pending]) -> Result<VecDeque<Ready>, Error> {
    let mut places = work.setup.source.places()?;
    let ready = |pending: &Pending| {
        let request = work.request(&mut places, pending)?;
        let (path, output_limit) = (request.endpoint.path(), request.output_limit());
        let body = request.into_body(&pending.key);
        Ok(Ready { id: pending.id, key: pending.key, path, body, output_limit })
    };
    pending.iter().map(ready).collect()
}

/// Requests that are put into order together.
pub(crate) struct Window {
    pub(crate) order: VecDeque<Pending>,
    /// The last request by its number.
    pub(crate) last: Option<i64>,
    pub(crate) reuse: Reuse,
}

/// The window behind the request `after`.
pub(crate) fn window(work: &Work, after: i64) -> Result<Window, Error> {
    let options = &work.options;
    let pending = work.journal.open_after(after, options.window_lines, options.window_bytes)?;
    let last = pending.last().map(|pending| pending.id);
    if options.order == Order::Input {
        return Ok(Window { order: pending.into(), last, reuse: Reuse::default() });
    }
    let mut orderer = Orderer::default();
    let mut places = work.setup.source.places()?;
    for (number, pending) in (0..).zip(&pending) {
        work.go_on()?;
        let request = work.request(&mut places, pending)?;
        let expected = request.output_limit().unwrap_or(0);
        orderer.add(number, &beginning(&request.into_body(&pending.key)), expected);
    }
    let order = orderer.finish();
    let placed =
        order.ranks.iter().filter_map(|(number, _)| pending.get(usize::try_from(*number).ok()?).copied());
    Ok(Window { order: placed.collect(), last, reuse: order.reuse })
}
