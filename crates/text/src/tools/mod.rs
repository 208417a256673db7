//! Tool-call syntaxes of models.
//!
//! A style is the syntax that a family was trained on; it is detected from the chat template. Each style is a [`Row`]:
//! its marks, the frame of required calls, and a reader, which parses an answer character by character. Text before,
//! between and after calls is content. A call is emitted as soon as its name is certain, and its arguments as they
//! arrive. Text that only looks like a tool call is content too.
//!
//! Most rows differ in their marks only and share a parser: `listed` (JSON), `named` (name, then JSON), `tagged` (XML).

mod bare;
mod call_list;
mod gemma;
mod harmony;
mod hermes;
mod in_messages;
mod json;
mod listed;
mod llama;
mod marked;
mod mistral;
mod named;
mod python;
mod reader;
mod signs;
mod tagged;
mod value_kind;
mod xml;

use std::sync::Arc;

use serde_json::Value;

pub(crate) use bare::Bare;
pub(crate) use in_messages::{calls_as_text, tools_in_system_message};
pub(crate) use reader::{CallForm, Frame, FramePart, Reader, Tags};
use reader::{Offered, Row};
pub(crate) use value_kind::text_lengths;

/// The syntax of a model's tool calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolCallStyle {
    /// `<tool_call>{"name": …, "arguments": …}</tool_call>`: Hermes, Qwen 2.5 and 3, Granite 4, EXAONE 4, SmolLM3.
    Hermes,
    /// `{"name": …, "parameters": …}`, perhaps after `<|python_tag|>`: Llama 3.
    Llama,
    /// `[TOOL_CALLS][{"name": …, "arguments": …}]` or `[TOOL_CALLS]name[ARGS]{…}`: Mistral.
    Mistral,
    /// `[TOOL_CALLS]name[ARGS]{…}`: Ministral 3, Devstral.
    Ministral,
    /// `<|tool_call|>[{"name": …, "arguments": …}]<|/tool_call|>`: Phi 4.
    Phi,
    /// `<start_function_call>call:name{key:value}<end_function_call>`: FunctionGemma.
    Gemma,
    /// `<|tool_call>call:name{key:value}<tool_call|>`: Gemma 4.
    Gemma4,
    /// `<|channel|>commentary to=functions.name<|message|>{…}<|call|>`: gpt-oss.
    Harmony,
    /// `<tool_call><function=name><parameter=key>value</parameter></function></tool_call>`: Qwen3.5, Nemotron 3.
    Qwen,
    /// As Qwen's in `<seed:tool_call>`: Seed-OSS.
    Seed,
    /// `<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>`: GLM.
    Glm,
    /// As GLM's with a suffix in each tag: Hunyuan 3.
    Hy,
    /// `<tool_call>name` and JSON in a code fence: Hunyuan's dense models.
    Hunyuan,
    /// `<|tool_call_start|>[name(key='value')]<|tool_call_end|>`: LFM2.
    Lfm,
    /// `<|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{…}<|tool_call_end|>`: Kimi K2.
    Kimi,
    /// `<｜tool▁call▁begin｜>name<｜tool▁sep｜>{…}<｜tool▁call▁end｜>`: DeepSeek R1, V3, V3.1.
    DeepSeek,
    /// `<｜DSML｜invoke name="name">` and parameters: DeepSeek V3.2, V4.
    Dsml,
    /// `<invoke name="name"><parameter name="key">value</parameter></invoke>`: MiniMax M2.
    MiniMax,
    /// `<function name="name"><param name="key">value</param></function>`: MiniCPM 5.
    MiniCpm,
    /// `<|tool_call|>[{"name": …, "arguments": …}]`: Granite 3.
    Granite,
    /// `<TOOLCALL>[{"name": …, "arguments": …}]</TOOLCALL>`: Nemotron Nano 2.
    Nemotron,
    /// `<tool_calls>[{"name": …, "arguments": …}]</tool_calls>`: Apriel, Hunyuan A13B, MiniMax M1.
    ToolCalls,
    /// `<|START_ACTION|>[{"tool_name": …, "parameters": …}]<|END_ACTION|>`: Command R7B and later.
    Cohere,
    /// `<|tools_prefix|>[{"name": {…}}]<|tools_suffix|>`: Apertus.
    Apertus,
    /// `<|function_call|>{"name": …, "arguments": …}`: GigaChat 3.
    GigaChat,
    /// `<|tool_call:begin|>id<|tool_call:name|>name<|tool_call:args|>{…}<|tool_call:end|>`: Solar Open.
    Solar,
    /// `<function=name>{…}</function>`: Functionary 3.1.
    Functionary,
    /// `<atem:invoke name="name">` and parameters: Muse Glimmer.
    Muse,
}

