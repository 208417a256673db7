//! A LiteLLM proxy's `config.yaml`, imported.
//!
//! Looks for: a panic, YAML that takes more than its bounds, and a configuration that the gateway would not read.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(imported) = gateway::litellm::import(text) else { return };
    assert!(gateway::read_config(&imported.toml).is_ok());
});
