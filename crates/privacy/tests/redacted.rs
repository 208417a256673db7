//! Redaction and restoring: every text comes back, however its answer is cut.

use privacy::{Escape, Label, RedactError, Redaction, Rules, Settings, Verdicts};
use proptest::prelude::*;
use serde_json::json;
use std::sync::{Arc, LazyLock};

static RULES: LazyLock<Arc<Rules>> = LazyLock::new(|| Arc::new(Rules::default()));

fn redaction() -> Redaction {
    Redaction::new(RULES.clone())
}

/// Pieces of which texts are made that look like placeholders, hold findings, or nearly do either.
fn piece() -> impl Strategy<Value = String> {
    let fixed = prop::sample::select(vec![
        "<EMAIL_1>",
        "<email_1>",
        "EMAIL_1",
        "email_1",
        "EMAIL_",
        "<EMAIL_",
        "&lt;",
        "&gt;",
        "EMAIL_2",
        "\\u003c",
        "\\u003e",
        "<LITERAL_1>",
        "LITERAL_1",
        "LITERAL_2",
        "<",
        ">",
        "_",
        "1",
        "2",
        "&",
        "\\",
        "PHONE_1",
        "<PHONE_1",
        " ",
        "é",
        "日本",
        "bob@example.com",
        "ann@example.org",
        "+49 30 1234567",
        "4111 1111 1111 1111",
        "<CREDIT_CARD_1>",
        "\u{200b}",
        "１２",
        "E-123456",
        "PROJECT_1",
        "Bluebird",
        "\"",
        "\n",
    ]);
    prop_oneof![8 => fixed.prop_map(str::to_owned), 1 => any::<String>()]
}

static OWN: LazyLock<Arc<Rules>> = LazyLock::new(|| {
    let settings: Settings = toml::from_str(
        "[[rule]]\nname = 'employee'\npattern = 'E-[0-9]{6}'\n[[list]]\nname = 'project'\nwords = ['bluebird']\n",
    )
    .unwrap();
    Arc::new(Rules::new(&settings).unwrap())
});

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn what_was_redacted_is_restored_however_it_is_cut(
        texts in prop::collection::vec(prop::collection::vec(piece(), 0..12), 1..4),
        cuts in prop::collection::vec(1_usize..9, 1..8),
    ) {
        let mut redaction = Redaction::new(OWN.clone());
        let texts: Vec<String> = texts.iter().map(|pieces| pieces.concat()).collect();
        let redacted: Vec<String> = texts.iter().map(|text| redaction.redact(text).unwrap()).collect();
        for (text, redacted) in texts.iter().zip(&redacted) {
            prop_assert_eq!(&redaction.restore(redacted), text);
            let mut restorer = redaction.restorer(Escape::None);
            let mut out = String::new();
            let mut characters = redacted.chars();
            for cut in cuts.iter().cycle() {
                let piece: String = characters.by_ref().take(*cut).collect();
                if piece.is_empty() {
                    break;
                }
                out.push_str(&restorer.push(&piece));
                prop_assert!(restorer.held() <= restorer.longest());
            }
            out.push_str(&restorer.finish());
            prop_assert_eq!(&out, text);
        }
    }

    #[test]
    fn ranges_are_in_order_and_on_boundaries(text in any::<String>(), digits in "[0-9 .@:+a-fA-F/-]{0,80}") {
        for text in [text.clone(), digits.clone(), format!("{digits}{text}{digits}")] {
            let mut at = 0;
            for finding in RULES.find(&text) {
                prop_assert!(finding.range.start >= at && finding.range.start < finding.range.end);
                prop_assert!(text.get(finding.range.clone()).is_some());
                at = finding.range.end;
            }
        }
    }
}

#[test]
fn a_value_has_one_placeholder_in_all_texts_of_a_request() {
    let mut redaction = redaction();
    let first = redaction.redact("bob@example.com and ann@example.org").unwrap();
    let second = redaction.redact("ann@example.org, call 555-234-5678").unwrap();
    assert_eq!(first, "<EMAIL_1> and <EMAIL_2>");
    assert_eq!(second, "<EMAIL_2>, call <PHONE_1>");
    assert!(!format!("{redaction:?}").contains("bob"));
}

#[test]
fn what_models_make_of_placeholders_is_restored() {
    let mut redaction = redaction();
    redaction.redact("bob@example.com").unwrap();
    let cases = [
        ("Dear <EMAIL_1>,", "Dear bob@example.com,"),
        ("Dear <email_1>,", "Dear bob@example.com,"),
        ("Dear EMAIL_1,", "Dear bob@example.com,"),
        ("[EMAIL_1]", "[bob@example.com]"),
        ("&lt;EMAIL_1&gt;", "bob@example.com"),
        ("\\u003cEMAIL_1\\u003e", "bob@example.com"),
        (
            "<EMAIL_12> EMAIL_12 email_1 MY_EMAIL_1 <EMAIL_1",
            "<EMAIL_12> EMAIL_12 email_1 MY_EMAIL_1 <bob@example.com",
        ),
    ];
    for (answer, restored) in cases {
        assert_eq!(redaction.restore(answer), restored);
    }
}

#[test]
fn bodies_are_redacted_and_restored_field_by_field() {
    let body = json!({
        "model": "m", "temperature": 0.5,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "I am bob@example.com"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]},
            {"role": "assistant", "tool_calls": [{"function": {"arguments": "{\"card\":\"4111111111111111\"}"}}]},
        ],
        "input": {"ssn": 219_099_999, "passport": "C01234567"},
    });
    let scan = RULES.scan_json(&body, None);
    let pointers: Vec<&str> = scan.findings.iter().map(|it| it.pointer.as_str()).collect();
    assert_eq!(
        pointers,
        [
            "/messages/0/content/0/text",
            "/messages/1/tool_calls/0/function/arguments",
            "/input/ssn",
            "/input/passport"
        ]
    );
    assert_eq!((scan.label, scan.opaque, scan.complete), (Label::Secret, 1, true));
    let verdicts = Verdicts::new([3; 32], 1 << 20);
    assert_eq!(RULES.scan_json(&body, Some(&verdicts)), scan);

    let mut redaction = redaction();
    let mut sent = body.clone();
    redaction.redact_json(&mut sent).unwrap();
    assert_eq!(sent["input"], json!({"ssn": "<US_SSN_1>", "passport": "<PASSPORT_1>"}));
    assert!(!sent.to_string().contains("bob@") && !sent.to_string().contains("4111"));
    redaction.restore_json(&mut sent);
    assert_eq!(sent["messages"], body["messages"]);

    let mut named = json!({"bob@example.com": 1});
    assert_eq!(redaction.redact_json(&mut named), Err(RedactError::FieldName));
}

#[test]
fn values_inside_json_are_escaped() {
    let mut redaction = redaction();
    let key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----";
    assert_eq!(redaction.redact(key).unwrap(), "<PRIVATE_KEY_1>");
    let mut restorer = redaction.restorer(Escape::Json);
    let arguments = restorer.push("{\"key\":\"<PRIVATE_KEY_1>\"}") + &restorer.finish();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&arguments).unwrap(), json!({"key": key}));
}

#[test]
fn too_many_findings_are_an_error_never_a_part() {
    let rules = Rules::new(&Settings { max_findings: 3, ..Settings::default() }).unwrap();
    let text = "a@b.com ".repeat(4);
    assert!(!rules.scan(&text).complete);
    assert_eq!(Redaction::new(Arc::new(rules)).redact(&text), Err(RedactError::Findings));
}
