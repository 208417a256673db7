//! Sections of a Markdown text, by its headings (CommonMark: `# title`, and titles underlined with `===` or `---`).

use std::ops::Range;

/// A heading with the text up to the next one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Section {
    /// From the heading's line to that of the next; the sections of a text are the text.
    pub(super) bytes: Range<usize>,
    /// Titles of the headings above, and its own.
    pub(super) path: Vec<String>,
}

/// The most bytes of a title that a path has.
const MAX_TITLE: usize = 512;

/// The sections of a text.
pub(super) fn sections(text: &str) -> Vec<Section> {
    let mut found: Vec<Section> = Vec::new();
    let mut path: Vec<(usize, String)> = Vec::new();
    let (mut start, mut fence) = (0, None);
    let mut above: Option<Range<usize>> = None;
    let mut open = Section { bytes: 0..0, path: Vec::new() };
    for line in text.split_inclusive('\n') {
        let at = start;
        start += line.len();
        let bare = line.trim_end_matches(['\n', '\r']);
        if let Some(mark) = fence_mark(bare, fence) {
            fence = if fence.is_none() { Some(mark) } else { None };
            above = None;
            continue;
        }
        if fence.is_some() {
            continue;
        }
        let heading = match (heading(bare), above.take()) {
            (Some((level, title)), _) => Some((at, level, title)),
            (None, Some(line)) => {
                underline(bare).map(|level| (line.start, level, text[line].trim().to_owned()))
            }
            (None, None) => None,
        };
        let Some((begin, level, title)) = heading else {
            above = is_paragraph(bare).then_some(at..at + bare.len());
            continue;
        };
        path.retain(|(above, _)| *above < level);
        path.push((level, shortened(title)));
        open.bytes.end = begin;
        let titles = path.iter().map(|(_, title)| title.clone()).collect();
        let next = Section { bytes: begin..begin, path: titles };
        found.push(std::mem::replace(&mut open, next));
    }
    open.bytes.end = text.len();
    found.push(open);
    found.retain(|section| !section.bytes.is_empty());
    found
}

fn shortened(mut title: String) -> String {
    title.truncate(title.floor_char_boundary(MAX_TITLE));
    title
}

/// A line without its indentation; `None` from four spaces on, which are code.
fn unindented(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches(' ');
    (line.len() - rest.len() < 4).then_some(rest)
}

/// The level and title of `# title`.
fn heading(line: &str) -> Option<(usize, String)> {
    let rest = unindented(line)?;
    let title = rest.trim_start_matches('#');
    let level = rest.len() - title.len();
    let spaced = title.is_empty() || title.starts_with([' ', '\t']);
    if !(1..=6).contains(&level) || !spaced {
        return None;
    }
    let title = title.trim();
    let open = title.trim_end_matches('#');
    let closed = open.is_empty() || open.ends_with([' ', '\t']);
    Some((level, if closed { open.trim_end() } else { title }.to_owned()))
}

/// The level that an underline gives to the line above it.
fn underline(line: &str) -> Option<usize> {
    let marks = unindented(line)?.trim_end();
    let all = |mark: u8| !marks.is_empty() && marks.bytes().all(|byte| byte == mark);
    if all(b'=') { Some(1) } else { all(b'-').then_some(2) }
}

/// Whether an underline makes a heading of a line: not of an empty one, a list item, a quotation or a table.
fn is_paragraph(line: &str) -> bool {
    let Some(text) = unindented(line).map(str::trim_end).filter(|text| !text.is_empty()) else {
        return false;
    };
    let is_mark = |text: &str| ["- ", "* ", "+ ", ">", "|"].iter().any(|mark| text.starts_with(mark));
    let digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_number = digits.len() < text.len() && (digits.starts_with(". ") || digits.starts_with(") "));
    !is_mark(text) && !is_number
}

/// The mark and length of a line that opens a code block, or closes the open one.
fn fence_mark(line: &str, open: Option<(char, usize)>) -> Option<(char, usize)> {
    let rest = unindented(line)?;
    let mark = rest.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = rest.len() - rest.trim_start_matches(mark).len();
    let info = &rest[length..];
    match open {
        None => (length >= 3 && !(mark == '`' && info.contains('`'))).then_some((mark, length)),
        Some((opened, least)) => {
            (mark == opened && length >= least && info.trim().is_empty()).then_some((mark, length))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::sections;

    fn paths(text: &str) -> Vec<(String, String)> {
        let found = sections(text);
        assert_eq!(found.iter().map(|s| &text[s.bytes.clone()]).collect::<String>(), text);
        found.into_iter().map(|s| (s.path.join(" > "), text[s.bytes].to_owned())).collect()
    }

    #[test]
    fn headings_nest() {
        let text = "intro\n# A\na\n### C #\nc\n## B\nb\nD\n===\nd\nE e\n---\n";
        let found = paths(text);
        let names: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(names, ["", "A", "A > C", "A > B", "D", "D > E e"]);
        assert_eq!(found[1].1, "# A\na\n");
    }

    #[test]
    fn code_lists_and_rules_are_no_headings() {
        let text =
            "```sh\n# no\n```\n    # no\n#no\n- item\n---\n\n---\n####### no\n~~~\n```\n# no\n~~~\n# yes\n";
        let found = paths(text);
        assert_eq!(found.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(), ["", "yes"]);
    }
}
