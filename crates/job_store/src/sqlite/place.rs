//! The folder of the store: it must be on a local disk, and this process the only one that has it open.

use crate::error::StoreError;
use rustix::fs::{FlockOperation, flock, statfs};
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// File systems that other machines share or that a program serves, by the number that `statfs` tells
/// (`linux/magic.h` and the file systems' own headers): locks and synchronization cannot be trusted there.
const NETWORK: &[(u64, &str)] = &[
    (0x6969, "nfs"),
    (0x517b, "smb"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x564c, "ncp"),
    (0x6573_5546, "fuse"),
    (0x0102_1997, "9p"),
    (0x0bd0_0bd0, "lustre"),
    (0x00c3_6400, "ceph"),
    (0x5346_414f, "afs"),
    (0x6b41_4653, "afs"),
    (0x7375_7245, "coda"),
    (0x4750_4653, "gpfs"),
    (0x1983_0326, "beegfs"),
    (0x0116_1970, "gfs2"),
    (0x7461_636f, "ocfs2"),
    (0x2030_3030, "orangefs"),
    (0xaad7_aaea, "panfs"),
];

/// The name of a network file system by its number.
fn network(magic: u64) -> Option<&'static str> {
    // Some kernels tell the number as a signed one of 32 bits.
    let magic = magic & 0xffff_ffff;
    NETWORK.iter().find(|(number, _)| *number == magic).map(|(_, name)| *name)
}

/// Makes the folder if it is absent, for this user only, and refuses network file systems.
pub(crate) fn prepare(dir: &Path) -> Result<(), StoreError> {
    make_folder(dir)?;
    let found = statfs(dir).map_err(|error| failed(dir, &error.into()))?;
    match network(found.f_type as u64) {
        Some(kind) => Err(StoreError::NetworkFileSystem { place: dir.display().to_string(), kind }),
        None => Ok(()),
    }
}

/// Makes a folder for this user only, if it is absent.
pub(crate) fn make_folder(dir: &Path) -> Result<(), StoreError> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| failed(dir, &error))
}

/// The exclusive right to the folder, as long as it lives. The kernel gives it back when the process dies.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    pub(crate) fn take(dir: &Path) -> Result<Lock, StoreError> {
        let path = dir.join("lock");
        let options =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let mut file = options.map_err(|error| failed(&path, &error))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut text = String::new();
            let _ = file.read_to_string(&mut text);
            let pid = text.trim().parse().unwrap_or(0);
            return Err(StoreError::InUse { place: dir.join("jobs.db").display().to_string(), pid });
        }
        // Only for the message to others: the lock is the kernel's.
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        written.map_err(|error| failed(&path, &error))?;
        Ok(Lock { _file: file })
    }
}

/// An error of a file as one of the store.
pub(crate) fn failed(path: &Path, error: &std::io::Error) -> StoreError {
    let text = format!("{}: {error}", path.display());
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => StoreError::Full(text),
        _ => StoreError::Unavailable(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_their_numbers() {
        assert_eq!(network(0x6969), Some("nfs"));
        assert_eq!(network(0xffff_ffff_ff53_4d42), Some("cifs"));
        assert_eq!(network(0x6573_5546), Some("fuse"));
        // ext4, xfs, btrfs, overlay, tmpfs, zfs.
        for local in [0xef53, 0x5846_5342, 0x9123_683e, 0x794c_7630, 0x0102_1994, 0x2fc1_2fc1] {
            assert_eq!(network(local), None, "{local:x}");
        }
    }

    #[test]
    fn a_second_lock_is_refused_and_names_the_process() {
        let dir = tempfile::tempdir().unwrap();
        let lock = Lock::take(dir.path()).unwrap();
        let refused = Lock::take(dir.path()).unwrap_err();
        assert!(matches!(refused, StoreError::InUse { pid, .. } if pid == std::process::id()));
        drop(lock);
        Lock::take(dir.path()).unwrap();
    }
}
