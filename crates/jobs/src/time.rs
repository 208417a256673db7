//! Time as the crate counts it. Nothing here reads a clock.

/// A time in Unix milliseconds.
pub type Millis = i64;

/// Milliseconds of a second.
pub const SECOND: Millis = 1_000;
/// Milliseconds of a minute.
pub const MINUTE: Millis = 60 * SECOND;

/// Whole Unix seconds of a time.
pub fn seconds(time: Millis) -> i64 {
    time.div_euclid(SECOND)
}
