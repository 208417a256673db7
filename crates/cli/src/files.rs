//! Small files that the command line names: read whole, within a bound, and only where others may not write them.

use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use crate::Failure;

/// A file that was read, and what the system says about it.
pub(crate) struct Small {
    pub(crate) bytes: Vec<u8>,
    metadata: Metadata,
}

/// The bytes of the file that `flag` names: a regular file or a pipe, of at most `most` bytes.
///
/// # Errors
/// A file that cannot be read, is of another kind (a device may never end), or is too large.
pub(crate) fn read(flag: &str, path: &Path, most: u64) -> Result<Small, Failure> {
    let at = path.display();
    let cannot = |error: std::io::Error| Failure::new(format!("cannot read {flag} {at}: {error}"));
    let file = File::open(path).map_err(cannot)?;
    let metadata = file.metadata().map_err(cannot)?;
    let kind = metadata.file_type();
    if !kind.is_file() && !kind.is_fifo() {
        let kind = if kind.is_dir() { "a directory" } else { "a device or socket" };
        return Err(Failure::new(format!("{flag} {at} is {kind}; it must be a file or a pipe")));
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > most {
        return Err(Failure::new(format!("{flag} {at} has more than {most} bytes, the most that are read")));
    }
    Ok(Small { bytes, metadata })
}

impl Small {
    /// Text without the byte order mark that some editors put before it.
    ///
    /// # Errors
    /// Bytes that are not UTF-8.
    pub(crate) fn text(&self, flag: &str, path: &Path) -> Result<&str, Failure> {
        let text = std::str::from_utf8(&self.bytes)
            .map_err(|_| Failure::new(format!("{flag} {} is not UTF-8", path.display())))?;
        Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
    }

    /// Checks that nobody but its owner may write a file that decides who gets in. Gives back what should be said about it:
    /// that other users may read the secret in it, or may put another file in its place.
    ///
    /// # Errors
    /// A file that its group or others may write.
    pub(crate) fn guarded(&self, flag: &str, path: &Path) -> Result<Vec<String>, Failure> {
        let at = path.display();
        if !self.metadata.is_file() {
            return Ok(Vec::new());
        }
        let mode = self.metadata.mode() & 0o777;
        if mode & 0o022 != 0 {
            return Err(Failure::new(format!(
                "{flag} {at} can be written by other users (mode {mode:03o}), and who writes it decides who gets in; \
                 `chmod 600 {at}` mends that"
            )));
        }
        let mut remarks = Vec::new();
        if mode & 0o004 != 0 {
            remarks.push(format!(
                "warning: {flag} {at} can be read by every user of this machine (mode {mode:03o}); `chmod 600 {at}` mends \
                 that"
            ));
        }
        remarks.extend(open_folder(flag, path));
        Ok(remarks)
    }
}

/// What should be said about the folder of `path`, if other users may put files there or take them away.
pub(crate) fn open_folder(flag: &str, path: &Path) -> Option<String> {
    let folder = match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        folder => folder?,
    };
    let mode = std::fs::metadata(folder).ok()?.mode();
    // In a sticky folder, as /tmp, only its owner may replace a file.
    if mode & 0o002 == 0 || mode & 0o1000 != 0 {
        return None;
    }
    let at = folder.display();
    Some(format!(
        "warning: every user of this machine may replace {flag} {} (its folder has mode {:03o}); `chmod o-w {at}` mends \
         that",
        path.display(),
        mode & 0o777
    ))
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn abuse_a9_devices_and_folders_are_no_files() {
        for (path, word) in [("/dev/zero", "device"), ("/dev/null", "device"), ("/", "directory")] {
            let failure = read("--api-key-file", Path::new(path), 1 << 20).err().unwrap();
            assert!(failure.message.contains(path) && failure.message.contains(word), "{}", failure.message);
        }
    }

    #[test]
    fn a_file_within_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        write(&path, "\u{feff}0123456789").unwrap();
        let small = read("--x", &path, 13).unwrap();
        assert_eq!(small.text("--x", &path).unwrap(), "0123456789");
        let failure = read("--x", &path, 12).err().unwrap();
        assert!(failure.message.contains("more than 12 bytes"), "{}", failure.message);
        write(&path, [0xff]).unwrap();
        assert!(read("--x", &path, 12).unwrap().text("--x", &path).is_err());
    }

    #[test]
    fn abuse_a9_who_may_write_it_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        write(&path, "secret").unwrap();
        let with = |mode: u32| {
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            read("--api-key-file", &path, 100).unwrap().guarded("--api-key-file", &path)
        };
        for mode in [0o666, 0o620, 0o602] {
            let message = with(mode).unwrap_err().message;
            assert!(message.contains(&format!("chmod 600 {}", path.display())), "{message}");
        }
        assert!(with(0o600).unwrap().is_empty() && with(0o640).unwrap().is_empty());
        assert!(with(0o644).unwrap()[0].contains("every user"));
        set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(with(0o600).unwrap()[0].contains("may replace"));
        set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
        assert!(with(0o600).unwrap().is_empty());
    }
}
