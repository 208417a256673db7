#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

type Read = Result<Vec<Request>, RequestsError>;

fn rules() -> RequestRules {
    RequestRules { max_requests: 5, max_request_bytes: 300 }
}

/// What is read of a body that comes in pieces of some lengths, again and again.
fn read(rules: &RequestRules, body: &[u8], lengths: &[usize]) -> Read {
    let mut reader = RequestReader::new(rules.clone());
    let mut requests = Vec::new();
    let mut rest = body;
    for length in lengths.iter().cycle() {
        let (piece, behind) = rest.split_at((*length).min(rest.len()));
        reader.feed(piece, |request| requests.push(request))?;
        rest = behind;
        if rest.is_empty() {
            break;
        }
    }
    assert_eq!(reader.finish()?, requests.len() as u64);
    Ok(requests)
}

fn whole(body: &str) -> Read {
    read(&rules(), body.as_bytes(), &[usize::MAX])
}

fn error(body: &str) -> String {
    let error = whole(body).unwrap_err();
    assert!(!error.too_large, "{error}");
    error.to_string()
}

fn body(requests: &[&str]) -> String {
    format!(r#"{{"requests":[{}]}}"#, requests.join(","))
}

#[test]
fn requests_keep_the_bytes_of_their_parameters() {
    let params = r#"{ "model" : "m", "max_tokens":1e2, "messages":[{"content":"}]\"\\"}] }"#;
    let text = format!(
        " {{\"a\": [1, {{\"requests\": []}}], \"requests\" : [ {{\"custom_id\":\"a-_9\", \"x\":1, \"params\":{params}}} ,\n\
         {{\"params\":{{}},\"custom_id\":\"b\"}} ], \"z\":null, \"n\":-1.5e3}}\n"
    );
    let requests = whole(&text).unwrap();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].params, params.as_bytes());
    assert_eq!((requests[0].index, requests[0].custom_id.as_str()), (0, "a-_9"));
    assert_eq!(requests[0].model.as_deref(), Some("m"));
    assert_eq!((requests[1].index, requests[1].params.as_slice()), (1, &b"{}"[..]));
}

