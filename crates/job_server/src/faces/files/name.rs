//! Names of files as clients give them, and as they are given back.

/// The longest name that is kept, in bytes.
const MOST_BYTES: usize = 255;

/// A client's name of a file without folders and control characters, of bounded length.
pub(crate) fn cleaned(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let mut clean = String::new();
    for c in last.chars().filter(|c| !c.is_control()) {
        if clean.len() + c.len_utf8() > MOST_BYTES {
            break;
        }
        clean.push(c);
    }
    if matches!(clean.trim(), "" | "." | "..") { "file".to_owned() } else { clean }
}

/// The header that names a file which is to be saved.
pub(crate) fn disposition(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_graphic() && !"\"\\%".contains(c) || c == ' ' { c } else { '_' };
    format!("attachment; filename=\"{}\"", name.chars().map(safe).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abuse_names_stay_names() {
        for (given, kept) in [
            ("three lines.jsonl", "three lines.jsonl"),
            ("../../etc/passwd", "passwd"),
            ("C:\\temp\\a.jsonl", "a.jsonl"),
            ("a\r\nx: y", "ax: y"),
            ("..", "file"),
            ("", "file"),
            ("dir/", "file"),
            ("né.jsonl", "né.jsonl"),
        ] {
            assert_eq!(cleaned(given), kept);
        }
        assert_eq!(cleaned(&"é".repeat(300)).len(), 254);
        assert_eq!(disposition("a\"b\\né"), "attachment; filename=\"a_b_n_\"");
    }
}
