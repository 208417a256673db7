//! How models write calls of tools, one file a style.
//!
//! A style is what a family was trained on, which its chat template shows. Each reader takes an answer letter by letter:
//! text before, between and after calls is content; a call is told as soon as its name is certain, its arguments as
//! they come. What begins like a call and is none is content too.

mod bare;
mod gemma;
mod hermes;
mod json;
mod listed;
mod llama;
mod mistral;
mod phi;
mod reader;
mod told;

pub(crate) use bare::Bare;
pub(crate) use reader::{Bit, Frame, Reader};
pub(crate) use told::{spelt_out, told};

/// How a model writes calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
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

impl Style {
    /// All of them, by the name that a flag gives them.
    pub const ALL: [(&'static str, Style); 5] = [
        ("hermes", Style::Hermes),
        ("llama", Style::Llama),
        ("mistral", Style::Mistral),
        ("phi", Style::Phi),
        ("gemma", Style::Gemma),
    ];

    /// By the name in [`Style::ALL`].
    pub fn named(name: &str) -> Option<Style> {
        Style::ALL.iter().find(|(known, _)| *known == name).map(|(_, style)| *style)
    }

    /// The name in [`Style::ALL`].
    pub fn name(self) -> &'static str {
        Style::ALL.iter().find(|(_, style)| *style == self).map_or("", |(name, _)| name)
    }

    /// The style that a chat template writes and asks for, if it knows tools at all.
    pub fn of_template(source: &str) -> Option<Style> {
        // The most telling first: several speak of `<tool_call>`, and Llama's JSON has no mark of its own.
        const SIGNS: [(&str, Style); 8] = [
            ("[TOOL_CALLS]", Style::Mistral),
            ("<start_function_call>", Style::Gemma),
            ("<|tool_call|>", Style::Phi),
            ("<|tool|>", Style::Phi),
            ("<tool_call>", Style::Hermes),
            ("<|python_tag|>", Style::Llama),
            ("\"parameters\": dictionary of argument name", Style::Llama),
            ("\"parameters\": ", Style::Llama),
        ];
        SIGNS.iter().find(|(sign, _)| source.contains(sign)).map(|(_, style)| *style)
    }

    /// Marks that are control tokens in some vocabularies; an answer is read with them in its text.
    pub fn marks(self) -> &'static [&'static str] {
        match self {
            Style::Hermes => hermes::MARKS,
            Style::Llama => llama::MARKS,
            Style::Mistral => mistral::MARKS,
            Style::Phi => phi::MARKS,
            Style::Gemma => gemma::MARKS,
        }
    }

    pub(crate) fn frame(self) -> Frame {
        match self {
            Style::Hermes => hermes::FRAME,
            Style::Llama => llama::FRAME,
            Style::Mistral => mistral::FRAME,
            Style::Phi => phi::FRAME,
            Style::Gemma => gemma::FRAME,
        }
    }

    pub(crate) fn reader(self, tools: &[String]) -> Box<dyn Reader> {
        match self {
            Style::Hermes => Box::new(hermes::Hermes::new()),
            Style::Llama => Box::new(llama::Llama::new(tools)),
            Style::Mistral => Box::new(mistral::Mistral::new()),
            Style::Phi => Box::new(phi::Phi::new()),
            Style::Gemma => Box::new(gemma::Gemma::new()),
        }
    }
}
