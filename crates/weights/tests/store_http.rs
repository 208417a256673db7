//! Pulling over HTTP from servers that behave, break, lie and dawdle.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::packages;
use crate::served;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use packages::sha256;
use served::{Reply, Server, gguf};
use weights::fetch::{self, Event, FetchConfig, Hub, Limits, NoProgress, Progress, PythonInterpreters};
use weights::store::{Error, ModelStore, pull, remove, resolve};

const SIZE: usize = 3 << 20;

fn limits() -> Limits {
    Limits {
        connect: Duration::from_secs(2),
        stall: Duration::from_secs(1),
        retries: 3,
        backoff: Duration::from_millis(5),
        lock: Duration::from_secs(20),
    }
}

fn home(dir: &Path) -> ModelStore {
    let outside = FetchConfig {
        hub: Hub::new("http://127.0.0.1:1", None),
        pythons: PythonInterpreters::new([]),
        limits: limits(),
        trust: None,
    };
    ModelStore::new(dir, outside)
}

/// The only failure of a pull from one source.
fn failure(error: Error) -> fetch::Error {
    match error {
        Error::AllFailed { mut failures, .. } if failures.len() == 1 => failures.remove(0).1,
        Error::Fetch(error) => error,
        other => panic!("{other}"),
    }
}

/// Nothing is installed and no bytes are left to be taken for good ones.
fn nothing_installed(home: &ModelStore) {
    assert_eq!(home.installed().unwrap().len(), 0);
}

#[test]
fn a_url_is_pulled_once_and_then_opened_without_asking() {
    let body = gguf(SIZE);
    let served = body.clone();
    let server = Server::start(move |request, _| Reply::file(request, &served, "\"v1\""));
    let dir = tempfile::tempdir().unwrap();
    let home = home(dir.path());
    let url = format!("{}#sha256={}", server.url("/m/tiny.gguf"), sha256(&body));
    let path = resolve(&url, &home, &mut NoProgress).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), body);
    assert_eq!(path.file_name().unwrap(), "tiny.gguf");
    assert_eq!(resolve(&url, &home, &mut NoProgress).unwrap(), path);
    assert!(pull(&url, &home, false, &mut NoProgress).unwrap().already);
    assert_eq!(server.requests().len(), 1);
    let installed = home.installed().unwrap();
    assert_eq!((installed.len(), installed[0].size_bytes()), (1, SIZE as u64));
    assert_eq!(installed[0].record.files[0].sha256, sha256(&body));
    assert_eq!(installed[0].record.files[0].checked, fetch::Checked::Pinned);
    assert_eq!(remove(&url, &home, &mut NoProgress).unwrap().bytes / SIZE as u64, 1);
    nothing_installed(&home);
    assert!(!path.exists());
}

#[test]
fn a_wrong_hash_installs_nothing_and_leaves_nothing() {
    let server = Server::start(|request, _| Reply::file(request, &gguf(SIZE), "\"v1\""));
    let dir = tempfile::tempdir().unwrap();
    let home = home(dir.path());
    let url = format!("{}#sha256={}", server.url("/x.gguf"), "0".repeat(64));
    let error = failure(resolve(&url, &home, &mut NoProgress).unwrap_err());
    assert!(matches!(&error, fetch::Error::Hash { got, .. } if *got == sha256(&gguf(SIZE))), "{error}");
    nothing_installed(&home);
    let left: u64 = walk(&dir.path().join("partial")).iter().map(|path| path.metadata().unwrap().len()).sum();
    assert!(left < 1000, "{left} bytes of a bad file are left");
}

fn walk(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| if entry.path().is_dir() { walk(&entry.path()) } else { vec![entry.path()] })
        .collect()
}

