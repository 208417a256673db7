use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;

use super::*;

/// Lengths of the texts of each job, and the texts of the step.
#[derive(Default)]
struct Texts {
    lengths: HashMap<JobId, Vec<usize>>,
    taken: Vec<(JobId, usize)>,
}

impl StepBuilder for Texts {
    fn adds(&self, job: JobId, text: usize) -> usize {
        self.lengths[&job][text]
    }

    fn add(&mut self, job: JobId, text: usize) {
        self.taken.push((job, text));
    }
}

/// A queue whose tokens take `MS` each, with its clock.
#[derive(Default)]
struct World {
    queue: EncodeQueue,
    texts: Texts,
    now: Duration,
    /// Jobs with the number of their texts that were not computed.
    left: BTreeMap<JobId, usize>,
    added: JobId,
    /// The job whose tokens take twice the time.
    slow: JobId,
}

const MS: f64 = 0.5;
const BUDGET: usize = 64;

impl World {
    fn add(&mut self, client: u64, lengths: &[usize]) -> JobId {
        self.added += 1;
        let class = Class::of(lengths.len());
        self.queue.add(self.added, client, class, lengths, self.now);
        self.texts.lengths.insert(self.added, lengths.to_vec());
        self.left.insert(self.added, lengths.len());
        self.added
    }

    /// Takes and computes a step that takes `factor` times the estimate. Returns its class and its texts.
    fn step(&mut self, factor: f64) -> Option<(Class, Vec<(JobId, usize)>)> {
        let (class, charges) = self.queue.take(self.now, BUDGET, MS, &mut self.texts)?;
        let taken = std::mem::take(&mut self.texts.taken);
        let tokens: usize = taken.iter().map(|(job, text)| self.texts.lengths[job][*text]).sum();
        assert_eq!(tokens, charges.iter().map(|charge| charge.tokens).sum::<usize>());
        assert!(tokens <= BUDGET || taken.len() == 1, "{tokens} tokens of {} texts", taken.len());
        assert!(!taken.is_empty());
        for (job, _) in &taken {
            let left = self.left.get_mut(job).expect("a job that is not done");
            *left -= 1;
            if *left == 0 {
                self.left.remove(job);
            }
        }
        let slow = if taken.iter().any(|(job, _)| *job == self.slow) { 2.0 } else { 1.0 };
        let took_ms = tokens as f64 * MS * factor * slow;
        self.queue.settle(class, &charges, took_ms);
        self.now += Duration::from_secs_f64(took_ms / 1000.0);
        Some((class, taken))
    }

    /// Steps until a job is done, with `arrives` before each; returns the steps.
    fn until_done(&mut self, job: JobId, mut arrives: impl FnMut(&mut World)) -> usize {
        for steps in 0.. {
            if !self.left.contains_key(&job) {
                return steps;
            }
            arrives(self);
            assert!(self.step(1.0).is_some() && steps < 100_000, "job {job} starves");
        }
        unreachable!("the loop returns")
    }
}

#[test]
fn few_texts_come_before_many_and_these_get_a_fifth_of_the_time() {
    let mut world = World::default();
    world.add(1, &[32; 2000]);
    world.add(2, &[32; 2]);
    assert_eq!(world.step(1.0).map(|(class, _)| class), Some(Class::Interactive));
    let (mut bulk, all) = (0, 500);
    for _ in 0..all {
        world.add(2, &[64]);
        bulk += usize::from(world.step(1.0).is_some_and(|(class, _)| class == Class::Bulk));
    }
    assert!((95..=105).contains(&bulk), "{bulk} of {all} steps");
}

#[test]
fn a_client_with_many_jobs_gets_no_more_than_one_with_few() {
    for lengths in [[8, 8], [64, 16], [200, 10]] {
        let mut world = World::default();
        for _ in 0..40 {
            world.add(1, &[lengths[0]; 40]);
        }
        world.add(2, &[lengths[1]; 2000]);
        let mut tokens = [0, 0];
        for _ in 0..150 {
            let (_, taken) = world.step(1.0).unwrap();
            for (job, text) in taken {
                tokens[usize::from(job == 41)] += world.texts.lengths[&job][text];
            }
        }
        let (most, least) = (tokens[0].max(tokens[1]), tokens[0].min(tokens[1]));
        assert!(most - least <= 400, "{tokens:?} tokens for texts of {lengths:?}");
    }
}

