use proptest::prelude::*;

use super::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// An engine that always has work: how urgent, how long its steps are and what it does without the device after each,
/// ms.
#[derive(Debug, Clone, Copy)]
struct Load {
    urgency: Urgency,
    step: u64,
    away: u64,
}

/// What was seen of one engine.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    computed: u64,
    /// The longest wait for a turn, ms.
    longest_wait: u64,
    /// The most turns of less urgent engines within one wait.
    most_less_urgent: usize,
}

/// Runs engines for `time` milliseconds. An engine asks again when it is back, or at once where it takes no time away.
fn run(turns: &mut Turns, from: u64, loads: &[Load], time: u64) -> Vec<Seen> {
    let ids: Vec<MemberId> = loads.iter().map(|_| turns.join(ms(100))).collect();
    let mut seen = vec![Seen::default(); loads.len()];
    // When each comes back; none while it waits or holds.
    let mut back: Vec<Option<u64>> = vec![Some(from); loads.len()];
    let mut less_urgent = vec![0; loads.len()];
    let mut asked = vec![from; loads.len()];
    // Who holds the device, and until when.
    let mut holder: Option<(usize, u64)> = None;
    let mut now = from;
    while now < from + time {
        for i in 0..loads.len() {
            if back[i].is_some_and(|at| at <= now) {
                (back[i], asked[i]) = (None, now);
                less_urgent[i] =
                    usize::from(holder.is_some_and(|(h, _)| loads[h].urgency > loads[i].urgency));
                if turns.ask(ids[i], loads[i].urgency, ms(now)) == Some(ids[i]) {
                    assert!(holder.is_none());
                    holder = Some((i, now + loads[i].step));
                }
            }
        }
        let ends = holder.filter(|(_, until)| *until <= now);
        if let Some((i, _)) = ends {
            seen[i].computed += loads[i].step;
            let next = if loads[i].away > 0 {
                back[i] = Some(now + loads[i].away);
                turns.release(ids[i], ms(now))
            } else {
                (asked[i], less_urgent[i]) = (now, 0);
                turns.renew(ids[i], loads[i].urgency, ms(now))
            };
            holder = next.map(|next| {
                let next = ids.iter().position(|id| *id == next).unwrap();
                seen[next].longest_wait = seen[next].longest_wait.max(now - asked[next]);
                seen[next].most_less_urgent = seen[next].most_less_urgent.max(less_urgent[next]);
                for i in 0..loads.len() {
                    if back[i].is_none() && i != next && loads[next].urgency > loads[i].urgency {
                        less_urgent[i] += 1;
                    }
                }
                (next, now + loads[next].step)
            });
        }
        now += 1;
    }
    for (id, seen) in ids.iter().zip(&seen) {
        let totals = turns.totals(*id);
        assert!(
            totals.computed.as_millis().abs_diff(u128::from(seen.computed)) <= 1000,
            "{totals:?} {seen:?}"
        );
    }
    seen
}

fn load(urgency: Urgency, step: u64) -> Load {
    Load { urgency, step, away: 0 }
}

#[test]
fn time_is_shared_by_weight_and_not_by_turns() {
    for urgency in Urgency::ALL {
        let seen = run(&mut Turns::default(), 0, &[load(urgency, 10), load(urgency, 300)], 60_000);
        assert!(seen[0].computed.abs_diff(seen[1].computed) <= 600, "{urgency:?}: {seen:?}");
    }
    let both = [load(Urgency::Decode, 20), load(Urgency::Prompt, 100)];
    let seen = run(&mut Turns::default(), 0, &both, 60_000);
    assert!(seen[0].computed.abs_diff(seen[1].computed) <= 400, "{seen:?}");
    let both = [load(Urgency::Decode, 20), load(Urgency::Batch, 100)];
    let seen = run(&mut Turns::default(), 0, &both, 60_000);
    assert!((11_000..=13_000).contains(&seen[1].computed), "a fifth is for batch work: {seen:?}");
}

#[test]
fn a_decoding_engine_waits_for_one_step_of_others_however_many_they_are() {
    let mut loads = vec![Load { urgency: Urgency::Decode, step: 20, away: 1 }];
    loads.extend([load(Urgency::Prompt, 100), load(Urgency::Batch, 100), load(Urgency::Prompt, 90)]);
    let seen = run(&mut Turns::default(), 0, &loads, 60_000);
    assert!(seen[0].longest_wait <= 100 && seen[0].most_less_urgent == 1, "{seen:?}");
    assert!(seen.iter().all(|seen| seen.computed > 3_000), "{seen:?}");
}

#[test]
fn idle_time_is_not_saved_up() {
    let mut turns = Turns::default();
    let alone = turns.join(ms(100));
    assert_eq!(turns.ask(alone, Urgency::Decode, ms(0)), Some(alone));
    let late = turns.join(ms(100));
    assert_eq!(turns.release(alone, ms(3_600_000)), None);
    turns.rest(alone, ms(3_600_000));
    // Both begin where the one that worked is; from there on they share.
    turns.ask(late, Urgency::Decode, ms(3_600_000));
    turns.ask(alone, Urgency::Decode, ms(3_600_000));
    let (mut now, mut late_ms, mut holder) = (3_600_000, 0, late);
    for _ in 0..400 {
        now += 10;
        late_ms += if holder == late { 10 } else { 0 };
        holder = turns.renew(holder, Urgency::Decode, ms(now)).unwrap();
    }
    assert!((1_900..=2_100).contains(&late_ms), "{late_ms} of 4000");
}

