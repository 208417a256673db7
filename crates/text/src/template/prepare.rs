//! Prepares a template's source for minijinja.

use fancy_regex::Regex;

use super::TemplateError;
use super::limits::MAX_SOURCE;
use super::methods::REVERSED;

/// Normalizes line ends as Jinja2 does; turns `{% generation %}`, which marks text for training, into a plain scope,
/// and `[::-1]` into a method that handles empty lists (minijinja 2.24 reads past their end).
pub(super) fn prepare(source: &str) -> Result<String, TemplateError> {
    if source.len() > MAX_SOURCE {
        let message = format!("is {} bytes long; the limit is {MAX_SOURCE}", source.len());
        return Err(TemplateError::new(message));
    }
    // A byte order mark belongs to the file, not to the template.
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let bad = |e: fancy_regex::Error| TemplateError::new(e.to_string());
    let reversed = Regex::new(r"\[\s*:\s*:\s*-\s*1\s*\]").map_err(bad)?;
    let begin = Regex::new(r"^(\{%[-+]?\s*)generation(\s*[-+]?%\})$").map_err(bad)?;
    let end = Regex::new(r"^(\{%[-+]?\s*)endgeneration(\s*[-+]?%\})$").map_err(bad)?;
    let mut out = String::with_capacity(source.len());
    for (is_code, piece) in pieces(&source) {
        if !is_code {
            out.push_str(piece);
            continue;
        }
        let piece = reversed.replace_all(piece, format!(".{REVERSED}()"));
        let piece = begin.replace(&piece, "${1}with${2}");
        out.push_str(&end.replace(&piece, "${1}endwith${2}"));
    }
    Ok(out)
}

/// Splits a template into code (tags, without their string literals) and other text.
fn pieces(source: &str) -> Vec<(bool, &str)> {
    let bytes = source.as_bytes();
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut at = 0;
    let mut cut = |from: usize, to: usize, is_code: bool| {
        if from < to {
            pieces.push((is_code, source.get(from..to).unwrap_or_default()));
        }
        to
    };
    while at < bytes.len() {
        let close: &[u8] = match bytes.get(at..at + 2) {
            Some(b"{{") => b"}}",
            Some(b"{%") => b"%}",
            Some(b"{#") => {
                let len =
                    source.get(at..).and_then(|rest| rest.find("#}")).map_or(bytes.len() - at, |end| end + 2);
                at += len;
                continue;
            }
            _ => {
                at += 1;
                continue;
            }
        };
        start = cut(start, at, false);
        at += 2;
        while at < bytes.len() && !bytes[at..].starts_with(close) {
            if let quote @ (b'"' | b'\'') = bytes[at] {
                start = cut(start, at, true);
                at += 1;
                while at < bytes.len() && bytes[at] != quote {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at = (at + 1).min(bytes.len());
                start = cut(start, at, false);
            } else {
                at += 1;
            }
        }
        at = (at + 2).min(bytes.len());
        start = cut(start, at, true);
    }
    cut(start, bytes.len(), false);
    pieces
}

#[cfg(test)]
mod tests {
    use super::{pieces, prepare};

    #[test]
    fn only_code_is_changed() {
        let source = "a[::-1]{{ x[::-1] ~ '[::-1] }}' }}{# {% generation %} #}{%- generation -%}b{% endgeneration %}\r\n";
        let want =
            "a[::-1]{{ x.__reversed__() ~ '[::-1] }}' }}{# {% generation %} #}{%- with -%}b{% endwith %}\n";
        assert_eq!(prepare(source).expect("prepares"), want);
    }

    #[test]
    fn pieces_put_together_are_the_source() {
        for source in ["", "{", "{{", "{%'", "{{ '\\", "{# x", "é{{ 'é' }}é", "{{ \"a\\\"b\" }}{%x%}"] {
            assert_eq!(pieces(source).iter().map(|(_, piece)| *piece).collect::<String>(), source);
        }
    }
}
