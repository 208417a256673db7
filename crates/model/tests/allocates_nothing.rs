//! `forward` allocates nothing: not for a prompt, not for a token, not with experts.

mod runner;

use cpu::{Pool, Tier};
use kernels::{Compute, KvDtype, Precision, SeqRows};
use model::{Batch, Model, Scratch};

#[test]
fn forward_allocates_nothing() {
    for case in runner::cases() {
        for precision in [Precision::Fast, Precision::F32] {
            // One thread, so that all the work is done where it is measured.
            let compute = Compute::new(Tier::best(), Pool::new(1, None).expect("a thread"));
            let opened = weights::open(&case).expect("a fixture");
            let model = Model::load(&opened, &compute, precision, &mut |_| ()).expect("a fixture");
            let mut kv = model.spec.kv_pool(4, KvDtype::F16, 1).expect("a small pool");
            let mut scratch = Scratch::new(&model.spec, 32, 8);
            let prompt: Vec<u32> = (0..32).collect();
            let batches =
                [(0, &prompt[..20], &[3, 19][..]), (20, &prompt[20..21], &[0]), (21, &prompt[21..], &[])];
            for (first_position, tokens, want) in batches {
                let sequences = [SeqRows::last(0..tokens.len(), first_position, &[2]).with_state(0)];
                let batch = Batch { tokens, sequences: &sequences, want, decode_rows: 0 };
                let measured = allocation_counter::measure(|| {
                    model.forward(&compute, &batch, &mut kv, &mut scratch).expect("a good batch");
                });
                assert_eq!(measured.count_total, 0, "{precision:?} {} at {first_position}", case.display());
            }
        }
    }
}
