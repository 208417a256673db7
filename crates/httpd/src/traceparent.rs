//! The trace that a request is part of, as its head says: `traceparent` and `tracestate` of W3C's Trace Context
//! <https://www.w3.org/TR/trace-context/>. What is not as it says there is as if it had not been sent.

use axum::http::HeaderMap;
use inference::TraceParent;

/// Bytes of `tracestate` that are kept; W3C asks for 512 at least.
const MAX_STATE_BYTES: usize = 4_096;
/// Bytes of a `traceparent` of the version that there is.
const BYTES: usize = 55;
/// The flags that the standard knows: sampled, and that the trace id is random.
const KNOWN_FLAGS: u8 = 0b11;

/// What a request's head says.
pub(crate) fn read(headers: &HeaderMap) -> Option<TraceParent> {
    let mut lines = headers.get_all("traceparent").iter();
    // Of two, nobody knows which is right.
    let (Some(line), None) = (lines.next(), lines.next()) else { return None };
    let mut parent = parse(line.as_bytes())?;
    parent.state = state(headers);
    Some(parent)
}

/// `00-<32 digits>-<16 digits>-<2 digits>`; a later version may go on after another dash.
fn parse(text: &[u8]) -> Option<TraceParent> {
    let (head, rest) = text.split_at_checked(BYTES)?;
    let dashes = [2, 35, 52].iter().all(|&at| head[at] == b'-');
    let [version] = digits(&head[..2])?;
    let ends = match version {
        0 => rest.is_empty(),
        255 => false,
        _ => rest.is_empty() || rest[0] == b'-',
    };
    let (trace_id, span_id) = (digits(&head[3..35])?, digits(&head[36..52])?);
    let [flags] = digits(&head[53..])?;
    let good = dashes && ends && trace_id != [0; 16] && span_id != [0; 8];
    good.then_some(TraceParent { trace_id, span_id, flags: flags & KNOWN_FLAGS, state: None })
}

/// Bytes of two digits each. Upper case is not allowed.
fn digits<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_chunks::<2>().0) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

fn state(headers: &HeaderMap) -> Option<String> {
    let lines: Option<Vec<&str>> =
        headers.get_all("tracestate").iter().map(|line| line.to_str().ok()).collect();
    let state = lines?.join(",");
    (!state.is_empty() && state.len() <= MAX_STATE_BYTES).then_some(state)
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn head(lines: &[(&'static str, &str)]) -> HeaderMap {
        let line = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        lines.iter().map(line).collect()
    }

    fn parent(text: &str) -> Option<TraceParent> {
        read(&head(&[("traceparent", text)]))
    }

    #[test]
    fn the_standards_own_example() {
        let parent = parent(GOOD).unwrap();
        assert_eq!(u128::from_be_bytes(parent.trace_id), 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!(u64::from_be_bytes(parent.span_id), 0x00f0_67aa_0ba9_02b7);
        assert_eq!((parent.flags, parent.state), (1, None));
    }

    #[test]
    fn a_later_version_may_say_more() {
        for good in
            [GOOD.replacen("00", "cc", 1), format!("{}-more", GOOD.replacen("00", "01", 1)), GOOD.to_owned()]
        {
            assert!(parent(&good).is_some(), "{good}");
        }
        let flags = parent(&GOOD.replace("-01", "-fe")).unwrap().flags;
        assert_eq!(flags, 0b10, "flags that nobody knows are not handed on");
    }

    #[test]
    fn what_is_not_right_was_not_sent() {
        for bad in [
            "",
            "00",
            &GOOD[..54],
            &format!("{GOOD}0"),
            &format!("{GOOD}-more"),
            &GOOD.replacen("00", "ff", 1),
            &format!("{}more", GOOD.replacen("00", "01", 1)),
            &GOOD.replace("4bf9", "4BF9"),
            &GOOD.replace("4bf9", "4bfg"),
            &GOOD.replace('-', "_"),
            &GOOD.replace("-01", "-0x"),
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        ] {
            assert_eq!(parent(bad), None, "{bad}");
        }
        assert_eq!(
            read(&head(&[("traceparent", GOOD), ("traceparent", GOOD)])),
            None,
            "there is one or none"
        );
        assert_eq!(read(&head(&[("tracestate", "a=1")])), None);
    }

    #[test]
    fn the_state_is_joined_and_bounded() {
        let state = |lines: &[&str]| {
            let states = lines.iter().map(|line| ("tracestate", *line));
            read(&head(&[("traceparent", GOOD)].into_iter().chain(states).collect::<Vec<_>>())).unwrap().state
        };
        assert_eq!(state(&["a=1,b=2", "c=3"]).as_deref(), Some("a=1,b=2,c=3"));
        assert_eq!(state(&[&"a".repeat(MAX_STATE_BYTES)]).map(|s| s.len()), Some(MAX_STATE_BYTES));
        assert_eq!(state(&[&"a".repeat(MAX_STATE_BYTES), ""]), None);
        assert_eq!(state(&[""]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(parent) = parse(&bytes) {
                prop_assert!(parent.trace_id != [0; 16] && parent.span_id != [0; 8]);
            }
        }

        #[test]
        fn what_is_written_is_read(trace in 1..u128::MAX, span in 1..u64::MAX, flags in 0..4u8) {
            let read = parse(format!("00-{trace:032x}-{span:016x}-{flags:02x}").as_bytes()).unwrap();
            let (trace_id, span_id) = (trace.to_be_bytes(), span.to_be_bytes());
            prop_assert_eq!(read, TraceParent { trace_id, span_id, flags, state: None });
        }
    }
}
