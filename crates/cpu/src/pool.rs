//! A fork-join pool: the caller and its workers share out numbered tasks and meet again at the end.
//!
//! A forward pass crosses this barrier hundreds of times a token, so workers spin for a moment before they park. Each
//! thread has a range of the tasks and claims it in order, which makes its reads one forward stream; who is done early
//! goes on with what others have left, so a core that is slowed or stolen simply claims fewer.
//! One caller at a time: several callers take turns above this crate. A job that meets a busy pool runs on its caller alone, which is
//! right for a task that calls back into its pool, and counted as a collision for any other ([`Pool::collisions`]).
//! Deliberately absent: nested parallelism, futures, and any queue.

pub(crate) mod stripes;

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread};

/// How often an idle worker looks for work before it parks: some tens of microseconds.
const SPINS: usize = 20_000;

type Job = dyn Fn(usize) + Sync;

thread_local! {
    /// The pool in whose job this thread is, by the address of what its threads share; 0 if in none.
    static INSIDE: Cell<usize> = const { Cell::new(0) };
}

/// Keeps a counter on a cache line of its own.
#[repr(align(128))]
struct Line<T>(T);

struct Shared {
    /// Changes with each job, and says how many threads take part in it ([`epoch`]): one word, so that a worker that
    /// is not among them can never take one job's number for another's.
    epoch: Line<AtomicUsize>,
    /// The next task to claim of each thread's range.
    next: Box<[Line<AtomicUsize>]>,
    /// Workers still inside the current job.
    inside: Line<AtomicUsize>,
    /// How many workers are parked or about to be.
    parked: Line<AtomicUsize>,
    job: UnsafeCell<Option<(*const Job, usize)>>,
    stop: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `job` is written only by the owner of the `busy` flag while no worker is inside a job, and read by workers
// only between seeing a new epoch (acquire) and leaving (release). The pointee outlives the job because `run` waits.
unsafe impl Sync for Shared {}
// SAFETY: the raw pointer is only dereferenced under the protocol above.
unsafe impl Send for Shared {}

/// Threads that run numbered tasks together with the caller.
pub struct Pool {
    shared: Arc<Shared>,
    busy: AtomicBool,
    /// See [`Pool::collisions`].
    collisions: AtomicUsize,
    /// Threads that take part, the caller included.
    active: AtomicUsize,
    unpark: Vec<Thread>,
    workers: Vec<JoinHandle<()>>,
    first_cpu: Option<usize>,
}

/// Threads that a pool can have; the low bits of an epoch hold their number.
const MOST_THREADS: usize = 1 << 12;

/// The epoch after `last`, of a job for `threads`.
fn epoch(last: usize, threads: usize) -> usize {
    (last / MOST_THREADS).wrapping_add(1) * MOST_THREADS + threads
}

impl Pool {
    /// Makes a pool of `threads` in all: the caller of [`Pool::run`] and `threads - 1` workers; at most 4,095.
    ///
    /// With `cpus`, worker *i* is pinned to `cpus[i]`; `cpus[0]` is for the caller (see [`Pool::pin_caller`]).
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn new(threads: usize, cpus: Option<&[usize]>) -> std::io::Result<Pool> {
        let threads = threads.clamp(1, MOST_THREADS - 1);
        let shared = Arc::new(Shared {
            epoch: Line(AtomicUsize::new(0)),
            next: (0..threads).map(|_| Line(AtomicUsize::new(0))).collect(),
            inside: Line(AtomicUsize::new(0)),
            parked: Line(AtomicUsize::new(0)),
            job: UnsafeCell::new(None),
            stop: AtomicBool::new(false),
            panic: Mutex::new(None),
        });
        let mut pool = Pool {
            shared,
            busy: AtomicBool::new(false),
            collisions: AtomicUsize::new(0),
            active: AtomicUsize::new(threads),
            unpark: Vec::new(),
            workers: Vec::new(),
            first_cpu: cpus.and_then(|c| c.first().copied()),
        };
        for index in 1..threads {
            let shared = Arc::clone(&pool.shared);
            let cpu = cpus.and_then(|c| c.get(index).copied());
            let worker = crate::thread::spawn(&format!("grist-{index}"), move || {
                if let Some(cpu) = cpu {
                    crate::thread::pin(cpu);
                }
                work(&shared, index);
            })?;
            pool.unpark.push(worker.thread().clone());
            pool.workers.push(worker);
        }
        Ok(pool)
    }