#[test]
fn what_a_step_took_is_charged_and_not_what_was_thought() {
    // Texts of the first client take twice as long as its tokens say.
    let mut world = World::default();
    world.slow = world.add(1, &[64; 900]);
    world.add(2, &[64; 900]);
    let mut steps = [0, 0];
    for _ in 0..300 {
        let (_, taken) = world.step(1.0).unwrap();
        steps[usize::from(taken[0].0 == 2)] += 1;
    }
    assert!((90..=110).contains(&steps[0]), "{steps:?}: a third of the steps is half of the time");
}

#[test]
fn short_jobs_come_first_until_a_long_one_has_waited() {
    let mut world = World::default();
    let long = world.add(1, &[64; 8]);
    let short = world.add(1, &[4]);
    assert_eq!(world.step(1.0).unwrap().1[0], (short, 0), "the rest of the step is the long one's");
    // The long one has 7 texts left, 224 ms; a second of waiting makes up for half of one.
    world.now += Duration::from_secs(1);
    world.add(1, &[4]);
    assert_eq!(world.step(1.0).unwrap().1[0].0, long);
}

#[test]
fn steps_are_filled_with_what_fits() {
    let mut world = World::default();
    world.add(1, &[50, 10, 30, 4, 30, 40, 14, 20, 7, 100, 60]);
    let mut sizes = Vec::new();
    while let Some((_, taken)) = world.step(1.0) {
        sizes.push(taken.iter().map(|(job, text)| world.texts.lengths[job][*text]).sum::<usize>());
    }
    assert_eq!(sizes, [64, 64, 60, 60, 17, 100]);
}

#[test]
fn a_job_that_is_removed_leaves_nothing() {
    let mut world = World::default();
    let (one, other) = (world.add(1, &[10; 20]), world.add(2, &[10]));
    assert_eq!(world.queue.remove(one), (20, 200));
    assert_eq!((world.queue.remove(one), world.queue.remove(other)), ((0, 0), (1, 10)));
    assert!(world.queue.is_empty() && world.step(1.0).is_none());
}

#[test]
fn nobody_starves_beside_a_flood() {
    // Another client's jobs and the same client's shorter ones keep arriving, as many as are computed.
    for lengths in [vec![64; 8], vec![64; 40], vec![500]] {
        let mut world = World::default();
        let job = world.add(1, &lengths);
        let steps = world.until_done(job, |world| {
            world.add(2, &[64; 2]);
            world.add(1, &[8; 2]);
        });
        let tokens: usize = lengths.iter().sum();
        // Of its own steps: two clients, a fifth for bulk work, ageing after twice the work.
        assert!(steps <= 40 * tokens.div_ceil(BUDGET) + 40, "{steps} steps for {tokens} tokens");
    }
}

fn arrivals() -> impl Strategy<Value = Vec<(u64, Vec<usize>, usize)>> {
    let lengths = prop::collection::vec(1usize..150, 1..20);
    prop::collection::vec((0u64..4, lengths, 0usize..3), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever arrives: each text is taken once, in steps of the budget, and the queue ends empty.
    #[test]
    fn every_text_is_taken_once(arrivals in arrivals(), factor in 0.1f64..5.0) {
        let mut world = World::default();
        let mut taken: Vec<(JobId, usize)> = Vec::new();
        let mut expected = 0;
        for (client, lengths, steps) in arrivals {
            expected += lengths.len();
            world.add(client, &lengths);
            for _ in 0..steps {
                taken.extend(world.step(factor).into_iter().flat_map(|(_, taken)| taken));
            }
        }
        while let Some((_, more)) = world.step(factor) {
            taken.extend(more);
        }
        prop_assert!(world.queue.is_empty() && world.left.is_empty());
        taken.sort_unstable();
        taken.dedup();
        prop_assert_eq!(taken.len(), expected);
    }

    /// A job waits for a bounded number of steps, whatever else keeps arriving.
    #[test]
    fn every_job_is_done(
        lengths in prop::collection::vec(1usize..150, 1..20),
        others in prop::collection::vec((0u64..4, 1usize..150, 1usize..12), 1..4),
    ) {
        let mut world = World::default();
        let job = world.add(0, &lengths);
        let tokens: usize = lengths.iter().sum();
        let mut arrived = 0;
        let steps = world.until_done(job, |world| {
            // About as much as is computed, and more than that in the beginning.
            let (client, length, texts) = others[arrived % others.len()];
            arrived += 1;
            if world.left.len() < 200 {
                world.add(client, &vec![length; texts]);
            }
        });
        prop_assert!(steps <= 60 * (lengths.len() + tokens.div_ceil(BUDGET)) + 200, "{steps} steps for {tokens} tokens");
    }
}