#[test]
fn a_cut_connection_goes_on_where_it_stopped() {
    let body = gguf(SIZE);
    let served = body.clone();
    let server = Server::start(move |request, before| {
        let reply = Reply::file(request, &served, "\"v1\"");
        if before < 2 { reply.cut(1 << 20) } else { reply }
    });
    let dir = tempfile::tempdir().unwrap();
    let pulled = pull(&server.url("/x.gguf"), &home(dir.path()), false, &mut NoProgress).unwrap();
    assert_eq!(std::fs::read(pulled.installed.path()).unwrap(), body);
    let ranges: Vec<_> = server.requests().iter().map(|request| request.from()).collect();
    assert_eq!(ranges, [None, Some(1 << 20), Some(2 << 20)]);
    assert_eq!(server.requests()[1].header("if-range"), Some("\"v1\""));
    assert_eq!(pulled.network_bytes, SIZE as u64, "no byte came twice");
}

#[test]
fn a_file_that_changed_meanwhile_is_taken_anew() {
    let (old, new) = (vec![b'G'; SIZE], gguf(SIZE));
    let served = new.clone();
    let server = Server::start(move |request, before| match before {
        0 => Reply::file(request, &old, "\"old\"").cut(1 << 20),
        _ => Reply::file(request, &served, "\"new\""),
    });
    let dir = tempfile::tempdir().unwrap();
    let path = resolve(&server.url("/x.gguf"), &home(dir.path()), &mut NoProgress).unwrap();
    assert_eq!(std::fs::read(path).unwrap(), new);
}

#[test]
fn a_server_without_ranges_is_begun_anew() {
    let body = gguf(SIZE);
    let served = body.clone();
    let server = Server::start(move |_, before| {
        let reply = Reply::ok(&served).with("ETag", "\"v1\"");
        if before == 0 { reply.cut(1 << 20) } else { reply }
    });
    let dir = tempfile::tempdir().unwrap();
    let path = resolve(&server.url("/x.gguf"), &home(dir.path()), &mut NoProgress).unwrap();
    assert_eq!(std::fs::read(path).unwrap(), body);
}

#[test]
fn a_wrong_range_is_not_believed() {
    let body = gguf(SIZE);
    let served = body.clone();
    let server = Server::start(move |request, before| match (before, request.from()) {
        (0, _) => Reply::file(request, &served, "\"v1\"").cut(1 << 20),
        (1, Some(_)) => Reply { status: 206, ..Reply::ok(&served[5..]) }
            .with("Content-Range", &format!("bytes 5-{}/{SIZE}", SIZE - 1)),
        _ => Reply::file(request, &served, "\"v1\""),
    });
    let dir = tempfile::tempdir().unwrap();
    let path = resolve(&server.url("/x.gguf"), &home(dir.path()), &mut NoProgress).unwrap();
    assert_eq!(std::fs::read(path).unwrap(), body);
}

/// A server that does not know `If-Range`: it sends the rest of whatever the file is now.
fn rest(request: &served::Request, body: &[u8]) -> Option<Reply> {
    let from = request.from().filter(|from| *from < body.len())?;
    let range = format!("bytes {from}-{}/{}", body.len() - 1, body.len());
    Some(Reply { status: 206, ..Reply::ok(&body[from..]) }.with("Content-Range", &range))
}

