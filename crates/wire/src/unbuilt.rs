//! Options that other servers have and this one has not. A request that asks for one is refused: the answer it would
//! get is not the answer it asked for. Values that mean "off" pass.

use serde_json::Value;

use crate::error::Fault;
use crate::fields::{Fields, show};

/// One such option.
struct Refusal {
    name: &'static str,
    /// Which values ask for nothing.
    off: fn(&Value) -> bool,
    why: &'static str,
}

const BOTH: &[Refusal] = &[
    row("use_beam_search", no, "beam search is not built into this server"),
    row("skip_special_tokens", yes, "special tokens are never part of the text"),
    row("n_probs", zero, "use logprobs"),
    row("lora", empty, "adapters are not built into this server"),
];

const CHAT: &[Refusal] = &[
    row("functions", empty, "use tools"),
    row("function_call", none_or_auto, "use tools and tool_choice"),
    row("modalities", text_only, "this server answers with text only"),
    row("audio", never, "this server answers with text only"),
    row("prediction", never, "predicted outputs are not built into this server"),
    row("web_search_options", never, "this server does not search the web"),
    row("echo", no, "a chat answer never repeats its prompt"),
    row("documents", empty, "documents are not built into this server; put them into a message"),
];

const COMPLETION: &[Refusal] =
    &[row("suffix", empty, "filling in before a suffix is not built into this server")];

const fn row(name: &'static str, off: fn(&Value) -> bool, why: &'static str) -> Refusal {
    Refusal { name, off, why }
}

pub(crate) fn refuse_for_chat(body: &Fields<'_>) -> Result<(), Fault> {
    refuse(body, BOTH)?;
    refuse(body, CHAT)
}

pub(crate) fn refuse_for_completion(body: &Fields<'_>) -> Result<(), Fault> {
    refuse(body, BOTH)?;
    refuse(body, COMPLETION)
}

fn refuse(body: &Fields<'_>, table: &[Refusal]) -> Result<(), Fault> {
    for option in table {
        if let Some(value) = body.get(option.name)
            && !(option.off)(value)
        {
            let message = format!("{} is {}: {}", option.name, show(value), option.why);
            return Err(Fault::unsupported(option.name, message));
        }
    }
    Ok(())
}

/// Name and reason of every option that is refused, for the documentation.
pub fn table() -> impl Iterator<Item = (&'static str, &'static str)> {
    BOTH.iter().chain(CHAT).chain(COMPLETION).map(|o| (o.name, o.why))
}

fn never(_: &Value) -> bool {
    false
}

fn no(value: &Value) -> bool {
    *value == Value::Bool(false)
}

fn yes(value: &Value) -> bool {
    *value == Value::Bool(true)
}

fn zero(value: &Value) -> bool {
    value.as_f64() == Some(0.0)
}

fn empty(value: &Value) -> bool {
    match value {
        Value::String(s) => s.is_empty(),
        Value::Array(a) => a.is_empty(),
        Value::Object(o) => o.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn none_or_auto(value: &Value) -> bool {
    value == "none" || value == "auto"
}

fn text_only(value: &Value) -> bool {
    value.as_array().is_some_and(|a| a.iter().all(|m| m == "text"))
}
