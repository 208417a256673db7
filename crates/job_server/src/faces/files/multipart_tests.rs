//! Forms in pieces of any size.

use super::*;

const FORM: &[u8] = b"--b0\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n\
    --b0\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a \\\"b\\\";c.jsonl\"\r\n\
    Content-Type: application/octet-stream\r\n\r\nline 1\r\n--b\r\n--b\r\nline 2\n\r\n\
    --b0  \r\ncontent-disposition: form-data; name=empty\r\n\r\n\r\n--b0--\r\nepilogue";

type Read = Vec<(PartHead, Vec<u8>)>;

fn read(form: &[u8], size: usize) -> Result<Read, Fault> {
    let mut multipart = Multipart::new("b0");
    let mut parts: Read = Vec::new();
    let mut ended = 0;
    for piece in form.chunks(size) {
        multipart.feed(piece);
        while let Some(piece) = multipart.next()? {
            match piece {
                Piece::Head(head) => parts.push((head, Vec::new())),
                Piece::Data(bytes) => parts.last_mut().unwrap().1.extend(bytes),
                Piece::End => ended += 1,
            }
        }
        assert!(multipart.bytes.len() < MOST_HEAD + size + 100);
    }
    assert!(!multipart.is_over() || ended == parts.len());
    if multipart.is_over() { Ok(parts) } else { Err(broken("cut off")) }
}

#[test]
fn a_form_is_the_same_in_pieces_of_any_size() {
    let whole = read(FORM, FORM.len()).unwrap();
    assert_eq!(whole.len(), 3);
    assert_eq!(whole[0], (PartHead { name: "purpose".into(), filename: None }, b"batch".to_vec()));
    assert_eq!(whole[1].0.filename.as_deref(), Some("a \"b\";c.jsonl"));
    assert_eq!(whole[1].1, b"line 1\r\n--b\r\n--b\r\nline 2\n");
    assert_eq!(whole[2], (PartHead { name: "empty".into(), filename: None }, Vec::new()));
    for size in 1..FORM.len() {
        assert_eq!(read(FORM, size).unwrap(), whole, "{size}");
    }
}

#[test]
fn abuse_forms_that_are_none() {
    for end in 0..FORM.len() - 12 {
        assert!(read(&FORM[..end], 7).is_err(), "{end}");
    }
    let head = [&b"--b0\r\nx: "[..], &[b'a'; MOST_HEAD]].concat();
    assert!(read(&head, 100).is_err());
    assert!(read(b"--b0\r\nx: y\r\n\r\n\r\n--b0--", 100).is_err(), "no disposition");
    assert!(read(b"--b0\r\ncontent-disposition: form-data\r\n\r\n\r\n--b0--", 100).is_err(), "no name");
    assert!(read(b"--b0x\r\n", 100).is_err(), "another boundary");
    assert!(read(&vec![b'a'; MOST_PREAMBLE * 2], 1_000).is_err(), "no boundary");
    let part = b"--b0\r\ncontent-disposition: form-data; name=a\r\n\r\n\r\n".repeat(MOST_PARTS + 1);
    assert!(read(&part, 100).is_err(), "too many parts");
}

#[test]
fn boundaries_are_named() {
    let of = |value| boundary(Some(value));
    assert_eq!(of("multipart/form-data; boundary=abc").unwrap(), "abc");
    assert_eq!(of("Multipart/Form-Data; charset=utf-8; Boundary=\"a;b\"").unwrap(), "a;b");
    assert_eq!(of("application/json").unwrap_err().status, 415);
    assert_eq!(boundary(None).unwrap_err().status, 415);
    assert_eq!(of("multipart/form-data").unwrap_err().status, 400);
    assert_eq!(of(&format!("multipart/form-data; boundary={}", "x".repeat(71))).unwrap_err().status, 400);
}