#[test]
fn abuse_a6_a_resumed_download_never_mixes_two_files() {
    type Tag = fn(Reply, bool) -> Reply;
    let etag: Tag = |reply, new| reply.with("ETag", if new { "\"new\"" } else { "\"old\"" });
    let weak: Tag = |reply, new| reply.with("ETag", if new { "W/\"2\"" } else { "\"1\"" });
    let date: Tag = |reply, new| {
        let day = if new { "27" } else { "28" };
        reply.with("Last-Modified", &format!("Sat, {day} Nov 2026 00:00:00 GMT"))
    };
    let forgotten: Tag = |reply, new| if new { reply } else { reply.with("ETag", "\"1\"") };
    let swapped: Tag = |reply, new| {
        if new {
            reply.with("ETag", "\"2\"")
        } else {
            reply.with("Last-Modified", "Sat, 28 Nov 2026 00:00:00 GMT")
        }
    };
    // The last two change the length too, under a validator that stays.
    let same: Tag = |reply, _| reply.with("ETag", "\"1\"");
    let none: Tag = |reply, _| reply;
    let cases: [(&str, Tag, usize); 7] = [
        ("another ETag", etag, SIZE),
        ("a weak ETag", weak, SIZE),
        ("another date", date, SIZE),
        ("no ETag any more", forgotten, SIZE),
        ("an ETag in place of a date", swapped, SIZE),
        ("another length", same, SIZE - 4096),
        ("no validator at all", none, SIZE),
    ];
    for (what, tag, length) in cases {
        let mut old = vec![b'x'; SIZE];
        old[..4].copy_from_slice(b"GGUF");
        let new = gguf(length);
        let served = new.clone();
        let server = Server::start(move |request, before| match before {
            0 => tag(Reply::ok(&old), false).cut(1 << 20),
            _ => tag(rest(request, &served).unwrap_or_else(|| Reply::ok(&served)), true),
        });
        let dir = tempfile::tempdir().unwrap();
        let path = resolve(&server.url("/x.gguf"), &home(dir.path()), &mut NoProgress).unwrap();
        assert!(std::fs::read(path).unwrap() == new, "{what}: two files were mixed");
    }
}

#[test]
fn abuse_a6_a_date_that_is_left_out_of_a_range_is_no_other_file() {
    let body = gguf(SIZE);
    let served = body.clone();
    let server = Server::start(move |request, before| match before {
        0 => Reply::ok(&served).with("Last-Modified", "Sat, 28 Nov 2026 00:00:00 GMT").cut(1 << 20),
        _ => rest(request, &served).unwrap(),
    });
    let dir = tempfile::tempdir().unwrap();
    let pulled = pull(&server.url("/x.gguf"), &home(dir.path()), false, &mut NoProgress).unwrap();
    assert_eq!(std::fs::read(pulled.installed.path()).unwrap(), body);
    assert_eq!(pulled.network_bytes, SIZE as u64, "no byte came twice");
}