    /// How many threads take part, the caller included.
    pub fn threads(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// From the next job on, only the first `threads` take part: between 1 and all, to which it is clamped. The others
    /// sleep. What a job computes does not depend on it.
    pub fn limit(&self, threads: usize) {
        self.active.store(threads.clamp(1, self.workers.len() + 1), Ordering::Relaxed);
    }

    /// Pins the calling thread to the pool's first CPU, if the pool was made with CPUs.
    pub fn pin_caller(&self) {
        if let Some(cpu) = self.first_cpu {
            crate::thread::pin(cpu);
        }
    }

    /// Calls `job(0)` to `job(tasks - 1)`, each once, in no particular order, and returns when all are done.
    ///
    /// A panic in a task is passed on to the caller after the others have finished.
    pub fn run(&self, tasks: usize, job: &(dyn Fn(usize) + Sync)) {
        let threads = self.threads();
        let alone = threads == 1 || tasks <= 1;
        let shared = &*self.shared;
        if alone || self.busy.swap(true, Ordering::Acquire) {
            if !alone && INSIDE.get() != shared.address() {
                self.collisions.fetch_add(1, Ordering::Relaxed);
            }
            (0..tasks).for_each(job);
            return;
        }
        // SAFETY: only the lifetime is erased; `run` does not return before every worker has left the job.
        let erased = unsafe { std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), *const Job>(job) };
        // SAFETY: `busy` is ours and no worker is inside a job, so nobody else touches the cell.
        unsafe { *shared.job.get() = Some((erased, tasks)) };
        for (thread, next) in shared.next[..threads].iter().enumerate() {
            next.0.store(range(tasks, thread, threads).start, Ordering::Relaxed);
        }
        shared.inside.0.store(threads - 1, Ordering::Relaxed);
        let last = shared.epoch.0.load(Ordering::Relaxed);
        // A worker that parks adds itself to `parked` and then looks at the epoch; one of the two must see the other. A swap
        // orders what follows as a store and a load of sequential consistency do by themselves, and does so too in an
        // emulator that turns these into a plain store and load (QEMU 7.2, AArch64 on x86-64: the load passed the store).
        shared.epoch.0.swap(epoch(last, threads), Ordering::SeqCst);
        if shared.parked.0.load(Ordering::SeqCst) > 0 {
            self.unpark[..threads - 1].iter().for_each(Thread::unpark);
        }
        let mine = catch_unwind(AssertUnwindSafe(|| claim(shared, 0, threads, job, tasks)));
        if mine.is_err() {
            shared.abandon(tasks);
        }
        let mut spins = 0usize;
        while shared.inside.0.load(Ordering::Acquire) > 0 {
            spins += 1;
            if spins < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        let theirs = shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.busy.store(false, Ordering::Release);
        if let Some(panic) = mine.err().or(theirs) {
            resume_unwind(panic);
        }
    }

    /// How often a job met the pool busy with the job of another thread, and so ran on its caller alone: 0 where callers take turns.
    pub fn collisions(&self) -> usize {
        self.collisions.load(Ordering::Relaxed)
    }

    /// Splits `data` into pieces of `chunk` items (the last may be shorter) and calls `job(index, piece)` for each.
    pub fn chunks_mut<T: Send>(&self, data: &mut [T], chunk: usize, job: &(dyn Fn(usize, &mut [T]) + Sync)) {
        let chunk = chunk.max(1);
        let len = data.len();
        let base = Shareable(data.as_mut_ptr());
        self.run(len.div_ceil(chunk), &|i| {
            let start = i * chunk;
            // SAFETY: pieces of different `i` do not overlap, each `i` runs once, and all lie inside `data`, which
            // stays mutably borrowed until `run` returns.
            let piece = unsafe { std::slice::from_raw_parts_mut(base.at(start), chunk.min(len - start)) };
            job(i, piece);
        });
    }

    /// Calls `job(i, part, piece)` for each of the `parts` pieces of `len` items that begin where `places[i]` says: first part 0 of
    /// each place, then part 1 of each, and so on.
    ///
    /// # Panics
    /// When a piece lies outside `data`, or unless each place begins after all pieces of the one before it, or with the same stride in the
    /// gap that it and those before it leave.
    pub fn pieces_mut<T: Send>(
        &self,
        data: &mut [T],
        places: &[Strided],
        parts: usize,
        len: usize,
        job: &(dyn Fn(usize, usize, &mut [T]) + Sync),
    ) {
        assert!(
            apart(places, parts, len).is_some_and(|end| end <= data.len()),
            "pieces that overlap or lie outside"
        );
        let base = Shareable(data.as_mut_ptr());
        self.run(places.len() * parts, &|task| {
            let (part, i) = (task / places.len(), task % places.len());
            // SAFETY: the pieces do not overlap and lie inside `data`, both seen above, and each has one task that runs once; `data`
            // stays mutably borrowed until `run` returns.
            let piece = unsafe { std::slice::from_raw_parts_mut(base.at(places[i].at(part)), len) };
            job(i, part, piece);
        });
    }
}

/// A row-major matrix `[rows, row_len]` to be cut into tiles of `tile_cols` columns, for [`Pool::tiles_mut`].
pub struct MatrixTiles<'a, T> {
    /// The matrix.
    pub data: &'a mut [T],
    /// Its row length.
    pub row_len: usize,
    /// Columns in a tile; the last one may be narrower.
    pub tile_cols: usize,
}

/// Which tile of several matrices one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileOf {
    /// The matrix.
    pub matrix: usize,
    /// Tiles above it.
    pub row: usize,
    /// Tiles before it.
    pub col: usize,
}

