//! `gristmill gateway` and `gristmill audit`, as their users call them.

use crate::support::{failure, run, said};

fn written(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.toml");
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

const GOOD: &str = r#"
[[upstream]]
name = "node"
url = "http://127.0.0.1:1"
kind = "gristmill"

[[model]]
name = "chat"
targets = [{ upstream = "node", model = "smollm2" }]
"#;

#[test]
fn every_help_can_be_asked_for() {
    for command in [
        &["gateway", "--help"][..],
        &["gateway", "explain", "--help"],
        &["gateway", "import-litellm", "--help"],
        &["gateway", "calibrate", "--help"],
        &["audit", "verify", "--help"],
    ] {
        let output = run(command);
        assert!(output.status.success() && said(&output).contains("Usage:"), "{command:?}: {output:?}");
    }
}

#[test]
fn a_configuration_is_checked() {
    let (_folder, path) = written(GOOD);
    let output = run(&["gateway", "--config", &path, "--check"]);
    assert!(output.status.success(), "{output:?}");
    assert!(said(&output).contains("1 upstream, 1 model, 0 keys"), "{output:?}");
    let (_folder, path) = written(&GOOD.replace("upstream = \"node\"", "upstream = \"nobody\""));
    let said = failure(&run(&["gateway", "--config", &path, "--check"]), 1);
    assert!(said.contains("\"nobody\" is not there"), "{said}");
    let said = failure(&run(&["gateway", "--config", "/nowhere/gateway.toml"]), 1);
    assert!(said.contains("/nowhere/gateway.toml"), "{said}");
}

#[test]
fn a_litellm_configuration_becomes_ours() {
    let text = "model_list:\n  - model_name: chat\n    litellm_params:\n      model: openai/gpt-4o-mini\n      \
                api_key: os.environ/OPENAI_API_KEY\n";
    let (folder, path) = written(text);
    let output = run(&["gateway", "import-litellm", &path]);
    assert!(output.status.success(), "{output:?}");
    let ours = folder.path().join("ours.toml");
    std::fs::write(&ours, &output.stdout).unwrap();
    let toml = said(&output);
    assert!(toml.contains("[[model]]") && toml.contains("OPENAI_API_KEY"), "{toml}");
}

#[test]
fn an_audit_log_that_is_not_there_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let said = failure(&run(&["audit", "verify", folder.path().to_str().unwrap()]), 1);
    assert!(said.contains("audit"), "{said}");
}
