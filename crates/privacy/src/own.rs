//! Own rules and lists of a configuration, with their bounds.

use crate::kind::{Kind, MAX_OWN};
use crate::label::Label;
use crate::settings::{OwnList, OwnRule, Settings};
use crate::sink::Sink;
use aho_corasick::{AhoCorasick, MatchKind};
use regex::{Regex, RegexBuilder};

/// Bytes of an expression and of one match.
const PATTERN: usize = 1_024;
/// Bytes of an expression's program.
const PROGRAM: usize = 1 << 20;
/// Bytes in which one search of an expression ends.
const WINDOW: usize = 4_096;
/// Words of a list, and bytes of one.
const WORDS: usize = 10_000;
const WORD: usize = 256;

/// What is wrong with the settings of detection.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A name that no placeholder can be made of, or one that is taken.
    #[error(
        "rule `{0}`: a name is 1 to 32 letters, digits and underscores, begins with a letter, and is not taken"
    )]
    Name(String),
    /// Too many own rules and lists.
    #[error("{0} own rules and lists; the limit is {MAX_OWN}")]
    Many(usize),
    /// An expression that is longer than its limit.
    #[error("rule `{name}`: the pattern has {bytes} bytes; the limit is {PATTERN}")]
    Long {
        /// The rule's name.
        name: String,
        /// The expression's bytes.
        bytes: usize,
    },
    /// An expression that cannot be read or is too large when compiled.
    #[error("rule `{name}`: {error}")]
    Pattern {
        /// The rule's name.
        name: String,
        /// What `regex` says.
        error: Box<regex::Error>,
    },
    /// A list without words, with too many, or with one that is empty or too long.
    #[error("list `{name}`: {why}; a list has 1 to {WORDS} words of 1 to {WORD} bytes")]
    Words {
        /// The list's name.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// Words of which no automaton can be made.
    #[error("words: {0}")]
    Automaton(#[from] aho_corasick::BuildError),
    /// A number outside its range.
    #[error("`{name}` is {value}; it must be {range}")]
    Range {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: usize,
        /// What is allowed.
        range: &'static str,
    },
}

/// An own rule or list, ready to be used.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    pub name: String,
    pub label: Label,
    score: u8,
    matcher: Matcher,
}

#[derive(Clone, Debug)]
enum Matcher {
    Pattern(Regex),
    Words(AhoCorasick),
}

impl Own {
    /// Every own rule and list of the settings, the rules first.
    pub(crate) fn all(settings: &Settings) -> Result<Vec<Own>, SettingsError> {
        let count = settings.rule.len() + settings.list.len();
        if count > MAX_OWN {
            return Err(SettingsError::Many(count));
        }
        let mut all: Vec<Own> = Vec::with_capacity(count);
        let rules = settings.rule.iter().map(Own::rule);
        for own in rules.chain(settings.list.iter().map(Own::list)) {
            let own = own?;
            let taken = all.iter().any(|other| other.name.eq_ignore_ascii_case(&own.name));
            if taken || !is_name(&own.name) {
                return Err(SettingsError::Name(own.name.chars().take(64).collect()));
            }
            all.push(own);
        }
        Ok(all)
    }

    fn rule(rule: &OwnRule) -> Result<Own, SettingsError> {
        let name = rule.name.clone();
        if rule.pattern.len() > PATTERN {
            return Err(SettingsError::Long { name, bytes: rule.pattern.len() });
        }
        if rule.score > 100 {
            return Err(SettingsError::Range {
                name: "score",
                value: usize::from(rule.score),
                range: "0 to 100",
            });
        }
        let built = RegexBuilder::new(&rule.pattern).size_limit(PROGRAM).dfa_size_limit(PROGRAM).build();
        let matcher =
            built.map_err(|error| SettingsError::Pattern { name: name.clone(), error: Box::new(error) })?;
        Ok(Own { name, label: rule.label, score: rule.score, matcher: Matcher::Pattern(matcher) })
    }

    fn list(list: &OwnList) -> Result<Own, SettingsError> {
        let name = list.name.clone();
        let wrong = |why: String| Err(SettingsError::Words { name: name.clone(), why });
        if list.words.is_empty() || list.words.len() > WORDS {
            return wrong(format!("{} words", list.words.len()));
        }
        if let Some(word) = list.words.iter().find(|word| word.trim().is_empty() || word.len() > WORD) {
            return wrong(format!("a word of {} bytes", word.trim().len()));
        }
        let mut builder = AhoCorasick::builder();
        let words = builder.ascii_case_insensitive(true).match_kind(MatchKind::LeftmostLongest);
        let words = words.build(list.words.iter().map(|word| word.trim()))?;
        Ok(Own { name, label: list.label, score: 100, matcher: Matcher::Words(words) })
    }

    /// Offers the matches in a text.
    pub(crate) fn find(&self, kind: Kind, sink: &mut Sink, text: &str) {
        match &self.matcher {
            Matcher::Pattern(pattern) => search(pattern, text, |start, end| {
                sink.offer(kind, start, end, self.score);
                !sink.full()
            }),
            Matcher::Words(words) => {
                for found in words.find_iter(text).filter(|found| is_whole(text, found.start(), found.end()))
                {
                    sink.offer(kind, found.start(), found.end(), self.score);
                }
            }
        }
    }
}

fn is_name(name: &str) -> bool {
    let letters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
    let last = name.bytes().last().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let taken = Kind::ALL.iter().any(|kind| kind.name().eq_ignore_ascii_case(name))
        || name.eq_ignore_ascii_case("literal");
    letters && first && last && name.len() <= 32 && !taken
}

fn is_whole(text: &str, start: usize, end: usize) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    !text[..start].chars().next_back().is_some_and(part) && !text[end..].chars().next().is_some_and(part)
}

/// Calls for each match that is not empty, until told to stop.
///
/// Iterating over the matches of one expression in one text can take quadratic time, because each search may look to the
/// text's end. Here a search looks at most a window far, and a window ends between words where it can.
fn search(pattern: &Regex, text: &str, mut found: impl FnMut(usize, usize) -> bool) {
    let mut at = 0;
    while at < text.len() {
        let end = window_end(text, at);
        match pattern.find_at(&text[..end], at) {
            Some(one) if one.len() <= PATTERN && !one.is_empty() => {
                if !found(one.start(), one.end()) {
                    return;
                }
                at = one.end();
            }
            Some(one) => at = next_char(text, one.start()),
            None if end == text.len() => return,
            // A match may begin here that the window's end cut off.
            None => at = text.floor_char_boundary((end - PATTERN).max(at + 1)).max(next_char(text, at)),
        }
    }
}

fn next_char(text: &str, at: usize) -> usize {
    text.ceil_char_boundary(at + 1)
}

fn window_end(text: &str, at: usize) -> usize {
    let end = text.floor_char_boundary((at + WINDOW).min(text.len()));
    let cut = text.as_bytes()[end.saturating_sub(256)..end].iter().rposition(u8::is_ascii_whitespace);
    match cut {
        Some(cut) if end < text.len() => end.saturating_sub(256) + cut,
        _ => end,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

    use super::*;

    #[test]
    fn matches_in_windows_are_those_in_the_whole_text() {
        let text = "E-123456 und Größe, x ".repeat(2_000);
        let pattern = Regex::new(r"\bE-[0-9]{6}\b|Größe").unwrap();
        let mut found = Vec::new();
        search(&pattern, &text, |start, end| {
            found.push(start..end);
            true
        });
        let whole: Vec<_> = pattern.find_iter(&text).map(|one| one.range()).collect();
        assert_eq!(found, whole);
    }
}
