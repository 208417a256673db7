//! Well-known chat formats, for models whose file has no template. Written from each format's public description.

/// Control tokens that a format writes, as variables, and the template.
type Format = (&'static [(&'static str, &'static str)], &'static str);

const SENTENCES: &[(&str, &str)] = &[("bos_token", "<s>"), ("eos_token", "</s>")];

/// `(name, control tokens, template)`.
const FORMATS: &[(&str, Format)] = &[
    ("chatml", (&[], CHATML)),
    ("llama3", (&[("bos_token", "<|begin_of_text|>")], LLAMA3)),
    ("llama2", (SENTENCES, LLAMA2)),
    ("mistral", (SENTENCES, MISTRAL)),
    ("gemma", (&[("bos_token", "<bos>")], GEMMA)),
    ("phi3", (&[], PHI3)),
    ("phi4", (&[], PHI4)),
    ("zephyr", (SENTENCES, ZEPHYR)),
    ("vicuna", (SENTENCES, VICUNA)),
    ("alpaca", (SENTENCES, ALPACA)),
    (
        "deepseek",
        (&[("bos_token", "<｜begin▁of▁sentence｜>"), ("eos_token", "<｜end▁of▁sentence｜>")], DEEPSEEK),
    ),
    ("command-r", (&[("bos_token", "<BOS_TOKEN>")], COMMAND_R)),
];

pub(super) fn find(name: &str) -> Option<Format> {
    FORMATS.iter().find(|(known, _)| *known == name).map(|(_, format)| *format)
}

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().map(|(name, _)| *name)
}

const CHATML: &str = r"
{%- for message in messages -%}
{{- '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}";

const LLAMA3: &str = r"
{{- bos_token -}}
{%- for message in messages -%}
{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}{%- endif -%}";

const LLAMA2: &str = r"
{%- if messages and messages[0]['role'] == 'system' -%}
{%- set system = '<<SYS>>\n' + messages[0]['content'] | trim + '\n<</SYS>>\n\n' -%}
{%- set turns = messages[1:] -%}
{%- else -%}{%- set system = '' -%}{%- set turns = messages -%}{%- endif -%}
{%- for message in turns -%}
{%- if message['role'] == 'user' -%}
{{- bos_token + '[INST] ' + (system if loop.first else '') + message['content'] | trim + ' [/INST]' -}}
{%- elif message['role'] == 'assistant' -%}
{{- ' ' + message['content'] | trim + ' ' + eos_token -}}
{%- else -%}{{- raise_exception('the llama2 format knows only system, user and assistant') -}}{%- endif -%}
{%- endfor -%}";

const MISTRAL: &str = r"
{{- bos_token -}}
{%- if messages and messages[0]['role'] == 'system' -%}
{%- set system = messages[0]['content'] + '\n\n' -%}{%- set turns = messages[1:] -%}
{%- else -%}{%- set system = '' -%}{%- set turns = messages -%}{%- endif -%}
{%- for message in turns -%}
{%- if message['role'] == 'user' -%}
{{- '[INST] ' + (system if loop.first else '') + message['content'] + ' [/INST]' -}}
{%- elif message['role'] == 'assistant' -%}
{{- ' ' + message['content'] + eos_token -}}
{%- else -%}{{- raise_exception('the mistral format knows only system, user and assistant') -}}{%- endif -%}
{%- endfor -%}";

const GEMMA: &str = r"
{{- bos_token -}}
{%- if messages and messages[0]['role'] == 'system' -%}
{%- set system = messages[0]['content'] | trim + '\n\n' -%}{%- set turns = messages[1:] -%}
{%- else -%}{%- set system = '' -%}{%- set turns = messages -%}{%- endif -%}
{%- for message in turns -%}
{%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
{{- '<start_of_turn>' + role + '\n' + (system if loop.first else '') + message['content'] | trim + '<end_of_turn>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<start_of_turn>model\n' -}}{%- endif -%}";

const PHI3: &str = r"
{%- for message in messages -%}
{{- '<|' + message['role'] + '|>\n' + message['content'] + '<|end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|>\n' -}}{%- endif -%}";

const PHI4: &str = r"
{%- for message in messages -%}
{{- '<|im_start|>' + message['role'] + '<|im_sep|>' + message['content'] + '<|im_end|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant<|im_sep|>' -}}{%- endif -%}";

const ZEPHYR: &str = r"
{%- for message in messages -%}
{{- '<|' + message['role'] + '|>\n' + message['content'] + eos_token + '\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|>\n' -}}{%- endif -%}";

const VICUNA: &str = r"
{{- bos_token -}}
{%- for message in messages -%}
{%- if message['role'] == 'system' -%}{{- message['content'] + '\n\n' -}}
{%- elif message['role'] == 'user' -%}{{- 'USER: ' + message['content'] + '\n' -}}
{%- else -%}{{- 'ASSISTANT: ' + message['content'] + eos_token + '\n' -}}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- 'ASSISTANT:' -}}{%- endif -%}";

const ALPACA: &str = r"
{{- bos_token -}}
{%- for message in messages -%}
{%- if message['role'] == 'system' -%}{{- message['content'] + '\n\n' -}}
{%- elif message['role'] == 'user' -%}{{- '### Instruction:\n' + message['content'] + '\n\n' -}}
{%- else -%}{{- '### Response:\n' + message['content'] + eos_token + '\n\n' -}}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '### Response:\n' -}}{%- endif -%}";

const DEEPSEEK: &str = r"
{{- bos_token -}}
{%- for message in messages -%}
{%- if message['role'] == 'system' -%}{{- message['content'] -}}
{%- elif message['role'] == 'user' -%}{{- '<｜User｜>' + message['content'] -}}
{%- else -%}{{- '<｜Assistant｜>' + message['content'] + eos_token -}}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<｜Assistant｜>' -}}{%- endif -%}";

const COMMAND_R: &str = r"
{{- bos_token -}}
{%- for message in messages -%}
{%- set role = {'system': 'SYSTEM', 'user': 'USER', 'assistant': 'CHATBOT'}[message['role']] -%}
{{- '<|START_OF_TURN_TOKEN|><|' + role + '_TOKEN|>' + message['content'] | trim + '<|END_OF_TURN_TOKEN|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' -}}{%- endif -%}";
