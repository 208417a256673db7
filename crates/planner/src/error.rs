//! Errors of a plan, each with the name of the input field.

/// The reason why a plan cannot be computed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A value out of range.
    #[error("{field}: {value} is outside {expected}")]
    Range {
        /// The field's name in the input file: `own.utilization`.
        field: String,
        /// The value given.
        value: String,
        /// The range of accepted values, in words.
        expected: String,
    },
    /// A required value without a default.
    #[error("{field} is missing: {why}")]
    Missing {
        /// The field's name in the input file.
        field: String,
        /// What the value is for, and how to give it.
        why: String,
    },
    /// A name that no table has.
    #[error("{field}: no {what} is called `{name}`; there are: {known}")]
    Unknown {
        /// The field's name in the input file.
        field: String,
        /// The kind of entry: `API model`, `machine`.
        what: &'static str,
        /// The name that was not found.
        name: String,
        /// The names in the table, separated by commas.
        known: String,
    },
    /// Amounts of two currencies in one plan.
    #[error(
        "{field} is in {found} and the plan in {wanted}: give it in {wanted}, or set currency = \"{found}\""
    )]
    Currency {
        /// The priced item.
        field: String,
        /// The currency of its price.
        found: String,
        /// The currency of the plan.
        wanted: String,
    },
    /// A service level that even an idle machine misses.
    #[error("{field}: {asked} is impossible: {limit}")]
    Impossible {
        /// The field's name in the input file.
        field: String,
        /// The requested level.
        asked: String,
        /// The level that is possible, and under which conditions.
        limit: String,
    },
    /// A list without entries.
    #[error("{what} is empty")]
    Empty {
        /// The list's name in the input file, or the name of the file.
        what: String,
    },
    /// Text that cannot be parsed.
    #[error("{what}: {detail}")]
    Text {
        /// The name of the text: the plan with a line, a table file, a log with a line.
        what: String,
        /// The parser's message, on one line.
        detail: String,
    },
}

/// A number greater than zero, or an error that names the field.
pub(crate) fn positive(field: &str, value: f64) -> Result<f64, Error> {
    in_range(field, value, f64::MIN_POSITIVE, MAX_NUMBER, "numbers above 0 and up to 1e15")
}

/// A number of zero or more.
pub(crate) fn not_negative(field: &str, value: f64) -> Result<f64, Error> {
    in_range(field, value, 0.0, MAX_NUMBER, "numbers from 0 to 1e15")
}

/// A share from 0 to 1, zero included.
pub(crate) fn share(field: &str, value: f64) -> Result<f64, Error> {
    in_range(field, value, 0.0, 1.0, "0 to 1")
}

/// A share above 0 and up to 1, which may be a divisor.
pub(crate) fn utilization(field: &str, value: f64) -> Result<f64, Error> {
    in_range(field, value, f64::MIN_POSITIVE, 1.0, "numbers above 0 and up to 1")
}

/// The greatest accepted number. Larger ones are typing mistakes, and would not print as money.
const MAX_NUMBER: f64 = 1e15;

fn in_range(field: &str, value: f64, low: f64, high: f64, expected: &str) -> Result<f64, Error> {
    if value.is_finite() && (low..=high).contains(&value) {
        return Ok(value);
    }
    Err(Error::Range { field: field.to_owned(), value: value.to_string(), expected: expected.to_owned() })
}

/// The value of a required field, or [`Error::Missing`] with `why` it is required.
pub(crate) fn required<T>(field: &str, value: Option<T>, why: &str) -> Result<T, Error> {
    value.ok_or_else(|| Error::Missing { field: field.to_owned(), why: why.to_owned() })
}
