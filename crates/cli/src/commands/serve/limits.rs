//! How much is let in. What nobody sets follows from the machine and the model.

use std::time::Duration;

use cpu::Tier;

use super::door;
use crate::Failure;

/// Answers computed at once for each thread: a row more in a step costs little until there are about as many.
const ANSWERS_A_THREAD: usize = 4;
/// However few threads there are, some short answers can overtake a long one.
const FEWEST_ANSWERS: usize = 8;
/// Past it more streams only make each of them slower.
const MOST_ANSWERS: usize = 64;
/// Answers that wait for each that is computed.
const QUEUED_AN_ANSWER: usize = 8;
/// However slow the machine is: a few prompts of ordinary length.
const FEWEST_QUEUED_TOKENS: usize = 4096;
/// However fast it is, and where any wait is allowed.
const MOST_QUEUED_TOKENS: usize = 1 << 20;

#[derive(clap::Args)]
#[command(next_help_heading = "Limits")]
pub(super) struct Limits {
    /// Answers computed at once [default: 4 a thread, but 8 to 64].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    parallel: Option<u16>,

    /// Answers that may wait; past it the server says 429 [default: 8 for each of --parallel].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=8192))]
    max_queued: Option<u16>,

    /// Seconds that a request may have to wait before it begins, by estimate; past it the server says 429. 0 lets all wait.
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS", value_parser = door::seconds)]
    max_wait: f64,

    /// Prompt tokens that may wait, all requests together; past it the server says 429 [default: about what this machine
    /// reads in --max-wait].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_queued_tokens: Option<u32>,

    /// Milliseconds that a running answer should wait at most for its next token while prompts are read beside it.
    #[arg(long, default_value_t = 100, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    max_stall_ms: u32,

    /// Open connections; past it the server says 503.
    #[arg(long, default_value_t = 1024, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    max_connections: u32,

    /// Bytes of a request's body, as 4M or 4194304; past it the server says 413.
    #[arg(long, default_value = "4M", value_name = "BYTES", value_parser = door::bytes)]
    max_body: u64,

    /// Seconds that running answers get to finish after Ctrl-C or SIGTERM; a second signal ends at once.
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = clap::value_parser!(u16))]
    drain_timeout: u16,
}

impl Limits {
    /// Answers computed at once by `threads` threads.
    pub(super) fn parallel(&self, threads: usize) -> usize {
        let own = || (ANSWERS_A_THREAD * threads).clamp(FEWEST_ANSWERS, MOST_ANSWERS);
        self.parallel.map_or_else(own, usize::from)
    }

    /// Answers that are computed or wait.
    pub(super) fn requests(&self, threads: usize) -> usize {
        let parallel = self.parallel(threads);
        parallel + self.max_queued.map_or(QUEUED_AN_ANSWER * parallel, usize::from)
    }

    /// Prompt tokens that may wait, of a model that multiplies so often for each.
    pub(super) fn queued_tokens(&self, tier: Tier, threads: usize, multiply_adds: u64) -> usize {
        if let Some(tokens) = self.max_queued_tokens {
            return tokens as usize;
        }
        let Some(wait) = self.longest_wait() else { return MOST_QUEUED_TOKENS };
        let a_second = multiply_adds_a_second(tier) * threads as f64 / multiply_adds.max(1) as f64;
        // Saturates.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count above 0")]
        let tokens = (wait.as_secs_f64() * a_second) as usize;
        tokens.clamp(FEWEST_QUEUED_TOKENS, MOST_QUEUED_TOKENS)
    }

    /// Tokens that may wait, if a flag says so.
    pub(super) fn asked_tokens(&self) -> Option<usize> {
        self.max_queued_tokens.map(|tokens| tokens as usize)
    }

    /// None lets all wait.
    pub(super) fn longest_wait(&self) -> Option<Duration> {
        (self.max_wait > 0.0).then(|| Duration::from_secs_f64(self.max_wait))
    }

    pub(super) fn max_stall(&self) -> Duration {
        Duration::from_millis(self.max_stall_ms.into())
    }

    pub(super) fn connections(&self) -> usize {
        self.max_connections as usize
    }

    /// # Errors
    /// A number that no body can have.
    pub(super) fn body_bytes(&self) -> Result<usize, Failure> {
        let bytes = usize::try_from(self.max_body).unwrap_or(usize::MAX);
        if (1024..=1 << 30).contains(&bytes) {
            return Ok(bytes);
        }
        Err(Failure::usage(format!("--max-body {bytes} is outside 1024..=1073741824")))
    }

    pub(super) fn drain(&self) -> Duration {
        Duration::from_secs(self.drain_timeout.into())
    }
}

/// What a thread multiplies in reading prompts, rounded down from docs/performance.md (NEON's was never measured). Rough is
/// enough for a bound; what a request really waits is estimated from what the server has seen.
fn multiply_adds_a_second(tier: Tier) -> f64 {
    match tier {
        Tier::Avx512 | Tier::Amx | Tier::AmxFp16 => 60e9,
        Tier::Avx2 => 25e9,
        Tier::Neon => 20e9,
        Tier::Scalar => 1e9,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        flags: Limits,
    }

    fn flags(words: &[&str]) -> Limits {
        Line::try_parse_from([&["serve"], words].concat()).unwrap().flags
    }

    #[test]
    fn limits_follow_from_the_machine() {
        let own = flags(&[]);
        assert_eq!([1, 2, 8, 64].map(|threads| own.parallel(threads)), [8, 8, 32, 64]);
        assert_eq!([2, 8].map(|threads| own.requests(threads)), [72, 288]);
        // 120 G multiply-adds a second for 60 s, 0.5 G a token.
        assert_eq!(own.queued_tokens(Tier::Avx512, 2, 500_000_000), 14_400);
        assert_eq!(own.queued_tokens(Tier::Scalar, 1, 8_000_000_000), FEWEST_QUEUED_TOKENS);
        assert_eq!(own.queued_tokens(Tier::Avx512, 96, 1_000_000), MOST_QUEUED_TOKENS);
    }

    #[test]
    fn what_is_said_counts() {
        let said = flags(&["--parallel", "3", "--max-queued", "5", "--max-queued-tokens", "7"]);
        assert_eq!((said.parallel(16), said.requests(16)), (3, 8));
        assert_eq!(said.queued_tokens(Tier::Avx512, 2, 1), 7);
        let patient = flags(&["--max-wait", "0"]);
        assert_eq!(patient.longest_wait(), None);
        assert_eq!(patient.queued_tokens(Tier::Avx2, 2, 8_000_000_000), MOST_QUEUED_TOKENS);
        let short = flags(&["--max-wait", "30"]);
        assert_eq!(short.queued_tokens(Tier::Avx512, 2, 500_000_000), 7_200);
    }

    #[test]
    fn a_body_has_bounds() {
        assert_eq!(flags(&["--max-body", "1K"]).body_bytes().ok(), Some(1024));
        for bad in ["1023", "2G"] {
            let message = flags(&["--max-body", bad]).body_bytes().unwrap_err().message;
            assert!(message.contains("1024..=1073741824"), "{message}");
        }
    }
}
