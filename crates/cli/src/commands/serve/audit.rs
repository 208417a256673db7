//! The audit log: a line of JSON for each request, appended to a file that is rotated.
//!
//! Requests never wait for the disk: records go through a bounded queue to a thread of its own. What the queue or the
//! disk cannot take is counted, and the next line that can be written tells how many are missing.

use std::fs::{File, OpenOptions, rename};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;
use serde::Serialize;
use server::Record;

use crate::Failure;
use crate::calendar::rfc3339;
use crate::term::err;

/// Records that wait for the disk.
const QUEUE: usize = 4_096;
/// Old files beside the one that is written.
const OLD_FILES: u32 = 5;
/// Between two tries after one failed, and between two complaints.
const RETRY: Duration = Duration::from_secs(1);

/// The sending end; dropped, the thread writes what it has and ends.
pub(super) struct AuditLog {
    queue: SyncSender<Record>,
    lost: Arc<AtomicU64>,
}

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    #[serde(flatten)]
    record: &'a Record,
}

#[derive(Serialize)]
struct Missing {
    time: String,
    /// Records that could not be written before this line.
    lost_records: u64,
}

impl AuditLog {
    /// Opens `path` for appending and starts the thread. The file is rotated before it grows over `max_bytes`.
    ///
    /// # Errors
    /// A file that cannot be opened for appending.
    pub(super) fn start(path: &Path, max_bytes: u64) -> Result<AuditLog, Failure> {
        let cannot = |error: &io::Error| {
            Failure::new(format!("cannot append to --audit-log {}: {error}", path.display()))
        };
        let sink = Sink::open(path, max_bytes).map_err(|error| cannot(&error))?;
        if let Some(remark) = crate::files::open_folder("--audit-log", path) {
            err!("{remark}");
        }
        let (queue, records) = sync_channel(QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = lost.clone();
        cpu::thread::spawn("audit", move || write(sink, &records, &counted))
            .map_err(|error| cannot(&error))?;
        Ok(AuditLog { queue, lost })
    }
}

impl server::Audit for AuditLog {
    fn note(&self, record: &Record) {
        if self.queue.try_send(record.clone()).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The thread: until every sender is gone.
fn write(mut sink: Sink, records: &Receiver<Record>, lost: &AtomicU64) {
    let mut complained: Option<std::time::Instant> = None;
    while let Ok(record) = records.recv() {
        let missing = lost.swap(0, Ordering::Relaxed);
        if let Err(error) = sink.put(&record, missing) {
            lost.fetch_add(missing + 1, Ordering::Relaxed);
            if complained.is_none_or(|at| at.elapsed() > RETRY * 60) {
                err!("the audit log {} cannot be written: {error}", sink.path.display());
                complained = Some(std::time::Instant::now());
            }
        }
    }
}

/// The file that is written.
struct Sink {
    path: PathBuf,
    file: Option<File>,
    bytes: u64,
    max_bytes: u64,
}

impl Sink {
    fn open(path: &Path, max_bytes: u64) -> io::Result<Sink> {
        let mut sink = Sink { path: path.to_owned(), file: None, bytes: 0, max_bytes };
        sink.reopen()?;
        Ok(sink)
    }

    /// Readable by its owner alone: it tells who did what.
    fn reopen(&mut self) -> io::Result<()> {
        let mut how = OpenOptions::new();
        how.create(true).append(true).mode(0o600);
        let is_device = is_device_path(&self.path);
        if !is_device {
            // A link would let whoever may write the folder choose the file that is written. A pipe without a reader would
            // wait for one.
            let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
            how.custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
        }
        let file = how.open(&self.path).map_err(|error| {
            match std::fs::symlink_metadata(&self.path).is_ok_and(|at| at.is_symlink()) {
                true if !is_device => io::Error::other("it is a symbolic link, which is not followed"),
                _ => error,
            }
        })?;
        let metadata = file.metadata()?;
        if !is_device && !metadata.is_file() {
            return Err(io::Error::other("it is no regular file (devices are taken under /dev)"));
        }
        self.bytes = metadata.len();
        self.file = Some(file);
        Ok(())
    }

    /// Appends `record`, after a line about `missing` ones.
    fn put(&mut self, record: &Record, missing: u64) -> io::Result<()> {
        let mut text = Vec::new();
        if missing > 0 {
            let time = rfc3339(SystemTime::now());
            line(&mut text, &Missing { time, lost_records: missing })?;
        }
        line(&mut text, &Line { time: rfc3339(record.at), record })?;
        self.settle(text.len() as u64)?;
        let Some(file) = &mut self.file else { return Err(io::ErrorKind::NotFound.into()) };
        let before = self.bytes;
        match file.write_all(&text) {
            Ok(()) => {
                self.bytes += text.len() as u64;
                Ok(())
            }
            Err(error) => {
                // Half a line would spoil the next one. What has no length to set (a device) has nothing to cut.
                let _ = file.set_len(before);
                Err(error)
            }
        }
    }

    /// Makes the file right for `more` bytes: there, the one with the name, and not too large.
    fn settle(&mut self, more: u64) -> io::Result<()> {
        // Not through a link: one that took the file's place is not the file. (/dev/stderr is one.)
        let look = if is_device_path(&self.path) { std::fs::metadata } else { std::fs::symlink_metadata };
        let there = look(&self.path).ok();
        let same = match (&there, &self.file) {
            (Some(there), Some(file)) => {
                let file = file.metadata()?;
                (file.dev(), file.ino()) == (there.dev(), there.ino())
            }
            _ => false,
        };
        if !same {
            // Somebody else rotated or removed it.
            self.reopen()?;
        }
        let is_file = there.is_none_or(|there| there.is_file());
        if is_file && self.bytes > 0 && self.bytes + more > self.max_bytes {
            self.rotate()?;
            self.reopen()?;
        }
        Ok(())
    }

    /// `log` becomes `log.1`, that `log.2`, …; the oldest is replaced.
    fn rotate(&self) -> io::Result<()> {
        for number in (1..OLD_FILES).rev() {
            match rename(self.old(number), self.old(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        rename(&self.path, self.old(1))
    }

    fn old(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

/// Whether the path is the system's own, as /dev/stderr and /dev/null, which only root chooses.
fn is_device_path(path: &Path) -> bool {
    path.starts_with("/dev") && !path.starts_with("/dev/shm")
}

fn line<T: Serialize>(text: &mut Vec<u8>, value: &T) -> io::Result<()> {
    serde_json::to_writer(&mut *text, value)?;
    text.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &str) -> Record {
        Record { request_id: id.to_owned(), ..Record::begun(SystemTime::UNIX_EPOCH) }
    }

    fn ids(path: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(path).unwrap();
        let values = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        values.map(|value| value["request_id"].as_str().unwrap_or("lost").to_owned()).collect()
    }

    #[test]
    fn rotates_before_it_is_too_large() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let mut one = Vec::new();
        line(&mut one, &Line { time: rfc3339(SystemTime::UNIX_EPOCH), record: &record("a") }).unwrap();
        let mut sink = Sink::open(&path, 2 * one.len() as u64).unwrap();
        for id in ["a", "b", "c", "d", "e"] {
            sink.put(&record(id), 0).unwrap();
        }
        assert_eq!(ids(&path), ["e"]);
        assert_eq!(
            (ids(&sink.old(1)), ids(&sink.old(2))),
            (vec!["c".into(), "d".into()], vec!["a".into(), "b".into()])
        );
        for _ in 0..40 {
            sink.put(&record("x"), 0).unwrap();
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1 + OLD_FILES as usize);
    }

    #[test]
    fn appends_and_follows_a_rename() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        Sink::open(&path, 1 << 20).unwrap().put(&record("a"), 0).unwrap();
        let mut sink = Sink::open(&path, 1 << 20).unwrap();
        sink.put(&record("b"), 0).unwrap();
        assert_eq!(ids(&path), ["a", "b"]);
        rename(&path, folder.path().join("by-logrotate")).unwrap();
        sink.put(&record("c"), 3).unwrap();
        assert_eq!(ids(&path), ["lost", "c"]);
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_full_disk_is_survived() {
        let mut sink = Sink::open(Path::new("/dev/full"), 1 << 20).unwrap();
        assert_eq!(sink.put(&record("a"), 0).unwrap_err().kind(), io::ErrorKind::StorageFull);
        // The thread goes on, and tells what is missing once it can write.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let mut sink = Sink::open(Path::new("/dev/full"), 1 << 20).unwrap();
        // As if the file were on the full device.
        std::fs::create_dir(&path).unwrap();
        sink.path = path.clone();
        let (queue, records) = sync_channel(8);
        let lost = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let counted = &lost;
            scope.spawn(move || write(sink, &records, counted));
            queue.send(record("a")).unwrap();
            queue.send(record("b")).unwrap();
            while lost.load(Ordering::Relaxed) < 2 {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::fs::remove_dir(&path).unwrap();
            queue.send(record("c")).unwrap();
            drop(queue);
        });
        assert_eq!(ids(&path), ["lost", "c"]);
        assert!(std::fs::read_to_string(&path).unwrap().contains("\"lost_records\":2"));
    }

    #[test]
    fn abuse_a9_links_and_pipes_are_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("audit.jsonl"), folder.path().join("victim"));
        std::fs::write(&victim, "as it was").unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        let error = Sink::open(&path, 1 << 20).err().unwrap();
        assert!(error.to_string().contains("symbolic link"), "{error}");
        std::fs::remove_file(&path).unwrap();
        // Nor one that takes the file's place while it is written, or the place of an old file.
        let mut sink = Sink::open(&path, 1).unwrap();
        sink.put(&record("a"), 0).unwrap();
        std::os::unix::fs::symlink(&victim, sink.old(1)).unwrap();
        sink.put(&record("b"), 0).unwrap();
        assert_eq!((ids(&sink.old(1)), ids(&path)), (vec!["a".to_owned()], vec!["b".to_owned()]));
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        assert!(sink.put(&record("c"), 0).is_err());
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "as it was");
        // A file that others put there is not taken either, unless it is one.
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(Sink::open(&path, 1).is_err());
    }
}
