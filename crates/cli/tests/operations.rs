//! `gristmill serve` in the hands of those who run it: files that change, disks that are full, processes that are stopped.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::support;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::served::{Server, answer, body, read, within};
use support::{Tiny, said};

#[test]
fn one_file_the_environment_and_the_command_line() {
    let tiny = Tiny::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gristmill.toml");
    let write = |more: &str| fs::write(&file, format!("model = {:?}\n{more}", tiny.path())).unwrap();
    let check = |args: &[&str], variable: Option<(&str, &str)>| {
        let mut command = support::gristmill(folder.path());
        command.args(["serve", "--check", "--config", file.to_str().unwrap()]).args(args);
        command.envs(variable).output().unwrap()
    };
    write("context = 64\napi-key = [\"one\", \"two\"]");
    let text = said(&check(&[], None));
    assert!(text.contains("64 tokens of context") && text.contains("2 keys"), "{text}");
    assert!(said(&check(&[], Some(("GRISTMILL_CONTEXT", "128")))).contains("128 tokens"));
    let both = check(&["--context", "32"], Some(("GRISTMILL_CONTEXT", "128")));
    assert!(said(&both).contains("32 tokens of context"));
    write("contxt = 64");
    let line = support::failure(&check(&[], None), 2);
    assert!(line.contains("contxt is no flag") && line.contains("gristmill.toml"), "{line}");
    write("host = \"0.0.0.0\"");
    assert!(support::failure(&check(&[], None), 2).contains("0.0.0.0"));
    write("max-queued = 0");
    assert!(support::misuse(&check(&[], None)).contains("--max-queued"));
    write("audit-log = \"/nonexistent/folder/log\"");
    assert!(support::failure(&check(&[], None), 1).contains("/nonexistent/folder/log"));
}

#[test]
fn keys_are_read_again() {
    let tiny = Tiny::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    fs::write(&file, "old name=a\n").unwrap();
    let mut server = Server::start(&tiny, &["--api-key-file", file.to_str().unwrap()]);
    assert_eq!((server.complete("old").0, server.complete("new").0), (200, 401));
    fs::write(&file, "new name=b requests=1\n").unwrap();
    server.until("1 API key is read again");
    assert_eq!((server.complete("old").0, server.complete("new").0), (401, 200));
    assert_eq!(server.complete("new").0, 429);
    // A file that is broken, empty or gone locks nobody out and lets nobody in.
    for bad in ["new name=b what=1\n", "# none\n"] {
        fs::write(&file, bad).unwrap();
        server.until("stay as they are");
    }
    fs::remove_file(&file).unwrap();
    server.until("stay as they are");
    assert_eq!((server.complete("old").0, server.complete("new").0), (401, 429));
}

#[test]
fn abuse_a9_signals_end_nothing_without_a_drain() {
    let tiny = Tiny::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    fs::write(&file, "sixteen-and-more-characters\n").unwrap();
    let mut server = Server::start(&tiny, &["--api-key-file", file.to_str().unwrap()]);
    let key = "sixteen-and-more-characters";
    let mut stream = server.request("POST", "/v1/completions", key, &body(true).to_string());
    let mut some = [0; 1];
    assert_eq!(stream.read(&mut some).unwrap(), 1);
    for signal in ["-USR1", "-USR2", "-PIPE", "-HUP"] {
        server.signal(signal);
    }
    // Read again although nothing has changed.
    server.until("1 API key is read again");
    assert_eq!(server.complete(key).0, 200);
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("[DONE]"), "{rest}");
    // SIGQUIT drains as SIGTERM does, and SIGHUP does not cut the drain short.
    let stream = server.request("POST", "/v1/completions", key, &body(true).to_string());
    within("a running answer", || {
        read(server.request("GET", "/metrics", key, ""))
            .1
            .contains("num_requests_running{model_name=\"tiny\",engine=\"0\"} 1")
            || read_ready(&stream)
    });
    server.signal("-QUIT");
    server.until("told to quit: finishing running answers");
    server.signal("-HUP");
    let (status, text) = read(stream);
    assert!(status == 200 && text.contains("[DONE]"), "{text}");
    assert!(server.wait().success());
}

/// Whether something has come.
fn read_ready(stream: &TcpStream) -> bool {
    stream.peek(&mut [0; 1]).is_ok_and(|count| count > 0)
}

