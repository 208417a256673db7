//! Exact amounts of money: fixed-point numbers in units of 1e-12 of the currency.
//!
//! A price of 0.075 a million tokens is 75e-9 a token, so sums and products with integers are exact. Quotients by a
//! measured rate are rounded once, to 1e-12. Text is rounded half away from zero.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Neg, Sub};

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};

use crate::error::Error;

const UNIT: i128 = 1_000_000_000_000;
/// Decimal places of [`UNIT`].
const PLACES: usize = 12;

/// An amount in the plan's currency, in units of 1e-12.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(i128);

impl Money {
    /// The amount 0.
    pub const ZERO: Money = Money(0);

    /// The amount of the shortest decimal that rounds to `value`. NaN becomes zero; larger absolute values than 1e18
    /// are clamped to that.
    #[must_use]
    pub fn from_f64(value: f64) -> Money {
        let most = Money(UNIT * 1_000_000_000_000_000_000);
        match Money::parse(&value.to_string()) {
            Some(amount) => amount,
            None if value.is_nan() => Money::ZERO,
            None if value < 0.0 => -most,
            None => most,
        }
    }

    /// The amount in `text`: digits, a point, digits. Commas between thousands are skipped. None for other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Money> {
        let plain: String = text.trim().chars().filter(|c| *c != ',').collect();
        let (negative, digits) = match plain.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, plain.as_str()),
        };
        let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
        let all_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if digits.is_empty() || digits == "." || !all_digits(whole) || !all_digits(part) || whole.len() > 18 {
            return None;
        }
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let mut amount = whole * UNIT;
        let mut worth = UNIT / 10;
        for digit in part.bytes().take(PLACES) {
            amount += i128::from(digit - b'0') * worth;
            worth /= 10;
        }
        if part.as_bytes().get(PLACES).is_some_and(|next| *next >= b'5') {
            amount += 1;
        }
        Some(Money(if negative { -amount } else { amount }))
    }

    /// The amount in units of the currency, for plots and ratios.
    #[must_use]
    pub fn value(self) -> f64 {
        self.0 as f64 / UNIT as f64
    }

    /// The amount times `factor`, rounded to 1e-12.
    #[must_use]
    pub fn times(self, factor: f64) -> Money {
        Money((self.0 as f64 * factor).round() as i128)
    }

    /// The amount times `count`, exactly.
    #[must_use]
    pub fn times_int(self, count: u64) -> Money {
        Money(self.0.saturating_mul(i128::from(count)))
    }

    /// The price of `tokens` tokens where `self` is the price of a million, rounded to 1e-12.
    #[must_use]
    pub fn per_million(self, tokens: u64) -> Money {
        Money(divide(self.0.saturating_mul(i128::from(tokens)), 1_000_000))
    }

    /// `self` divided by `other`; none when `other` is zero.
    #[must_use]
    pub fn ratio(self, other: Money) -> Option<f64> {
        (other.0 != 0).then(|| self.0 as f64 / other.0 as f64)
    }

    /// The amount as text with `places` decimals and thousands separators: `1,234,567.80`.
    #[must_use]
    pub fn text(self, places: usize) -> String {
        let places = places.min(PLACES);
        let step = 10_i128.pow((PLACES - places) as u32);
        let rounded = divide(self.0, step);
        let (sign, digits) = (if rounded < 0 { "-" } else { "" }, rounded.unsigned_abs());
        let scale = 10_u128.pow(places as u32);
        let whole = thousands(digits / scale);
        if places == 0 {
            return format!("{sign}{whole}");
        }
        format!("{sign}{whole}.{:0places$}", digits % scale)
    }
}

/// The quotient, rounded to the nearest integer, halves away from zero.
fn divide(amount: i128, by: i128) -> i128 {
    let (quotient, rest) = (amount / by, amount % by);
    if rest.abs() * 2 >= by { quotient + rest.signum() } else { quotient }
}

/// A number with thousands separators: `1,234,567`.
#[must_use]
pub fn thousands(number: u128) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

impl Add for Money {
    type Output = Money;
    fn add(self, other: Money) -> Money {
        Money(self.0.saturating_add(other.0))
    }
}

impl Sub for Money {
    type Output = Money;
    fn sub(self, other: Money) -> Money {
        Money(self.0.saturating_sub(other.0))
    }
}

impl Neg for Money {
    type Output = Money;
    fn neg(self) -> Money {
        Money(self.0.saturating_neg())
    }
}

impl Sum for Money {
    fn sum<I: Iterator<Item = Money>>(amounts: I) -> Money {
        amounts.fold(Money::ZERO, Add::add)
    }
}

/// Serialized as a number with at most six decimals.
impl Serialize for Money {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(divide(self.0, UNIT / 1_000_000) as f64 / 1e6)
    }
}

