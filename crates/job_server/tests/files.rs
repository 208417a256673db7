//! OpenAI's files.

use job_server::Options;
use job_store::StoreLimits;
use serde_json::json;

use crate::support::{FORM, Server, form, refused};

#[tokio::test]
async fn a_file_is_kept_and_read() {
    let server = Server::new();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let parts: &[(&str, Option<&str>, &[u8])] = &[
        ("file", Some("../three lines.jsonl"), &bytes),
        ("expires_after[anchor]", None, b"created_at"),
        ("expires_after[seconds]", None, b"7200"),
        ("purpose", None, b"user_data"),
    ];
    let file = server.post("/v1/files").bytes(FORM, form(parts)).send().await.expect(200);
    assert_eq!(
        (&file["object"], &file["bytes"], &file["purpose"]),
        (&json!("file"), &json!(bytes.len()), &json!("user_data"))
    );
    assert_eq!((&file["filename"], &file["status"]), (&json!("three lines.jsonl"), &json!("processed")));
    assert_eq!(file["expires_at"].as_i64().unwrap() - file["created_at"].as_i64().unwrap(), 7_200);
    let id = file["id"].as_str().unwrap();
    assert_eq!(server.get(format!("/v1/files/{id}")).send().await.expect(200), file);
    let path = format!("/v1/files/{id}/content");
    let whole = server.get(&path).send().await;
    assert!(whole.status == 200 && whole.body == bytes);
    assert_eq!(whole.header("content-length"), bytes.len().to_string());
    assert_eq!(whole.header("content-disposition"), "attachment; filename=\"three lines.jsonl\"");
    let part = server.get(&path).header("range", "bytes=2-5").send().await;
    assert_eq!((part.status, part.body.as_slice()), (206, &bytes[2..6]));
    assert_eq!(part.header("content-range"), format!("bytes 2-5/{}", bytes.len()));
    let outside = server.get(&path).header("range", "bytes=3000000-").send().await;
    refused(&outside, 416);
    assert_eq!(outside.header("content-range"), "bytes */3000000");
    let known = server.get(&path).header("if-none-match", whole.header("etag")).send().await;
    assert_eq!(known.status, 304);
    let gone = server.delete(format!("/v1/files/{id}")).send().await.expect(200);
    assert_eq!(gone, json!({"id": id, "object": "file", "deleted": true}));
    for path in [format!("/v1/files/{id}"), path] {
        refused(&server.get(path).send().await, 404);
    }
}

#[tokio::test]
async fn files_that_cannot_be_are_refused() {
    let server = Server::new();
    let file = ("file", Some("a"), &b"{}"[..]);
    fn field<'a>(name: &'a str, value: &'a [u8]) -> (&'a str, Option<&'a str>, &'a [u8]) {
        (name, None, value)
    }
    type Parts<'a> = &'a [(&'a str, Option<&'a str>, &'a [u8])];
    let cases: [(&str, Parts<'_>); 8] = [
        ("purpose", &[file]),
        ("purpose", &[file, field("purpose", b"fine-tune")]),
        ("file", &[field("purpose", b"batch")]),
        ("file", &[file, file, field("purpose", b"batch")]),
        (
            "expires_after.anchor",
            &[
                file,
                field("purpose", b"batch"),
                field("expires_after[anchor]", b"now"),
                field("expires_after[seconds]", b"3600"),
            ],
        ),
        (
            "expires_after.seconds",
            &[file, field("purpose", b"batch"), field("expires_after[anchor]", b"created_at")],
        ),
        (
            "expires_after.seconds",
            &[file, field("purpose", b"batch"), field("expires_after[seconds]", b"60")],
        ),
        ("purpose", &[file, field("purpose", &[b'x'; 2_000])]),
    ];
    for (param, parts) in cases {
        let answer = server.post("/v1/files").bytes(FORM, form(parts)).send().await;
        assert_eq!(refused(&answer, 400)["param"], param);
    }
    refused(&server.post("/v1/files").bytes("application/json", "{}").send().await, 415);
    refused(&server.post("/v1/files").bytes(FORM, "--XyZ\r\ncut").send().await, 400);
    refused(
        &server.post("/v1/files").header("content-encoding", "gzip").bytes(FORM, form(&[file])).send().await,
        415,
    );
    assert_eq!(server.get("/v1/files").send().await.expect(200)["data"], json!([]));
}

#[tokio::test]
async fn abuse_a_file_is_bounded_while_it_is_read() {
    let options = Options { max_file_bytes: 2 << 20, ..Options::default() };
    let server = Server::with(options, StoreLimits::default());
    let parts = |size| form(&[("file", Some("a"), &vec![b'a'; size]), ("purpose", None, b"batch")]);
    let most = server.post("/v1/files").bytes(FORM, parts(2 << 20)).send().await;
    assert_eq!(most.expect(200)["bytes"], 2 << 20);
    for size in [(2 << 20) + 1, 4 << 20] {
        let answer = server.post("/v1/files").bytes(FORM, parts(size)).send().await;
        assert_eq!(refused(&answer, 413)["code"], "file_too_large");
    }
    let limits = StoreLimits { bytes: 1 << 20, ..StoreLimits::default() };
    let server = Server::with(Options::default(), limits);
    refused(&server.post("/v1/files").bytes(FORM, parts(2 << 20)).send().await, 507);
}

#[tokio::test]
async fn files_are_listed_page_by_page() {
    let server = Server::new();
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(server.file(b"x").await);
    }
    let ids = |list: &serde_json::Value| -> Vec<String> {
        list["data"].as_array().unwrap().iter().map(|file| file["id"].as_str().unwrap().to_owned()).collect()
    };
    let page = server.get("/v1/files?limit=2&order=asc&purpose=batch").send().await.expect(200);
    assert_eq!((ids(&page), &page["has_more"]), (made[..2].to_vec(), &json!(true)));
    let rest = server.get(format!("/v1/files?after={}&order=asc", made[1])).send().await.expect(200);
    assert_eq!(ids(&rest), made[2..]);
    let newest = server.get("/v1/files?limit=1").send().await.expect(200);
    assert_eq!(ids(&newest), made[2..]);
    assert_eq!(ids(&server.get("/v1/files?purpose=batch_output").send().await.expect(200)), [""; 0]);
    for (query, param) in [("limit=10001", "limit"), ("order=up", "order"), ("purpose=x", "purpose")] {
        assert_eq!(refused(&server.get(format!("/v1/files?{query}")).send().await, 400)["param"], param);
    }
}

#[tokio::test]
async fn other_keys_see_no_files() {
    let server = Server::new();
    let body = form(&[("file", Some("a"), b"x"), ("purpose", None, b"batch")]);
    let file = server.post("/v1/files").key("alice").bytes(FORM, body).send().await.expect(200);
    let id = file["id"].as_str().unwrap();
    refused(&server.get(format!("/v1/files/{id}")).key("bob").send().await, 404);
    refused(&server.get(format!("/v1/files/{id}/content")).key("bob").send().await, 404);
    refused(&server.delete(format!("/v1/files/{id}")).key("bob").send().await, 404);
    assert_eq!(server.get("/v1/files").key("bob").send().await.expect(200)["data"], json!([]));
    server.delete(format!("/v1/files/{id}")).key("alice").send().await.expect(200);
}
