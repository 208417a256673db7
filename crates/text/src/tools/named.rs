//! Calls that have the tool's name first, and then the arguments in JSON.

use super::json::Nested;
use super::marked::{Marked, Marks};
use super::reader::{Body, CallForm, Frame, FramePart, Progress, Reader, Row};
use crate::parts::PartSink;

/// The longest text before the arguments, in bytes.
const HEAD_BYTES: usize = 512;

const KIMI_MARKS: Marks = Marks {
    opens: &["<|tool_call_begin|>"],
    closes: &["<|tool_call_end|>"],
    drops: &["<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"],
};
/// `<|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{…}<|tool_call_end|>`, in a section: Kimi K2.
pub(super) const KIMI: Row = Row {
    marks: &[
        "<|tool_calls_section_begin|>",
        "<|tool_call_begin|>",
        "<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
        "<|tool_calls_section_end|>",
    ],
    frame: Frame {
        first: &[FramePart::Mark("<|tool_calls_section_begin|>"), FramePart::Mark("<|tool_call_begin|>")],
        between: Some(&[FramePart::Mark("<|tool_call_begin|>")]),
        last: &[FramePart::Mark("<|tool_calls_section_end|>")],
        form: CallForm::NameFirst {
            before: "functions.",
            after: &[FramePart::Text(":0"), FramePart::Mark("<|tool_call_argument_begin|>")],
            last: &[FramePart::Mark("<|tool_call_end|>")],
        },
    },
    reader: |_| reader(&KIMI_MARKS, kimi),
};

const DEEPSEEK_MARKS: Marks = Marks {
    opens: &["<｜tool▁call▁begin｜>"],
    closes: &["<｜tool▁call▁end｜>"],
    drops: &["<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"],
};
const DEEPSEEK_SEPARATOR: &str = "<｜tool▁sep｜>";
/// `<｜tool▁call▁begin｜>name<｜tool▁sep｜>{…}<｜tool▁call▁end｜>`, in a section: DeepSeek V3.1. R1 and V3 write
/// `function<｜tool▁sep｜>name` and the arguments in a code fence.
pub(super) const DEEPSEEK: Row = Row {
    marks: &[
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁call▁begin｜>",
        DEEPSEEK_SEPARATOR,
        "<｜tool▁call▁end｜>",
        "<｜tool▁calls▁end｜>",
    ],
    frame: Frame {
        first: &[FramePart::Mark("<｜tool▁calls▁begin｜>"), FramePart::Mark("<｜tool▁call▁begin｜>")],
        between: Some(&[FramePart::Mark("<｜tool▁call▁begin｜>")]),
        last: &[FramePart::Mark("<｜tool▁calls▁end｜>")],
        form: CallForm::NameFirst {
            before: "",
            after: &[FramePart::Mark(DEEPSEEK_SEPARATOR)],
            last: &[FramePart::Mark("<｜tool▁call▁end｜>")],
        },
    },
    reader: |_| reader(&DEEPSEEK_MARKS, deepseek),
};

const HUNYUAN_MARKS: Marks =
    Marks { opens: &["<tool_call>"], closes: &["</tool_call>"], drops: &["<tool_calls>", "</tool_calls>"] };
/// `<tool_call>name\n```json\n{…}\n```\n</tool_call>`, in a section: Hunyuan's dense models.
pub(super) const HUNYUAN: Row = Row {
    marks: &["<tool_calls>", "<tool_call>", "</tool_call>", "</tool_calls>"],
    frame: Frame {
        first: &[FramePart::Mark("<tool_calls>"), FramePart::Text("\n"), FramePart::Mark("<tool_call>")],
        between: Some(&[FramePart::Text("\n"), FramePart::Mark("<tool_call>")]),
        last: &[FramePart::Text("\n"), FramePart::Mark("</tool_calls>")],
        form: CallForm::NameFirst {
            before: "",
            after: &[FramePart::Text("\n```json\n")],
            last: &[FramePart::Text("\n```\n"), FramePart::Mark("</tool_call>")],
        },
    },
    reader: |_| reader(&HUNYUAN_MARKS, hunyuan),
};

