use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::{Answer, State, Table};

const MINUTE: Duration = Duration::from_secs(60);

/// A table with room for `limit` bytes and so many models, the first of which stays loaded if `pinned`.
fn table(limit: u64, models: usize, pinned: bool, now: Instant) -> Table<usize> {
    let mut table = Table::new(limit);
    for index in 0..models {
        table.add(vec![format!("m{index}")], pinned && index == 0, Some(MINUTE), now);
    }
    table
}

fn load(table: &mut Table<usize>, index: usize, bytes: u64, now: Instant) {
    assert!(matches!(table.ask(index, bytes, now), Answer::Load));
    table.loaded(index, Ok(Arc::new(index)), now);
}

fn unloads(answer: Answer<usize>) -> Vec<usize> {
    match answer {
        Answer::Unload(going) => going.into_iter().map(|(index, _)| index).collect(),
        _ => panic!("nothing is unloaded"),
    }
}

#[test]
fn the_model_that_was_used_longest_ago_makes_room() {
    let now = Instant::now();
    let mut table = table(100, 3, false, now);
    load(&mut table, 0, 50, now);
    load(&mut table, 1, 50, now + Duration::from_secs(1));
    assert!(matches!(table.ask(0, 50, now + Duration::from_secs(2)), Answer::Use(_)));
    table.release(0, now + Duration::from_secs(3));
    assert_eq!(unloads(table.ask(2, 50, now + Duration::from_secs(4))), [1]);
    // Until its memory is free nothing else is unloaded for the same wish.
    assert!(matches!(table.ask(2, 50, now + Duration::from_secs(4)), Answer::Wait));
    table.unloaded(1);
    assert!(matches!(table.ask(2, 50, now + Duration::from_secs(4)), Answer::Load));
    // One load, however many ask.
    assert!(matches!(table.ask(2, 50, now + Duration::from_secs(5)), Answer::Wait));
}

#[test]
fn what_is_in_use_loading_or_pinned_stays() {
    let now = Instant::now();
    let mut table = table(100, 4, true, now);
    load(&mut table, 0, 40, now);
    load(&mut table, 1, 40, now);
    assert!(matches!(table.ask(1, 40, now), Answer::Use(_)));
    assert!(matches!(table.ask(2, 60, now), Answer::Wait), "the other one is in use, the first one pinned");
    table.release(1, now);
    assert_eq!(unloads(table.ask(2, 60, now)), [1]);
    table.unloaded(1);
    assert!(matches!(table.ask(2, 60, now), Answer::Load));
    assert!(matches!(table.ask(3, 30, now), Answer::Wait), "a load goes on");
    let Answer::TooLarge { bytes, limit, pinned } = table.ask(3, 61, now) else { panic!("too large") };
    assert_eq!((bytes, limit, pinned), (61, 100, 40));
}

#[test]
fn a_failed_load_is_told_for_a_while_and_then_tried_again() {
    let now = Instant::now();
    let mut table = table(100, 1, false, now);
    assert!(matches!(table.ask(0, 10, now), Answer::Load));
    table.loaded(0, Err("no such file".into()), now);
    assert_eq!(table.reserved(), 0);
    assert!(
        matches!(table.ask(0, 10, now + Duration::from_secs(9)), Answer::Failed(why) if why == "no such file")
    );
    assert!(matches!(table.ask(0, 10, now + Duration::from_secs(11)), Answer::Load));
}

#[test]
fn models_that_nobody_asks_for_are_unloaded_after_their_time() {
    let now = Instant::now();
    let mut table = table(100, 2, true, now);
    load(&mut table, 0, 10, now);
    load(&mut table, 1, 10, now);
    assert!(matches!(table.ask(1, 10, now), Answer::Use(_)));
    assert!(table.expire(now + 2 * MINUTE).is_empty(), "one is pinned, one in use");
    table.release(1, now + 2 * MINUTE);
    assert!(table.expire(now + 2 * MINUTE + MINUTE / 2).is_empty());
    let gone = table.expire(now + 3 * MINUTE);
    assert_eq!(gone.into_iter().map(|(index, _)| index).collect::<Vec<_>>(), [1]);
}

proptest! {
    /// Whatever is asked, loaded, unloaded and released in whatever order: memory is never promised twice, nothing that is in use,
    /// loading or pinned is unloaded, and what is not possible is said.
    #[test]
    fn memory_is_promised_once(
        limit in 1u64..200,
        sizes in prop::collection::vec(1u64..120, 1..6),
        acts in prop::collection::vec((0usize..6, 0usize..6, 0u64..40), 0..200),
    ) {
        let start = Instant::now();
        let mut now = start;
        let mut table = table(limit, sizes.len(), true, now);
        let mut uses = vec![0usize; sizes.len()];
        for (act, index, seconds) in acts {
            now += Duration::from_secs(seconds);
            let index = index % sizes.len();
            let going = match act {
                0..=2 => match table.ask(index, sizes[index], now) {
                    Answer::Use(model) => {
                        prop_assert_eq!(*model, index);
                        uses[index] += 1;
                        Vec::new()
                    }
                    Answer::Unload(going) => going,
                    Answer::TooLarge { bytes, .. } => {
                        prop_assert!(bytes > limit || index != 0);
                        Vec::new()
                    }
                    Answer::Load | Answer::Wait | Answer::Failed(_) => Vec::new(),
                },
                3 => {
                    let ends = matches!(table.entries[index].state, State::Loading(_));
                    if ends {
                        let fails = seconds % 5 == 0;
                        let outcome = if fails { Err("no".to_owned()) } else { Ok(Arc::new(index)) };
                        table.loaded(index, outcome, now);
                    }
                    Vec::new()
                }
                4 => {
                    if uses[index] > 0 {
                        uses[index] -= 1;
                        table.release(index, now);
                    } else if matches!(table.entries[index].state, State::Draining) {
                        table.unloaded(index);
                    }
                    Vec::new()
                }
                _ => table.expire(now),
            };
            for (gone, model) in going {
                prop_assert_eq!(*model, gone);
                prop_assert!(uses[gone] == 0 && gone != 0, "in use or pinned");
            }
            prop_assert!(table.reserved() <= limit);
        }
    }
}