#[test]
fn abuse_a6_a_range_with_more_bytes_than_it_declares_is_refused() {
    let body = gguf(SIZE);
    let served = body.clone();
    let server = Server::start(move |request, before| match before {
        0 => Reply::file(request, &served, "\"v1\"").cut(1 << 20),
        _ => {
            let from = request.from().unwrap();
            let range = format!("bytes {from}-{}/*", from + 99);
            let reply = Reply { status: 206, unsized_body: true, ..Reply::ok(&served[from..]) };
            reply.with("Content-Range", &range).with("ETag", "\"v1\"")
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let error = failure(resolve(&server.url("/x.gguf"), &home(dir.path()), &mut NoProgress).unwrap_err());
    assert!(matches!(error, fetch::Error::TooLarge { .. }), "{error}");
}

#[test]
fn abuse_a6_a_redirect_to_a_file_is_refused() {
    for to in ["file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1"] {
        let server = Server::start(move |_, _| Reply::redirect(to));
        let dir = tempfile::tempdir().unwrap();
        let error = failure(resolve(&server.url("/x.gguf"), &home(dir.path()), &mut NoProgress).unwrap_err());
        assert!(error.to_string().contains("redirected to what is"), "{to}: {error}");
    }
}

#[test]
fn rotten_bytes_of_an_earlier_attempt_get_one_fresh_start() {
    let body = gguf(SIZE);
    let served = body.clone();
    let server = Server::start(move |request, before| {
        let reply = Reply::file(request, &served, "\"v1\"");
        if before == 0 { reply.cut(1 << 20) } else { reply }
    });
    let dir = tempfile::tempdir().unwrap();
    let one_try = home(dir.path()).with_limits(Limits { retries: 0, ..limits() });
    let url = format!("{}#sha256={}", server.url("/x.gguf"), sha256(&body));
    pull(&url, &one_try, false, &mut NoProgress).unwrap_err();
    let part = walk(&dir.path().join("partial"))
        .into_iter()
        .find(|p| p.extension().is_some_and(|e| e == "part"))
        .unwrap();
    let mut bytes = std::fs::read(&part).unwrap();
    assert_eq!(bytes.len(), 1 << 20);
    bytes[1000] ^= 1;
    std::fs::write(&part, bytes).unwrap();
    let path = resolve(&url, &one_try, &mut NoProgress).unwrap();
    assert_eq!(std::fs::read(path).unwrap(), body);
    let ranges: Vec<_> = server.requests().iter().map(|request| request.from()).collect();
    assert_eq!(ranges, [None, Some(1 << 20), None]);
}

#[test]
fn redirects_are_followed_to_a_limit() {
    let body = gguf(5000);
    let served = body.clone();
    let server = Server::start(move |request, _| match request.path.as_str() {
        "/a/x.gguf" => Reply::redirect("../b"),
        "/a/../b" => Reply::redirect("/c?sig=1"),
        "/c?sig=1" => Reply::ok(&served),
        _ => Reply::redirect("/loop"),
    });
    let dir = tempfile::tempdir().unwrap();
    let home = home(dir.path());
    let path = resolve(&server.url("/a/x.gguf"), &home, &mut NoProgress).unwrap();
    assert_eq!(std::fs::read(path).unwrap(), body);
    let error = failure(resolve(&server.url("/loop/x.gguf"), &home, &mut NoProgress).unwrap_err());
    assert!(error.to_string().contains("redirects"), "{error}");
    assert!(server.requests().len() < 20);
}

#[test]
fn what_is_not_there_is_not_asked_for_again() {
    let server = Server::start(|_, _| Reply::status(404));
    let dir = tempfile::tempdir().unwrap();
    let error = failure(resolve(&server.url("/x.gguf"), &home(dir.path()), &mut NoProgress).unwrap_err());
    assert!(matches!(error, fetch::Error::Status { status: 404, .. }), "{error}");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn passing_failures_are_retried_within_a_limit() {
    let server = Server::start(|request, before| match (request.path.as_str(), before) {
        ("/good.gguf", 0) => Reply::status(503).with("Retry-After", "0"),
        ("/good.gguf", 1) => Reply::status(502),
        ("/good.gguf", _) => Reply::ok(&gguf(5000)),
        _ => Reply::status(500),
    });
    let dir = tempfile::tempdir().unwrap();
    let home = home(dir.path());
    resolve(&server.url("/good.gguf"), &home, &mut NoProgress).unwrap();
    assert_eq!(server.count("/good.gguf"), 3);
    let error = failure(resolve(&server.url("/bad.gguf"), &home, &mut NoProgress).unwrap_err());
    assert!(matches!(error, fetch::Error::Status { status: 500, .. }), "{error}");
    assert_eq!(server.count("/bad.gguf"), 1 + limits().retries as usize);
}

#[test]
fn a_silent_server_is_left_after_its_time() {
    let server = Server::start(|request, before| match request.path.as_str() {
        "/late.gguf" if before > 0 => Reply::file(request, &gguf(SIZE), "\"v\""),
        "/late.gguf" => {
            Reply::file(request, &gguf(SIZE), "\"v\"").cut(1 << 20).silent(Duration::from_secs(30))
        }
        _ => Reply::ok(&gguf(SIZE)).silent(Duration::from_secs(30)),
    });
    let dir = tempfile::tempdir().unwrap();
    let home = home(dir.path()).with_limits(Limits { retries: 1, ..limits() });
    let begin = Instant::now();
    let path = resolve(&server.url("/late.gguf"), &home, &mut NoProgress).unwrap();
    assert_eq!(std::fs::read(path).unwrap(), gguf(SIZE));
    assert_eq!(server.requests()[1].from(), Some(1 << 20));
    let error = failure(resolve(&server.url("/never.gguf"), &home, &mut NoProgress).unwrap_err());
    assert!(error.to_string().contains("silen"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(20), "took {:?}", begin.elapsed());
}

#[test]
fn nobody_listening_fails_at_once() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let begin = Instant::now();
    let slow = home(dir.path()).with_limits(Limits { backoff: Duration::from_secs(20), ..limits() });
    let error = failure(resolve(&format!("http://{free}/x.gguf"), &slow, &mut NoProgress).unwrap_err());
    assert!(error.to_string().contains("cannot reach"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(15), "the pause of 20 s was taken");
}

#[test]
fn a_page_is_not_a_model() {
    let server = Server::start(|_, _| Reply::ok(b"<!DOCTYPE html><title>Sign in</title>"));
    let dir = tempfile::tempdir().unwrap();
    let home = home(dir.path());
    let error = failure(resolve(&server.url("/x.gguf"), &home, &mut NoProgress).unwrap_err());
    assert!(error.to_string().contains("not a GGUF file but a web page"), "{error}");
    nothing_installed(&home);
}

#[test]
fn claims_beyond_the_cap_are_refused_unwritten() {
    let server =
        Server::start(|_, _| Reply::ok(&gguf(1000)).with("Content-Length", &(1u64 << 60).to_string()));
    let dir = tempfile::tempdir().unwrap();
    let home = home(dir.path());
    let error = failure(resolve(&server.url("/cap.gguf"), &home, &mut NoProgress).unwrap_err());
    assert!(matches!(error, fetch::Error::TooLarge { limit: fetch::MAX_FILE_BYTES, .. }), "{error}");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_body_without_a_length_is_taken_to_its_end() {
    let body = gguf(SIZE);
    let served = body.clone();
    let server = Server::start(move |_, _| Reply { unsized_body: true, ..Reply::ok(&served) });
    let dir = tempfile::tempdir().unwrap();
    let path = resolve(&server.url("/x.gguf"), &home(dir.path()), &mut NoProgress).unwrap();
    assert_eq!(std::fs::read(path).unwrap(), body);
}

#[test]
fn all_files_of_a_split_gguf_arrive() {
    let server = Server::start(|request, _| match request.path.as_str() {
        "/m-00001-of-00002.gguf" => Reply::ok(&gguf(1000)),
        "/m-00002-of-00002.gguf" => Reply::ok(&gguf(2000)),
        _ => Reply::status(404),
    });
    let dir = tempfile::tempdir().unwrap();
    let path = resolve(&server.url("/m-00002-of-00002.gguf"), &home(dir.path()), &mut NoProgress).unwrap();
    assert_eq!(path.file_name().unwrap(), "m-00001-of-00002.gguf");
    assert_eq!(path.with_file_name("m-00002-of-00002.gguf").metadata().unwrap().len(), 2000);
}

#[test]
fn many_pulls_at_once_are_one_download() {
    let body = gguf(SIZE);
    let server =
        Server::start(move |request, _| Reply::file(request, &body, "\"v1\"").drip(Duration::from_millis(5)));
    let dir = tempfile::tempdir().unwrap();
    let (home, url) = (home(dir.path()), server.url("/x.gguf"));
    let already = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let pulled = pull(&url, &home, false, &mut NoProgress).unwrap();
                already.fetch_add(usize::from(pulled.already), Ordering::Relaxed);
            });
        }
    });
    assert_eq!(server.requests().len(), 1);
    assert_eq!(already.into_inner(), 5);
}

/// Stops after some bytes, and counts what it saw.
#[derive(Default)]
struct Stop {
    after: Option<u64>,
    seen: u64,
    waited: usize,
    resumed: Vec<u64>,
}

impl Progress for Stop {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Bytes { done_bytes, .. } => self.seen = done_bytes,
            Event::Waiting { .. } => self.waited += 1,
            Event::Begin { resumed_bytes, .. } => self.resumed.push(resumed_bytes),
            _ => {}
        }
    }

    fn cancelled(&mut self) -> bool {
        self.after.is_some_and(|after| self.seen >= after)
    }
}

