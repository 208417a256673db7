//! What the provider bills.

use crate::client::{CHAT, chat, open, post, read};
use fake_provider::{Fault, Outcome, Price, Provider, Script, Usage, When};
use std::time::Duration;

const PRICE: Price = Price { input: 150_000, cached_input: 75_000, output: 600_000 };

/// 8 characters, which are 2 tokens.
const PROMPT: &str = "12345678";

#[tokio::test]
async fn a_bill_is_the_sum_of_its_records() {
    let script = Script { cached_tokens: 1, ..Script::new().tokens(10).price(PRICE) };
    let script = script.fault(When::requests([2]), Fault::status(500));
    let provider = Provider::start(script).await.unwrap();
    for _ in 0..3 {
        post(provider.addr(), CHAT, &chat(PROMPT, false)).await;
    }
    let totals = provider.totals();
    assert_eq!((totals.attempts, totals.completed, totals.failed), (3, 2, 1));
    assert_eq!(totals.usage, Usage { prompt: 4, cached: 2, output: 20 });
    assert_eq!(totals.billed, 2 * (150_000 + 75_000 + 10 * 600_000));
    assert_eq!(provider.log().iter().map(|record| record.billed).sum::<u128>(), totals.billed);
}

/// Reads the beginning of a stream of 1,000 tokens, and leaves.
async fn left_early(script: Script) -> fake_provider::Record {
    let provider = Provider::start(script.tokens(1_000).pace(0, 2).price(PRICE)).await.unwrap();
    let mut stream = open(provider.addr(), "POST", CHAT, "", &chat(PROMPT, true).to_string()).await;
    let mut buffer = [0; 1_024];
    tokio::io::AsyncReadExt::read_exact(&mut stream, &mut buffer).await.unwrap();
    drop(stream);
    let totals = provider.settled(Duration::from_secs(20)).await;
    assert_eq!((totals.cancelled, totals.running), (1, 0));
    provider.log().remove(0)
}

#[tokio::test]
async fn a_client_that_leaves_pays_what_was_generated() {
    let record = left_early(Script::new()).await;
    assert_eq!(record.outcome, Outcome::Cancelled);
    assert!((1..1_000).contains(&record.usage.output), "{:?}", record.usage);
    assert_eq!(record.billed, PRICE.of(record.usage));
    let record = left_early(Script { bill_to_the_end: true, ..Script::new() }).await;
    assert_eq!(record.usage.output, 1_000);
}

#[tokio::test]
async fn what_no_client_saw_may_be_billed() {
    let script = Script::new().tokens(10).price(PRICE);
    let script =
        script.billed_fault(When::requests([1]), Fault::Reset).fault(When::requests([2]), Fault::Reset);
    let provider = Provider::start(script).await.unwrap();
    for _ in 0..2 {
        let mut stream = open(provider.addr(), "POST", CHAT, "", &chat(PROMPT, false).to_string()).await;
        assert_eq!(read(&mut stream, Duration::from_secs(20)).await.head, "");
    }
    let billed: Vec<u128> = provider.log().iter().map(|record| record.billed).collect();
    assert_eq!(billed, [2 * 150_000 + 10 * 600_000, 0]);
}

#[tokio::test]
async fn the_log_forgets_the_oldest() {
    let provider = Provider::start(Script { log_records: 2, ..Script::new() }).await.unwrap();
    for _ in 0..5 {
        post(provider.addr(), CHAT, &chat(PROMPT, false)).await;
    }
    let numbers: Vec<u64> = provider.log().iter().map(|record| record.number).collect();
    assert_eq!(numbers, [4, 5]);
    assert!(provider.log().iter().all(|record| record.outcome == Outcome::Completed));
    assert_eq!((provider.totals().forgotten, provider.totals().completed), (3, 5));
}
