//! Well-known chat formats by name, for models whose file has no template or only the name of one.
//!
//! Names and formats are those of llama.cpp (`src/llama-chat.cpp`, `LLM_CHAT_TEMPLATES`, at 0192c12), whose converters
//! write such names into `tokenizer.chat_template`; `mistral` and `alpaca` are added. Intended differences: control
//! tokens are the model's own (`{eos}`), the generation prompt is written once, after the last message (kimi-k2,
//! rwkv-world), and roles that a format does not support are refused instead of dropped, so that they can be rewritten.

/// Control tokens that a format writes where the model names none.
type Tokens = &'static [(&'static str, &'static str)];

const SENTENCES: Tokens = &[("bos_token", "<s>"), ("eos_token", "</s>")];
const NONE: Tokens = &[];

/// The text before and after a message.
type Around = (&'static str, &'static str);

/// The shape of a format. `{bos}` and `{eos}` in its strings are the model's tokens.
enum Shape {
    /// `before role between text after`, for every role.
    Roles { before: &'static str, between: &'static str, after: &'static str, upper: bool },
    /// Each role with its own text around messages.
    Each { system: Option<Around>, user: Around, assistant: Around, tool: Option<Around> },
    /// A system message inside the user's turn: `open system text close`; `again` opens later turns.
    Turns {
        open: &'static str,
        again: &'static str,
        system: Around,
        close: &'static str,
        assistant: Around,
        trim_assistant: bool,
    },
    /// A system message before the text of the next user message; assistants are called `model`.
    Gemma,
}

struct Format {
    name: &'static str,
    tokens: Tokens,
    /// The text before all messages, after BOS.
    start: &'static str,
    /// The generation prompt, which opens the answer.
    ask: &'static str,
    trim: bool,
    shape: Shape,
}

/// A format of [`Shape::Roles`].
const fn roles(
    name: &'static str,
    tokens: Tokens,
    start: &'static str,
    [before, between, after]: [&'static str; 3],
    ask: &'static str,
    trim: bool,
) -> Format {
    Format { name, tokens, start, ask, trim, shape: Shape::Roles { before, between, after, upper: false } }
}

/// A format of [`Shape::Each`] without tools.
const fn each(
    name: &'static str,
    tokens: Tokens,
    start: &'static str,
    [system, user, assistant]: [Around; 3],
    ask: &'static str,
    trim: bool,
) -> Format {
    let shape = Shape::Each { system: Some(system), user, assistant, tool: None };
    Format { name, tokens, start, ask, trim, shape }
}

/// A format of [`Shape::Turns`], as Llama 2 and Mistral have it.
const fn turns(
    name: &'static str,
    [open, again]: [&'static str; 2],
    system: Around,
    close: &'static str,
    assistant: Around,
    trims: [bool; 2],
) -> Format {
    let shape = Shape::Turns { open, again, system, close, assistant, trim_assistant: trims[1] };
    Format { name, tokens: SENTENCES, start: "", ask: "", trim: trims[0], shape }
}

const SYS: Around = ("<<SYS>>\n", "\n<</SYS>>\n\n");
const DEEPSEEK: Tokens = &[("bos_token", "<｜begin▁of▁sentence｜>"), ("eos_token", "<｜end▁of▁sentence｜>")];
const TURN: &str = "<|END_OF_TURN_TOKEN|>";

const FORMATS: &[Format] = &[
    roles("chatml", NONE, "", ["<|im_start|>", "\n", "<|im_end|>\n"], "<|im_start|>assistant\n", false),
    turns("llama2", ["[INST] ", "[INST] "], ("", "\n"), " [/INST]", ("", "{eos}"), [false; 2]),
    turns("llama2-sys", ["[INST] ", "[INST] "], SYS, " [/INST]", ("", "{eos}"), [false; 2]),
    turns("llama2-sys-bos", ["[INST] ", "{bos}[INST] "], SYS, " [/INST]", ("", "{eos}"), [false; 2]),
    turns("llama2-sys-strip", ["[INST] ", "[INST] "], SYS, " [/INST]", ("", "{eos}"), [true; 2]),
    turns("mistral", ["[INST] ", "[INST] "], ("", "\n\n"), " [/INST]", (" ", "{eos}"), [false; 2]),
    turns("mistral-v1", [" [INST] ", " [INST] "], ("", "\n\n"), " [/INST]", (" ", "{eos}"), [false; 2]),
    turns("mistral-v3", ["[INST] ", "[INST] "], ("", "\n\n"), "[/INST]", (" ", "{eos}"), [false, true]),
    turns("mistral-v3-tekken", ["[INST]", "[INST]"], ("", "\n\n"), "[/INST]", ("", "{eos}"), [false; 2]),
    each(
        "mistral-v7",
        SENTENCES,
        "",
        [("[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]"), ("[INST] ", "[/INST]"), (" ", "{eos}")],
        "",
        false,
    ),
    each(
        "mistral-v7-tekken",
        SENTENCES,
        "",
        [("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"), ("[INST]", "[/INST]"), ("", "{eos}")],
        "",
        false,
    ),
    roles("phi3", NONE, "", ["<|", "|>\n", "<|end|>\n"], "<|assistant|>\n", false),
    roles(
        "phi4",
        NONE,
        "",
        ["<|im_start|>", "<|im_sep|>", "<|im_end|>"],
        "<|im_start|>assistant<|im_sep|>",
        false,
    ),
    roles("falcon3", NONE, "", ["<|", "|>\n", "\n"], "<|assistant|>\n", false),
    roles("zephyr", SENTENCES, "", ["<|", "|>\n", "{eos}\n"], "<|assistant|>\n", false),
    roles("monarch", SENTENCES, "", ["{bos}", "\n", "{eos}\n"], "{bos}assistant\n", false),
    Format {
        name: "gemma",
        tokens: &[("bos_token", "<bos>")],
        start: "",
        ask: "<start_of_turn>model\n",
        trim: true,
        shape: Shape::Gemma,
    },
    turns("orion", ["Human: ", "Human: "], ("", "\n\n"), "\n\nAssistant: {eos}", ("", "{eos}"), [false; 2]),
    each(
        "openchat",
        SENTENCES,
        "",
        [
            ("", "<|end_of_turn|>"),
            ("GPT4 Correct User: ", "<|end_of_turn|>"),
            ("GPT4 Correct Assistant: ", "<|end_of_turn|>"),
        ],
        "GPT4 Correct Assistant:",
        false,
    ),
    each(
        "vicuna",
        SENTENCES,
        "",
        [("", "\n\n"), ("USER: ", "\n"), ("ASSISTANT: ", "{eos}\n")],
        "ASSISTANT:",
        false,
    ),
    each(
        "vicuna-orca",
        SENTENCES,
        "",
        [("SYSTEM: ", "\n"), ("USER: ", "\n"), ("ASSISTANT: ", "{eos}\n")],
        "ASSISTANT:",
        false,
    ),
    each(
        "alpaca",
        SENTENCES,
        "",
        [("", "\n\n"), ("### Instruction:\n", "\n\n"), ("### Response:\n", "{eos}\n\n")],
        "### Response:\n",
        false,
    ),
    each(
        "deepseek",
        DEEPSEEK,
        "",
        [("", ""), ("### Instruction:\n", "\n"), ("### Response:\n", "\n<|EOT|>\n")],
        "### Response:\n",
        false,
    ),
    each(
        "deepseek2",
        DEEPSEEK,
        "",
        [("", "\n\n"), ("User: ", "\n\n"), ("Assistant: ", "{eos}")],
        "Assistant:",
        false,
    ),
    each(
        "deepseek3",
        DEEPSEEK,
        "",
        [("", "\n\n"), ("<｜User｜>", ""), ("<｜Assistant｜>", "{eos}")],
        "<｜Assistant｜>",
        false,
    ),
    each(
        "command-r",
        &[("bos_token", "<BOS_TOKEN>")],
        "",
        [
            ("<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>", TURN),
            ("<|START_OF_TURN_TOKEN|><|USER_TOKEN|>", TURN),
            ("<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", TURN),
        ],
        "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
        true,
    ),
    roles(
        "llama3",
        &[("bos_token", "<|begin_of_text|>")],
        "",
        ["<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>"],
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        true,
    ),
    roles("chatglm3", NONE, "[gMASK]sop", ["<|", "|>\n ", ""], "<|assistant|>", false),
    roles("chatglm4", NONE, "[gMASK]<sop>", ["<|", "|>\n", ""], "<|assistant|>\n", false),
    roles("glmedge", NONE, "", ["<|", "|>\n", ""], "<|assistant|>", false),
    each("minicpm", SENTENCES, "", [("", ""), ("<用户>", "<AI>"), ("", "")], "", true),
    each(
        "exaone3",
        NONE,
        "",
        [("[|system|]", "[|endofturn|]\n"), ("[|user|]", "\n"), ("[|assistant|]", "[|endofturn|]\n")],
        "[|assistant|]",
        true,
    ),
    Format {
        name: "exaone4",
        tokens: NONE,
        start: "",
        ask: "[|assistant|]",
        trim: true,
        shape: Shape::Each {
            system: Some(("[|system|]", "[|endofturn|]\n")),
            user: ("[|user|]", "\n"),
            assistant: ("[|assistant|]", "[|endofturn|]\n"),
            tool: Some(("[|tool|]", "[|endofturn|]\n")),
        },
    },
    each(
        "rwkv-world",
        NONE,
        "",
        [("System: ", "\n\n"), ("User: ", "\n\n"), ("Assistant: ", "\n\n")],
        "Assistant:",
        true,
    ),
    roles(
        "granite",
        NONE,
        "",
        ["<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>\n"],
        "<|start_of_role|>assistant<|end_of_role|>\n",
        false,
    ),
    each(
        "gigachat",
        SENTENCES,
        "",
        [
            ("", "<|message_sep|>"),
            ("user<|role_sep|>", "<|message_sep|>available functions<|role_sep|>[]<|message_sep|>"),
            ("assistant<|role_sep|>", "<|message_sep|>"),
        ],
        "assistant<|role_sep|>",
        false,
    ),
    roles(
        "megrez",
        NONE,
        "",
        ["<|role_start|>", "<|role_end|>", "<|turn_end|>"],
        "<|role_start|>assistant<|role_end|>",
        false,
    ),
    Format {
        name: "yandex",
        tokens: SENTENCES,
        start: "",
        ask: " Ассистент:[SEP]",
        trim: false,
        shape: Shape::Each {
            system: None,
            user: (" Пользователь: ", "\n\n"),
            assistant: (" Ассистент: ", "\n\n"),
            tool: None,
        },
    },
    Format {
        name: "bailing",
        tokens: NONE,
        start: "",
        ask: "<role>ASSISTANT</role>",
        trim: false,
        shape: Shape::Roles { before: "<role>", between: "</role>", after: "", upper: true },
    },
    roles(
        "llama4",
        &[("bos_token", "<|begin_of_text|>")],
        "",
        ["<|header_start|>", "<|header_end|>\n\n", "<|eot|>"],
        "<|header_start|>assistant<|header_end|>\n\n",
        true,
    ),
    each(
        "smolvlm",
        NONE,
        "<|im_start|>",
        [("", "\n\n"), ("User: ", "<end_of_utterance>\n"), ("Assistant: ", "<end_of_utterance>\n")],
        "Assistant:",
        false,
    ),
    each(
        "hunyuan-moe",
        NONE,
        "",
        [("<|startoftext|>", "<|extra_4|>"), ("<|startoftext|>", "<|extra_0|>"), ("", "<|eos|>")],
        "",
        false,
    ),
    each(
        "hunyuan-dense",
        NONE,
        "<｜hy_begin▁of▁sentence｜>",
        [
            ("", "<｜hy_place▁holder▁no▁3｜>"),
            ("<｜hy_User｜>", ""),
            ("<｜hy_Assistant｜>", "<｜hy_place▁holder▁no▁2｜>"),
        ],
        "<｜hy_Assistant｜>",
        false,
    ),
    Format {
        name: "kimi-k2",
        tokens: NONE,
        start: "",
        ask: "<|im_assistant|>assistant<|im_middle|>",
        trim: false,
        shape: Shape::Each {
            system: Some(("<|im_system|>system<|im_middle|>", "<|im_end|>")),
            user: ("<|im_user|>user<|im_middle|>", "<|im_end|>"),
            assistant: ("<|im_assistant|>assistant<|im_middle|>", "<|im_end|>"),
            tool: Some(("<|im_system|>tool<|im_middle|>", "<|im_end|>")),
        },
    },
];

/// The default control tokens of a format, and its template. `begins`: whether the template writes BOS; by default if
/// the format has one.
pub(super) fn find(name: &str, begins: Option<bool>) -> Option<(Tokens, String)> {
    let format = FORMATS.iter().find(|format| format.name == name)?;
    let has_bos = format.tokens.iter().any(|(name, _)| *name == "bos_token");
    Some((format.tokens, format.source(begins.unwrap_or(has_bos))))
}

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().map(|format| format.name)
}

impl Format {
    fn source(&self, begins: bool) -> String {
        let mut out = String::new();
        // Monarch writes BOS before every message.
        if begins && !matches!(self.shape, Shape::Roles { before: "{bos}", .. }) {
            out.push_str("{{- bos_token -}}");
        }
        out.push_str(&format!("{{{{- {} -}}}}", literal(self.start)));
        let trim = if self.trim { " | trim" } else { "" };
        out.push_str(&self.messages(&format!("(message['content']{trim})")));
        let ask = literal(self.ask);
        out.push_str(&format!("{{%- if add_generation_prompt -%}}{{{{- {ask} -}}}}{{%- endif -%}}"));
        out
    }

    fn messages(&self, text: &str) -> String {
        let name = self.name;
        let refuse = format!(
            "{{{{- raise_exception('the {name} format has no place for the role ' + message['role']) -}}}}"
        );
        let around = |(before, after): Around, text: &str| {
            format!("{} + {text} + {}", literal(before), literal(after))
        };
        let branch = |role: &str, (before, after): Around| {
            let written = around((before, after), text);
            format!("{{%- elif message['role'] == '{role}' -%}}{{{{- {written} -}}}}")
        };
        match &self.shape {
            Shape::Roles { before, between, after, upper } => {
                let role = if *upper {
                    "('HUMAN' if message['role'] == 'user' else message['role'] | upper)"
                } else {
                    "message['role']"
                };
                let head = around((before, between), role);
                format!(
                    "{{%- for message in messages -%}}{{{{- {head} + {text} + {} -}}}}{{%- endfor -%}}",
                    literal(after)
                )
            }
            Shape::Each { system, user, assistant, tool } => {
                let system = system.map(|system| branch("system", system)).unwrap_or_default();
                let tool = tool.map(|tool| branch("tool", tool)).unwrap_or_default();
                let (user, assistant) = (branch("user", *user), branch("assistant", *assistant));
                format!(
                    "{{%- for message in messages -%}}{{%- if false -%}}{system}{user}{assistant}{tool}\
                     {{%- else -%}}{refuse}{{%- endif -%}}{{%- endfor -%}}"
                )
            }
            Shape::Turns { open, again, system, close, assistant, trim_assistant } => {
                let said = if *trim_assistant { "(message['content'] | trim)" } else { "message['content']" };
                let assistant = around(*assistant, said);
                let (open, again, close) = (literal(open), literal(again), literal(close));
                let system = around(*system, text);
                format!(
                    "{{%- set turn = namespace(inside=false, first=true) -%}}{{%- for message in messages -%}}\
                     {{%- if not turn.inside -%}}{{{{- {open} if turn.first else {again} -}}}}\
                     {{%- set turn.inside = true -%}}{{%- set turn.first = false -%}}{{%- endif -%}}\
                     {{%- if message['role'] == 'system' -%}}{{{{- {system} -}}}}\
                     {{%- elif message['role'] == 'user' -%}}{{{{- {text} + {close} -}}}}\
                     {{%- elif message['role'] == 'assistant' -%}}{{{{- {assistant} -}}}}\
                     {{%- set turn.inside = false -%}}\
                     {{%- else -%}}{refuse}{{%- endif -%}}{{%- endfor -%}}"
                )
            }
            Shape::Gemma => format!(
                "{{%- set turn = namespace(system='') -%}}{{%- for message in messages -%}}\
                 {{%- if message['role'] == 'system' -%}}\
                 {{%- set turn.system = turn.system + {text} + '\\n\\n' -%}}{{%- else -%}}\
                 {{%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}}\
                 {{{{- '<start_of_turn>' + role + '\\n' -}}}}\
                 {{%- if role != 'model' -%}}{{{{- turn.system -}}}}{{%- set turn.system = '' -%}}{{%- endif -%}}\
                 {{{{- {text} + '<end_of_turn>\\n' -}}}}{{%- endif -%}}{{%- endfor -%}}"
            ),
        }
    }
}

/// A text as an expression of a template.
fn literal(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n");
    format!("('{}')", escaped.replace("{bos}", "' + bos_token + '").replace("{eos}", "' + eos_token + '"))
}