#[test]
fn a_cancelled_pull_goes_on_later() {
    let body = gguf(SIZE);
    let served = body.clone();
    let server = Server::start(move |request, _| {
        Reply::file(request, &served, "\"v1\"").drip(Duration::from_millis(2))
    });
    let dir = tempfile::tempdir().unwrap();
    let (home, url) = (home(dir.path()), server.url("/x.gguf"));
    let mut stop = Stop { after: Some(1 << 20), ..Stop::default() };
    let error = pull(&url, &home, false, &mut stop).unwrap_err();
    assert!(matches!(error, Error::Fetch(fetch::Error::Cancelled)), "{error}");
    nothing_installed(&home);
    let mut watch = Stop::default();
    let pulled = pull(&url, &home, false, &mut watch).unwrap();
    assert_eq!(std::fs::read(pulled.installed.path()).unwrap(), body);
    assert_eq!(watch.resumed, [stop.seen]);
    assert_eq!(pulled.network_bytes, SIZE as u64 - stop.seen);
}

#[test]
fn waiting_for_another_pull_has_an_end() {
    let server = Server::start(|request, _| {
        Reply::file(request, &gguf(SIZE), "\"v1\"").cut(1000).silent(Duration::from_millis(300))
    });
    let dir = tempfile::tempdir().unwrap();
    let (holder, url) = (Arc::new(home(dir.path())), server.url("/x.gguf"));
    let (held, same) = (holder.clone(), url.clone());
    let thread = std::thread::spawn(move || pull(&same, &held, false, &mut NoProgress).is_err());
    while server.requests().is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let hasty = home(dir.path()).with_limits(Limits { lock: Duration::from_millis(250), ..limits() });
    let mut watch = Stop::default();
    let error = pull(&url, &hasty, false, &mut watch).unwrap_err();
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    assert!(watch.waited >= 1);
    assert!(thread.join().unwrap());
}

