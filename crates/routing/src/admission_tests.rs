#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn of(class: Class, key: u64) -> Applicant {
    Applicant { class, key, bytes: 100 }
}

fn queue(capacity: u32) -> Admission {
    Admission::new(AdmissionPolicy { max_waiting: 8, ..AdmissionPolicy::for_capacity(capacity) })
}

fn waits(offered: Offered) -> Ticket {
    match offered {
        Offered::Waits(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

#[test]
fn lower_classes_leave_capacity_for_higher_ones() {
    let mut queue = queue(10);
    let admitted = |queue: &mut Admission, class| {
        (0..20).filter(|_| queue.offer(s(0), &of(class, 1)) == Offered::Admitted).count()
    };
    assert_eq!(admitted(&mut queue, Class::Batch), 7);
    assert_eq!(queue.waiting(), 8);
    assert_eq!(admitted(&mut queue, Class::Standard), 2);
    assert_eq!(admitted(&mut queue, Class::Urgent), 1);
    // Eight places are free: batch fills them only up to its ceiling.
    (0..8).for_each(|_| queue.release(s(1), 1, 1.0));
    assert_eq!(std::iter::from_fn(|| queue.next(s(1))).count(), 5);
}

#[test]
fn a_full_queue_refuses_with_the_time_to_come_again() {
    let mut queue = queue(1);
    assert_eq!(queue.offer(s(0), &of(Class::Standard, 1)), Offered::Admitted);
    for _ in 0..8 {
        waits(queue.offer(s(0), &of(Class::Standard, 1)));
    }
    // A request takes four seconds.
    for at in 1..=3 {
        queue.release(s(4 * at), 1, 4.0);
        queue.next(s(4 * at)).unwrap();
        waits(queue.offer(s(4 * at), &of(Class::Standard, 1)));
    }
    let refused = queue.offer(s(12), &of(Class::Urgent, 1));
    assert_eq!(refused, Offered::Refused { retry_after: s(36), bound: Bound::Requests });
    let small = AdmissionPolicy { max_bytes: 150, ..AdmissionPolicy::for_capacity(1) };
    let mut queue = Admission::new(small);
    assert_eq!(queue.offer(s(0), &of(Class::Standard, 1)), Offered::Admitted);
    waits(queue.offer(s(0), &of(Class::Standard, 1)));
    let refused = queue.offer(s(0), &of(Class::Standard, 1));
    assert_eq!(refused, Offered::Refused { retry_after: s(1), bound: Bound::Bytes });
}

#[test]
fn the_key_with_the_least_service_goes_first_and_old_service_fades() {
    let mut queue = queue(2);
    for key in [1, 2] {
        assert_eq!(queue.offer(s(0), &of(Class::Urgent, key)), Offered::Admitted);
    }
    let heavy: Vec<Ticket> = (0..3).map(|_| waits(queue.offer(s(1), &of(Class::Urgent, 1)))).collect();
    let light = waits(queue.offer(s(2), &of(Class::Urgent, 2)));
    queue.release(s(3), 1, 50.0);
    assert_eq!(queue.next(s(3)), Some(light));
    queue.release(s(4), 2, 30.0);
    let again = waits(queue.offer(s(4), &of(Class::Urgent, 2)));
    // 50 seconds a while ago are less than 30 now.
    queue.release(s(304), 2, 30.0);
    assert_eq!(queue.next(s(304)), Some(heavy[0]));
    assert_eq!(queue.next(s(304)), Some(heavy[1]));
    queue.release(s(305), 2, 1.0);
    assert_ne!(queue.next(s(305)), Some(again));
}

#[test]
fn who_waits_long_goes_before_higher_classes_and_then_expires() {
    let mut queue = queue(1);
    assert_eq!(queue.offer(s(0), &of(Class::Urgent, 1)), Offered::Admitted);
    let batch = waits(queue.offer(s(0), &of(Class::Batch, 2)));
    let urgent = waits(queue.offer(s(10), &of(Class::Urgent, 1)));
    let left = waits(queue.offer(s(10), &of(Class::Standard, 3)));
    assert!(queue.cancel(left) && !queue.cancel(left));
    queue.release(s(31), 1, 1.0);
    assert_eq!(queue.next(s(31)), Some(batch));
    assert_eq!(queue.next(s(31)), None);
    assert!(queue.expire(s(69)).is_empty());
    assert_eq!(queue.expire(s(70)), [urgent]);
    assert_eq!((queue.waiting(), queue.waiting_bytes()), (0, 0));
}

proptest! {
    /// Every ticket ends once, and the bounds hold at each step.
    #[test]
    fn nothing_is_lost(steps in prop::collection::vec((0_u8..10, 0_usize..4, 0_u64..5), 1..400)) {
        let policy = AdmissionPolicy { max_waiting: 10, max_bytes: 1_000, ..AdmissionPolicy::for_capacity(4) };
        let mut queue = Admission::new(policy);
        let (mut open, mut running) = (BTreeSet::new(), 0);
        for (at, (what, class, key)) in steps.into_iter().enumerate() {
            let now = Duration::from_secs(at as u64 * 3);
            match what {
                0..=5 => match queue.offer(now, &of(Class::ALL[class], key)) {
                    Offered::Admitted => running += 1,
                    Offered::Waits(ticket) => prop_assert!(open.insert(ticket)),
                    Offered::Refused { retry_after, .. } => prop_assert!(retry_after >= s(1)),
                },
                6 | 7 if running > 0 => {
                    queue.release(now, key, 2.0);
                    running -= 1;
                }
                8 => {
                    let first = open.pop_first();
                    if let Some(ticket) = first {
                        prop_assert!(queue.cancel(ticket));
                    }
                }
                _ => for ticket in queue.expire(now) {
                    prop_assert!(open.remove(&ticket));
                },
            }
            while let Some(ticket) = queue.next(now) {
                prop_assert!(open.remove(&ticket));
                running += 1;
            }
            prop_assert_eq!((queue.running(), queue.waiting()), (running, open.len()));
            prop_assert_eq!(queue.waiting_bytes(), 100 * open.len() as u64);
            prop_assert!(running <= 4 && open.len() <= 10);
        }
    }
}
