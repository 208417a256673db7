//! Tool-call syntaxes of models, one file for each style.
//!
//! A style is the syntax that a family was trained on; it is detected from the chat template. Each reader parses an
//! answer character by character. Text before, between and after calls is content. A call is emitted as soon as its
//! name is certain, and its arguments as they arrive. Text that only looks like a tool call is content too.

mod bare;
mod call_list;
mod gemma;
mod hermes;
mod in_messages;
mod json;
mod llama;
mod mistral;
mod phi;
mod reader;

pub(crate) use bare::Bare;
pub(crate) use in_messages::{calls_as_text, tools_in_system_message};
pub(crate) use reader::{Frame, FramePart, Reader};

/// The syntax of a model's tool calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolCallStyle {
    /// `<tool_call>{"name": …, "arguments": …}</tool_call>`: Hermes, Qwen.
    Hermes,
    /// `{"name": …, "parameters": …}`, perhaps after `<|python_tag|>`: Llama 3.
    Llama,
    /// `[TOOL_CALLS][{"name": …, "arguments": …}]` or `[TOOL_CALLS]name[ARGS]{…}`: Mistral.
    Mistral,
    /// `<|tool_call|>[{"name": …, "arguments": …}]<|/tool_call|>`: Phi 4.
    Phi,
    /// `<start_function_call>call:name{key:value}<end_function_call>`: Gemma.
    Gemma,
}

impl ToolCallStyle {
    /// All styles, with their names on the command line.
    pub const ALL: [(&'static str, ToolCallStyle); 5] = [
        ("hermes", ToolCallStyle::Hermes),
        ("llama", ToolCallStyle::Llama),
        ("mistral", ToolCallStyle::Mistral),
        ("phi", ToolCallStyle::Phi),
        ("gemma", ToolCallStyle::Gemma),
    ];

    /// The style of a name in [`ToolCallStyle::ALL`].
    pub fn named(name: &str) -> Option<ToolCallStyle> {
        ToolCallStyle::ALL.iter().find(|(known, _)| *known == name).map(|(_, style)| *style)
    }

    /// The name of this style in [`ToolCallStyle::ALL`].
    pub fn name(self) -> &'static str {
        ToolCallStyle::ALL.iter().find(|(_, style)| *style == self).map_or("", |(name, _)| name)
    }

    /// Detects the style of a chat template, if the template supports tools.
    pub fn of_template(source: &str) -> Option<ToolCallStyle> {
        // The most specific first: several templates mention `<tool_call>`, and Llama's JSON has no mark of its own.
        const SIGNS: [(&str, ToolCallStyle); 8] = [
            ("[TOOL_CALLS]", ToolCallStyle::Mistral),
            ("<start_function_call>", ToolCallStyle::Gemma),
            ("<|tool_call|>", ToolCallStyle::Phi),
            ("<|tool|>", ToolCallStyle::Phi),
            ("<tool_call>", ToolCallStyle::Hermes),
            ("<|python_tag|>", ToolCallStyle::Llama),
            ("\"parameters\": dictionary of argument name", ToolCallStyle::Llama),
            ("\"parameters\": ", ToolCallStyle::Llama),
        ];
        SIGNS.iter().find(|(sign, _)| source.contains(sign)).map(|(_, style)| *style)
    }

    /// Marks that are control tokens in some vocabularies; the detokenizer must show them to the parser.
    pub fn marks(self) -> &'static [&'static str] {
        match self {
            ToolCallStyle::Hermes => hermes::MARKS,
            ToolCallStyle::Llama => llama::MARKS,
            ToolCallStyle::Mistral => mistral::MARKS,
            ToolCallStyle::Phi => phi::MARKS,
            ToolCallStyle::Gemma => gemma::MARKS,
        }
    }

    pub(crate) fn frame(self) -> Frame {
        match self {
            ToolCallStyle::Hermes => hermes::FRAME,
            ToolCallStyle::Llama => llama::FRAME,
            ToolCallStyle::Mistral => mistral::FRAME,
            ToolCallStyle::Phi => phi::FRAME,
            ToolCallStyle::Gemma => gemma::FRAME,
        }
    }

    pub(crate) fn reader(self, tools: &[String]) -> Box<dyn Reader> {
        match self {
            ToolCallStyle::Hermes => Box::new(hermes::Hermes::new()),
            ToolCallStyle::Llama => Box::new(llama::Llama::new(tools)),
            ToolCallStyle::Mistral => Box::new(mistral::Mistral::new()),
            ToolCallStyle::Phi => Box::new(phi::Phi::new()),
            ToolCallStyle::Gemma => Box::new(gemma::Gemma::new()),
        }
    }
}
