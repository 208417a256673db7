//! Learned answer lengths: a mean for each tenant, drawn to the mean of all while the tenant has few answers.

use crate::lru::Lru;

/// Tenants that are remembered.
const TENANTS: usize = 4096;
/// Mean assumed before the first answer, in tokens.
const ASSUMED: f64 = 256.0;
/// Answers of a tenant that weigh as much as the mean of all.
const PRIOR: f64 = 8.0;
/// The most answers that a mean stands for: it follows a change within about so many.
const MEMORY: f64 = 64.0;

#[derive(Clone, Copy, Default)]
struct Mean {
    count: f64,
    tokens: f64,
}

impl Mean {
    fn add(&mut self, tokens: f64) {
        self.count = (self.count + 1.0).min(MEMORY);
        self.tokens += (tokens - self.tokens) / self.count;
    }
}

/// Mean answer lengths of a route's tenants.
pub(crate) struct AnswerLengths {
    all: Mean,
    tenants: Lru<Mean>,
}

impl AnswerLengths {
    pub(crate) fn new() -> AnswerLengths {
        AnswerLengths { all: Mean { count: 1.0, tokens: ASSUMED }, tenants: Lru::new(TENANTS) }
    }

    /// The mean answer of all tenants, in tokens.
    pub(crate) fn mean(&self) -> f64 {
        self.all.tokens.max(1.0)
    }

    /// Tokens of a tenant's next answer, of which at most `max_tokens` are allowed.
    pub(crate) fn expected(&self, tenant: u64, max_tokens: u64) -> f64 {
        let own = self.tenants.peek(tenant).copied().unwrap_or_default();
        let drawn = (own.count * own.tokens + PRIOR * self.mean()) / (own.count + PRIOR);
        drawn.min(max_tokens as f64).max(1.0)
    }

    pub(crate) fn observe(&mut self, tenant: u64, tokens: u64) {
        self.all.add(tokens as f64);
        self.tenants.use_or_insert(tenant, Mean::default).add(tokens as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_is_known_after_some_answers_and_bounded_by_the_request() {
        let mut lengths = AnswerLengths::new();
        (0..200).for_each(|_| lengths.observe(1, 1000));
        (0..200).for_each(|_| lengths.observe(2, 10));
        assert!(lengths.expected(1, 4096) > 800.0, "{}", lengths.expected(1, 4096));
        assert!(lengths.expected(2, 4096) < 100.0);
        assert_eq!(lengths.expected(1, 50), 50.0);
        // A stranger has the mean of all.
        assert!((lengths.expected(3, 4096) - lengths.mean()).abs() < 1e-9);
        (0..100_000).for_each(|tenant| lengths.observe(tenant, 5));
        assert_eq!(lengths.tenants.len(), TENANTS);
    }
}
