//! Random weights of a shape: run as any model, and written to a file that reads back as what was written.

#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use cpu::{Pool, Tier};
use kernels::{Compute, KvDtype, KvHeads, KvPool, Precision, SeqRows};
use model::shapes::{RECIPES, parse};
use model::{Batch, Model, Scratch};
use weights::{Opened, Tensor};

fn tensors(opened: &Opened) -> Vec<Tensor<'_>> {
    opened.tensors().map(|tensor| opened.tensor(tensor.name).unwrap()).collect()
}

#[test]
fn a_written_shape_reads_back_equal() {
    let pool = Pool::new(2, None).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (shape, recipe) = parse("tiny:q4_k_m").unwrap();
    let made = shape.open(recipe, 7, &pool).unwrap();
    let path = dir.path().join("tiny.gguf");
    weights::gguf::write(&path, made.metadata().gguf().unwrap(), &tensors(&made)).unwrap();
    let read = weights::open(&path).unwrap();
    assert_eq!(read.metadata().gguf(), made.metadata().gguf());
    assert_eq!(read.tensors().len(), made.tensors().len());
    for (read, made) in tensors(&read).iter().zip(&tensors(&made)) {
        assert_eq!((read.name, read.dtype, &read.shape), (made.name, made.dtype, &made.shape));
        assert!(read.bytes == made.bytes, "{}", read.name);
    }
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["tiny.gguf"], "no temporary file stays");
}

#[test]
fn a_seed_gives_the_same_weights_and_another_seed_others() {
    let pool = Pool::new(2, None).unwrap();
    let (shape, recipe) = parse("tiny:q8_0").unwrap();
    let open = |seed| shape.open(recipe, seed, &pool).unwrap();
    let (first, again, other) = (open(1), open(1), open(2));
    let bytes = |opened: &Opened| opened.tensor("blk.1.ffn_up.weight").unwrap().bytes.to_vec();
    assert!(bytes(&first) == bytes(&again) && bytes(&first) != bytes(&other));
    assert!(bytes(&first) != first.tensor("blk.0.ffn_up.weight").unwrap().bytes, "layers differ");
}

#[test]
fn the_cache_of_latent_attention_has_one_head_whatever_the_heads() {
    for (name, layers) in [("deepseek-v2-lite:q4_k_m", 27), ("glm-4.7-flash:q8_0", 47)] {
        let (shape, recipe) = parse(name).unwrap();
        let opened = shape.outline(recipe).unwrap();
        let spec = model::Spec::read(&opened).unwrap();
        let heads = KvHeads { kv_heads: 1, head_dim: 512 + 64 };
        assert_eq!(spec.kv_shape(1, KvDtype::F16).layers, vec![heads; layers], "{name}");
        assert_eq!(spec.kv_bytes_per_token(KvDtype::F16), layers * 2 * 576 * 2, "{name}");
        let read = spec.weight_bytes(&opened, Tier::best(), Precision::Fast);
        assert!(read.is_ok(), "{name}: {read:?}");
    }
    let (shape, recipe) = parse("qwen3-next-80b-a3b").unwrap();
    let spec = model::Spec::read(&shape.outline(recipe).unwrap()).unwrap();
    assert_eq!((spec.kv_layers(), spec.experts(), spec.has_states()), (12, (512, 10), true));
}

#[test]
fn every_recipe_gives_finite_logits_of_order_one() {
    for recipe in RECIPES {
        let pool = Pool::new(2, None).unwrap();
        let (shape, _) = parse("tiny").unwrap();
        let opened = shape.open(recipe, 3, &pool).unwrap();
        let compute = Compute::new(Tier::best(), pool);
        let model = Model::load(&opened, &compute, Precision::Fast, &mut |_| ()).unwrap();
        let mut kv = KvPool::new(model.spec.kv_shape(1, KvDtype::F16)).unwrap();
        let mut scratch = Scratch::new(&model.spec, 4, 1);
        let sequences = [SeqRows::last(0..4, 0, &[0])];
        let batch = Batch { tokens: &[1, 2, 3, 500], sequences: &sequences, want: &[3], decode_rows: 0 };
        let logits = model.forward(&compute, &batch, &mut kv, &mut scratch).unwrap();
        let largest = logits.iter().fold(0.0_f32, |most, logit| most.max(logit.abs()));
        assert!(logits.iter().all(|logit| logit.is_finite()), "{}", recipe.name);
        assert!((0.1..100.0).contains(&largest), "{}: {largest}", recipe.name);
    }
}
