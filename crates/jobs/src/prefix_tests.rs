#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn ordered(items: &[(String, u64)]) -> Order {
    let mut orderer = Orderer::default();
    for (number, (beginning, expected)) in (0..).zip(items) {
        orderer.add(number, beginning.as_bytes(), *expected);
    }
    orderer.finish()
}

fn numbers(order: &Order) -> Vec<u64> {
    order.ranks.iter().map(|rank| rank.0).collect()
}

/// A text of so many blocks, each of one letter.
fn text(letters: &str) -> String {
    letters.chars().map(|letter| letter.to_string().repeat(SMALL_BLOCK)).collect()
}

#[test]
fn requests_with_one_beginning_come_together() {
    let items: Vec<(String, u64)> =
        (0..9).map(|number| (text(["a", "b", "c"][number % 3]) + &number.to_string(), 10)).collect();
    let order = ordered(&items);
    assert_eq!(numbers(&order), [0, 3, 6, 1, 4, 7, 2, 5, 8]);
    assert_eq!(order.ranks.iter().map(|rank| rank.1).collect::<Vec<_>>(), (0..9).collect::<Vec<_>>());
    let bytes = SMALL_BLOCK as u64;
    assert_eq!(order.reuse, Reuse { total: 9 * (bytes + 1), shared: 6 * bytes });
    assert_eq!(order.reuse_as_added.shared, 0);
}

#[test]
fn long_answers_come_first_in_each_branch() {
    let items = [
        (text("ab"), 5),
        (text("x"), 50),
        (text("ac"), 100),
        (text("ab"), 9),
        (text("x"), 60),
        (text("a"), 70),
    ];
    assert_eq!(numbers(&ordered(&items)), [2, 5, 3, 0, 4, 1]);
}

#[test]
fn without_shared_beginnings_and_lengths_the_order_stays() {
    let items: Vec<(String, u64)> = (0..50).map(|number| (format!("{number} is a question"), 7)).collect();
    let order = ordered(&items);
    assert_eq!(numbers(&order), (0..50).collect::<Vec<_>>());
    assert_eq!(order.reuse.share(), 0.0);
}

#[test]
fn long_documents_are_told_apart_and_shared() {
    let document = "word ".repeat(40_000);
    let items = [(format!("{document}a"), 1), (format!("other{document}"), 1), (format!("{document}b"), 1)];
    let order = ordered(&items);
    assert_eq!(numbers(&order), [0, 2, 1]);
    assert!(order.reuse.share() > 0.3, "{:?}", order.reuse);
}

#[test]
fn equal_requests_share_all_of_it() {
    let items = vec![("short".to_owned(), 1); 4];
    assert_eq!(ordered(&items).reuse, Reuse { total: 20, shared: 15 });
    assert_eq!(ordered(&[]).ranks, []);
    assert_eq!(ordered(&[(String::new(), 0), (String::new(), 0)]).reuse.share(), 0.0);
}

#[test]
fn abuse_requests_beyond_the_bound_keep_their_order() {
    let mut orderer = Orderer::with_blocks(4);
    for (number, letters) in (0..).zip(["aa", "b", "aa", "b", "a"]) {
        orderer.add(number, text(letters).as_bytes(), 1);
    }
    assert_eq!(orderer.len(), 5);
    assert_eq!(numbers(&orderer.finish()), [0, 1, 2, 3, 4]);
}

#[test]
fn abuse_only_a_megabyte_is_looked_at() {
    let long = vec![b'a'; 3 << 20];
    let mut orderer = Orderer::default();
    orderer.add(0, &long, 1);
    orderer.add(1, &long, 1);
    assert!(orderer.items[0].blocks().len() < 400);
    let reuse = orderer.finish().reuse;
    assert_eq!((reuse.total, reuse.shared), (6 << 20, 1 << 20));
}

/// Shared blocks of neighbours, by the texts themselves.
fn shared(items: &[(String, u64)], order: &[u64]) -> usize {
    let text = |number: u64| &items[usize::try_from(number).unwrap()].0;
    order
        .windows(2)
        .map(|pair| {
            let (a, b) = (text(pair[0]).as_bytes(), text(pair[1]).as_bytes());
            a.chunks(SMALL_BLOCK)
                .zip(b.chunks(SMALL_BLOCK))
                .take_while(|(a, b)| a == b)
                .map(|(a, _)| a.len())
                .sum::<usize>()
        })
        .sum()
}

proptest! {
    #[test]
    fn an_order_has_each_request_once_and_shares_the_most(
        items in proptest::collection::vec(("[ab]{0,5}", 0..4_u64), 0..40),
    ) {
        let items: Vec<(String, u64)> = items.into_iter().map(|(letters, expected)| (text(&letters), expected)).collect();
        let order = ordered(&items);
        let numbers = numbers(&order);
        let all: BTreeSet<u64> = numbers.iter().copied().collect();
        prop_assert_eq!((all.len(), numbers.len()), (items.len(), items.len()));
        prop_assert_eq!(order.reuse.shared, shared(&items, &numbers) as u64);
        // In a tree, no order shares more than a sorted one: each edge is counted once less than it has requests.
        let mut sorted: Vec<u64> = (0..items.len() as u64).collect();
        sorted.sort_by_key(|number| &items[usize::try_from(*number).unwrap()].0);
        prop_assert_eq!(order.reuse.shared, shared(&items, &sorted) as u64);
        prop_assert!(order.reuse.shared >= order.reuse_as_added.shared);
    }
}
