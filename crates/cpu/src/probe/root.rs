//! The file tree that the probe reads: the system's own, or one recorded on another machine.

use std::cell::RefCell;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The longest file the probe reads; `/proc/cpuinfo` of a 512-CPU server is about 800 KiB.
const FILE_LIMIT: u64 = 4 << 20;

/// Where `/proc` and `/sys` are looked for.
pub(super) struct Root {
    base: PathBuf,
    seen: RefCell<Vec<(String, String)>>,
}

impl Root {
    /// A tree with `proc` and `sys` inside `base`; `/` is this machine.
    pub(super) fn at(base: impl Into<PathBuf>) -> Root {
        Root { base: base.into(), seen: RefCell::new(Vec::new()) }
    }

    /// The text of the file at the absolute `path`, without the white space around it; `None` if it cannot be read.
    pub(super) fn read(&self, path: &str) -> Option<String> {
        self.read_lines(path, |_| true)
    }

    /// The lines of the file at `path` that are to be kept; the others are not recorded either.
    pub(super) fn read_lines(&self, path: &str, keep: impl Fn(&str) -> bool) -> Option<String> {
        let mut text = String::new();
        File::open(self.real(path)).ok()?.take(FILE_LIMIT).read_to_string(&mut text).ok()?;
        let text = text.trim().lines().filter(|line| keep(line)).collect::<Vec<_>>().join("\n");
        let mut seen = self.seen.borrow_mut();
        if seen.iter().all(|(known, _)| known != path) {
            seen.push((path.to_owned(), text.clone()));
        }
        Some(text)
    }

    /// The file at `path` as a number.
    pub(super) fn number(&self, path: &str) -> Option<u64> {
        self.read(path)?.parse().ok()
    }

    /// Whether something is at `path`.
    pub(super) fn has(&self, path: &str) -> bool {
        let has = self.real(path).exists();
        if has && !self.real(path).is_dir() {
            let mut seen = self.seen.borrow_mut();
            if seen.iter().all(|(known, _)| known != path) {
                seen.push((path.to_owned(), String::new()));
            }
        }
        has
    }

    /// The numbers `n` of the entries called `{prefix}{n}` in the directory `path`, ascending.
    pub(super) fn numbered(&self, path: &str, prefix: &str) -> Vec<usize> {
        let Ok(entries) = std::fs::read_dir(self.real(path)) else { return Vec::new() };
        let mut numbers: Vec<usize> = entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix(prefix)?.parse().ok())
            .collect();
        numbers.sort_unstable();
        numbers
    }

    /// Every file that was read, as one text: `== PATH` and the file's lines.
    pub(super) fn recording(&self) -> String {
        let mut text = String::new();
        for (path, content) in self.seen.borrow().iter() {
            text.push_str(&format!("== {path}\n{content}\n"));
        }
        text
    }

    fn real(&self, path: &str) -> PathBuf {
        self.base.join(Path::new(path.trim_start_matches('/')))
    }
}

/// Reads a kernel list of ids such as `0-3,8,10-11`. Ids past `1 << 16` and anything malformed are left out.
pub(super) fn id_list(text: &str) -> Vec<usize> {
    const MAX_ID: usize = 1 << 16;
    let mut ids = Vec::new();
    for part in text.trim().split(',').map(str::trim) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            ids.extend(first..=last.min(MAX_ID));
        }
    }
    ids.sort_unstable();
    ids.dedup();
    ids
}

#[cfg(test)]
mod tests {
    use super::id_list;

    #[test]
    fn lists_of_ids() {
        assert_eq!(id_list("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(id_list(""), [] as [usize; 0]);
        assert_eq!(id_list("3-1,x,2"), [2]);
        assert!(id_list("0-99999999999").len() <= (1 << 16) + 1);
    }
}