#[test]
fn damage_is_found_and_mended_by_verify() {
    let body = gguf(SIZE);
    let served = body.clone();
    let server = Server::start(move |request, _| Reply::file(request, &served, "\"v1\""));
    let dir = tempfile::tempdir().unwrap();
    let (home, url) = (home(dir.path()), server.url("/x.gguf"));
    let path = resolve(&url, &home, &mut NoProgress).unwrap();
    assert!(pull(&url, &home, true, &mut NoProgress).unwrap().already);

    // A disk error changes a byte and no date.
    let modified = path.metadata().unwrap().modified().unwrap();
    let mut bad = body.clone();
    bad[SIZE / 2] ^= 0x10;
    std::fs::write(&path, &bad).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    let pulled = pull(&url, &home, true, &mut NoProgress).unwrap();
    assert!(!pulled.already);
    assert_eq!(std::fs::read(&path).unwrap(), body);

    // A cut file shows by its size, without verify.
    std::fs::File::options().write(true).open(&path).unwrap().set_len(1000).unwrap();
    assert_eq!(std::fs::read(resolve(&url, &home, &mut NoProgress).unwrap()).unwrap(), body);
    assert_eq!(server.requests().len(), 3);

    // A new date alone costs one hash and no download.
    std::fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(modified - Duration::from_secs(9))
        .unwrap();
    assert!(pull(&url, &home, false, &mut NoProgress).unwrap().already);
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn removal_stays_inside_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let outside = dir.path().join("precious.gguf");
    std::fs::write(&outside, gguf(100)).unwrap();
    let root = dir.path().join("home");
    std::fs::create_dir_all(root.join("models")).unwrap();
    let home = home(&root);
    for name in ["../../precious.gguf", outside.to_str().unwrap(), "..", ".", "", "a/b", "models", "x\0y"] {
        assert!(matches!(remove(name, &home, &mut NoProgress), Err(Error::NotInstalled { .. })), "{name:?}");
    }
    assert!(outside.exists());
    // A link planted in the store is taken away itself; what it points to stays.
    let target = dir.path().join("target");
    std::fs::create_dir(&target).unwrap();
    std::fs::write(target.join("keep"), b"1").unwrap();
    std::os::unix::fs::symlink(&target, root.join("models/planted")).unwrap();
    assert!(home.find("planted").is_none());
    remove("planted", &home, &mut NoProgress).unwrap();
    assert!(target.join("keep").exists() && !root.join("models/planted").exists());
}