/// Deserialized from a number, or text such as `"1,234.50"`. A float is read as the shortest decimal that rounds to it.
impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Money, D::Error> {
        struct Amount;
        impl Visitor<'_> for Amount {
            type Value = Money;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an amount of money")
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Money, E> {
                self.visit_str(&value.to_string())
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Money, E> {
                Ok(Money(i128::from(value) * UNIT))
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Money, E> {
                Ok(Money(i128::from(value) * UNIT))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Money, E> {
                Money::parse(text).ok_or_else(|| E::custom(format!("`{text}` is no amount of money")))
            }
        }
        deserializer.deserialize_any(Amount)
    }
}

/// A currency, by its three letters (ISO 4217). Every amount in a report names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Currency([u8; 3]);

impl Currency {
    /// United States dollars, in which most published prices are.
    pub const USD: Currency = Currency(*b"USD");

    /// The currency with this code of three capital letters.
    ///
    /// # Errors
    /// Any other text.
    pub fn named(name: &str) -> Result<Currency, Error> {
        match name.as_bytes() {
            &[a, b, c] if [a, b, c].iter().all(u8::is_ascii_uppercase) => Ok(Currency([a, b, c])),
            _ => Err(Error::Range {
                field: "currency".to_owned(),
                value: format!("`{name}`"),
                expected: "names of three capital letters, such as USD".to_owned(),
            }),
        }
    }

    /// The currency's three letters.
    #[must_use]
    pub fn name(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("???")
    }

    /// An amount with two decimals and the currency: `1,234.50 USD`.
    #[must_use]
    pub fn show(&self, amount: Money) -> String {
        format!("{} {}", amount.text(2), self.name())
    }

    /// A small amount, such as the price of a request: at least two decimals, up to four significant digits.
    #[must_use]
    pub fn show_small(&self, amount: Money) -> String {
        let size = amount.value().abs();
        let places =
            if size >= 1.0 || size == 0.0 { 2 } else { (3 - size.log10().floor() as i32).clamp(2, 9) };
        let mut text = amount.text(places as usize);
        let least = text.find('.').map_or(text.len(), |point| point + 3);
        text.truncate(text.trim_end_matches('0').len().max(least));
        format!("{text} {}", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::{Currency, Money};
    use proptest::prelude::*;

    #[test]
    fn two_places_and_thousands() {
        let text = |value: &str| Money::parse(value).unwrap().text(2);
        assert_eq!(text("1234567.8"), "1,234,567.80");
        assert_eq!(text("0"), "0.00");
        assert_eq!(text("999.995"), "1,000.00");
        assert_eq!(text("-0.005"), "-0.01");
        assert_eq!(text("-0.004"), "0.00", "no minus before nothing");
        assert_eq!(text("1.005"), "1.01", "the float nearest to 1.005 is below it");
        assert_eq!(text("2.675"), "2.68");
        assert_eq!(text("-1234.5"), "-1,234.50");
        assert_eq!(Money::from_f64(1e9).text(0), "1,000,000,000");
        assert_eq!(Currency::USD.show(Money::from_f64(0.1 + 0.2)), "0.30 USD");
    }

    #[test]
    fn small_amounts_are_seen() {
        let show = |value| Currency::USD.show_small(Money::parse(value).unwrap());
        assert_eq!(show("0.000255"), "0.000255 USD");
        assert_eq!(show("0.0125"), "0.0125 USD");
        assert_eq!(show("3.6574"), "3.66 USD");
        assert_eq!(
            (show("0.2").as_str(), show("0").as_str(), show("-0.5").as_str()),
            ("0.20 USD", "0.00 USD", "-0.50 USD")
        );
    }

    #[test]
    fn prices_of_tokens_are_exact() {
        let price = Money::parse("0.075").unwrap();
        assert_eq!(price.per_million(1), Money::parse("0.000000075").unwrap());
        assert_eq!(price.per_million(u64::from(u32::MAX)).text(6), "322.122547");
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for text in ["", "-", ".", "1.2.3", "1e5", "12 USD", "nan", "99999999999999999999"] {
            assert_eq!(Money::parse(text), None, "{text}");
        }
        assert!(Currency::named("usd").is_err() && Currency::named("EURO").is_err());
        assert_eq!(Currency::named("EUR").unwrap().show(Money::from_f64(2.0)), "2.00 EUR");
    }

    #[test]
    fn json_has_plain_numbers() {
        let json = |text: &str| serde_json::to_string(&Money::parse(text).unwrap()).unwrap();
        assert_eq!(json("3.657407407"), "3.657407");
        assert_eq!(json("0.1"), "0.1");
        let read: Money = serde_json::from_str("0.15").unwrap();
        assert_eq!(read, Money::parse("0.15").unwrap());
        assert_eq!(serde_json::from_str::<Money>("\"1,000.5\"").unwrap().text(2), "1,000.50");
    }

    proptest! {
        #[test]
        fn text_means_the_amount(cents in -1_000_000_000_000_i64..1_000_000_000_000) {
            let amount = Money::parse(&format!("{}{}.{:02}", if cents < 0 { "-" } else { "" },
                cents.unsigned_abs() / 100, cents.unsigned_abs() % 100)).unwrap();
            prop_assert_eq!(Money::parse(&amount.text(2)).unwrap(), amount);
            prop_assert_eq!(amount, Money::from_f64(cents as f64 / 100.0));
        }
    }
}