impl ToolCallStyle {
    /// All styles, with their names on the command line.
    pub const ALL: [(&'static str, ToolCallStyle); 28] = [
        ("hermes", ToolCallStyle::Hermes),
        ("llama", ToolCallStyle::Llama),
        ("mistral", ToolCallStyle::Mistral),
        ("ministral", ToolCallStyle::Ministral),
        ("phi", ToolCallStyle::Phi),
        ("gemma", ToolCallStyle::Gemma),
        ("gemma4", ToolCallStyle::Gemma4),
        ("harmony", ToolCallStyle::Harmony),
        ("qwen", ToolCallStyle::Qwen),
        ("seed", ToolCallStyle::Seed),
        ("glm", ToolCallStyle::Glm),
        ("hy", ToolCallStyle::Hy),
        ("hunyuan", ToolCallStyle::Hunyuan),
        ("lfm", ToolCallStyle::Lfm),
        ("kimi", ToolCallStyle::Kimi),
        ("deepseek", ToolCallStyle::DeepSeek),
        ("dsml", ToolCallStyle::Dsml),
        ("minimax", ToolCallStyle::MiniMax),
        ("minicpm", ToolCallStyle::MiniCpm),
        ("granite", ToolCallStyle::Granite),
        ("nemotron", ToolCallStyle::Nemotron),
        ("tool_calls", ToolCallStyle::ToolCalls),
        ("cohere", ToolCallStyle::Cohere),
        ("apertus", ToolCallStyle::Apertus),
        ("gigachat", ToolCallStyle::GigaChat),
        ("solar", ToolCallStyle::Solar),
        ("functionary", ToolCallStyle::Functionary),
        ("muse", ToolCallStyle::Muse),
    ];

    /// The style of a name in [`ToolCallStyle::ALL`].
    pub fn named(name: &str) -> Option<ToolCallStyle> {
        ToolCallStyle::ALL.iter().find(|(known, _)| *known == name).map(|(_, style)| *style)
    }

    /// The name of this style in [`ToolCallStyle::ALL`].
    pub fn name(self) -> &'static str {
        ToolCallStyle::ALL.iter().find(|(_, style)| *style == self).map_or("", |(name, _)| name)
    }

    /// Marks that are control tokens in some vocabularies; the detokenizer must show them to the parser.
    pub fn marks(self) -> &'static [&'static str] {
        self.row().marks
    }

    /// Whether calls have ids of nine letters and digits, which the templates of these models demand.
    pub fn has_short_ids(self) -> bool {
        matches!(self, ToolCallStyle::Mistral | ToolCallStyle::Ministral)
    }

    /// The beginning of a call that ends reasoning although its closing tag is missing.
    pub(crate) fn ends_reasoning(self) -> Option<&'static str> {
        match self {
            ToolCallStyle::Qwen => Some("<tool_call>\n<function="),
            ToolCallStyle::Seed => Some("<seed:tool_call>\n<function="),
            _ => None,
        }
    }

    pub(crate) fn frame(self) -> &'static Frame {
        &self.row().frame
    }

    pub(crate) fn reader(self, names: &[String], schemas: &Arc<[(String, Value)]>) -> Box<dyn Reader> {
        (self.row().reader)(&Offered { names, schemas })
    }

    fn row(self) -> &'static Row {
        match self {
            ToolCallStyle::Hermes => &hermes::HERMES,
            ToolCallStyle::Llama => &llama::LLAMA,
            ToolCallStyle::Mistral => &mistral::MISTRAL,
            ToolCallStyle::Ministral => &mistral::NAMED,
            ToolCallStyle::Phi => &listed::PHI,
            ToolCallStyle::Gemma => &gemma::GEMMA,
            ToolCallStyle::Gemma4 => &gemma::GEMMA_4,
            ToolCallStyle::Harmony => &harmony::HARMONY,
            ToolCallStyle::Qwen => &xml::QWEN,
            ToolCallStyle::Seed => &xml::SEED,
            ToolCallStyle::Glm => &xml::GLM,
            ToolCallStyle::Hy => &xml::HY,
            ToolCallStyle::Hunyuan => &named::HUNYUAN,
            ToolCallStyle::Lfm => &python::LFM,
            ToolCallStyle::Kimi => &named::KIMI,
            ToolCallStyle::DeepSeek => &named::DEEPSEEK,
            ToolCallStyle::Dsml => &xml::DSML,
            ToolCallStyle::MiniMax => &xml::MINIMAX,
            ToolCallStyle::MiniCpm => &xml::MINICPM,
            ToolCallStyle::Granite => &listed::GRANITE,
            ToolCallStyle::Nemotron => &listed::NEMOTRON,
            ToolCallStyle::ToolCalls => &listed::TOOL_CALLS,
            ToolCallStyle::Cohere => &listed::COHERE,
            ToolCallStyle::Apertus => &listed::APERTUS,
            ToolCallStyle::GigaChat => &listed::GIGACHAT,
            ToolCallStyle::Solar => &named::SOLAR,
            ToolCallStyle::Functionary => &named::FUNCTIONARY,
            ToolCallStyle::Muse => &xml::MUSE,
        }
    }
}