const SOLAR_MARKS: Marks = Marks {
    opens: &["<|tool_call:begin|>"],
    closes: &["<|tool_call:end|>"],
    drops: &["<|tool_calls|>", "<|calls|>"],
};
/// `<|tool_call:begin|>id<|tool_call:name|>name<|tool_call:args|>{…}<|tool_call:end|>`: Solar Open.
pub(super) const SOLAR: Row = Row {
    marks: &[
        "<|tool_calls|>",
        "<|tool_call:begin|>",
        "<|tool_call:name|>",
        "<|tool_call:args|>",
        "<|tool_call:end|>",
    ],
    frame: Frame {
        first: &[FramePart::Mark("<|tool_calls|>"), FramePart::Mark("<|tool_call:begin|>")],
        between: Some(&[FramePart::Mark("<|tool_call:begin|>")]),
        last: &[],
        form: CallForm::NameFirst {
            before: "",
            after: &[FramePart::Mark("<|tool_call:args|>")],
            last: &[FramePart::Mark("<|tool_call:end|>")],
        },
    },
    reader: |_| reader(&SOLAR_MARKS, solar),
};

const FUNCTIONARY_MARKS: Marks = Marks { opens: &["<function="], closes: &["</function>"], drops: &[] };
/// `<function=name>{…}</function>`: Functionary 3.1.
pub(super) const FUNCTIONARY: Row = Row {
    marks: &[],
    frame: Frame {
        first: &[FramePart::Text("<function=")],
        between: Some(&[FramePart::Text("<function=")]),
        last: &[],
        form: CallForm::NameFirst {
            before: "",
            after: &[FramePart::Text(">")],
            last: &[FramePart::Text("</function>")],
        },
    },
    reader: |_| reader(&FUNCTIONARY_MARKS, functionary),
};

/// Finds the name in the text between the mark and the arguments.
type NameIn = fn(&str) -> &str;

fn reader(marks: &'static Marks, name_in: NameIn) -> Box<dyn Reader> {
    Box::new(Marked::new(
        marks,
        Box::new(move |_| Box::new(Named { name_in, head: String::new(), arguments: None })),
    ))
}

/// The parser of one call.
struct Named {
    name_in: NameIn,
    head: String,
    /// The arguments, once they have begun.
    arguments: Option<Nested>,
}

impl Body for Named {
    fn put(&mut self, letter: char, out: &mut PartSink) -> Progress {
        if let Some(nested) = &mut self.arguments {
            let ended = nested.put(letter);
            out.arguments(letter.encode_utf8(&mut [0; 4]));
            return if ended { Progress::Done } else { Progress::More };
        }
        if letter == '{' {
            let name = (self.name_in)(&self.head).trim();
            if !name.is_empty() && !name.contains(['\n', '"', '}', '<']) {
                out.call(name);
                out.arguments("{");
                self.arguments = Some(Nested::of(letter));
                return Progress::More;
            }
        }
        self.head.push(letter);
        let is_head = letter != '{' && self.head.len() <= HEAD_BYTES;
        if is_head { Progress::More } else { Progress::Broken }
    }

    fn unemitted(&mut self) -> Option<String> {
        self.arguments.is_none().then(|| std::mem::take(&mut self.head))
    }
}

/// `functions.name:0<|tool_call_argument_begin|>`, without the number too.
fn kimi(head: &str) -> &str {
    let head = head.split("<|").next().unwrap_or_default().trim();
    let head = head.strip_prefix("functions.").unwrap_or(head);
    let number = |tail: &str| !tail.is_empty() && tail.chars().all(|c| c.is_ascii_digit());
    head.rsplit_once(':').filter(|(_, tail)| number(tail)).map_or(head, |(name, _)| name)
}

fn deepseek(head: &str) -> &str {
    let (before, after) = head.split_once(DEEPSEEK_SEPARATOR).unwrap_or((head, ""));
    let fenced = after.split("```").next().unwrap_or_default().trim();
    if fenced.is_empty() { before } else { fenced }
}

fn hunyuan(head: &str) -> &str {
    head.trim_start().lines().next().unwrap_or_default()
}

fn solar(head: &str) -> &str {
    let name = head.split_once("<|tool_call:name|>").map_or(head, |(_, name)| name);
    name.split("<|").next().unwrap_or_default()
}

fn functionary(head: &str) -> &str {
    head.trim_end().strip_suffix('>').unwrap_or_default()
}