impl Pool {
    /// Cuts each of up to `N` matrices of as many rows into tiles of `tile_rows` rows and its own `tile_cols` columns, and calls
    /// `job(which, tile)` for each, all in one round of the pool: first those of the first rows, of all matrices. Tiles at the lower
    /// and right edge may be smaller.
    ///
    /// # Panics
    /// When a matrix is not a whole number of rows, or not of as many as another.
    pub fn tiles_mut<T: Send, const N: usize>(
        &self,
        mut outs: [Option<MatrixTiles<'_, T>>; N],
        tile_rows: usize,
        job: &(dyn Fn(TileOf, Tile<'_, T>) + Sync),
    ) {
        let tile_rows = tile_rows.max(1);
        let mut rows = None;
        let parts = outs.each_mut().map(|out| {
            out.as_mut().filter(|o| !o.data.is_empty()).map(|o| {
                let these = o.data.len() / o.row_len;
                assert_eq!(these * o.row_len, o.data.len(), "a matrix of whole rows");
                assert_eq!(these, *rows.get_or_insert(these), "matrices of as many rows");
                let cols = o.tile_cols.max(1);
                (Shareable(o.data.as_mut_ptr()), o.row_len, cols, o.row_len.div_ceil(cols))
            })
        });
        let rows = rows.unwrap_or(0);
        let across: usize = parts.iter().flatten().map(|p| p.3).sum();
        self.run(rows.div_ceil(tile_rows) * across, &|task| {
            let (r, mut i) = (task / across, task % across);
            let row = r * tile_rows;
            for (matrix, part) in parts.iter().enumerate() {
                let Some((base, row_len, cols, tiles)) = part else { continue };
                if i >= *tiles {
                    i -= tiles;
                    continue;
                }
                let col = i * cols;
                let tile = Tile {
                    // SAFETY: the offset is that of an item inside this matrix; tiles of different tasks are
                    // disjoint, and the matrices stay mutably borrowed until `run` returns.
                    start: unsafe { base.at(row * row_len + col) },
                    row_len: *row_len,
                    rows: tile_rows.min(rows - row),
                    cols: (*cols).min(row_len - col),
                    borrow: PhantomData,
                };
                job(TileOf { matrix, row: r, col: i }, tile);
                return;
            }
        });
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        let last = self.shared.epoch.0.load(Ordering::Relaxed);
        self.shared.epoch.0.store(epoch(last, self.workers.len() + 1), Ordering::SeqCst);
        self.unpark.iter().for_each(Thread::unpark);
        for worker in self.workers.drain(..) {
            // A worker only ends by `stop`; its job panics were caught and passed on.
            let _ = worker.join();
        }
    }
}

struct Shareable<T>(*mut T);
// SAFETY: used only to derive non-overlapping exclusive slices, see the callers.
unsafe impl<T: Send> Sync for Shareable<T> {}
impl<T> Shareable<T> {
    /// # Safety
    /// `offset` must lie inside the allocation.
    unsafe fn at(&self, offset: usize) -> *mut T {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(offset) }
    }
}

/// Where the first of some pieces begins, and how far it is from each to the next.
#[derive(Clone, Copy, Debug)]
pub struct Strided {
    /// The first item of the first piece.
    pub start: usize,
    /// Items from the start of a piece to that of the next.
    pub stride: usize,
}

impl Strided {
    /// Where piece `i` begins.
    #[inline]
    pub fn at(self, i: usize) -> usize {
        self.start + i * self.stride
    }
}

/// Where the last of the pieces ends, `parts` of `len` items at each place; none where pieces may overlap.
fn apart(places: &[Strided], parts: usize, len: usize) -> Option<usize> {
    if parts == 0 {
        return Some(0);
    }
    // The places whose pieces lie among each other: from the first of them, the start of the last, and where all end.
    let (mut first, mut last, mut end) = (Strided { start: 0, stride: 0 }, 0_usize, 0);
    for place in places {
        let among = place.stride == first.stride
            && last.checked_add(len).is_some_and(|free| free <= place.start)
            && (place.start - first.start).checked_add(len)? <= first.stride;
        if !among {
            if place.start < end || (parts > 1 && len > place.stride) {
                return None;
            }
            first = *place;
        }
        last = place.start;
        end = place.stride.checked_mul(parts - 1)?.checked_add(place.start)?.checked_add(len)?;
    }
    Some(end)
}

/// A rectangle of a row-major matrix that one task owns.
pub struct Tile<'a, T> {
    start: *mut T,
    row_len: usize,
    rows: usize,
    cols: usize,
    borrow: PhantomData<&'a mut T>,
}

impl<T> Tile<'_, T> {
    /// Rows in the tile.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns in the tile.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The tile's part of its row `r`.
    ///
    /// # Panics
    /// When `r` is not below [`Tile::rows`].
    #[inline]
    pub fn row(&mut self, r: usize) -> &mut [T] {
        assert!(r < self.rows, "row {r} of a tile of {}", self.rows);
        // SAFETY: inside the tile, which this value owns alone (`Pool::tiles_mut`); `&mut self` keeps it exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(r * self.row_len), self.cols) }
    }
}

