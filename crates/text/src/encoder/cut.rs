//! How many tokens of each text are kept.

use super::options::{EncodeOptions, EncoderError, PairTruncation, TextTruncation};

/// Tokens to keep of the first and the second text, of `totals` tokens, where `allowed` fit.
///
/// # Errors
/// The texts are too long, and may not be cut or not enough.
pub(super) fn lengths(
    totals: (usize, Option<usize>),
    allowed: usize,
    special: usize,
    options: &EncodeOptions<'_>,
) -> Result<(usize, usize), EncoderError> {
    let (first, second) = (totals.0, totals.1.unwrap_or(0));
    let second = second.min(options.max_second.unwrap_or(usize::MAX));
    if first + second <= allowed {
        return Ok((first, second));
    }
    let limit = options.max_tokens;
    if options.truncation == TextTruncation::Refuse {
        return Err(EncoderError::TooLong { tokens: first + second + special, exact: true, limit });
    }
    if totals.1.is_none() {
        return Ok((allowed, 0));
    }
    match options.pair {
        PairTruncation::OnlySecond if first >= allowed => {
            Err(EncoderError::FirstTooLong { tokens: first + special, limit })
        }
        PairTruncation::OnlySecond => Ok((first, allowed - first)),
        PairTruncation::LongestFirst => Ok(longest_first(first, second, allowed)),
    }
}

/// Cuts the longer text to the length of the shorter, then both, as Hugging Face tokenizers does.
fn longest_first(first: usize, second: usize, allowed: usize) -> (usize, usize) {
    let short = first.min(second);
    // The longer text has more than what the shorter leaves, or nothing would be cut.
    let long = allowed.saturating_sub(short);
    let (short, long) = if long >= short { (short, long) } else { (allowed / 2, allowed - allowed / 2) };
    if first > second { (long, short) } else { (short, long) }
}
