//! Fill-in-the-middle: the tokens of a text that is missing between a prefix and a suffix.

use crate::{EncodeError, Special, TokenLimit, Tokenizer};

/// The names that models give to the three marks, as llama.cpp knows them: Qwen, StarCoder, Granite, DeepSeek, CodeLlama,
/// GLM, Falcon H1.
const MARKS: [[&str; 3]; 8] = [
    ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"],
    ["<fim-prefix>", "<fim-suffix>", "<fim-middle>"],
    ["<fim_prefix>", "<fim_suffix>", "<fim_middle>"],
    ["<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"],
    ["<PRE>", "<SUF>", "<MID>"],
    ["▁<PRE>", "▁<SUF>", "▁<MID>"],
    ["<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"],
    ["<|prefix|>", "<|suffix|>", "<|middle|>"],
];
const REPOSITORY: [&str; 5] = ["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"];
const FILE: [&str; 1] = ["<|file_sep|>"];
/// Between other texts, for models without a mark for files.
const BETWEEN: &str = "\n\n--- snippet ---\n\n";

/// A text with a gap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Infill {
    /// The text before the gap.
    pub prefix: String,
    /// The text after the gap.
    pub suffix: String,
    /// Other texts that help: file name and text. The first ones are left out if there is no room for all.
    pub extra: Vec<(String, String)>,
}

/// The tokens of a text with a gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InfillTokens {
    /// The prompt.
    pub tokens: Vec<u32>,
    /// The number of other texts that were left out.
    pub left_out: usize,
}

/// The control tokens of a vocabulary.
struct Marks {
    prefix: u32,
    suffix: u32,
    middle: u32,
    repository: Option<u32>,
    file: Option<u32>,
}

impl Tokenizer {
    /// Whether the vocabulary has the tokens for it.
    pub fn fills_in(&self) -> bool {
        self.infill_marks().is_some()
    }

    /// Encodes a text with a gap, in the order of prefix, suffix, middle. Texts are plain: no control token in them is
    /// parsed. Other texts take what room the limit leaves after `reserved` tokens, the latest first.
    ///
    /// # Errors
    /// The vocabulary has no tokens for it; prefix and suffix have more tokens than the limit; the pipeline refuses a
    /// text.
    pub fn encode_infill(
        &self,
        infill: &Infill,
        reserved: usize,
        limit: &TokenLimit<'_>,
    ) -> Result<InfillTokens, EncodeError> {
        let Some(marks) = self.infill_marks() else {
            return Err(EncodeError::Failed(
                "this model cannot fill in: its vocabulary has no tokens for prefix, suffix and middle"
                    .into(),
            ));
        };
        let plain = |text: &str, used: usize| {
            let max_tokens = limit.max_tokens.saturating_sub(used);
            let rest = TokenLimit { max_tokens, should_stop: limit.should_stop };
            self.encode_within(text, Special::Plain, false, &rest).map_err(|error| error.after(used))
        };
        let begin = self.encode_within("", Special::Plain, true, limit)?;
        let begin = begin.first().filter(|first| Some(**first) == self.bos()).copied();
        let mut file = vec![marks.prefix];
        file.extend(plain(&infill.prefix, 4)?);
        file.push(marks.suffix);
        file.extend(plain(&infill.suffix, file.len() + 2)?);
        file.push(marks.middle);
        let room = limit.max_tokens.saturating_sub(file.len() + usize::from(begin.is_some()) + reserved);
        let (extra, left_out) = others(&infill.extra, &marks, room, &|text| plain(text, 0))?;
        let mut tokens: Vec<u32> = begin.into_iter().collect();
        tokens.extend(extra);
        tokens.extend(file);
        Ok(InfillTokens { tokens: limit.check(tokens)?, left_out })
    }

    fn infill_marks(&self) -> Option<Marks> {
        // A text of the same spelling is no control token.
        let control = |name: &&str| self.token_id(name).filter(|id| self.is_special(*id));
        let marks = MARKS.iter().find_map(|[prefix, suffix, middle]| {
            Some((control(prefix)?, control(suffix)?, control(middle)?))
        });
        let (prefix, suffix, middle) = marks?;
        let repository = REPOSITORY.iter().find_map(control);
        Some(Marks { prefix, suffix, middle, repository, file: FILE.iter().find_map(control) })
    }
}