impl Shared {
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Leaves no task to claim.
    fn abandon(&self, tasks: usize) {
        self.next.iter().for_each(|next| next.0.store(tasks, Ordering::Relaxed));
    }
}

/// The tasks that `thread` begins with.
fn range(tasks: usize, thread: usize, threads: usize) -> std::ops::Range<usize> {
    tasks * thread / threads..tasks * (thread + 1) / threads
}

/// Runs the tasks of `thread`'s range, one of `threads`, then what is left of the others'.
fn claim(shared: &Shared, thread: usize, threads: usize, job: &(dyn Fn(usize) + Sync), tasks: usize) {
    let outside = INSIDE.replace(shared.address());
    // Also when a task panics.
    let _inside = OnDrop(|| INSIDE.set(outside));
    for owner in (thread..threads).chain(0..thread) {
        let end = range(tasks, owner, threads).end;
        loop {
            let task = shared.next[owner].0.fetch_add(1, Ordering::Relaxed);
            if task >= end {
                break;
            }
            job(task);
        }
    }
}

/// Calls a function when it is dropped.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn work(shared: &Shared, thread: usize) {
    let mut seen = 0;
    loop {
        seen = next_epoch(shared, seen, thread);
        if shared.stop.load(Ordering::SeqCst) {
            return;
        }
        let threads = seen % MOST_THREADS;
        // SAFETY: this worker counts as inside the job, so the owner neither writes the cell nor drops the job.
        let job = unsafe { (*shared.job.get()).map(|(job, tasks)| (&*job, tasks)) };
        if let Some((job, tasks)) = job
            && let Err(panic) = catch_unwind(AssertUnwindSafe(|| claim(shared, thread, threads, job, tasks)))
        {
            shared.abandon(tasks);
            *shared.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
        }
        shared.inside.0.fetch_sub(1, Ordering::Release);
    }
}

/// Waits for an epoch other than `seen` in which `thread` takes part: spins first, then parks.
fn next_epoch(shared: &Shared, seen: usize, thread: usize) -> usize {
    let mine = |now: usize| now != seen && thread < now % MOST_THREADS;
    for _ in 0..SPINS {
        let now = shared.epoch.0.load(Ordering::Acquire);
        if mine(now) {
            return now;
        }
        std::hint::spin_loop();
    }
    shared.parked.0.fetch_add(1, Ordering::SeqCst);
    let now = loop {
        let now = shared.epoch.0.load(Ordering::SeqCst);
        if mine(now) {
            break now;
        }
        std::thread::park();
    };
    shared.parked.0.fetch_sub(1, Ordering::SeqCst);
    now
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
