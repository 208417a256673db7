//! Memory does not depend on the number of lines.

use crate::fake::{Fake, Folder, lines, run};
use batch::{Input, Options, Outcome};
use std::path::Path;
use std::process::{Command, Stdio};

const NAME: &str = "memory::process_that_runs";
const FOLDER: &str = "BATCH_TEST_MEMORY";

#[tokio::test]
#[ignore = "started by the test below"]
async fn process_that_runs() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let mut options = Options::new(Input::File(folder.join("in.jsonl")), Some(folder.join("out")));
    options.window_lines = 2_000;
    // The invented server must not remember what it was asked.
    assert_eq!(run(options, &Fake::forgetful()).await.unwrap().outcome, Outcome::Complete);
    std::fs::copy("/proc/self/status", folder.join("status")).unwrap();
}

/// The most memory that a run over so many lines had, in KiB.
fn peak(count: usize) -> u64 {
    let folder = Folder::new("in.jsonl", lines(count));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", NAME, "--ignored"]).env(FOLDER, folder.dir.path()).stdout(Stdio::null());
    assert!(command.status().unwrap().success());
    let status = folder.read("status");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn fault_fifty_thousand_lines_take_no_more_memory_than_ten_thousand() {
    // vLLM #30268: an offline batch that buffered everything took 177 GB for 500,000 lines.
    let (few, many) = (peak(10_000), peak(50_000));
    // Beyond the database's cache, which is bounded and may not be full after the few.
    assert!(many < few + (20 << 10), "{few} KiB, then {many} KiB");
}
