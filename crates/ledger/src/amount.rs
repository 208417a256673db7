//! Money as an integer: nano units (1e-9) of the currency that the operator counts in.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::AddAssign;

/// Nano units in one unit of the currency.
const NANO: i64 = 1_000_000_000;

/// A non-negative sum of money in nano units, at most 9.2e9 units. Sums saturate, which closes a cap and never opens it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Amount(i64);

/// The reason why a text is not an [`Amount`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an amount: write units and at most nine decimals, such as 12.50, up to 9000000000")]
pub struct AmountError {
    text: String,
}

impl Amount {
    /// No money.
    pub const ZERO: Amount = Amount(0);

    /// The amount of so many nano units; negative numbers are zero.
    pub fn from_nano(nano: i64) -> Amount {
        Amount(nano.max(0))
    }

    /// The amount in nano units.
    pub fn nano(self) -> i64 {
        self.0
    }

    /// The amount of `count` units that cost `self` each, saturating.
    pub fn times(self, count: u64) -> Amount {
        let product = i128::from(self.0) * i128::from(count);
        Amount(i64::try_from(product).unwrap_or(i64::MAX))
    }

    /// The sum, saturating.
    pub fn plus(self, other: Amount) -> Amount {
        Amount(self.0.saturating_add(other.0))
    }

    /// The amount of a price per million items, rounded up: a bound must not be below the bill.
    pub fn per_million(self, count: u64) -> Amount {
        let product = i128::from(self.0) * i128::from(count);
        let rounded = (product + 999_999) / 1_000_000;
        Amount(i64::try_from(rounded).unwrap_or(i64::MAX))
    }

    /// Reads `12`, `12.5` or `0.000000001`.
    ///
    /// # Errors
    /// If the text has a sign, an exponent, more than nine decimals, or is beyond the range.
    pub fn parse(text: &str) -> Result<Amount, AmountError> {
        let error = || AmountError { text: text.chars().take(40).collect() };
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(decimals) || decimals.len() > 9 {
            return Err(error());
        }
        let units: i64 = whole.parse().map_err(|_| error())?;
        let nano: i64 = format!("{decimals:0<9}").parse().map_err(|_| error())?;
        units.checked_mul(NANO).and_then(|units| units.checked_add(nano)).map(Amount).ok_or_else(error)
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Amount) {
        *self = self.plus(other);
    }
}

impl fmt::Display for Amount {
    /// At least two decimals, and no trailing zeros beyond them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = format!("{:09}", self.0 % NANO);
        let short = decimals.trim_end_matches('0').len().max(2);
        write!(f, "{}.{}", self.0 / NANO, &decimals[..short])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_and_written_exactly() {
        for (text, nano, shown) in [
            ("12", 12_000_000_000, "12.00"),
            ("12.5", 12_500_000_000, "12.50"),
            ("0.000000001", 1, "0.000000001"),
            ("9223372036.854775807", i64::MAX, "9223372036.854775807"),
        ] {
            let amount = Amount::parse(text).unwrap();
            assert_eq!((amount.nano(), amount.to_string().as_str()), (nano, shown));
        }
        for wrong in ["", ".", "1.", ".5", "-1", "1e3", "1.0000000001", "9223372036.854775808", "1,5", "٣"] {
            assert!(Amount::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn prices_round_up_and_saturate() {
        // 0.15 a million: one token is 150 nano; 0.0000004 a million: one token is a fraction, rounded up.
        assert_eq!(Amount::parse("0.15").unwrap().per_million(1).nano(), 150);
        assert_eq!(Amount::from_nano(400).per_million(1).nano(), 1);
        assert_eq!(Amount::from_nano(i64::MAX).per_million(u64::MAX).nano(), i64::MAX);
        assert_eq!(Amount::from_nano(i64::MAX).times(3).nano(), i64::MAX);
    }
}