#[test]
fn names_may_be_escaped() {
    assert_eq!(whole(r#"{"r\u0065quests":[{"custom_id":"a","params":{}}]}"#).unwrap().len(), 1);
}

#[test]
fn a_stream_is_an_error_of_its_request() {
    let requests = whole(&body(&[
        r#"{"custom_id":"a","params":{"stream":true}}"#,
        r#"{"custom_id":"b","params":{"stream":false}}"#,
    ]));
    let codes: Vec<_> =
        requests.unwrap().into_iter().map(|request| request.fault.map(|fault| fault.code)).collect();
    assert_eq!(codes, [Some("stream_not_supported".to_owned()), None]);
}

#[test]
fn errors_tell_the_place() {
    let good = r#"{"custom_id":"a","params":{}}"#;
    assert_eq!(error(&body(&[])), "requests: there must be at least one request");
    assert_eq!(error("{}"), "requests: field required");
    assert_eq!(error(r#"{"requests":{}}"#), "requests: must be an array");
    assert_eq!(error(r#"{"requests":[1]}"#), "requests: each must be a JSON object");
    assert_eq!(error(&body(&[good, r#"{"params":{}}"#])), "requests.1.custom_id: field required");
    assert_eq!(error(&body(&[r#"{"custom_id":1,"params":{}}"#])), "requests.0.custom_id: must be a string");
    assert_eq!(error(&body(&[r#"{"custom_id":"a"}"#])), "requests.0.params: field required");
    assert_eq!(
        error(&body(&[r#"{"custom_id":"a","params":[]}"#])),
        "requests.0.params: must be a JSON object"
    );
    assert_eq!(error(&body(&[good, good])), "requests.1.custom_id: \"a\" is that of another request");
    let twice = r#"{"requests":[],"requests":[]}"#;
    assert_eq!(error(twice), "requests: given twice");
    assert_eq!(error("[]"), "body: must be a JSON object");
    assert_eq!(error("{\"requests\":[],}"), "body: no JSON: a name is expected");
    assert_eq!(error(&(body(&[good]) + "x")), "body: there is something after the JSON object");
    for cut in 0..body(&[good]).len() {
        assert_eq!(error(&body(&[good])[..cut]), "body: the JSON is cut off");
    }
}

#[test]
fn names_have_few_characters() {
    let named = |name: &str| whole(&body(&[&format!(r#"{{"custom_id":"{name}","params":{{}}}}"#)])).is_ok();
    assert!(named("a") && named("0") && named(&"-_aZ".repeat(16)));
    for bad in ["", " ", "a b", "a.b", "é", "a/b", "a:b", &"a".repeat(65)] {
        assert!(!named(bad), "{bad:?}");
    }
}

#[test]
fn what_is_too_large_is_said_so() {
    let six: Vec<String> = (0..6).map(|n| format!(r#"{{"custom_id":"{n}","params":{{}}}}"#)).collect();
    let six: Vec<&str> = six.iter().map(String::as_str).collect();
    assert_eq!(whole(&body(&six[..5])).unwrap().len(), 5);
    let error = whole(&body(&six)).unwrap_err();
    assert_eq!((error.to_string().as_str(), error.too_large), ("requests: more than 5 requests", true));
    let long = format!(r#"{{"custom_id":"a","params":{{"x":"{}"}}}}"#, "x".repeat(300));
    let error = whole(&body(&[&long])).unwrap_err();
    assert_eq!((error.to_string().as_str(), error.too_large), ("requests.0: longer than 300 bytes", true));
    let other = format!(r#"{{"x":"{}"}}"#, "x".repeat(300));
    assert_eq!(whole(&other).unwrap_err().to_string(), "body: longer than 300 bytes");
}

#[test]
fn abuse_a_body_without_end_is_not_kept() {
    for start in ["{\"requests\":[{\"x\":\"", "{\"x\":1", "{\"x", "{\"x\":[[[["] {
        let mut reader = RequestReader::new(rules());
        reader.feed(start.as_bytes(), |_| {}).unwrap();
        let failed = (0..1_000).find_map(|_| reader.feed(&[b'1'; 1_000], |_| {}).err());
        assert!(failed.is_some_and(|error| error.too_large));
        assert!(reader.bytes.capacity() < 2_000);
    }
}

#[test]
fn abuse_deep_json_is_no_crash() {
    let wide = RequestRules { max_request_bytes: 1 << 20, ..rules() };
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let text = format!(r#"{{"x":{deep},"requests":[{{"custom_id":"a","params":{{"x":{deep}}}}}]}}"#);
    assert_eq!(read(&wide, text.as_bytes(), &[999]).unwrap().len(), 1);
}

#[test]
fn an_error_stays() {
    let mut reader = RequestReader::new(rules());
    let first = reader.feed(b"[", |_| {}).unwrap_err();
    assert_eq!(reader.feed(body(&[]).as_bytes(), |_| {}), Err(first.clone()));
    assert_eq!(reader.finish(), Err(first));
}

/// What a reader of whole documents makes of a body.
fn oracle(body: &[u8]) -> Option<Vec<Request>> {
    #[derive(Deserialize)]
    struct Body<'a> {
        #[serde(borrow)]
        requests: Vec<&'a RawValue>,
    }
    let text = std::str::from_utf8(body).ok()?;
    let body: Body<'_> = serde_json::from_str(text).ok()?;
    let parsed: Option<Vec<Request>> = (0..)
        .zip(&body.requests)
        .map(|(index, raw)| {
            raw.get().starts_with('{').then(|| parse_request(index, raw.get().as_bytes(), "").ok())?
        })
        .collect();
    let names: BTreeSet<&str> = parsed.iter().flatten().map(|request| request.custom_id.as_str()).collect();
    let unique = names.len() == body.requests.len();
    parsed.filter(|requests| unique && !requests.is_empty())
}

/// Bytes that are often nearly a body.
fn bodies() -> impl Strategy<Value = Vec<u8>> {
    let request = prop_oneof![
        8 => "[a-j]".prop_map(|id| format!(r#"{{"custom_id":"{id}","params":{{"m":[1,"]"]}}}}"#)),
        2 => "[k-p]".prop_map(|id| format!(r#"{{"custom_id":"{id}","params":{{"s":"]}}\\\" }},{{"}}}}"#)),
        1 => Just("{\"custom_id\":\"k\"}".to_owned()),
        1 => Just("[1]".to_owned()),
    ];
    let member = prop_oneof![
        3 => proptest::collection::vec(request, 0..4).prop_map(|all| format!("\"requests\" :[{}]", all.join(" ,"))),
        2 => r#""[a-c\\"]{0,2}":(1|-0.5e1|01|tru|null|true|"\\u00e9"|"\\"|\[\{"a":\[\]\}\]|\[\}|\{"a":1,"a":2\})"#,
    ];
    let whole =
        proptest::collection::vec(member, 0..4).prop_map(|all| format!("{{{}}}", all.join(",")).into_bytes());
    let changed =
        (whole.clone(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(mut body, at, byte)| {
            let at = at.index(body.len());
            body[at] = byte;
            body
        });
    prop_oneof![
        4 => whole,
        2 => changed,
        1 => "[{}\\[\\]\":,a \\\\]{0,40}".prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>(), 0..40),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_body_is_read_the_same_in_any_pieces(
        body in bodies(),
        lengths in proptest::collection::vec(1..20_usize, 1..9),
    ) {
        let whole = read(&rules(), &body, &[usize::MAX]);
        prop_assert_eq!(&read(&rules(), &body, &lengths), &whole);
        prop_assert_eq!(&read(&rules(), &body, &[1]), &whole);
    }

    #[test]
    fn a_body_is_read_as_json(body in bodies()) {
        let wide = RequestRules { max_requests: 1_000, max_request_bytes: 10_000 };
        prop_assert_eq!(read(&wide, &body, &[5]).ok(), oracle(&body));
    }
}
