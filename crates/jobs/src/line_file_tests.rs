#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use super::*;
use proptest::prelude::*;

const CHAT: &str = "/v1/chat/completions";

fn rules() -> FileRules {
    FileRules { max_lines: 20, max_line_bytes: 200, ..FileRules::for_endpoint(CHAT) }
}

fn request(id: &str, model: &str) -> String {
    format!(r#"{{"custom_id":"{id}","method":"POST","url":"{CHAT}","body":{{"model":"{model}"}}}}"#)
}

/// The good lines and the errors of a file that comes in pieces of some lengths, again and again.
fn read(rules: &FileRules, file: &[u8], lengths: &[usize]) -> (Vec<Line>, Vec<FileError>) {
    let mut validator = Validator::new(rules.clone());
    let mut lines = Vec::new();
    let mut rest = file;
    for length in lengths.iter().cycle() {
        let (piece, behind) = rest.split_at((*length).min(rest.len()));
        lines.extend(validator.feed(piece));
        rest = behind;
        if rest.is_empty() {
            break;
        }
    }
    let (last, errors) = validator.finish();
    lines.extend(last);
    (lines, errors)
}

fn whole(file: &str) -> (Vec<Line>, Vec<FileError>) {
    read(&rules(), file.as_bytes(), &[usize::MAX])
}

fn codes(file: &str) -> Vec<(String, Option<u64>)> {
    whole(file).1.into_iter().map(|error| (error.code, error.line)).collect()
}

fn numbers(file: &str) -> Vec<(u64, String)> {
    whole(file).0.into_iter().map(|line| (line.number, line.custom_id)).collect()
}

#[test]
fn lines_end_with_lf_or_crlf_or_the_file() {
    let (a, b, c) = (request("a", "m"), request("b", "m"), request("c", "m"));
    let expected = vec![(1, "a".to_owned()), (2, "b".to_owned()), (3, "c".to_owned())];
    assert_eq!(numbers(&format!("{a}\n{b}\n{c}\n")), expected);
    assert_eq!(numbers(&format!("{a}\r\n{b}\r\n{c}")), expected);
    assert_eq!(numbers(&format!("\u{feff}{a}\n{b}\n{c}\r\n")), expected);
}

#[test]
fn empty_lines_are_counted_and_left_out() {
    let (a, b) = (request("a", "m"), request("b", "m"));
    assert_eq!(
        numbers(&format!("\n  \r\n{a}\n\n\t\n{b}\n\n")),
        vec![(3, "a".to_owned()), (6, "b".to_owned())]
    );
}

#[test]
fn a_file_without_requests_is_an_error() {
    for file in ["", "\n", "\u{feff}", "\u{feff}\r\n", "  \n\t\r\n"] {
        assert_eq!(codes(file), vec![("empty_file".to_owned(), None)], "{file:?}");
    }
    // A file of which every line is bad is not empty.
    assert_eq!(codes("x"), vec![("invalid_json_line".to_owned(), Some(1))]);
    assert_eq!(codes("\n\u{feff}x"), vec![("invalid_json_line".to_owned(), Some(2))]);
}

#[test]
fn names_are_unique() {
    let file = [request("a", "m"), request("b", "m"), request("a", "m"), request("a", "m")].join("\n");
    let twice = |line| ("duplicate_custom_id".to_owned(), Some(line));
    assert_eq!(codes(&file), vec![twice(3), twice(4)]);
}

#[test]
fn a_batch_is_for_one_model() {
    let without = format!(r#"{{"custom_id":"c","method":"POST","url":"{CHAT}","body":{{}}}}"#);
    let file = [request("a", "m"), request("b", "n"), without, request("d", "m")].join("\n");
    let other = |line| ("model_mismatch".to_owned(), Some(line));
    assert_eq!(codes(&file), vec![other(2), other(3)]);
    let any = FileRules { one_model: false, ..rules() };
    assert_eq!(read(&any, file.as_bytes(), &[1 << 20]).1, vec![]);
}

#[test]
fn the_model_is_that_of_the_first_request() {
    let mut validator = Validator::new(rules());
    assert_eq!(validator.model(), None);
    validator.feed(format!("{}\n", request("a", "m")).as_bytes());
    assert_eq!((validator.model(), validator.lines(), validator.is_over()), (Some("m"), 1, false));
}

#[test]
fn a_long_line_is_an_error_and_the_next_is_read() {
    let long = request("a", &"m".repeat(200));
    assert_eq!(
        codes(&format!("{long}\n{}\nx", request("b", "m"))),
        vec![("line_too_long".to_owned(), Some(1)), ("invalid_json_line".to_owned(), Some(3)),]
    );
    let exact = request("a", &"m".repeat(200 - request("a", "").len()));
    assert_eq!(exact.len(), 200);
    for file in [exact.clone(), format!("\u{feff}{exact}\r\n"), format!("\n{exact}\r\n")] {
        assert_eq!(codes(&file), vec![], "{file:?}");
    }
    assert_eq!(codes(&format!("{exact} \r\n")), vec![("line_too_long".to_owned(), Some(1))]);
}

#[test]
fn abuse_a_line_without_end_is_not_kept() {
    let mut validator = Validator::new(rules());
    for _ in 0..1_000 {
        assert_eq!(validator.feed(&[b'x'; 1_000]), vec![]);
    }
    assert!(validator.splitter.kept.capacity() < 1_000);
    assert_eq!(validator.finish().1[0].code, "line_too_long");
}

#[test]
fn abuse_a_file_of_errors_ends_early() {
    let wide = FileRules { max_lines: 1_000, ..rules() };
    let file = "x\n".repeat(500);
    let (lines, errors) = read(&wide, file.as_bytes(), &[1_000]);
    assert_eq!((lines.len(), errors.len()), (0, MAX_FILE_ERRORS));
}

#[test]
fn too_many_requests_end_the_file() {
    let file: String = (0..25).map(|number| request(&format!("n{number}"), "m") + "\n").collect();
    let (lines, errors) = whole(&file);
    assert_eq!(lines.len(), 20);
    assert_eq!(errors.len(), 1);
    assert_eq!((errors[0].code.as_str(), errors[0].line), ("too_many_tasks", None));
    let mut validator = Validator::new(rules());
    validator.feed(file.as_bytes());
    assert!(validator.is_over());
    assert_eq!(validator.feed(file.as_bytes()), vec![]);
}

#[test]
fn the_reason_to_stop_is_among_a_hundred_errors() {
    let few = FileRules { max_lines: 99, ..rules() };
    let (_, errors) = read(&few, "x\n".repeat(500).as_bytes(), &[7]);
    assert_eq!(errors.len(), 100);
    assert_eq!(errors[99].code, "too_many_tasks");
}

/// Bytes that are often nearly a file of requests.
fn files() -> impl Strategy<Value = Vec<u8>> {
    let good = "[a-d]{1,2}".prop_map(|id| request(&id, "m").into_bytes());
    let piece = prop_oneof![
        4 => good,
        3 => Just(b"\n".to_vec()),
        1 => Just(b"\r\n".to_vec()),
        1 => Just(b"\xEF\xBB\xBF".to_vec()),
        1 => Just(vec![b' '; 230]),
        2 => "[{}\":,a \\\\]{0,9}".prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>(), 0..9),
    ];
    proptest::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn a_file_is_read_the_same_in_any_pieces(
        file in files(),
        lengths in proptest::collection::vec(1..50_usize, 1..9),
    ) {
        let whole = read(&rules(), &file, &[usize::MAX]);
        prop_assert!(whole.1.len() <= MAX_FILE_ERRORS);
        prop_assert_eq!(&read(&rules(), &file, &lengths), &whole);
        prop_assert_eq!(&read(&rules(), &file, &[1]), &whole);
    }

    /// Lines are those of a file that is split as a whole.
    #[test]
    fn lines_are_those_between_line_feeds(file in files()) {
        let many = FileRules { max_lines: u64::MAX, ..rules() };
        let (lines, errors) = read(&many, &file, &[3]);
        let text = file.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&file);
        for line in lines {
            let place = usize::try_from(line.number).unwrap() - 1;
            let bytes = text.split(|byte| *byte == b'\n').nth(place).unwrap();
            let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
            prop_assert_eq!(parse_line(line.number, bytes, Some(CHAT)).unwrap(), line);
        }
        for error in errors.iter().filter_map(|error| error.line) {
            prop_assert!(error >= 1 && error <= file.len() as u64);
        }
    }
}
