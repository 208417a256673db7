//! Answers that go on where the last message ends (`continue_final_message`).
//!
//! What a template writes after a message differs. So a mark is put at the end of the message, and the template's text is
//! cut where the mark comes out, as transformers does it.

use std::borrow::Cow;

use serde_json::Value;
use text::Prompt;
use wire::Fault;

/// Unicode keeps this code point free for a program's own use.
const MARK: char = '\u{FDD2}';

/// The messages, the last of them with a mark at its end if the answer is to go on there.
pub(crate) fn marked(messages: &[Value], wanted: bool) -> Cow<'_, [Value]> {
    let mut messages = Cow::Borrowed(messages);
    if wanted && let Some(last) = messages.to_mut().last_mut() {
        let content = last["content"].as_str().unwrap_or_default();
        last["content"] = format!("{content}{MARK}").into();
    }
    messages
}

/// Cuts the text at the last mark: a caller may have written others.
pub(crate) fn cut(prompt: &mut Prompt) -> Result<(), Fault> {
    let Some(at) = prompt.text.rfind(MARK) else {
        let message = "the chat template leaves the last message out, so it cannot be continued";
        return Err(Fault::template(message));
    };
    prompt.text.truncate(at);
    prompt.plain.retain(|range| range.start < at);
    if let Some(last) = prompt.plain.last_mut() {
        last.end = last.end.min(at);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_text_ends_where_the_message_does() {
        let messages = [json!({"role": "assistant", "content": "a\u{FDD2}<e> "})];
        assert_eq!(marked(&messages, false)[0]["content"], "a\u{FDD2}<e> ");
        let content = marked(&messages, true)[0]["content"].as_str().unwrap_or_default().to_owned();
        let (text, plain) = (format!("<s>{content}<e>"), vec![7..10, 14..16]);
        let mut prompt = Prompt { text, plain, warnings: Vec::new() };
        cut(&mut prompt).expect("a mark");
        assert_eq!((prompt.text.as_str(), prompt.plain.len()), ("<s>a\u{FDD2}<e> ", 1));
        assert_eq!(prompt.plain.first(), Some(&(7..10)));
        assert!(cut(&mut "nothing".to_owned().into()).is_err());
    }
}
