//! Detects a style by the texts that only its chat templates contain.

use super::ToolCallStyle;

/// A sign is one text or several; the most specific come first: several templates mention `<tool_call>`, and Llama's
/// JSON has no mark of its own.
const SIGNS: &[(&[&str], ToolCallStyle)] = &[
    (&["[TOOL_CALLS]", "[ARGS]"], ToolCallStyle::Ministral),
    (&["[TOOL_CALLS]"], ToolCallStyle::Mistral),
    (&["<start_function_call>"], ToolCallStyle::Gemma),
    (&["<|tool_call>call:"], ToolCallStyle::Gemma4),
    (&["<|channel|>commentary", "functions."], ToolCallStyle::Harmony),
    (&["<atem:"], ToolCallStyle::Muse),
    (&["<|tool_call:begin|>"], ToolCallStyle::Solar),
    (&["<|tool_call_argument_begin|>"], ToolCallStyle::Kimi),
    (&["<｜tool▁sep｜>"], ToolCallStyle::DeepSeek),
    (&["DSML", "invoke"], ToolCallStyle::Dsml),
    (&["<seed:tool_call>"], ToolCallStyle::Seed),
    (&["<minimax:tool_call>"], ToolCallStyle::MiniMax),
    (&["<|START_ACTION|>"], ToolCallStyle::Cohere),
    (&["<|tools_prefix|>"], ToolCallStyle::Apertus),
    (&["<TOOLCALL>"], ToolCallStyle::Nemotron),
    (&["'<arg_key{}>'"], ToolCallStyle::Hy),
    (&["<arg_key>"], ToolCallStyle::Glm),
    (&["<tool_calls>", "<tool_call>", "```json"], ToolCallStyle::Hunyuan),
    (&["<tool_calls>"], ToolCallStyle::ToolCalls),
    (&["<function=", "<parameter="], ToolCallStyle::Qwen),
    (&["<function name=", "<param name="], ToolCallStyle::MiniCpm),
    (&["<function="], ToolCallStyle::Functionary),
    (&["<|tool_call_start|>"], ToolCallStyle::Lfm),
    (&["<|tool_list_start|>"], ToolCallStyle::Lfm),
    (&["<|im_start|>", "List of tools: ["], ToolCallStyle::Lfm),
    (&["<|function_call|>"], ToolCallStyle::GigaChat),
    (&["function call", "<|role_sep|>"], ToolCallStyle::GigaChat),
    (&["<|tool_call|>", "<|/tool_call|>"], ToolCallStyle::Phi),
    (&["<|tool_call|>", "<|start_of_role|>"], ToolCallStyle::Granite),
    (&["<|tool_call|>"], ToolCallStyle::Phi),
    (&["<|tool|>"], ToolCallStyle::Phi),
    (&["<tool_call>"], ToolCallStyle::Hermes),
    (&["<|python_tag|>"], ToolCallStyle::Llama),
    (&["\"parameters\": dictionary of argument name"], ToolCallStyle::Llama),
    (&["\"parameters\": "], ToolCallStyle::Llama),
];

impl ToolCallStyle {
    /// Detects the style of a chat template, if the template supports tools.
    pub fn of_template(source: &str) -> Option<ToolCallStyle> {
        let shows = |signs: &&(&[&str], ToolCallStyle)| signs.0.iter().all(|sign| source.contains(sign));
        SIGNS.iter().find(shows).map(|(_, style)| *style)
    }
}
