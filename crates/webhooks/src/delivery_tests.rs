//! Tests of deliveries.

use super::*;
use crate::event::EventType;
use proptest::prelude::*;

const NOW: Millis = 1_700_000_000_000;

fn delivery() -> Delivery {
    let event = Event::new(EventType::JobSucceeded, "job_1", NOW, 1);
    Delivery::new("ann", Receiver::Endpoint("we_1".to_owned()), event, NOW, 2)
}

fn answered(status: u16) -> Attempt {
    Attempt { result: Ok(status), retry_after: None, millis: 12 }
}

/// Begins and settles an attempt.
fn attempt(delivery: &mut Delivery, attempt: &Attempt, now: Millis) -> Consequence {
    delivery.begin(now).unwrap();
    assert_eq!((delivery.state, delivery.next_at), (State::Sending, None));
    delivery.settle(attempt, now, 200).unwrap()
}

#[test]
fn every_answer_of_2xx_is_a_delivery_and_no_other_is() {
    for status in 100..600 {
        let mut delivery = delivery();
        let consequence = attempt(&mut delivery, &answered(status), NOW);
        let delivered = (200..300).contains(&status);
        assert_eq!(delivery.state == State::Delivered, delivered, "{status}");
        assert_eq!(consequence == Consequence::Healthy, delivered, "{status}");
        assert_eq!(delivery.last_error.is_none(), delivered, "{status}");
        assert_eq!((delivery.last_status, delivery.last_ms), (Some(status), Some(12)));
    }
}

#[test]
fn ten_attempts_are_made_in_some_75_hours() {
    let mut delivery = delivery();
    let mut now = NOW;
    for n in 1..=10 {
        assert_eq!(delivery.next_at, Some(now));
        let failed = Attempt { result: Err("no connection".to_owned()), retry_after: None, millis: 1 };
        assert_eq!(attempt(&mut delivery, &failed, now), Consequence::Failing);
        assert_eq!(delivery.attempt, n);
        now = delivery.next_at.unwrap_or(now);
    }
    assert_eq!(delivery.state, State::Dead);
    assert_eq!(delivery.last_error.as_deref(), Some("no connection"));
    assert_eq!(delivery.expires_at(), Some(now + KEPT));
    let hours = (now - NOW) as f64 / HOUR as f64;
    assert!((75.0..76.5).contains(&hours), "{hours} h");
    assert_eq!(
        delivery.begin(now).unwrap_err().to_string(),
        format!("the delivery {} is dead, so it cannot be sent", delivery.id)
    );
}

#[test]
fn pauses_are_spread_by_a_fifth() {
    let pause = |random| {
        let mut delivery = delivery();
        delivery.begin(NOW).unwrap();
        delivery.settle(&answered(500), NOW, random).unwrap();
        delivery.next_at.unwrap() - NOW
    };
    assert_eq!((pause(0), pause(200), pause(400), pause(401)), (4_000, 5_000, 6_000, 4_000));
    assert!((4_000..=6_000).contains(&pause(u64::MAX)));
}

#[test]
fn a_receiver_that_is_gone_is_told_so() {
    let mut delivery = delivery();
    assert_eq!(attempt(&mut delivery, &answered(410), NOW), Consequence::Gone);
    assert_eq!(delivery.state, State::Discarded);
}

#[test]
fn busy_receivers_may_ask_for_an_hour_at_most() {
    for (status, text, pause) in [
        (429, Some("30"), 30_000),
        (503, Some("999999999999999999999"), HOUR),
        (502, Some("Tue, 14 Nov 2023 22:14:20 GMT"), 60_000),
        (504, None, 0),
        (503, Some("-1"), 0),
        (503, Some("soon"), 0),
    ] {
        let mut delivery = delivery();
        let busy = Attempt { retry_after: text.map(str::to_owned), ..answered(status) };
        assert_eq!(attempt(&mut delivery, &busy, NOW), Consequence::Busy(NOW + pause), "{text:?}");
        assert_eq!(delivery.next_at, Some(NOW + pause.max(5_000)));
    }
    // Others may not.
    let mut other = delivery();
    let failed = Attempt { retry_after: Some("30".to_owned()), ..answered(500) };
    assert_eq!(attempt(&mut other, &failed, NOW), Consequence::Failing);
    assert_eq!(other.next_at, Some(NOW + 5_000));
}

#[test]
fn dates_are_those_of_the_rfc() {
    assert_eq!(http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777_000));
    assert_eq!(http_date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
    assert_eq!(http_date("Thu, 29 Feb 2024 23:59:59 GMT"), Some(1_709_251_199_000));
    assert_eq!(http_date("Fri, 01 Mar 2024 00:00:00 GMT"), Some(1_709_251_200_000));
    for no_date in [
        "",
        "x",
        "Sun, 06 Nov 1994 08:49 GMT",
        "Sun, 06 Nov 1994 08:49:37 CET",
        "Sun, 99 Nov 1994 08:49:37 GMT",
    ] {
        assert_eq!(http_date(no_date), None, "{no_date:?}");
    }
}

#[test]
fn a_server_that_dies_while_it_sends_costs_an_attempt() {
    let mut delivery = delivery();
    for n in 1..=10 {
        delivery.begin(NOW).unwrap();
        assert_eq!(delivery.attempt, n);
    }
    assert!(delivery.begin(NOW).is_err());
    assert_eq!(delivery.state, State::Dead);
}

