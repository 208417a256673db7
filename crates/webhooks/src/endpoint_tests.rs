//! Tests of endpoints.

use super::*;

const NOW: Millis = 1_700_000_000_000;

fn random(byte: u8) -> Random {
    Random { id: u128::from(byte), secret: [byte; 32], nonce: [byte; 12] }
}

fn wanted() -> Wanted {
    serde_json::from_str(
        r#"{"name": "mine", "url": "https://example.com/hook",
            "event_types": ["batch.completed", "job.dead", "batch.completed"]}"#,
    )
    .unwrap()
}

fn created(sealer: &SecretBox) -> (Endpoint, Secret) {
    Endpoint::create(&wanted(), "ann", &AddressRules::default(), sealer, &random(1), NOW).unwrap()
}

#[test]
fn an_endpoint_is_shown_as_that_of_openai() {
    let (endpoint, secret) = created(&SecretBox::plain());
    let object = endpoint.object_with_secret(&secret);
    assert_eq!(object["object"], "webhook_endpoint");
    assert_eq!(object["event_types"], json!(["batch.completed", "job.dead"]));
    assert_eq!(object["created_at"], 1_700_000_000);
    assert_eq!(object["signing_secret"], secret.reveal());
    assert_eq!(object["signing_secret_hint"], "whsec_…BAQE");
    assert_eq!(object["status"], "enabled");
    assert_eq!(endpoint.object().get("signing_secret"), None);
}

#[test]
fn an_endpoint_is_kept_as_a_document_without_its_secret() {
    let sealer = SecretBox::new(&[5; 32]).unwrap();
    let (endpoint, secret) = created(&sealer);
    let kept = serde_json::to_string(&endpoint).unwrap();
    assert!(!kept.contains(&secret.reveal()[6..]));
    let read: Endpoint = serde_json::from_str(&kept).unwrap();
    assert_eq!(read, endpoint);
    assert_eq!(read.secrets(&sealer, NOW).unwrap()[0].reveal(), secret.reveal());
    assert!(matches!(read.secrets(&SecretBox::plain(), NOW), Err(EndpointError::Seal(SealError::NoKey(_)))));
}

#[test]
fn what_is_wrong_is_named() {
    let create = |wanted: Wanted| {
        let made =
            Endpoint::create(&wanted, "", &AddressRules::default(), &SecretBox::plain(), &random(1), NOW);
        let error = made.unwrap_err();
        (error.param().unwrap(), error.to_string())
    };
    for name in [String::new(), "a".repeat(257), "a\nb".to_owned()] {
        assert_eq!(create(Wanted { name, ..wanted() }).0, "name");
    }
    let (param, text) = create(Wanted { url: "https://10.0.0.1/".to_owned(), ..wanted() });
    assert_eq!(
        (param, text.as_str()),
        ("url", "`url`: the address of the URL's host is not public: private address")
    );
    assert_eq!(create(Wanted { event_types: Vec::new(), ..wanted() }).0, "event_types");
    let unknown = vec!["batch.done".to_owned()];
    assert!(create(Wanted { event_types: unknown, ..wanted() }).1.contains("\"batch.done\" is no type"));
    let many = vec!["job.dead".to_owned(); 65];
    assert_eq!(create(Wanted { event_types: many, ..wanted() }).0, "event_types");
}

#[test]
fn changes_are_made_all_or_not_at_all() {
    let (mut endpoint, _) = created(&SecretBox::plain());
    let before = endpoint.clone();
    let rules = AddressRules::default();
    let bad = Change { name: Some("new".to_owned()), url: Some("ftp://x".to_owned()), ..Change::default() };
    assert!(endpoint.update(&bad, &rules, NOW + 1_000).is_err());
    assert_eq!(endpoint.update(&Change::default(), &rules, NOW + 1_000), Ok(false));
    let same = Change { name: Some("mine".to_owned()), ..Change::default() };
    assert_eq!(endpoint.update(&same, &rules, NOW + 1_000), Ok(false));
    assert_eq!(endpoint, before);
    let good =
        Change { name: Some("new".to_owned()), event_types: Some(vec!["job.failed".to_owned()]), ..same };
    assert_eq!(endpoint.update(&good, &rules, NOW + 1_000), Ok(true));
    assert_eq!((endpoint.name.as_str(), endpoint.updated_at), ("new", NOW + 1_000));
    assert!(endpoint.wants(EventType::JobFailed) && !endpoint.wants(EventType::JobDead));
    let off: Change = serde_json::from_str(r#"{"status": "disabled"}"#).unwrap();
    assert_eq!(endpoint.update(&off, &rules, NOW), Ok(true));
    assert!(!endpoint.wants(EventType::JobFailed));
}

#[test]
fn a_replaced_secret_signs_for_a_day_if_it_is_kept() {
    let sealer = SecretBox::new(&[5; 32]).unwrap();
    let (mut endpoint, old) = created(&sealer);
    let new = endpoint.rotate(true, &sealer, &random(2), NOW).unwrap();
    let signing = |endpoint: &Endpoint, now| -> Vec<String> {
        endpoint.secrets(&sealer, now).unwrap().iter().map(Secret::reveal).collect()
    };
    assert_eq!(signing(&endpoint, NOW + OLD_SECRET_KEPT - 1), [new.reveal(), old.reveal()]);
    assert_eq!(signing(&endpoint, NOW + OLD_SECRET_KEPT), [new.reveal()]);
    let newest = endpoint.rotate(false, &sealer, &random(3), NOW).unwrap();
    assert_eq!(signing(&endpoint, NOW), [newest.reveal()]);
    assert_eq!(endpoint.secret_hint, newest.hint());
}

#[test]
fn an_endpoint_follows_its_attempts() {
    let (mut endpoint, _) = created(&SecretBox::plain());
    assert!(!endpoint.follow(Consequence::Healthy, NOW));
    assert!(endpoint.follow(Consequence::Failing, NOW));
    assert!(!endpoint.follow(Consequence::Failing, NOW + 1));
    assert_eq!(endpoint.failing_since, Some(NOW));
    assert!(endpoint.follow(Consequence::Busy(NOW + 60), NOW + 2));
    assert_eq!((endpoint.busy(NOW + 59), endpoint.busy(NOW + 60)), (Some(NOW + 60), None));
    assert!(endpoint.follow(Consequence::Healthy, NOW + 3));
    assert_eq!((endpoint.failing_since, endpoint.busy_until), (None, None));
    assert!(endpoint.follow(Consequence::Gone, NOW + 4));
    assert_eq!(endpoint.object()["disabled_reason"], "it answered 410: it is gone");
    let on = Change { status: Some(Status::Enabled), ..Change::default() };
    assert_eq!(endpoint.update(&on, &AddressRules::default(), NOW), Ok(true));
    assert_eq!(endpoint.disabled_reason, None);
}
