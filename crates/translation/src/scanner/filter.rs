//! Fields cut out of a stream's events.

use std::ops::Range;

use crate::skim::{NotJson, Skim};

/// The event's raw bytes without the fields of those names, in the event's object and in the objects of `choices`; nothing if
/// there are none.
pub(crate) fn without(raw: &[u8], names: &[&str]) -> Option<Vec<u8>> {
    let from = memchr::memchr(b'{', raw)?;
    let to = memchr::memrchr(b'}', raw)? + 1;
    let json = raw.get(from..to)?;
    let found = names.iter().any(|name| memchr::memmem::find(json, name.as_bytes()).is_some());
    if !found {
        return None;
    }
    let mut cuts = Vec::new();
    let mut skim = Skim::new(json);
    object(&mut skim, names, &mut cuts, true).ok()?;
    if cuts.is_empty() {
        return None;
    }
    let mut out = raw.get(..from)?.to_vec();
    let mut at = 0;
    for cut in cuts {
        out.extend_from_slice(json.get(at..cut.start).unwrap_or_default());
        at = cut.end;
    }
    out.extend_from_slice(json.get(at..)?);
    out.extend_from_slice(raw.get(to..)?);
    Some(out)
}

/// Notes what to cut from an object: each field with the comma before it, or after it if none is kept before it.
fn object(
    skim: &mut Skim<'_>,
    names: &[&str],
    cuts: &mut Vec<Range<usize>>,
    outer: bool,
) -> Result<(), NotJson> {
    // End of the last field that is kept; start of a cut that has no comma before it and waits for the next key.
    let (mut kept, mut open): (Option<usize>, Option<usize>) = (None, None);
    let mut end = 0;
    skim.object(|skim, key| {
        if let Some(start) = open.take() {
            cuts.push(start..key.start);
        }
        let name = skim.text(key);
        let cut = names.contains(&name.as_ref());
        if !cut && outer && name == "choices" && skim.next_byte() == Some(b'[') {
            skim.array(|skim, _| match skim.next_byte() {
                Some(b'{') => object(skim, names, cuts, false),
                _ => skim.skip(),
            })?;
        } else {
            skim.value()?;
        }
        end = skim.at();
        match (cut, kept) {
            (false, _) => kept = Some(end),
            (true, Some(kept)) => match cuts.last_mut().filter(|last| last.end > kept) {
                Some(last) => last.end = end,
                None => cuts.push(kept..end),
            },
            (true, None) => open = Some(key.start),
        }
        Ok(())
    })?;
    if let Some(start) = open {
        cuts.push(start..end);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(json: &str) -> String {
        let raw = format!("data: {json}\n\n");
        let out = without(raw.as_bytes(), &["token_ids", "prompt_token_ids"]).unwrap();
        String::from_utf8(out).unwrap().trim_start_matches("data: ").trim_end().to_owned()
    }

    #[test]
    fn fields_are_cut_with_one_comma() {
        for (from, to) in [
            (r#"{"token_ids":[1]}"#, "{}"),
            (r#"{"a":1,"token_ids":[1,2]}"#, r#"{"a":1}"#),
            (r#"{"token_ids":[1], "a":1}"#, r#"{"a":1}"#),
            (r#"{"token_ids":null,"prompt_token_ids":[], "a":1}"#, r#"{"a":1}"#),
            (r#"{"a":1, "token_ids":null,"prompt_token_ids":[] ,"b":2}"#, r#"{"a":1 ,"b":2}"#),
            (
                r#"{"id":"x","choices":[{"token_ids":[1],"index":0},{"a":{"token_ids":1},"token_ids":[3]}],"prompt_token_ids":[9]}"#,
                r#"{"id":"x","choices":[{"index":0},{"a":{"token_ids":1}}]}"#,
            ),
        ] {
            assert_eq!(cut(from), to, "{from}");
        }
        assert_eq!(without(b"data: {\"text\":\"token_ids\"}\n\n", &["token_ids"]), None);
    }
}
