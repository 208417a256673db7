//! A bound on the memory of a parsed body, checked before parsing.

use crate::Fault;
use crate::limits::{BODY_VALUES, VALUES_OF_AN_OBJECT};

/// Checks that a body has at most [`BODY_VALUES`] JSON values, where an object counts as [`VALUES_OF_AN_OBJECT`]. A
/// parsed number takes up to 72 bytes and an object some 600, so a body of `[0,0,…]` would take many times its size.
/// Does not check that the body is JSON. One pass over the bytes.
///
/// # Errors
/// A 413 with the count and the limit.
pub fn values(body: &[u8]) -> Result<(), Fault> {
    let (mut count, mut in_string, mut escaped) = (1_usize, false, false);
    for byte in body {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'[' if !in_string => count += 1,
            b'{' if !in_string => count += VALUES_OF_AN_OBJECT,
            _ => {}
        }
    }
    if count > BODY_VALUES { Err(Fault::too_many_values(count, BODY_VALUES)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_strings_counts_for_nothing() {
        let text = format!(r#"{{"prompt": "{}\"{}"}}"#, ",[{".repeat(BODY_VALUES), ",".repeat(99));
        assert_eq!(values(text.as_bytes()), Ok(()));
    }

    #[test]
    fn abuse_a2_many_values_are_refused_before_they_are_parsed() {
        let zeros = |n: usize| format!("[{}0]", "0,".repeat(n));
        assert_eq!(values(zeros(BODY_VALUES - 2).as_bytes()), Ok(()));
        let fault = values(zeros(BODY_VALUES).as_bytes()).unwrap_err();
        assert_eq!((fault.status, fault.code), (413, Some("body_too_complex")));
        assert!(fault.message.contains(&BODY_VALUES.to_string()), "{fault}");
        let objects = format!("[{}0]", r#"{"a":0},"#.repeat(BODY_VALUES / VALUES_OF_AN_OBJECT));
        assert!(values(objects.as_bytes()).is_err());
    }
}
