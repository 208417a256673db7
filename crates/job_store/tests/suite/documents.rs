//! Documents of other parts, and workers.

use crate::common::{MINUTE, NOW};
use job_store::{Document, DocumentFilter, Store, Worker};
use std::sync::Arc;

fn document(id: &str, key: &str, group: &str, due: Option<i64>) -> Document {
    Document {
        kind: "webhook_delivery".to_owned(),
        id: id.to_owned(),
        key: key.to_owned(),
        group: group.to_owned(),
        due,
        expires_at: None,
        created_at: NOW,
        json: Some(format!(r#"{{"id":"{id}"}}"#)),
    }
}

pub(crate) async fn documents_are_kept_and_taken(store: Arc<dyn Store>) {
    for (id, key, group, due) in [
        ("d1", "ann", "we_1", Some(NOW + 1)),
        ("d2", "ann", "we_2", Some(NOW + 2)),
        ("d3", "bob", "we_1", None),
        ("d4", "bob", "we_1", Some(NOW + 9)),
    ] {
        store.put_document(document(id, key, group, due), NOW).await.unwrap();
    }
    let other = Document { kind: "webhook_endpoint".to_owned(), ..document("d1", "ann", "", Some(NOW)) };
    store.put_document(other, NOW).await.unwrap();
    let taken = store.take_due("webhook_delivery", 10, NOW + MINUTE, NOW + 2).await.unwrap();
    assert_eq!(taken.iter().map(|taken| taken.id.as_str()).collect::<Vec<_>>(), ["d1", "d2"]);
    assert!(taken.iter().all(|taken| taken.due == Some(NOW + MINUTE)));
    assert!(store.take_due("webhook_delivery", 10, NOW + MINUTE, NOW + 2).await.unwrap().is_empty());
    // Whoever took them and died gave them back by that.
    assert_eq!(store.take_due("webhook_delivery", 1, NOW + 2 * MINUTE, NOW + MINUTE).await.unwrap().len(), 1);
    let filter = |id: Option<&str>, key: Option<&str>, group: Option<&str>| DocumentFilter {
        kind: "webhook_delivery".to_owned(),
        id: id.map(str::to_owned),
        key: key.map(str::to_owned),
        group: group.map(str::to_owned),
        after: None,
        limit: 3,
    };
    let ids = |filter: DocumentFilter| {
        let store = store.clone();
        async move {
            let page = store.documents(filter).await.unwrap();
            (page.rows.into_iter().map(|one| one.id).collect::<Vec<_>>().join(" "), page.more)
        }
    };
    assert_eq!(ids(filter(None, None, None)).await, ("d4 d3 d2".to_owned(), true));
    let next = DocumentFilter { after: Some("d2".to_owned()), ..filter(None, None, None) };
    assert_eq!(ids(next).await, ("d1".to_owned(), false));
    assert_eq!(ids(filter(None, Some("bob"), Some("we_1"))).await.0, "d4 d3");
    assert_eq!(ids(filter(Some("d2"), None, None)).await.0, "d2");
    assert_eq!(ids(filter(Some("d2"), Some("bob"), None)).await.0, "");
    // Changed and deleted.
    let changed = Document { json: Some("{}".to_owned()), due: None, ..document("d2", "ann", "we_2", None) };
    store.put_document(changed.clone(), NOW).await.unwrap();
    assert_eq!(
        store.documents(filter(Some("d2"), None, None)).await.unwrap().rows,
        std::slice::from_ref(&changed)
    );
    store.put_document(Document { json: None, ..changed }, NOW).await.unwrap();
    assert_eq!(ids(filter(Some("d2"), None, None)).await.0, "");
    let brief = Document { expires_at: Some(NOW + 5), ..document("d9", "ann", "", None) };
    store.put_document(brief, NOW).await.unwrap();
    store.sweep(NOW + 4).await.unwrap();
    assert_eq!(ids(filter(Some("d9"), None, None)).await.0, "d9");
    store.sweep(NOW + 5).await.unwrap();
    assert_eq!(ids(filter(Some("d9"), None, None)).await.0, "");
}

pub(crate) async fn workers_are_seen(store: Arc<dyn Store>) {
    let worker = Worker { id: "w1".to_owned(), place: "host 7".to_owned() };
    store.seen(worker.clone(), NOW).await.unwrap();
    store.seen(worker, NOW + MINUTE).await.unwrap();
    store.sweep(NOW + 2 * 60 * MINUTE).await.unwrap();
}