#[test]
fn paths_and_names_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let home = home(&dir.path().join("home"));
    let file = dir.path().join("m.gguf");
    std::fs::write(&file, gguf(100)).unwrap();
    assert_eq!(resolve(file.to_str().unwrap(), &home, &mut NoProgress).unwrap(), file);
    assert_eq!(resolve(dir.path().to_str().unwrap(), &home, &mut NoProgress).unwrap(), dir.path());
    let missing = dir.path().join("none.gguf");
    assert!(matches!(
        resolve(missing.to_str().unwrap(), &home, &mut NoProgress),
        Err(Error::NoSuchPath { .. })
    ));
    assert!(matches!(resolve("no-such-model-name", &home, &mut NoProgress), Err(Error::Unknown { .. })));
    assert!(matches!(resolve("hf:a/b/c/d", &home, &mut NoProgress), Err(Error::BadSource { .. })));
}

#[test]
fn what_was_given_up_long_ago_is_cleared_away() {
    let body = gguf(1000);
    let server = Server::start(move |request, _| Reply::file(request, &body, "\"v1\""));
    let dir = tempfile::tempdir().unwrap();
    let home = home(dir.path());
    let partial = dir.path().join("partial");
    let old = std::time::SystemTime::now() - Duration::from_secs(30 * 24 * 3600);
    for (name, aged) in [("old-model", true), ("new-model", false), (".old-trash", false)] {
        std::fs::create_dir_all(partial.join(name)).unwrap();
        let file = partial.join(name).join("x.part");
        std::fs::write(&file, b"bytes").unwrap();
        if aged {
            std::fs::File::options().write(true).open(&file).unwrap().set_modified(old).unwrap();
            std::fs::File::open(partial.join(name)).unwrap().set_modified(old).unwrap();
        }
    }
    resolve(&server.url("/x.gguf"), &home, &mut NoProgress).unwrap();
    assert!(!partial.join("old-model").exists());
    assert!(!partial.join(".old-trash").exists());
    assert!(partial.join("new-model").exists());
}

#[test]
fn the_environment_says_where_models_are() {
    let root = |pairs: &[(&str, &str)]| {
        let pairs: Vec<_> = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        ModelStore::from_env(move |name| {
            pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.into())
        })
        .map(|home| home.root().to_string_lossy().into_owned())
    };
    assert_eq!(root(&[("GRISTMILL_HOME", "/g"), ("XDG_CACHE_HOME", "/x"), ("HOME", "/h")]).unwrap(), "/g");
    assert_eq!(root(&[("XDG_CACHE_HOME", "/x"), ("HOME", "/h")]).unwrap(), "/x/gristmill");
    assert_eq!(root(&[("XDG_CACHE_HOME", "relative"), ("HOME", "/h")]).unwrap(), "/h/.cache/gristmill");
    assert_eq!(root(&[("GRISTMILL_HOME", ""), ("HOME", "/h")]).unwrap(), "/h/.cache/gristmill");
    assert!(matches!(root(&[]), Err(Error::NoHome)));
}