#[test]
fn abuse_a9_without_files_sighup_says_so() {
    let tiny = Tiny::new();
    let mut server = Server::start(&tiny, &[]);
    server.signal("-HUP");
    server.until("SIGHUP: there is no file to read again");
    assert_eq!(server.complete("").0, 200);
    assert!(server.stop().success());
}

#[test]
fn abuse_a9_key_files_that_others_write_and_short_keys() {
    use std::os::unix::fs::PermissionsExt;
    let tiny = Tiny::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    let check = |args: &[&str]| {
        let mut command = support::gristmill(folder.path());
        command.args(["serve", tiny.path(), "--check"]).args(args).output().unwrap()
    };
    let keyed = ["--api-key-file", file.to_str().unwrap()];
    fs::write(&file, "x\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let line = support::failure(&check(&keyed), 1);
    assert!(line.contains("mode 666") && line.contains("chmod 600"), "{line}");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let output = check(&keyed);
    assert!(said(&output).contains("1 key"), "{}", said(&output));
    assert!(support::text(&output.stderr).contains("has 1 characters, fewer than 16"));
    let line = support::failure(&check(&[&keyed[..], &["--host", "0.0.0.0"]].concat()), 1);
    assert!(line.contains("number 1 has 1 characters") && line.contains("openssl rand"), "{line}");
    fs::write(&file, "0123456789abcdef\n\n# again\n0123456789abcdef\n").unwrap();
    let line = support::failure(&check(&keyed), 1);
    assert!(line.contains("number 2 is the same as number 1"), "{line}");
    for device in ["/dev/zero", "/dev/random"] {
        for flag in ["--api-key-file", "--config"] {
            let line = support::failure(&check(&[flag, device]), 1);
            assert!(line.contains(&format!("{flag} {device} is a device")), "{line}");
        }
    }
    let log = folder.path().join("audit.jsonl");
    std::os::unix::fs::symlink(&file, &log).unwrap();
    let line = support::failure(&check(&["--audit-log", log.to_str().unwrap()]), 1);
    assert!(line.contains("symbolic link"), "{line}");
}

#[test]
fn abuse_a9_a_low_limit_of_descriptors_is_said() {
    let tiny = Tiny::new();
    let home = tempfile::tempdir().unwrap();
    let mut gristmill = support::gristmill(home.path());
    gristmill.args(["serve", tiny.path(), "--port", "0"]);
    let mut command = std::process::Command::new("sh");
    command.env_clear().args(["-c", "ulimit -n 128; exec \"$@\"", "sh"]);
    command.arg(gristmill.get_program()).args(gristmill.get_args());
    for (name, value) in gristmill.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let line = lines.next().unwrap();
    let _ = child.kill();
    let _ = child.wait();
    assert!(line.contains("128 files and sockets") && line.contains("--max-connections 1024: 80"), "{line}");
}

#[test]
fn tls_with_a_certificate_that_changes() {
    let tiny = Tiny::new();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (certificate, key, trusted) = (path("cert.pem"), path("key.pem"), path("trusted.pem"));
    let make = || {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        fs::write(&certificate, made.cert.pem()).unwrap();
        made.cert.pem()
    };
    fs::write(&trusted, make()).unwrap();
    let mut server = Server::start(&tiny, &["--tls-cert", &certificate, "--tls-key", &key]);
    let port = server.address.rsplit(':').next().unwrap().to_owned();
    let bench = || {
        let url = format!("https://localhost:{port}");
        let mut command = support::gristmill(folder.path());
        command.args(["bench", "serve", "--base-url", &url, "--ca-file", &trusted, "--num-prompts", "2"]);
        command
            .args(["--token-ids", "1..100", "--input-len", "8", "--output-len", "4", "--json"])
            .output()
            .unwrap()
    };
    assert_eq!(support::json(&bench())["completed"], 2);
    // Plain text is not answered, and does not disturb.
    let mut plain = TcpStream::connect(&server.address).unwrap();
    plain.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    let _ = plain.read_to_end(&mut bytes);
    assert!(!bytes.starts_with(b"HTTP/1.1"));
    let renewed = make();
    server.until("certificate is read again");
    within("the new certificate", || support::text(&bench().stderr).contains("certificate"));
    fs::write(&trusted, renewed).unwrap();
    assert_eq!(support::json(&bench())["completed"], 2);
    fs::write(&certificate, "rubbish").unwrap();
    server.until("stays as it is");
    assert_eq!(support::json(&bench())["completed"], 2);
}

/// TLS ends a side by `close_notify`; the other side may go on.
#[test]
fn said_badly_a_tls_client_that_ends_its_side_gets_its_answer() {
    let tiny = Tiny::new();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (certificate, key) = (path("cert.pem"), path("key.pem"));
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    fs::write(&certificate, made.cert.pem()).unwrap();
    let server = Server::start(&tiny, &["--tls-cert", &certificate, "--tls-key", &key]);
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = Arc::new(config.unwrap().with_root_certificates(roots).with_no_client_auth());
    for stream in [false, true] {
        let connection =
            rustls::ClientConnection::new(config.clone(), "localhost".try_into().unwrap()).unwrap();
        let socket = TcpStream::connect(&server.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut client = rustls::StreamOwned::new(connection, socket);
        let body = body(stream).to_string();
        write!(
            client,
            "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        client.conn.send_close_notify();
        client.flush().unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        assert!(text.contains("200 OK") && text.contains("finish_reason\":\"length"), "{text}");
    }
}

#[test]
fn the_audit_log_tells_who_and_how_much() {
    let tiny = Tiny::new();
    let folder = tempfile::tempdir().unwrap();
    let (keys, log) = (folder.path().join("keys"), folder.path().join("audit.jsonl"));
    fs::write(&keys, "secret name=team-a\n").unwrap();
    let paths = ["--api-key-file", keys.to_str().unwrap(), "--audit-log", log.to_str().unwrap()];
    let server = Server::start(&tiny, &paths);
    let (status, text) = server.complete("secret");
    assert_eq!((status, server.complete("wrong").0), (200, 401));
    within("two lines", || fs::read_to_string(&log).unwrap().lines().count() == 2);
    let lines = fs::read_to_string(&log).unwrap();
    let mut records: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // The engine may let go of an answer after the next request was refused.
    records.sort_by_key(|record| record["status"].as_u64());
    let record = &records[0];
    assert_eq!((&record["key"], &record["request_id"]), (&"team-a".into(), &"it-is-me".into()));
    assert_eq!((&record["model"], &record["completion_tokens"]), (&"tiny".into(), &60.into()));
    assert_eq!(record["prompt_tokens"], Tiny::prompt().len());
    assert!(record["time"].as_str().unwrap().ends_with('Z') && record["duration_ms"].as_f64().unwrap() > 0.0);
    assert_eq!((&records[1]["status"], &records[1]["key"]), (&401.into(), &Value::Null));
    assert!(!lines.contains("secret") && !lines.contains(&answer(&text)[..3]), "{lines}");
}

#[test]
fn logs_on_a_full_disk_disturb_nobody() {
    let tiny = Tiny::new();
    let home = tempfile::tempdir().unwrap();
    let alone = Server::start(&tiny, &[]).complete("").1;
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = support::gristmill(home.path());
    command.args(["serve", tiny.path(), "--port", &port.to_string(), "--audit-log", "/dev/full"]);
    // Everything is logged, and every line of it fails.
    let child = command.env("GRISTMILL_LOG", "trace").stderr(full()).stdout(full()).spawn().unwrap();
    let mut server = Server::of(child, &format!("127.0.0.1:{port}"), home);
    within("readiness", || {
        TcpStream::connect(&server.address).is_ok()
            && read(server.request("GET", "/health/ready", "", "")).0 == 200
    });
    for _ in 0..3 {
        let (status, text) = server.complete("");
        assert_eq!((status, answer(&text)), (200, answer(&alone)));
    }
    assert!(server.stop().success());
}

#[test]
fn a_stopped_process_goes_on_where_it_was() {
    let tiny = Tiny::new();
    let server = Server::start(&tiny, &[]);
    let alone = answer(&server.complete("").1);
    let mut stream = server.request("POST", "/v1/completions", "", &body(true).to_string());
    let mut some = [0; 1];
    assert_eq!(stream.read(&mut some).unwrap(), 1);
    server.signal("-STOP");
    std::thread::sleep(Duration::from_secs(2));
    // Whoever asks meanwhile waits; nobody is refused.
    let waiting = server.request("GET", "/health/live", "", "");
    server.signal("-CONT");
    assert_eq!(read(waiting).0, 200);
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    let chunks = rest.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    let text: String = chunks.map(answer).collect();
    assert_eq!(text, alone);
}

#[test]
fn a_model_file_that_is_replaced_changes_nothing() {
    let tiny = Tiny::new();
    let server = Server::start(&tiny, &[]);
    let alone = answer(&server.complete("").1);
    let file = Path::new(tiny.path()).join("model.safetensors");
    let other = file.with_extension("new");
    fs::write(&other, vec![0; 4096]).unwrap();
    fs::rename(&other, &file).unwrap();
    assert_eq!(answer(&server.complete("").1), alone);
    fs::remove_file(&file).unwrap();
    assert_eq!(answer(&server.complete("").1), alone);
    assert_eq!(read(server.request("GET", "/health/live", "", "")).0, 200);
}

#[test]
fn every_line_of_the_log_is_json() {
    let tiny = Tiny::new();
    let home = tempfile::tempdir().unwrap();
    let mut command = support::gristmill(home.path());
    command.args(["serve", tiny.path(), "--port", "0", "--log-format", "json"]).env("GRISTMILL_LOG", "info");
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap()).unwrap() };
    let first = next();
    let message = first["fields"]["message"].as_str().unwrap();
    let address = message.split("http://").nth(1).unwrap().split(';').next().unwrap().to_owned();
    let server = Server::of(child, &address, home);
    while !next()["fields"]["message"].as_str().unwrap().contains("is ready") {}
    assert_eq!(server.complete("").0, 200);
    let answered = loop {
        let line = next();
        if line["fields"]["message"] == "answered" {
            break line;
        }
    };
    let fields = &answered["fields"];
    assert_eq!((&fields["path"], &fields["status"]), (&"/v1/completions".into(), &200.into()));
    assert_eq!(fields["request_id"], "it-is-me");
    server.signal("-TERM");
    while next()["fields"]["message"] != "stopped" {}
}

#[test]
fn heads_that_never_end_cost_little() {
    let tiny = Tiny::new();
    let server = Server::start(&tiny, &["--head-timeout", "1", "--max-connections", "8"]);
    let mut slow: Vec<TcpStream> = (0..7).map(|_| TcpStream::connect(&server.address).unwrap()).collect();
    for stream in &mut slow {
        stream.write_all(b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nx-a: ").unwrap();
    }
    // One place is left, and who is honest gets it.
    assert_eq!(server.complete("").0, 200);
    for mut stream in slow {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let began = Instant::now();
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        assert!(began.elapsed() < Duration::from_secs(5), "cut off after a second");
    }
    // A head of 64 KiB, and one of too many lines, are refused.
    let mut large = TcpStream::connect(&server.address).unwrap();
    let _ = write!(large, "GET /health HTTP/1.1\r\nhost: localhost\r\nx-a: {}\r\n\r\n", "a".repeat(1 << 17));
    assert_eq!(read(large).0, 431);
    let mut many = TcpStream::connect(&server.address).unwrap();
    let lines: String = (0..200).map(|number| format!("x-{number}: 1\r\n")).collect();
    let _ = write!(many, "GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{lines}\r\n");
    assert_eq!(read(many).0, 431);
    assert_eq!(server.complete("").0, 200);
}

#[test]
fn the_configuration_file_that_is_shipped_is_good() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/gristmill.toml");
    let output = support::run(&["serve", "--check", "--config", file.to_str().unwrap()]);
    assert!(said(&output).contains("flags and files are good"), "{}", support::text(&output.stderr));
    // Every flag that it shows in a comment is one too.
    let all =
        fs::read_to_string(file).unwrap().replace("# api-key-file", "api-key-file").replace("# tls-", "tls-");
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.toml");
    fs::write(&whole, all.replace("# audit-log", "audit-log")).unwrap();
    let output = support::run(&["serve", "--check", "--config", whole.to_str().unwrap()]);
    let line = support::failure(&output, 1);
    assert!(line.contains("/etc/gristmill/keys"), "{line}");
}

#[test]
fn packed_weights_are_used_at_the_next_start() {
    let tiny = Tiny::new();
    let variables = [("GRISTMILL_PACKED_CACHE", "map")];
    let ask = |server: &Server| {
        let (status, answer) = server.complete("");
        assert_eq!(status, 200, "{answer}");
        serde_json::from_str::<serde_json::Value>(&answer).unwrap()["choices"][0]["text"].clone()
    };
    let start = |word: &str| {
        let model = [tiny.path(), "--served-model-name", "tiny"];
        let mut server = Server::listen(&model, &variables);
        server.until(word);
        server
    };
    let mut server = start(" kept in ");
    server.until("of weights read in");
    let first = ask(&server);
    drop(server);
    let server = start("of weights loaded packed in");
    assert_eq!(ask(&server), first);
}
