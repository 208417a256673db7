//! Wheels, a Python that only pretends, and hashes for tests.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;

/// Lower-case hex SHA-256.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A wheel with these members, at `path`.
pub(crate) fn wheel(path: &std::path::Path, members: &[(&str, &[u8])]) {
    let mut writer = zip::write::ZipWriter::new(std::fs::File::create(path).unwrap());
    for (name, bytes) in members {
        writer.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap();
}

/// A script that takes the place of Python: it notes its arguments in `log`, copies wheels from `wheels` when asked to
/// download, and runs `extra` before that.
pub(crate) fn fake_python(dir: &std::path::Path, extra: &str) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let script = dir.join("python");
    let text = format!(
        "#!/bin/sh\nWHEELS='{dir}/wheels'\n[ \"$3\" = --version ] && exit 0\n\
         echo \"$@\" >> '{dir}/log'\necho \"$PWD: $(ls -A)\" >> '{dir}/cwd'\n{extra}\n\
         while [ $# -gt 1 ]; do [ \"$1\" = -d ] && into=$2; shift; done\n\
         name=$(echo \"$1\" | sed 's/==/-/')\n\
         cp \"$WHEELS/$name-py3-none-any.whl\" \"$into/\" || {{ echo \"ERROR: No matching distribution for $1\" >&2; exit 1; }}\n",
        dir = dir.display()
    );
    // Written by a child of its own: a descriptor open for writing in this process, inherited by another test's
    // child, would make the script "busy" for execution.
    let temporary = dir.join("python.new");
    std::fs::write(&temporary, text).unwrap();
    std::fs::set_permissions(&temporary, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(
        std::process::Command::new("cp").arg("-p").arg(&temporary).arg(&script).status().unwrap().success()
    );
    std::fs::create_dir_all(dir.join("wheels")).unwrap();
    script
}