#[test]
fn a_postponed_attempt_does_not_count() {
    let mut delivery = delivery();
    delivery.begin(NOW).unwrap();
    delivery.postpone(NOW + 9).unwrap();
    assert_eq!((delivery.state, delivery.attempt, delivery.next_at), (State::Pending, 0, Some(NOW + 9)));
}

#[test]
fn ended_deliveries_are_replayed_from_the_beginning() {
    let mut delivery = delivery();
    attempt(&mut delivery, &answered(200), NOW);
    delivery.replay(NOW + 1).unwrap();
    assert_eq!((delivery.state, delivery.attempt, delivery.next_at), (State::Pending, 0, Some(NOW + 1)));
    assert_eq!(delivery.expires_at(), None);
    delivery.begin(NOW + 2).unwrap();
    assert_eq!(delivery.replay(NOW).unwrap_err().wanted, "replayed");
    delivery.settle(&answered(500), NOW, 200).unwrap();
    delivery.replay(NOW + 3).unwrap();
    assert_eq!((delivery.attempt, delivery.next_at), (1, Some(NOW + 3)));
}

#[test]
fn an_endpoint_that_is_deleted_discards_its_deliveries() {
    let mut delivery = delivery();
    delivery.discard("the endpoint was deleted", NOW).unwrap();
    assert_eq!(delivery.state, State::Discarded);
    assert!(delivery.discard("again", NOW).is_err());
    assert!(delivery.settle(&answered(200), NOW, 0).is_err());
}

#[test]
fn abuse_errors_are_short_and_without_control_characters() {
    let mut delivery = delivery();
    let failed = Attempt { result: Err("é\n\u{1b}[31m".repeat(100)), retry_after: None, millis: 1 };
    attempt(&mut delivery, &failed, NOW);
    let error = delivery.last_error.unwrap();
    assert_eq!(error.chars().count(), 200);
    assert!(!error.contains(char::is_control));
}

#[test]
fn a_delivery_is_kept_as_a_document_and_shown_as_an_object() {
    let mut delivery = delivery();
    attempt(&mut delivery, &answered(302), NOW);
    let kept = serde_json::to_string(&delivery).unwrap();
    assert_eq!(serde_json::from_str::<Delivery>(&kept).unwrap(), delivery);
    let object = delivery.object();
    assert_eq!(object["endpoint"], "we_1");
    assert_eq!(object["state"], "pending");
    assert_eq!(object["next_at"], 1_700_000_005);
    assert_eq!(object["last_error"], "the receiver answered 302; redirects are not followed");
    assert_eq!(object["event"]["type"], "job.succeeded");
}

/// What can happen to a delivery.
#[derive(Clone, Debug)]
enum Call {
    Begin,
    Settle(Result<u16, String>, Option<String>, u64),
    Discard,
    Postpone(Millis),
    Replay,
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let result = prop_oneof![(100_u16..600).prop_map(Ok), ".*".prop_map(Err)];
    let pause = proptest::option::of(prop_oneof!["[0-9]{1,20}".boxed(), ".{0,40}".boxed()]);
    let settle =
        (result, pause, any::<u64>()).prop_map(|(result, pause, random)| Call::Settle(result, pause, random));
    let call = prop_oneof![
        4 => Just(Call::Begin),
        4 => settle,
        1 => Just(Call::Discard),
        1 => (0..HOUR).prop_map(Call::Postpone),
        1 => Just(Call::Replay),
    ];
    proptest::collection::vec(call, 0..60)
}

proptest! {
    #[test]
    fn whatever_happens_a_delivery_stays_in_order(calls in calls()) {
        let mut delivery = delivery();
        let mut now = NOW;
        for call in calls {
            let before = delivery.clone();
            let refused = match call {
                Call::Begin => delivery.begin(now).is_err() && before.attempt < 10,
                Call::Settle(result, retry_after, random) => {
                    delivery.settle(&Attempt { result, retry_after, millis: 1 }, now, random).is_err()
                }
                Call::Discard => delivery.discard("gone", now).is_err(),
                Call::Postpone(pause) => delivery.postpone(now + pause).is_err(),
                Call::Replay => delivery.replay(now).is_err(),
            };
            prop_assert!(!refused || delivery == before, "a refused call changes nothing");
            prop_assert!(delivery.attempt <= 10);
            prop_assert_eq!(delivery.ended_at.is_some(), delivery.state.is_terminal());
            prop_assert_eq!(delivery.next_at.is_some(), delivery.state == State::Pending);
            prop_assert!(delivery.next_at.is_none_or(|due| (now..=now + 29 * HOUR).contains(&due) || before.next_at == Some(due)));
            prop_assert!(delivery.last_error.as_ref().is_none_or(|error| error.chars().count() <= 200));
            now = delivery.next_at.unwrap_or(now).max(now);
        }
    }

    #[test]
    fn no_retry_after_is_longer_than_an_hour(text: String) {
        prop_assert!(retry_after(&text, NOW).is_none_or(|pause| (0..=HOUR).contains(&pause)));
    }
}

#[test]
fn dates_are_those_of_python() {
    let rows: Vec<(String, i64)> =
        serde_json::from_str(include_str!("../tests/fixtures/dates.json")).unwrap();
    assert_eq!(rows.len(), 200);
    for (text, seconds) in rows {
        assert_eq!(http_date(&text), Some(seconds * 1_000), "{text}");
    }
}
