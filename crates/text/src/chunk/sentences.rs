//! Sentences of a text, by Unicode Standard Annex 29, and paragraphs: a line without text ends a sentence too.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation as _;

/// The bounds of the sentences of a part of the text, ascending, with its start and end.
pub(super) fn bounds(text: &str, part: Range<usize>) -> Vec<usize> {
    let starts = text[part.clone()].split_sentence_bound_indices().map(|(at, _)| part.start + at);
    let mut bounds: Vec<usize> = starts.collect();
    if bounds.last() != Some(&part.end) {
        bounds.push(part.end);
    }
    // The annex ends a sentence at each line end. Text is often wrapped, so that only an empty line, a mark at the
    // line's end, or a line that begins like a list or heading ends one here.
    let mut kept = Vec::with_capacity(bounds.len());
    for (index, at) in bounds.iter().enumerate() {
        let is_edge = index == 0 || index + 1 == bounds.len();
        if is_edge || !is_wrapped(&text[part.start..*at], &text[*at..part.end]) {
            kept.push(*at);
        }
    }
    kept
}

/// Whether a line end between two texts stands within a sentence.
fn is_wrapped(before: &str, after: &str) -> bool {
    let Some(line) = before.strip_suffix('\n') else { return false };
    let line = line.strip_suffix('\r').unwrap_or(line);
    let ended = line.trim_end().chars().next_back().is_none_or(|c| !(c.is_alphanumeric() || c == ','));
    let goes_on = after.chars().next().is_some_and(char::is_lowercase);
    !ended && goes_on && !line.ends_with(['\n', '\r'])
}
