//! Warm starts: what the first load of a model keeps, later loads use; and what many loads leave behind.

use std::path::Path;

use serde_json::Value;

use crate::support::{self, Tiny, failure, gristmill, said, text};

fn rows(output: &std::process::Output) -> Vec<Value> {
    let rows: Value = serde_json::from_str(&said(output)).unwrap();
    rows.as_array().unwrap().clone()
}

fn packed_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.contains(".packed")).collect();
    names.sort();
    names
}

#[test]
fn a_load_keeps_packed_files_and_the_next_uses_them() {
    for (tiny, word) in [(Tiny::encoder("bert"), "int8"), (Tiny::new(), "")] {
        let home = tempfile::tempdir().unwrap();
        let load = |more: &[&str]| {
            let args = [&["bench", "load", tiny.path(), "--json", "-r", "1"], more].concat();
            gristmill(home.path()).args(args).output().unwrap()
        };
        let cold = load(&["--packed-cache", "off"]);
        assert_eq!(rows(&cold).len(), 1, "no warm load without files");
        assert!(packed_in(Path::new(tiny.path())).is_empty());
        let first = load(&["--encoder-format", "int8"]);
        let all = rows(&first);
        assert_eq!((&all[0]["kind"], &all[1]["kind"]), (&"cold".into(), &"warm".into()));
        assert!(all.iter().all(|row| row["ready_ms"].as_f64().unwrap() > 0.0));
        let names = packed_in(Path::new(tiny.path()));
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(names.iter().any(|name| name == "model.safetensors.tokenizer.packed"), "{names:?}");
        assert!(names.iter().any(|name| name.ends_with(".packed") && name.contains(word)), "{names:?}");
        assert!(text(&first.stderr).contains("packed tokenizer: "), "{}", text(&first.stderr));
        let again = load(&["--encoder-format", "int8", "--warm-only"]);
        assert_eq!(text(&again.stderr), "", "nothing is written again");
        assert_eq!(rows(&again)[0]["packed_cache"], "map");
    }
}

#[test]
fn packed_files_of_a_read_only_folder_are_in_the_store() {
    // Who may write everywhere has no folder that cannot be written, unless its file system is read-only.
    let tiny = Tiny::encoder("bert");
    let folder = Path::new(tiny.path());
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(folder, mode(0o555)).unwrap();
    let may_write = std::fs::write(folder.join("probe"), b"").is_ok();
    let home = tempfile::tempdir().unwrap();
    let args = ["bench", "load", tiny.path(), "--json", "-r", "1", "--warm-only"];
    let output = gristmill(home.path()).args(args).output().unwrap();
    std::fs::set_permissions(folder, mode(0o755)).unwrap();
    assert_eq!(rows(&output).len(), 1);
    if !may_write {
        assert!(packed_in(folder).is_empty());
        let kept = std::fs::read_dir(home.path().join("packed")).unwrap().flatten().next().unwrap();
        assert_eq!(packed_in(&kept.path()).len(), 2);
    }
}

#[test]
fn a_thousand_loads_leave_no_memory_behind() {
    let tiny = Tiny::encoder("bert");
    let home = tempfile::tempdir().unwrap();
    let args =
        ["bench", "load", tiny.path(), "--json", "-r", "1000", "--warm-only", "--encoder-format", "int8"];
    let all = rows(&gristmill(home.path()).args(args).output().unwrap());
    let memory = |at: usize| all[0]["memory"][at]["resident_bytes"].as_i64().unwrap();
    let (settled, end) = (memory(0), memory(1));
    assert_eq!((&all[0]["memory"][0]["loads"], &all[0]["memory"][1]["loads"]), (&100.into(), &1000.into()));
    assert!((end - settled).abs() <= 2 << 20, "{settled} bytes after 100 loads, {end} after 1000");
}

#[test]
fn a_load_that_fails_says_so() {
    let line = failure(&support::run(&["bench", "load", "no-such-model", "--json"]), 1);
    assert!(line.contains("no-such-model"), "{line}");
}

#[test]
fn weights_on_the_disk_give_the_same_text() {
    let (tiny, home) = (Tiny::new(), tempfile::tempdir().unwrap());
    let run = |more: &[&str]| {
        let args = ["run", tiny.path(), "--temperature", "0", "-n", "12", "once upon a time"];
        gristmill(home.path()).args([&args[..], more].concat()).output().unwrap()
    };
    let truth = said(&run(&[]));
    assert!(packed_in(Path::new(tiny.path())).is_empty());
    for memory in ["0", "1M"] {
        assert_eq!(said(&run(&["--weights-memory", memory])), truth, "{memory}");
    }
    assert_eq!(packed_in(Path::new(tiny.path())).len(), 2);
    let both = run(&["--weights-memory", "1M", "--packed-cache", "map"]);
    assert_eq!(both.status.code(), Some(2), "{}", text(&both.stderr));
    let encoder = Tiny::encoder("bert");
    let args = ["serve", encoder.path(), "--weights-memory", "1M", "--check"];
    let refused = failure(&gristmill(home.path()).args(args).output().unwrap(), 2);
    assert!(refused.contains("is an encoder, whose weights are in memory"), "{refused}");
}