#[test]
fn a_waiter_can_leave_and_a_holder_that_leaves_gives_its_turn() {
    let mut turns = Turns::default();
    let [a, b, c] = [(); 3].map(|()| turns.join(ms(100)));
    assert_eq!(turns.ask(a, Urgency::Prompt, ms(0)), Some(a));
    assert_eq!(turns.ask(b, Urgency::Prompt, ms(1)), None);
    assert_eq!(turns.ask(c, Urgency::Prompt, ms(2)), None);
    assert_eq!(turns.leave(b, ms(3)), None);
    assert_eq!(turns.leave(a, ms(4)), Some(c));
    assert_eq!(turns.rest(c, ms(9)), None);
    assert_eq!(turns.totals(c), TurnTotals { turns: 1, computed: ms(5), waited: ms(2), longest_wait: ms(2) });
    assert_eq!(turns.leave(c, ms(9)), None);
    assert_eq!((turns.len(), turns.ask(c, Urgency::Prompt, ms(9))), (0, None));
}

#[test]
fn steps_are_bounded_for_streams_of_others_only() {
    let mut turns = Turns::default();
    let (reader, stream, batch) = (turns.join(ms(70)), turns.join(ms(100)), turns.join(ms(50)));
    turns.ask(reader, Urgency::Prompt, ms(0));
    turns.ask(batch, Urgency::Batch, ms(0));
    assert_eq!(turns.max_stall(reader), None);
    turns.ask(stream, Urgency::Decode, ms(0));
    assert_eq!([reader, batch, stream].map(|id| turns.max_stall(id)), [Some(ms(100)), Some(ms(100)), None]);
    turns.rest(stream, ms(1));
    assert_eq!(turns.max_stall(reader), None, "it has nothing to do");
}

#[test]
fn whoever_comes_first_still_keeps_its_turn_while_it_samples() {
    let mut turns = Turns::default();
    let (stream, reader) = (turns.join(ms(100)), turns.join(ms(100)));
    turns.ask(stream, Urgency::Decode, ms(0));
    assert!(!turns.outranked(stream, ms(10)), "nobody waits");
    turns.ask(reader, Urgency::Prompt, ms(10));
    assert!(!turns.outranked(stream, ms(20)), "it is the more urgent one");
    assert!(turns.outranked(stream, ms(500)), "the other lags behind by now");
    assert_eq!(turns.release(stream, ms(500)), Some(reader));
    assert_eq!(turns.ask(stream, Urgency::Decode, ms(501)), None);
    assert!(turns.outranked(reader, ms(502)));
}

fn loads() -> impl Strategy<Value = Vec<Load>> {
    let urgency = prop::sample::select(Urgency::ALL.to_vec());
    let one = (urgency, 1u64..150, prop_oneof![Just(0u64), 1u64..30]);
    prop::collection::vec(one.prop_map(|(urgency, step, away)| Load { urgency, step, away }), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the mix: none starves, and nobody is kept waiting by two turns of less urgent members.
    #[test]
    fn nobody_starves_and_urgent_members_wait_for_one_less_urgent_turn(loads in loads()) {
        let seen = run(&mut Turns::default(), 0, &loads, 60_000);
        let others = loads.len() as u64 - 1;
        let longest = loads.iter().map(|load| load.step).max().unwrap_or(0);
        // All others may have to make up for the lag and the credit at the largest weight; then it is one of many.
        let bound = others * (4 * (LAG + CREDIT) as u64 + longest) + 2 * (others + 1) * longest;
        for (seen, load) in seen.iter().zip(&loads) {
            prop_assert!(seen.longest_wait <= bound, "{:?} of {:?}: {:?}", load, loads, seen);
            prop_assert!(seen.most_less_urgent <= 1, "{:?} of {:?}: {:?}", load, loads, seen);
            prop_assert!(seen.computed > 0);
        }
    }

    /// Members of one class that always have work get equal time, whatever their steps.
    #[test]
    fn equals_get_equal_time(
        steps in prop::collection::vec(1u64..150, 2..6), urgency in prop::sample::select(Urgency::ALL.to_vec()),
    ) {
        let loads: Vec<Load> = steps.iter().map(|step| load(urgency, *step)).collect();
        let seen = run(&mut Turns::default(), 0, &loads, 60_000);
        let computed = |pick: fn(u64, u64) -> u64| seen.iter().map(|s| s.computed).reduce(pick).unwrap_or(0);
        prop_assert!(computed(u64::max) - computed(u64::min) <= 300, "{:?} for {:?}", seen, steps);
    }

    /// The device is never free while somebody waits, and has one holder.
    #[test]
    fn while_somebody_waits_somebody_computes(
        acts in prop::collection::vec((0usize..6, 0usize..4, 0usize..3, 0u64..50), 0..200),
    ) {
        let mut turns = Turns::default();
        let mut ids: Vec<MemberId> = (0..4).map(|_| turns.join(ms(100))).collect();
        let mut now = 0;
        for (act, who, urgency, later) in acts {
            now += later;
            let (id, urgency) = (ids[who], Urgency::ALL[urgency]);
            match act {
                0 | 1 => drop(turns.ask(id, urgency, ms(now))),
                2 if turns.holds(id) => drop(turns.renew(id, urgency, ms(now))),
                3 => drop(turns.release(id, ms(now))),
                4 => drop(turns.rest(id, ms(now))),
                5 => {
                    turns.leave(id, ms(now));
                    ids[who] = turns.join(ms(100));
                }
                _ => drop(turns.outranked(id, ms(now))),
            }
            let waits = turns.members.iter().any(Member::waits);
            prop_assert!(!waits || turns.holder.is_some());
            prop_assert_eq!(turns.len(), 4);
            let computed: Duration = ids.iter().map(|id| turns.totals(*id).computed).sum();
            prop_assert!(computed <= ms(now));
        }
    }
}
