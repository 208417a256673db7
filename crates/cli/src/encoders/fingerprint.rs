//! What an encoder's numbers depend on, as a short text: the model's files, the format, the tier, the numerics.

use cpu::Tier;

use super::Format;

/// Raised when the same weights on the same tier give other numbers than before: kernels, pooling, heads.
const NUMERICS: u32 = 2;
/// Digits of the files' digest in a fingerprint.
const DIGITS: usize = 16;

/// The digest of a model's files as fingerprints and notes have it.
pub(super) fn short(digest: &str) -> String {
    digest.chars().take(DIGITS).collect()
}

/// The fingerprint, as `3f2a9c0d11e85b47.int8.avx2.2`.
pub(super) fn of(digest: &str, format: Format, tier: Tier) -> String {
    format!("{digest}.{}.{tier}.{NUMERICS}", format.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_has_the_beginning_of_the_digest() {
        assert_eq!(
            of(&short(&"0ab1".repeat(16)), Format::Bf16, Tier::Scalar),
            "0ab10ab10ab10ab1.bf16.scalar.2"
        );
    }
}
