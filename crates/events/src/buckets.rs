//! vLLM's histogram buckets.

/// Time to first token, seconds.
pub(crate) const FIRST_TOKEN_S: [f64; 22] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
    80.0, 160.0, 640.0, 2560.0,
];

/// Between tokens, and per output token, seconds.
pub(crate) const TOKEN_S: [f64; 19] = [
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
];

/// A request's life and its parts, seconds.
pub(crate) const REQUEST_S: [f64; 21] = [
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
    960.0, 1920.0, 7680.0,
];

/// Rows of a step.
pub(crate) const ITERATION_TOKENS: [f64; 13] =
    [1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0];

/// Answers to a prompt.
pub(crate) const N: [f64; 5] = [1.0, 2.0, 5.0, 10.0, 20.0];

/// Preemptions of a request.
pub(crate) const PREEMPTIONS: [f64; 7] = [1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0];

/// Duration of a step (ours): a small model's decode to a large one's prefill chunk.
pub(crate) const STEP_S: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

/// Duration of a model's load, and of the wait for it (ours), seconds.
pub(crate) const LOAD_S: [f64; 13] =
    [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0];

/// HTTP durations, as prometheus-fastapi-instrumentator has them.
pub(crate) const HTTP_S: [f64; 3] = [0.1, 0.5, 1.0];

/// The same without labels, finer.
pub(crate) const HTTP_FINE_S: [f64; 21] = [
    0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 7.5, 10.0,
    30.0, 60.0,
];

/// 1, 2, 5, 10, … up to the context.
pub(crate) fn one_two_five(context: usize) -> Vec<f64> {
    let series = (0..18).flat_map(|e| [1_usize, 2, 5].map(|m| m * 10_usize.pow(e)));
    series.take_while(|v| *v <= context).map(|v| v as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_ends_at_the_context() {
        assert_eq!(one_two_five(60), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(one_two_five(100).last(), Some(&100.0));
        assert!(one_two_five(0).is_empty());
        assert_eq!(one_two_five(usize::MAX).len(), 54);
    }

    #[test]
    fn ascending() {
        for set in [
            &FIRST_TOKEN_S[..],
            &TOKEN_S,
            &REQUEST_S,
            &ITERATION_TOKENS,
            &N,
            &PREEMPTIONS,
            &STEP_S,
            &LOAD_S,
            &HTTP_FINE_S,
        ] {
            assert!(set.is_sorted_by(|a, b| a < b));
        }
    }
}
