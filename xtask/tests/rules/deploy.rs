//! Rules for the files under `deploy/`, which are checked without a container builder and without systemd.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::fs;
use std::path::Path;

fn deploy(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(name)).unwrap()
}

/// Instructions with their arguments, continued lines joined.
fn instructions(text: &str) -> Vec<(String, String)> {
    let joined = text.replace("\\\n", " ");
    let lines = joined.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
            (name.to_owned(), rest.trim().to_owned())
        })
        .collect()
}

#[test]
fn the_container_file_is_sound() {
    let all = instructions(&deploy("Containerfile"));
    let known = [
        "FROM",
        "WORKDIR",
        "COPY",
        "RUN",
        "ENV",
        "USER",
        "VOLUME",
        "EXPOSE",
        "STOPSIGNAL",
        "ENTRYPOINT",
        "CMD",
    ];
    for (name, rest) in &all {
        assert!(known.contains(&name.as_str()) && !rest.is_empty(), "{name} {rest}");
        if name == "FROM" {
            let image = rest.split(' ').next().unwrap();
            let tag = image.rsplit('/').next().unwrap().split_once(':').map(|(_, tag)| tag);
            assert!(tag.is_some_and(|tag| tag != "latest"), "{image} needs a tag that stays what it is");
        }
        if name == "ENTRYPOINT" || name == "CMD" {
            assert!(
                serde_json::from_str::<Vec<String>>(rest).is_ok(),
                "{rest}: signals reach the program itself"
            );
        }
    }
    let last = all.iter().rposition(|(name, _)| name == "FROM").unwrap();
    let (build, run) = all.split_at(last);
    assert!(run.iter().all(|(_, rest)| !rest.contains("cargo")), "no compiler where it runs");
    let user = run.iter().rfind(|(name, _)| name == "USER").map(|(_, user)| user.as_str());
    let id: u32 = user.unwrap().split(':').next().unwrap().parse().unwrap();
    assert!(id >= 10_000, "a user that no host has");
    assert!(build.iter().any(|(_, rest)| rest.contains("--locked")));
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml")).unwrap();
    let rust = manifest.split("rust-version = \"").nth(1).unwrap().split('"').next().unwrap();
    assert!(build[0].1.contains(&format!("rust:{rust}-")), "{}: the workspace says {rust}", build[0].1);
}

#[test]
fn the_units_are_hardened() {
    // The gateway's drain is that of its flag, 30 s.
    is_hardened("gristmill-gateway.service", "gateway", 30);
    // The drain of the configuration file fits into what systemd waits for.
    let file = deploy("gristmill.toml");
    let drain = file.lines().find_map(|l| l.strip_prefix("drain-timeout = ")).unwrap().parse().unwrap();
    is_hardened("gristmill.service", "serve", drain);
}

fn is_hardened(name: &str, command: &str, drain: u64) {
    let unit = deploy(name);
    let value = |key: &str| {
        let mut lines = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        lines.next_back().map(str::to_owned)
    };
    for key in [
        "NoNewPrivileges",
        "DynamicUser",
        "ProtectHome",
        "PrivateTmp",
        "PrivateDevices",
        "ProtectClock",
        "ProtectKernelLogs",
        "ProtectKernelModules",
        "ProtectKernelTunables",
        "ProtectControlGroups",
        "RestrictNamespaces",
        "RestrictRealtime",
        "RestrictSUIDSGID",
        "LockPersonality",
        "MemoryDenyWriteExecute",
    ] {
        assert_eq!(value(key).as_deref(), Some("yes"), "{key}");
    }
    assert_eq!(
        (value("ProtectSystem").as_deref(), value("CapabilityBoundingSet").as_deref()),
        (Some("strict"), Some(""))
    );
    let wait: u64 = value("TimeoutStopSec").unwrap().parse().unwrap();
    assert!(wait > drain + 5, "{wait} s for a drain of {drain} s");
    assert_eq!(value("ExecReload").as_deref(), Some("/bin/kill -HUP $MAINPID"));
    for line in unit.lines().filter(|line| line.starts_with("ExecStart")) {
        assert!(line.contains(&format!("/usr/local/bin/gristmill {command} ")), "{line}");
    }
}
