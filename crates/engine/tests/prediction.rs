//! Tiny models whose own block predicts further tokens: a request's tokens are the same with and without it, alone, in a
//! batch, from the prefix cache, and where sequences lose their blocks.

use std::path::Path;
use std::sync::Arc;

use cpu::{Pool, Tier};
use engine::fake::FakeVocabulary;
use engine::{Device, Engine, Handle, Limits, Setup, Speculation};
use kernels::{BLOCK_TOKENS, Compute, KvDtype, Precision};
use model::{Model, Spec};

use crate::common::ask;
use crate::fixtures_batch::{fixtures, one_at_a_time, requests};

/// Proposals of the block alone, whether they pay or not.
const ALWAYS: Speculation = Speculation { lookup: false, tokens: 4, always: true };

fn engine(path: &Path, predicts: bool, contexts: u64, speculation: Speculation) -> (Arc<Model>, Handle) {
    let compute = Compute::new(Tier::best(), Pool::new(2, None).expect("threads"));
    let opened = weights::open(path).expect("a fixture");
    let mut spec = Spec::read(&opened).expect("a fixture");
    if predicts {
        spec.keep_prediction().expect("a block");
    }
    let model = Model::load_spec(spec, &opened, &compute, Precision::Fast, &mut |_| {}).expect("a fixture");
    let (model, context) = (Arc::new(model), 128usize);
    let block = model.spec.kv_shape(1, KvDtype::F16).block_bytes() as u64;
    let limits = Limits {
        context,
        kv_bytes: contexts * block * context.div_ceil(BLOCK_TOKENS) as u64,
        kv_dtype: Some(KvDtype::F16),
        prefill_chunk: 16,
        speculation,
        ..Limits::default()
    };
    let setup = Setup::new(Arc::new(FakeVocabulary), limits);
    let handle = Engine::start_on(&Device::of_one(compute), model.clone(), None, setup);
    (model, handle.expect("an engine"))
}

#[test]
fn the_text_is_the_same_with_and_without_the_block() {
    let _running = one_at_a_time();
    let with_block =
        |path: &&std::path::PathBuf| path.ends_with("qwen35-mtp") || path.ends_with("qwen35moe-mtp");
    let (mut accepted, mut wrong, mut preemptions) = (0, 0, 0);
    for path in fixtures().iter().filter(with_block) {
        let (model, plain) = engine(path, false, 8, Speculation::OFF);
        let asked = requests(&model);
        let expected = ask(&plain, asked.clone());
        for (contexts, speculation) in [
            (8, ALWAYS),
            (1, ALWAYS),
            (8, Speculation { lookup: true, always: false, ..ALWAYS }),
            (8, Speculation::OFF),
        ] {
            let (_, handle) = engine(path, true, contexts, speculation);
            let what = format!("{} {contexts} {speculation:?}", path.display());
            assert_eq!(ask(&handle, asked.clone()), expected, "{what}");
            assert_eq!(ask(&handle, asked.clone()), expected, "{what}, again");
            let alone: Vec<_> = asked.iter().map(|r| ask(&handle, vec![r.clone()]).remove(0)).collect();
            assert_eq!(alone, expected, "{what}, alone");
            let stats = handle.stats();
            assert_eq!(stats.proposed_tokens > 0, speculation.tokens > 0, "{what}: {stats:?}");
            accepted += stats.accepted_tokens;
            wrong += stats.proposed_tokens - stats.accepted_tokens;
            preemptions += stats.preemptions;
        }
    }
    assert!(accepted > 0 && wrong > 0 && preemptions > 0, "{accepted} {wrong} {preemptions}");
}
