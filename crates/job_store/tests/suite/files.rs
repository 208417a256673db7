//! Files.

use crate::common::{NOW, batch, file, put_file};
use job_store::{FileFilter, Store, StoreError};
use jobs::{BatchKind, Purpose};
use std::sync::Arc;

pub(crate) async fn written_sealed_and_read(store: Arc<dyn Store>) {
    let bytes: Vec<u8> = (0..3_500_000_u32).map(|n| (n % 251) as u8).collect();
    for (at, piece) in bytes.chunks(700_001).enumerate() {
        store.write_file("file-1", at as u64 * 700_001, piece.to_vec()).await.unwrap();
        // The last piece may come twice.
        store.write_file("file-1", at as u64 * 700_001, piece.to_vec()).await.unwrap();
    }
    assert!(matches!(store.write_file("file-1", 9_000_000, vec![1]).await, Err(StoreError::Conflict(_))));
    // Not there before it is sealed, with the right length.
    assert_eq!(store.file("file-1", None).await.unwrap_err(), StoreError::NotFound("file"));
    assert_eq!(store.read_file("file-1", 0, 10).await.unwrap_err(), StoreError::NotFound("file"));
    assert!(matches!(store.seal_file(file("file-1", "ann", 3), NOW).await, Err(StoreError::Conflict(_))));
    let whole = file("file-1", "ann", bytes.len() as u64);
    assert_eq!(store.seal_file(whole.clone(), NOW).await.unwrap(), whole);
    assert_eq!(store.file("file-1", Some("ann")).await.unwrap(), whole);
    assert_eq!(store.file("file-1", Some("bob")).await.unwrap_err(), StoreError::NotFound("file"));
    let mut read = Vec::new();
    loop {
        let piece = store.read_file("file-1", read.len() as u64, 999_999).await.unwrap();
        if piece.is_empty() {
            break;
        }
        read.extend(piece);
    }
    assert!(read == bytes);
    assert!(store.read_file("file-1", 1 << 40, 10).await.unwrap().is_empty());
    assert_eq!(store.read_file("file-1", 1_048_570, 10).await.unwrap(), bytes[1_048_570..1_048_580]);
    assert_eq!(store.stats(NOW).await.unwrap().blob_bytes, bytes.len() as u64);
    // Replaced as a whole; the old one is readable until then.
    store.write_file("file-1", 0, b"longer than it will be".to_vec()).await.unwrap();
    store.write_file("file-1", 3, b"!".to_vec()).await.unwrap();
    assert_eq!(store.read_file("file-1", 0, 4).await.unwrap(), bytes[..4]);
    store.seal_file(file("file-1", "ann", 4), NOW).await.unwrap();
    assert_eq!(store.read_file("file-1", 0, 99).await.unwrap(), b"lon!");
    store.sweep(NOW).await.unwrap();
    assert_eq!(store.read_file("file-1", 0, 99).await.unwrap(), b"lon!");
    // An empty file needs no writing; a discarded one is gone.
    store.seal_file(file("file-2", "ann", 0), NOW).await.unwrap();
    assert!(store.read_file("file-2", 0, 99).await.unwrap().is_empty());
    store.write_file("file-3", 0, b"abc".to_vec()).await.unwrap();
    store.discard_file("file-3").await.unwrap();
    store.discard_file("file-3").await.unwrap();
    assert!(matches!(store.seal_file(file("file-3", "ann", 3), NOW).await, Err(StoreError::Conflict(_))));
}

pub(crate) async fn files_that_are_read_stay(store: Arc<dyn Store>) {
    let one = batch("batch_1", "ann", BatchKind::OpenAi);
    let mut input = file(&one.input_file, "ann", 3);
    input.expires_at = Some(NOW + 10);
    put_file(&*store, input, b"abc").await;
    store.create_batch(one.clone(), None, NOW).await.unwrap();
    assert!(matches!(store.delete_file(&one.input_file, None, NOW).await, Err(StoreError::Conflict(_))));
    assert_eq!(store.sweep(NOW + 20).await.unwrap().deleted, 0);
    assert_eq!(store.delete_file(&one.input_file, Some("bob"), NOW).await, Err(StoreError::NotFound("file")));
    store.fail_batch("batch_1", Vec::new(), NOW).await.unwrap();
    store.delete_file(&one.input_file, Some("ann"), NOW).await.unwrap();
    assert_eq!(store.file(&one.input_file, None).await.unwrap_err(), StoreError::NotFound("file"));
    assert_eq!(store.stats(NOW).await.unwrap().blob_bytes, 0);
}

pub(crate) async fn lists_of_files(store: Arc<dyn Store>) {
    for n in 0..6_i64 {
        let mut one = file(&format!("file-{n}"), if n < 4 { "ann" } else { "bob" }, 3);
        one.created_at = NOW + n;
        one.hidden = n == 2;
        one.purpose = if n % 2 == 0 { Purpose::Batch } else { Purpose::BatchOutput };
        put_file(&*store, one, b"abc").await;
    }
    let ids = |filter: FileFilter| {
        let store = store.clone();
        async move {
            let page = store.files(filter).await.unwrap();
            (page.rows.iter().map(|file| file.id[5..].to_owned()).collect::<String>(), page.more)
        }
    };
    let all = FileFilter { key: None, purpose: None, after: None, ascending: false, limit: 10 };
    assert_eq!(ids(all.clone()).await, ("54310".to_owned(), false));
    let up = FileFilter { ascending: true, limit: 2, after: Some("file-0".to_owned()), ..all.clone() };
    assert_eq!(ids(up).await, ("13".to_owned(), true));
    let down = FileFilter { limit: 2, after: Some("file-4".to_owned()), ..all.clone() };
    assert_eq!(ids(down).await, ("31".to_owned(), true));
    let ann = FileFilter { key: Some("ann".to_owned()), purpose: Some(Purpose::Batch), ..all };
    assert_eq!(ids(ann).await.0, "0");
}

pub(crate) async fn abuse_names_of_files(store: Arc<dyn Store>) {
    for name in ["", "../x", "a/b", "file-\0", ".", "..", "file-\u{e4}", "a b", &"x".repeat(129)] {
        assert!(store.write_file(name, 0, b"x".to_vec()).await.is_err(), "{name:?}");
        assert!(store.seal_file(file(name, "ann", 0), NOW).await.is_err(), "{name:?}");
        assert!(store.discard_file(name).await.is_err(), "{name:?}");
        assert!(store.read_file(name, 0, 1).await.is_err(), "{name:?}");
    }
}
