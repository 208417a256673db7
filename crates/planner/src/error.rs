//! What is wrong with a question, by the name of its field.

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A value that makes no sense.
    #[error("{field}: {value} is outside {expected}")]
    Range {
        /// As the input file names it, `own.utilization`.
        field: String,
        /// What it was.
        value: String,
        /// What is accepted.
        expected: String,
    },
    /// A value that the question needs and that is not guessed.
    #[error("{field} is missing: {why}")]
    Missing {
        /// As the input file names it.
        field: String,
        /// What it is for, and how to give it.
        why: String,
    },
    /// A name that no table has.
    #[error("{field}: no {what} is called `{name}`; there are: {known}")]
    Unknown {
        /// As the input file names it.
        field: String,
        /// `API model`, `machine`.
        what: &'static str,
        /// What was asked for.
        name: String,
        /// What there is, separated by commas.
        known: String,
    },
    /// Amounts of two currencies in one plan.
    #[error(
        "{field} is in {found} and the plan in {wanted}: give it in {wanted}, or set currency = \"{found}\""
    )]
    Currency {
        /// What is priced.
        field: String,
        /// Its currency.
        found: String,
        /// The plan's.
        wanted: String,
    },
    /// A service level that not even an empty machine keeps.
    #[error("{field}: {asked} is impossible: {limit}")]
    Impossible {
        /// As the input file names it.
        field: String,
        /// What was asked.
        asked: String,
        /// What the limit is, and of what.
        limit: String,
    },
    /// A list without entries.
    #[error("{what} is empty")]
    Empty {
        /// As the input file names it, or the file.
        what: String,
    },
    /// Text that is no plan.
    #[error("{what}: {detail}")]
    Text {
        /// Which text.
        what: String,
        /// What the reader says, on one line.
        detail: String,
    },
}

/// A number greater than zero, or an error that names the field.
pub(crate) fn positive(field: &str, value: f64) -> Result<f64, Error> {
    within(field, value, f64::MIN_POSITIVE, MOST, "numbers above 0 and up to 1e15")
}

/// A number of zero or more.
pub(crate) fn not_negative(field: &str, value: f64) -> Result<f64, Error> {
    within(field, value, 0.0, MOST, "numbers from 0 to 1e15")
}

/// A share of one, zero included.
pub(crate) fn share(field: &str, value: f64) -> Result<f64, Error> {
    within(field, value, 0.0, 1.0, "0 to 1")
}

/// A share of one that is divided by.
pub(crate) fn utilization(field: &str, value: f64) -> Result<f64, Error> {
    within(field, value, f64::MIN_POSITIVE, 1.0, "numbers above 0 and up to 1")
}

/// Numbers beyond this are typing mistakes, and would not print as money.
const MOST: f64 = 1e15;

fn within(field: &str, value: f64, low: f64, high: f64, expected: &str) -> Result<f64, Error> {
    if value.is_finite() && (low..=high).contains(&value) {
        return Ok(value);
    }
    Err(Error::Range { field: field.to_owned(), value: value.to_string(), expected: expected.to_owned() })
}

/// `value`, or an error that says what it is for.
pub(crate) fn needed<T>(field: &str, value: Option<T>, why: &str) -> Result<T, Error> {
    value.ok_or_else(|| Error::Missing { field: field.to_owned(), why: why.to_owned() })
}
