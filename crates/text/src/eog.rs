//! End-of-generation (EOG) tokens: the tokens that end an answer.

/// Names of control tokens that end a turn, a text or a file in the supported families. Model files often name only one
/// of them, but models generate the others too.
const NAMES: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<|END_OF_TURN_TOKEN|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
    "<|fim_pad|>",
    "<fim-pad>",
    "<fim_pad>",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<reponame>",
    "<|file_sep|>",
];

/// The ids of the EOG tokens, ascending: those of the control tokens `(id, name)` with a known name, and those that the
/// file names.
///
/// Two families use an EOG name of other families for something else: where `<|return|>` and `<|call|>` exist (or
/// `<|calls|>` and `<|flush|>`), `<|end|>` only closes one message of an answer; where `<|tool_response>` or
/// `<|plamo:eos|>` exist, `</s>` is text.
pub(crate) fn find<'a>(control: impl Iterator<Item = (u32, &'a str)>, named: &[u32]) -> Vec<u32> {
    let known: Vec<(u32, &str)> = control.collect();
    let has = |name: &str| known.iter().any(|(_, text)| *text == name);
    let end_is_inner = (has("<|return|>") && has("<|call|>")) || (has("<|calls|>") && has("<|flush|>"));
    let s_is_text = has("<|tool_response>") || has("<|plamo:eos|>");
    let counts = |name: &str| {
        NAMES.contains(&name) && !(name == "<|end|>" && end_is_inner) && !(name == "</s>" && s_is_text)
    };
    let by_name = known.iter().filter(|(_, name)| counts(name)).map(|(id, _)| *id);
    let mut ends: Vec<u32> = by_name.chain(named.iter().copied()).collect();
    ends.sort_unstable();
    ends.dedup();
    ends
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn an_inner_end_is_not_an_end() {
        let tokens = [(1, "<|end|>"), (2, "<|return|>"), (3, "<|call|>"), (4, "<|start|>")];
        assert_eq!(find(tokens.into_iter(), &[2]), [2, 3]);
        assert_eq!(find([(1, "<|end|>")].into_iter(), &[9]), [1, 9]);
    }
}
