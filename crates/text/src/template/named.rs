//! Well-known chat formats, for models whose file has no template.

/// `(name, template)`.
pub(super) const TEMPLATES: &[(&str, &str)] = &[("chatml", CHATML)];

/// The template of a name.
pub(super) fn source(name: &str) -> Option<&'static str> {
    TEMPLATES.iter().find(|(known, _)| *known == name).map(|(_, source)| *source)
}

const CHATML: &str = "\
{%- for message in messages -%}
{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}";
