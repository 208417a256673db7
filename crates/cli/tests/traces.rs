//! `gristmill serve --otlp-endpoint` and a collector that keeps what it is sent.
//!
//! Without the feature `otlp` only what is said then is tested. With it, CI builds this file and the program again; so
//! all that needs it is here.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod support;

#[cfg(not(feature = "otlp"))]
#[test]
fn without_the_feature_the_flag_is_refused_by_its_name() {
    let output = support::run(&["serve", "--check", "--otlp-endpoint", "http://localhost:4318"]);
    let line = support::failure(&output, 2);
    assert!(
        line.contains("--otlp-endpoint http://localhost:4318") && line.contains("--features otlp"),
        "{line}"
    );
    // What a whole cluster has in its environment stops nobody.
    let home = tempfile::tempdir().unwrap();
    let mut command = support::gristmill(home.path());
    command.args(["serve", "--check"]).env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318");
    assert!(support::said(&command.output().unwrap()).contains("flags and files are good"));
}

#[cfg(feature = "otlp")]
#[path = "traces/sent.rs"]
mod sent;