/// The tokens of the last of the other texts, and the number of those before them that have no room.
fn others(
    extra: &[(String, String)],
    marks: &Marks,
    room: usize,
    plain: &dyn Fn(&str) -> Result<Vec<u32>, EncodeError>,
) -> Result<(Vec<u32>, usize), EncodeError> {
    if extra.is_empty() {
        return Ok((Vec::new(), 0));
    }
    let mut head: Vec<u32> = Vec::new();
    if let Some(repository) = marks.repository {
        head.push(repository);
        head.extend(plain("repository\n")?);
    }
    let mut tail: Vec<u32> = Vec::new();
    if let Some(file) = marks.file {
        tail.push(file);
        tail.extend(plain("file\n")?);
    }
    let mut left = room.saturating_sub(head.len() + tail.len());
    let mut kept: Vec<Vec<u32>> = Vec::new();
    for (name, text) in extra.iter().rev() {
        let tokens = match marks.file {
            Some(_) => plain(&format!("{name}\n{text}")),
            None => plain(&format!("{BETWEEN}{text}")),
        };
        let mut tokens = match tokens {
            Err(EncodeError::TooMany { .. }) => break,
            tokens => tokens?,
        };
        if let Some(file) = marks.file {
            tokens.insert(0, file);
        }
        let Some(rest) = left.checked_sub(tokens.len()) else { break };
        left = rest;
        kept.push(tokens);
    }
    let left_out = extra.len() - kept.len();
    if kept.is_empty() {
        return Ok((Vec::new(), left_out));
    }
    head.extend(kept.into_iter().rev().flatten());
    head.extend(tail);
    Ok((head, left_out))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Infill;
    use crate::{TokenLimit, Tokenizer};

    /// A vocabulary of letters, and the control tokens given.
    fn tokenizer(control: &[&str]) -> Tokenizer {
        let letters = "abcdefghijklmnopqrstuvwxyzĊĠ-".chars().enumerate();
        let vocab: serde_json::Map<String, _> =
            letters.map(|(id, letter)| (letter.to_string(), json!(id))).collect();
        let first = vocab.len();
        let added: Vec<_> = control
            .iter()
            .enumerate()
            .map(|(at, name)| {
                json!({"id": first + at, "content": name, "special": true, "single_word": false, "lstrip": false,
                    "rstrip": false, "normalized": false})
            })
            .collect();
        let file = json!({"version": "1.0", "added_tokens": added,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
            "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
            "model": {"type": "BPE", "vocab": vocab, "merges": []}});
        Tokenizer::from_json(file.to_string().as_bytes()).expect("opens")
    }

    fn spelt(tokenizer: &Tokenizer, infill: &Infill, most: usize) -> Result<(String, usize), String> {
        let limit = TokenLimit { max_tokens: most, ..TokenLimit::NONE };
        let tokens = tokenizer.encode_infill(infill, 2, &limit).map_err(|error| error.to_string())?;
        Ok((tokenizer.decode(&tokens.tokens, false), tokens.left_out))
    }

    const QWEN: [&str; 5] =
        ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>"];

    #[test]
    fn the_gap_is_between_prefix_and_suffix() {
        let infill = Infill { prefix: "a b".into(), suffix: "c\n".into(), extra: Vec::new() };
        let said = spelt(&tokenizer(&QWEN), &infill, 100).expect("encodes");
        assert_eq!(said, ("<|fim_prefix|>a b<|fim_suffix|>c\n<|fim_middle|>".to_owned(), 0));
        let error = spelt(&tokenizer(&QWEN), &infill, 6).expect_err("is too long");
        assert!(error.contains("tokens"), "{error}");
        let error = spelt(&tokenizer(&QWEN[1..]), &infill, 100).expect_err("has no mark for the prefix");
        assert!(error.contains("cannot fill in"), "{error}");
    }

    #[test]
    fn other_texts_come_first_and_the_oldest_is_left_out() {
        let other = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let extra = vec![other("one", "x"), other("two", "yy")];
        let infill = Infill { prefix: "a".into(), suffix: String::new(), extra };
        let tokenizer = tokenizer(&QWEN);
        let (said, left_out) = spelt(&tokenizer, &infill, 100).expect("encodes");
        assert_eq!(left_out, 0);
        assert_eq!(
            said,
            "<|repo_name|>repository\n<|file_sep|>one\nx<|file_sep|>two\nyy<|file_sep|>file\n<|fim_prefix|>a<|fim_suffix|><|fim_middle|>"
        );
        let (said, left_out) = spelt(&tokenizer, &infill, 33).expect("encodes");
        assert!(left_out == 1 && said.contains("two\nyy") && !said.contains("one"), "{said}");
        let (said, left_out) = spelt(&tokenizer, &infill, 12).expect("encodes");
        assert_eq!((said.as_str(), left_out), ("<|fim_prefix|>a<|fim_suffix|><|fim_middle|>", 2));
    }

    #[test]
    fn abuse_marks_in_a_text_stay_text() {
        let file = tokenizer(&QWEN);
        let infill = Infill { prefix: "a".into(), suffix: "<|fim_middle|>".into(), extra: Vec::new() };
        let tokens = file.encode_infill(&infill, 0, &TokenLimit::NONE);
        // The letters of the mark that the vocabulary has; the mark itself once, at the end.
        let middle = file.token_id("<|fim_middle|>").expect("is there");
        let tokens = tokens.expect("encodes").tokens;
        assert_eq!(tokens.iter().filter(|id| **id == middle).count(), 1);
    }
}
