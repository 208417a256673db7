//! Pipelines whose models do not all fit into memory.

use std::sync::Arc;
use std::time::Duration;

use events::Metrics;

use crate::LoadedModel;
use crate::fake::FakeTensors;
use crate::recorder::Recorder;
use crate::registry::{Loader, Registration, Registry};

/// A model of ten bytes.
struct Ten(&'static str);

impl Loader for Ten {
    fn need_bytes(&self) -> Result<u64, String> {
        Ok(10)
    }

    fn load(&self, _progress: &dyn Fn(String)) -> Result<LoadedModel, String> {
        if self.0 == "bad" {
            return Err("its file is bad".into());
        }
        let model = FakeTensors { pace: Duration::ZERO };
        Ok(LoadedModel::tensor_model(vec![self.0.to_owned()], Arc::new(model)))
    }
}

/// Models that take ten bytes each, of which there is room for so many.
fn registry(room: u64) -> Arc<Registry> {
    let recorder = Recorder::new(Arc::new(Metrics::new("test")));
    let registry = Registry::new(10 * room, Duration::from_secs(60), recorder);
    for name in ["a", "b", "c", "d", "bad"] {
        let loader = Arc::new(Ten(name));
        let names = vec![name.to_owned()];
        registry.add(Registration { names, pinned: false, keep_alive: None, loader }).unwrap();
    }
    registry
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipelines_that_share_models_and_memory_all_come_to_their_end() {
    let registry = registry(2);
    let sets: [&[&str]; 5] = [&["a", "b"], &["c", "d"], &["b", "c"], &["d"], &["b", "a"]];
    let tasks: Vec<_> = (0..15)
        .map(|at| {
            let (registry, wanted) = (registry.clone(), names(sets[at % sets.len()]));
            tokio::spawn(async move {
                let leases = registry.acquire_all(&wanted).await.unwrap();
                let found: Vec<&str> = leases.iter().map(|lease| lease.name()).collect();
                assert_eq!(found, wanted, "all at once, in the order that was asked for");
                let (reserved, limit) = registry.memory();
                assert!(reserved <= limit);
                tokio::time::sleep(Duration::from_millis(2)).await;
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let in_use: usize = registry.facts().iter().map(|facts| facts.uses).sum();
    assert_eq!(in_use, 0, "nothing is held any more");
}

#[tokio::test]
async fn what_cannot_come_together_is_refused_and_holds_nothing() {
    let registry = registry(2);
    for (wanted, code, words) in [
        (names(&["a", "b", "c"]), "model_too_large", "take 30 bytes together; models may take 20"),
        (names(&["a", "none"]), "model_load_failed", "there is no model none"),
        (names(&["a", "bad"]), "model_load_failed", "its file is bad"),
    ] {
        let fault = registry.acquire_all(&wanted).await.err().expect("a fault");
        assert!(fault.code == Some(code) && fault.message.contains(words), "{fault}");
    }
    assert!(registry.facts().iter().all(|facts| facts.uses == 0));
    let lease = registry.acquire_all(&names(&["a"])).await.unwrap().remove(0);
    let other = lease.another();
    drop(lease);
    let uses = |registry: &Registry| registry.facts().iter().map(|facts| facts.uses).sum::<usize>();
    assert_eq!(uses(&registry), 1, "a lease of the same model counts by itself");
    drop(other);
    assert_eq!(uses(&registry), 0);
}
